"""Pure functions from samples to statistics. Needs only numpy."""
