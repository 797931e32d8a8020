"""Which layers break when they are changed: one at a time, and one spared at a time."""
