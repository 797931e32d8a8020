"""Sessions that are executions of a benchmark tool on a device without Python."""
