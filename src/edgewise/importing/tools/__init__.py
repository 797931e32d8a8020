"""One importer per tool; the module's docstring names the source of the tool's formats."""
