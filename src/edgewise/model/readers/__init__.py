"""Model formats, one a file."""
