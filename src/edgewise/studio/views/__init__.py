"""One module per page, each with its ``ROUTES``."""
