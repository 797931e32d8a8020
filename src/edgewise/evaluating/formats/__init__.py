"""Readers of data sets, one format a file."""
