"""What every page shares: templates, assets, and charts drawn into it."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from edgewise import __version__
from edgewise.errors import Unavailable
from edgewise.report.charts import Chart, render_svg
from edgewise.report.document import Table, number_notes
from edgewise.text import without_controls

if TYPE_CHECKING:
    from jinja2 import Environment


_PART = r"[^/\\\s<>\"'&;,:=()|]+"
_ENDINGS = (
    "onnx|ort|tflite|xml|bin|pb|pt|pt2|pth|pte|keras|h5|safetensors|npz|npy|py|so|json|yaml|yml|toml|csv|txt|png|jpg|jpeg"
    "|wav|db|log"
)
_HOME = rf"(?:(?:/home|/Users|[A-Za-z]:[/\\]Users)[/\\]{_PART}|/root|/tmp|/var/folders)(?:[/\\]|\b(?![\w-]))"
_FOLDERS = re.compile(
    # A path begins after nothing that a relative one or an address has; a scheme without a host belongs to it.
    rf"(?<![\w/.-])(?:\w+:/{{2,3}}(?=/))?"
    rf"(?:(?:{_HOME}|[A-Za-z]:[/\\])(?:{_PART}[/\\])*|/(?:{_PART}/)+(?={_PART}\.(?:{_ENDINGS})\b))"
)


class Drawing:
    """Draws charts until it turns out that nothing here can.

    Attributes:
        missing: why nothing can, once that is known.
    """

    def __init__(self) -> None:
        self.missing: Unavailable | None = None
        self._drawn = 0

    def draw(self, found: Chart | None) -> dict[str, Any] | None:
        """What the template needs of a chart, or None where there is none or nothing to draw it with."""
        if found is None or self.missing is not None:
            return None
        try:
            svg = render_svg(found.spec)
        except Unavailable as error:
            self.missing = error
            return None
        # Every drawing numbers its clip paths from 1; on one page their names must differ.
        self._drawn += 1
        svg = svg.replace('id="clip', f'id="c{self._drawn}-').replace("url(#clip", f"url(#c{self._drawn}-")
        return {
            "title": found.title,
            "description": found.description,
            "caption": found.caption,
            "wide": found.wide,
            "svg": svg,
        }


def render_page(template: str, *, scripts: Sequence[str], styles: Sequence[str], **told: Any) -> str:
    """The page that `template` makes of `told`, with its scripts and style sheets in it.

    Args:
        scripts, styles: names of assets, in order; the page's policy allows just these scripts, by their hash.
    """
    script = "\n".join(map(asset, scripts))
    page = (
        environment()
        .get_template(template)
        .render(
            version=__version__,
            script=script,
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
            style="\n".join(map(asset, styles)),
            **told,
        )
    )
    return without_controls(without_folders(page))


def without_folders(text: str) -> str:
    """`text` with the folders of absolute paths left out: a page is for others, whom they tell a user's name.

    Paths are what stands in a home or temporary folder, what has a drive letter, and what ends as files of models, data
    and programs do. Names of layers often look like paths; they stay.
    """
    return _FOLDERS.sub("…/", text)


def view_table(table: Table, identity: str) -> dict[str, Any]:
    """What every template needs of a table; `identity` is its element's id."""
    return {"id": identity, "table": table, "columns": table.visible, "notes": number_notes([table])}


@cache
def environment() -> Environment:
    """Templates, everything in them escaped, a name they lack an error."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("edgewise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@cache
def asset(name: str) -> str:
    """A style sheet or script."""
    return files("edgewise.report").joinpath("templates", name).read_text(encoding="utf-8")
