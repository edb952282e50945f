"""Does the model fit the reports: cross-checks of several methods and of the channel."""
