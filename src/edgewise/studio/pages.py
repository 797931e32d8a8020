"""Templates → pages. Every page is whole without a script; scripts add what moves."""

from __future__ import annotations

import hashlib
from functools import cache, lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from edgewise.errors import BadInput, EdgewiseError, Unavailable
from edgewise.text import without_controls
from edgewise.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, Response

PLACES = (("/", "Models"), ("/jobs", "Jobs"), ("/runs", "Runs"), ("/compare", "Compare"), ("/atlas", "Atlas"))
"""Path → name in the navigation."""


def page(
    request: Request,
    template: str,
    *,
    title: str,
    status: int = 200,
    styles: tuple[str, ...] = (),
    scripts: tuple[str, ...] = (),
    **told: Any,
) -> HTMLResponse:
    """Return the page that `template` makes of `told`.

    Args:
        title: of the window, before the studio's name; also `title` in the template.
        styles, scripts: names of static files that this page needs besides the common ones.
    """
    from starlette.responses import HTMLResponse

    from edgewise.studio.studio import studio_of

    refusal = studio_of(request).jobs.refusal
    made = templates().get_template(template)
    text = made.render(
        version=__version__,
        title=title,
        path=request.url.path,
        places=PLACES,
        working=studio_of(request).jobs.live.running(),
        styles=("report.css", "studio.css", *styles),
        scripts=("studio.js", "charts.js", *scripts),
        refusal=refusal[:1].upper() + refusal[1:],
        off={"disabled": "", "aria-describedby": "refusal"} if refusal else {},
        permalink=f"{request.url.path}?{request.url.query}".rstrip("?"),
        **told,
    )
    return HTMLResponse(without_controls(text), status)


def error_page(request: Request, error: Any) -> HTMLResponse:
    """Return what is wrong by an `EdgewiseError`, and what to do about it, with the status that fits."""
    status = 400 if isinstance(error, BadInput) else 503 if isinstance(error, Unavailable) else 500
    told = without_folders(request, error)
    return page(request, "error.html.jinja", title="This did not work", status=status, error=told)


def without_folders(request: Request, error: EdgewiseError) -> EdgewiseError:
    """Return `error` as a browser shows it: of a file its name, not where it lies on this machine."""
    from edgewise.store.redaction import redact_paths
    from edgewise.studio.studio import studio_of

    settings = studio_of(request).settings
    paths = [folder / "x" for folder in (settings.folder, *settings.roots)]
    return EdgewiseError(redact_paths(error.message, paths), advice=redact_paths(error.advice, paths))


def attachment(content: str | bytes, name: str, media_type: str) -> Response:
    """Return a file that a browser saves under `name`, which is ASCII without quotes."""
    from starlette.responses import Response

    return Response(content, media_type=media_type, headers={"content-disposition": f'attachment; filename="{name}"'})


@cache
def templates() -> Environment:
    """Return the templates of the studio and, behind them, of the reports."""
    from jinja2 import ChoiceLoader, PackageLoader

    from edgewise.report.document.page import environment

    found = environment().overlay(
        loader=ChoiceLoader([PackageLoader("edgewise.studio"), PackageLoader("edgewise.report")])
    )
    found.globals["static"] = static_path
    return found


@lru_cache(128)
def static_file(name: str) -> bytes | None:
    """Return the content of a static file of the studio or of the reports; None for any other name."""
    if not all(part.isidentifier() for part in name.replace("-", "_").replace(".", "/").split("/")):
        return None
    if not name.endswith((".css", ".js", ".svg")):
        return None
    for package, folder in (("edgewise.studio", "static"), ("edgewise.report", "templates")):
        found = files(package).joinpath(folder, name)
        if found.is_file():
            return found.read_bytes()
    return None


@cache
def static_path(name: str) -> str:
    """Return the path of a static file, which changes with its content: browsers keep it for good."""
    content = static_file(name)
    if content is None:
        raise LookupError(name)
    return f"/static/{name}?{hashlib.sha256(content).hexdigest()[:12]}"
