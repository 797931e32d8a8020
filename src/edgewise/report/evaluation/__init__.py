"""Evaluations on data."""
