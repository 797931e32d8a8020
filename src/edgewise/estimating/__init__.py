"""Estimates for hardware that is not at hand: one file per estimator, found through ``edgewise.estimators``."""
