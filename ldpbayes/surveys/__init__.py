"""Surveys of people who may not answer, or not by the device: what missing answers could change.

From the core it takes posteriors with the numbers of missing answers (``sources.missing`` counts them), sums of shares, and
the parts of answers and figures. It brings one answer and its figure. Designs, sampling weights and respondents who deny or
ignore the device stand in the core: the likelihoods there are theirs.
"""
