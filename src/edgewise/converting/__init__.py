"""Conversion of models between formats, by the engines' own converters."""
