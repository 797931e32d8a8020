"""What the verbs take, declared once for every door: the command line, Python, forms and requests in files."""
