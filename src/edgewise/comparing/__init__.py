"""Runs against runs: what may be compared, what the data say, and in which order that puts them."""
