"""Readers of data sets, one format per file."""
