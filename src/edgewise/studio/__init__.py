"""The studio: the local web page of edgewise, a door like the command line.

    edgewise serve            command.py → server.py: port, link to enter, uvicorn
      └─ app.py               the application behind safety.py (host, session, origin, sizes, headers)
           ├─ routes.py       each address and its view
           ├─ views/          one module per page, imported with its first request
           ├─ pages.py        templates → pages; errors as pages
           └─ studio.py       what views share: settings, the store, models, jobs

The server only reads the store and its own folder. Models are read, and charts are drawn, in processes of their own.
"""

from edgewise.verbs.command import PlainCommand


class Serve(PlainCommand):
    """Open the studio: a local web page for everything above."""

    group = "Keep"
    synonyms = ("ui", "web")


class Export(PlainCommand):
    """Write the studio's pages as files; 'edgewise serve' opens it."""

    group = "Keep"
    command = ".export:COMMANDS"
