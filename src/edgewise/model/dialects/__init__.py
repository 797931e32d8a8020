"""What each format's operators mean: one module a format, from an operator's type and options to its kind."""
