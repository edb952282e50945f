"""What every way to compute a posterior shares, whatever the model: weights on draws, and the verdict on them."""
