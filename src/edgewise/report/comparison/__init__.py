"""Comparisons and gates."""
