"""From runs to something to read."""
