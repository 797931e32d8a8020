"""Command lines of other tools, carried out by edgewise: ``python -m edgewise.shims.NAME``."""
