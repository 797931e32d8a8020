"""Alembic's environment: how the tables of an older store become those of this version."""
