"""Ways to start a process on a device, one a file."""
