"""Style sheets and scripts, as a page that is one file has them in it."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_IMPORT = re.compile(r'^import (\{[^}]*\}|\w+) from "\./([\w./]+)";$', re.M)
_EXPORT = re.compile(r"^export (?=(?:const|function|class) (\w+))", re.M)
_EXPORTS = re.compile(r"\bexport\{[^}]*?([\w$]+) as default[^}]*\};?")


@cache
def asset(name: str) -> str:
    """Return a style sheet or script."""
    return files("edgewise.report").joinpath("templates", name).read_text(encoding="utf-8")


def script_of(name: str) -> str:
    """Return a script, with the modules that it imports in it."""
    return graph_script() if name == "graph.js" else asset(name)


def graph_script() -> str:
    """Return what draws a graph, as one script; the layout runs in the page, as a file can start no worker."""
    layout = _bundled("graph_layout.js")
    worker = (
        "const layoutWorker = () => { const made = { terminate() {} }; let onmessage; "
        f"const postMessage = (data) => made.onmessage({{ data }});\n{layout}\n"
        "made.postMessage = (data) => setTimeout(() => onmessage({ data })); return made; };"
    )
    drawing = _bundled("graph.js")
    start = 'new Worker(new URL("graph_layout.js", import.meta.url), { type: "module" })'
    return f"\n(() => {{\n{worker}\n{drawing.replace(start, 'layoutWorker()')}\n}})();"


def _bundled(name: str) -> str:
    """Return the text of a module with the modules that it imports in it, each in a function of its own."""

    def import_of(found: re.Match[str]) -> str:
        text = _bundled(found[2])
        if default := _EXPORTS.search(text):
            returned, text = default[1], _EXPORTS.sub("", text)
        else:
            returned, text = f"{{ {', '.join(_EXPORT.findall(text))} }}", _EXPORT.sub("", text)
        return f"const {found[1]} = (() => {{\n{text}\nreturn {returned};\n}})();"

    # A page has no control characters; scripts have them in strings alone.
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02x}", asset(name))
    return _IMPORT.sub(import_of, text)
