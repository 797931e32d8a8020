"""Measured runs: their ranking and recommendation, tables, charts, pages."""
