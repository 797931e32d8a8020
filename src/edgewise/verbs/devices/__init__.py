"""What ``devices`` and ``doctor`` do."""
