"""Passes, one family a file."""
