"""Profiles: layers, findings, charts, pages, and the files of other viewers."""
