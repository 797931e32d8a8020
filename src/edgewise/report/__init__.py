"""Reports of runs and results: tables, text, Markdown, CSV, HTML and charts."""
