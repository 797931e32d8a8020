"""Accuracy: data sets, the preparation of samples, tasks, and metrics with intervals."""
