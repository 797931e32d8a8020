"""``edgewise serve``: the studio."""

from __future__ import annotations

import os
import re
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from edgewise.errors import BadInput, Unavailable
from edgewise.store.location import ENVIRONMENT_VARIABLE, default_path, find_location
from edgewise.studio.settings import DEFAULT_PORT, LOOPBACK, Settings
from edgewise.verbs import shared_options as options
from edgewise.verbs.command import takes
from edgewise.verbs.option import Values, option

SERVE = "How to serve"
_ORIGIN = re.compile(r"https://[a-z0-9.-]+(:[0-9]{1,5})?")
OPTIONS = (
    option("--root DIR", SERVE, "Folder whose models can be picked on the page; repeatable", list[Path]),
    option(
        "--port N",
        SERVE,
        "Port to listen at; 0 takes any free one",
        int,
        default=DEFAULT_PORT,
        minimum=0,
        maximum=65535,
    ),
    option("--next-port", SERVE, "Take the next free port where this one is in use", bool),
    option(
        "--host NAME", SERVE, "Address to listen at; beyond this machine only with TLS or a proxy", default="127.0.0.1"
    ),
    option("--tls-certificate F", SERVE, "Certificate, in PEM", Path),
    option("--tls-key F", SERVE, "Key of the certificate, in PEM", Path),
    option("--proxy https://NAME", SERVE, "Origin of a proxy in front, which does TLS"),
    option("--metrics", SERVE, "Let programs of this machine read the newest values at /metrics (OpenMetrics)", bool),
    option("--open/--no-open", SERVE, "Open the page in a browser", bool, default=False),
    options.STORE,
)


@takes(*OPTIONS)
def command(values: Values) -> int:
    """Open the studio: a local web page to measure, profile, optimize and compare models.

    Nothing leaves this machine. The printed link lets one browser in, once.
    """
    from edgewise.studio.server import serve

    check_installed()
    if values["store"] is not None:  # forms list the calibrations that belong to it, as jobs find them
        os.environ[ENVIRONMENT_VARIABLE] = values["store"]
    say = partial(print, flush=True)
    serve(settings_of(values), next_port=values["next_port"], open_browser=values["open"], say=say)
    return 0


def settings_of(values: Values) -> Settings:
    """Return the settings that the command line gives. Raises `BadInput` for a folder or file that is not there."""
    roots = tuple(path.resolve() for path in values["root"] or ())
    for path in roots:
        if not path.is_dir():
            raise BadInput(f"--root {path} is not a folder", advice="name folders that hold models")
    certificate, key, proxy = values["tls_certificate"], values["tls_key"], values["proxy"]
    if (certificate is None) != (key is None):
        raise BadInput("--tls-certificate and --tls-key belong together", advice="give both")
    for path in (certificate, key):
        if path is not None and not path.is_file():
            raise BadInput(f"{path} is not there", advice="name a file in PEM")
    if proxy is not None and not _ORIGIN.fullmatch(proxy):
        raise BadInput(f"--proxy {proxy} is no origin of TLS", advice="write it as https://lab.example.org")
    if values["metrics"] and (proxy is not None or values["host"] not in LOOPBACK):
        raise BadInput(
            "--metrics asks for no link, so it serves this machine only",
            advice="leave out --host and --proxy, or let a timer write 'edgewise runs export -o edgewise.prom'",
        )
    return Settings(
        host=values["host"],
        port=values["port"],
        store=values["store"],
        folder=studio_folder(values["store"]),
        roots=roots,
        certificate=certificate,
        key=key,
        origin=proxy and proxy.removesuffix(":443"),
        metrics=values["metrics"],
    )


def studio_folder(store: str | None) -> Path:
    """Return the folder of the studio for a store: beside its file, or beside the user's own store."""
    return (find_location(store).path or default_path()).with_suffix(".studio")


def check_installed() -> None:
    """Raise `Unavailable` where a package that the studio needs is missing."""
    for name in ("starlette", "uvicorn", "python_multipart"):
        if find_spec(name) is None:
            raise Unavailable(f"the package {name} is not installed", advice="pip install 'edgewise[studio]'")
