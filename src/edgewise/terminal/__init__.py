"""What the programs at a terminal share: the streams, progress, errors, and the context that work is done in."""
