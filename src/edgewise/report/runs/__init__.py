"""What is told of runs: their conditions, numbers, cautions and provenance, the tables of the field, a run in full."""
