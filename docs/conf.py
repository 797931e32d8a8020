"""Sphinx configuration. ``just docs`` regenerates the generated pages and builds with warnings as errors."""

from __future__ import annotations

from edgewise import __version__

project = "edgewise"
author = "the edgewise authors"
version = release = __version__

extensions = ["myst_parser"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "generated/*"]
nitpicky = True

html_theme = "furo"
html_title = "edgewise"
html_show_copyright = False
html_show_sphinx = False
