"""One module per page; `edgewise.studio.routes` has their addresses."""
