"""What ``zoo`` does: reference networks as files."""
