"""The studio: the local web page of edgewise, a door like the command line.

    edgewise serve            command.py → server.py: port, link to enter, uvicorn
      └─ app.py               routes of all views, behind safety.py (host, session, origin, sizes, headers)
           ├─ views/          one module per page; each has its ROUTES
           ├─ pages.py        templates → pages; errors as pages
           └─ studio.py       what views share: settings, the store, models, jobs

The server only reads the store and its own folder. Models are read, and charts are drawn, in processes of their own.
"""
