"""A page of the studio as one file that needs no server: for other people's eyes, from any of its addresses."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from html import escape, unescape
from html.parser import HTMLParser
from inspect import iscoroutinefunction
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from edgewise.errors import BadInput, EdgewiseError
from edgewise.report.document.assets import graph_script
from edgewise.studio.pages import static_file, templates
from edgewise.text import without_controls
from edgewise.version import __version__

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from edgewise.studio.studio import Studio

SHARED = ("/runs", "/compare", "/trend", "/atlas", "/models", "/graph", "/jobs", "/lab")
"""Beginnings of the addresses whose pages can be kept as files."""
SCRIPTS = (("report.js", "<table"), ("charts.js", "<figure"))
"""Scripts that need no server, and what a page has that they work on; a graph has `graph_script`."""
_CONTROLS = frozenset(("input", "select", "textarea", "button", "label"))
_VOID = frozenset(("input", "img", "br", "hr", "meta", "link", "col", "source", "wbr"))
_RUN = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}\b")
MOST_RUNS = 300
"""Runs on a page whose models' folders are looked up; a page with tables and charts shows at most 200."""


def shared_page(
    app: Starlette, address: str, *, link: Callable[[str], str | None] = lambda path: None, index: str = ""
) -> str:
    """Return the page at `address` (path and query) as a file: nothing in it can be pressed that needs the studio.

    Args:
        link: address of another page → where the file leads for it, or None for no link.
        index: where the file leads for a list of all pages; empty for nowhere.

    Raises `BadInput` where there is no page to keep, and what its view raises.
    """
    studio = app.state.studio
    return redacted(frozen(rendered(app, address), link, index=index), studio)


def rendered(app: Starlette, address: str) -> str:
    """Return the page at `address` as its view makes it. Raises `BadInput` where there is none that can be kept."""
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse
    from starlette.routing import Match

    for _ in range(3):  # a tag leads to its run
        url = urlsplit(address)
        if url.netloc or url.scheme or not any(url.path == one or url.path.startswith(f"{one}/") for one in SHARED):
            break
        query = url.query
        if url.path.startswith(("/runs/", "/trend")) and "report" not in query:
            query += "&report=1"  # with tables and charts, which the page's script would fetch or draw
        scope = {
            "type": "http", "method": "GET", "path": unquote(url.path), "query_string": query.encode(),
            "root_path": "", "scheme": "http", "server": ("studio", 80), "headers": [], "app": app,
        }  # fmt: skip
        found = ((route, *route.matches(scope)) for route in app.routes)
        route, more = next(((one, more) for one, match, more in found if match is Match.FULL), (None, {}))
        view: Any = getattr(route, "endpoint", None)
        if view is None or iscoroutinefunction(view):
            break
        answer = view(Request({**scope, **more}))
        if isinstance(answer, RedirectResponse):
            address = answer.headers["location"]
            continue
        if isinstance(answer, HTMLResponse) and answer.status_code == 200:
            return bytes(answer.body).decode()
        break
    raise BadInput("there is no page to keep at this address", advice=f"one that begins with {', '.join(SHARED)}")


def frozen(page: str, link: Callable[[str], str | None], *, index: str = "") -> str:
    """Return a page with its style and the scripts that need no server; without forms and links to the studio."""
    reader = _Reader(link)
    reader.feed(page)
    reader.close()
    main = "".join(reader.main)
    script = "\n".join(_text(name) for name, mark in SCRIPTS if mark in main)
    if 'id="graph-data"' in main:
        script += graph_script()
    template = templates().get_template("shared.html.jinja")
    text = template.render(
        version=__version__,
        title=unescape("".join(reader.title)).removesuffix(" – edgewise"),
        style="\n".join(map(_text, reader.styles)),
        script=script,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        main=main,
        index=index,
    )
    return without_controls(text)


def redacted(page: str, studio: Studio) -> str:
    """`page` without the folders of this machine: those of its runs' models, of the studio and of its roots."""
    from edgewise.store.redaction import redact_paths

    paths = [folder / "x" for folder in (studio.settings.folder, *studio.settings.roots)]
    for one in sorted(set(_RUN.findall(page)))[:MOST_RUNS]:
        try:
            paths.append(Path(studio.store.get(one).job.model.path))
        except EdgewiseError:  # the id of a job, or of a run that is gone
            continue
    return redact_paths(page, paths)


def _text(name: str) -> str:
    return (static_file(name) or b"").decode()


class _Reader(HTMLParser):
    """What of a page goes into a file.

    Attributes:
        main: pieces of its main part, without forms' controls, elements with ``data-live``, and links to the studio.
        styles: names of the style sheets that it loads.
    """

    def __init__(self, link: Callable[[str], str | None]) -> None:
        super().__init__(convert_charrefs=False)
        self.main: list[str] = []
        self.title: list[str] = []
        self.styles: list[str] = []
        self._link = link
        self._within: str = ""
        self._forms = 0
        self._left_out: list[str] = []
        self._links: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        had = dict(attrs)
        if self._left_out:
            if tag not in _VOID:
                self._left_out.append(tag)
            return
        if self._within != "main":
            self._read_head(tag, had)
            return
        live = (
            "data-live" in had
            or (tag == "script" and had.get("type") != "application/json")
            or (self._forms and tag in _CONTROLS)
        )
        if live or (tag == "img" and not (had.get("src") or "").startswith("data:")):
            if tag not in _VOID:
                self._left_out.append(tag)
        elif tag == "a" and (had.get("href") or "").startswith(("/", "?")):
            leads = self._link(had["href"] or "")
            self._links.append(leads is not None)
            if leads is not None:
                self.main.append(f'<a href="{escape(leads)}">')
        elif tag in ("form", "noscript"):  # a file has no script that draws instead
            self._forms += tag == "form"
        else:
            if tag == "a":
                self._links.append(True)
            self.main.append(self.get_starttag_text() or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._within == "main" and not self._left_out:
            self.main.append(self.get_starttag_text() or "")

    def handle_endtag(self, tag: str) -> None:
        if self._left_out:
            if tag in self._left_out:
                while self._left_out.pop() != tag:
                    pass
            return
        if tag == self._within:
            self._within = "" if tag == "title" else "end"
        elif self._within == "main":
            self._forms -= tag == "form"
            if tag not in ("form", "noscript") and (tag != "a" or not self._links or self._links.pop()):
                self.main.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self._add(data)

    def handle_entityref(self, name: str) -> None:
        self._add(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._add(f"&#{name};")

    def _add(self, text: str) -> None:
        if not self._left_out and self._within in ("main", "title"):
            (self.main if self._within == "main" else self.title).append(text)

    def _read_head(self, tag: str, had: dict[str, str | None]) -> None:
        if tag in ("title", "main") and not self._within:
            self._within = tag
        if tag == "link" and (found := re.fullmatch(r"/static/([\w./-]+)\?\w+", had.get("href") or "")):
            self.styles.append(found[1])
