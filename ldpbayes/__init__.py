"""Bayesian inference for privatised categorical data."""
