"""From what an engine's profiler told to layers of the model: attribution, conservation, roofline, findings."""
