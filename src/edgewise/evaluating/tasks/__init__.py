"""What outputs are judged by, one task a file."""
