"""Searches for a better variant."""
