"""Inspections and conversions of model files."""
