"""Reference networks, made from code with random weights, to measure on devices."""
