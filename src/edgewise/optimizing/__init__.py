"""Make a model smaller and faster, and prove it: passes, the pre-flight, and the search for the best variant."""
