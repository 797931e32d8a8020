"""What edgewise can be asked for: one folder per verb, and what they share."""
