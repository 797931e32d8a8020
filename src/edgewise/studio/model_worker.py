"""The child process that reads models: finds out what an upload is, and makes the page of a model.

A request on standard input is one of

    {"names": [PATH, …]}                      →  {PATH: [LOCATION, …], …}
    {"take": [NAME, …], "title", "folder", "most_bytes"}
                                              →  {"kind", "key", "main", "format", "size_bytes", "left_out"}
    {"inspect": PATH, "title"}                →  {"sha256", "format", "page"}
    {"graph": PATH, "title"}                  →  {"sha256", "format", "page"}

or is answered by ``{"error", "message", "advice"}``. It writes to nothing but the folder of ``take``.
"""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.child_process import Limits, serve
from edgewise.errors import BadInput, BadModel, EdgewiseError, Unavailable
from edgewise.model.readers.archive import open_archive
from edgewise.model.readers.base import MissingWeights
from edgewise.studio.models import DATA, FORMATS, MOST_DEPTH, WEIGHTS, format_of, look
from edgewise.units import format_bytes

if TYPE_CHECKING:
    from zipfile import ZipInfo

LIMITS = Limits(cpu_seconds=300, data_bytes=2 * 2**30)
MOST_MEMBERS = 50_000
MOST_RATIO = 200
"""Bytes unpacked for each byte of an archive, beyond the first `FREE_BYTES`."""
FREE_BYTES = 50 * 10**6

CODE = (".py", ".pyc", ".pyw", ".ipynb", ".eager", ".pkl", ".pickle", ".pt", ".pth", ".joblib", ".dill", ".ckpt", ".so",
        ".dll", ".dylib", ".exe", ".sh", ".bat", ".ps1", ".jar", ".js")  # fmt: skip
"""Endings of files that run code when they are loaded: Python, pickles, TorchScript, libraries, programs."""
SETTINGS = (".yaml", ".yml")
"""Endings of files that say how a model is used, and may name files elsewhere: left out."""
DROP_BOTH = "drop both files together, or a .zip with both"
_CODE_ADVICE = "export the model as ONNX, TFLite or .pt2; run a file with code on the command line, if you trust it"


def answer(request: bytes) -> bytes:
    """Return what the upload is, or why it is refused."""
    told = json.loads(request)
    if "names" in told:
        return json.dumps({path: name_weights(Path(path)) for path in told["names"]}).encode()
    kind = next(one for one in ("take", "inspect", "graph") if one in told)
    folder = Path(told["folder"]) if kind == "take" else Path(told[kind]).parent
    try:
        if kind == "take":
            found = take(folder, told["take"], title=told["title"], most_bytes=told["most_bytes"])
        else:
            found = inspect(Path(told[kind]), title=told["title"], as_graph=kind == "graph")
    except EdgewiseError as error:
        # The messages of readers name the file by its path, which is not for pages.
        message, advice = (text.replace(f"{folder}/", "") for text in error.marked)
        found = {"error": type(error).__name__, "message": message, "advice": advice}
    except OSError as error:
        found = {
            "error": Unavailable.__name__,
            "message": f"the model can't be kept or read: {error.strerror or error}",
        }
        found["advice"] = "free some space, or use another --store"
    return json.dumps(found).encode("utf-8", "replace")


def inspect(path: Path, *, title: str, as_graph: bool = False) -> dict[str, Any]:
    """Return the fragment of a page about the model at `path`. Raises `EdgewiseError`.

    Args:
        title: what the page calls it.
        as_graph: whether the page draws the network instead of telling what is in it.
    """
    from edgewise.report.document.page import as_part, render_document_page
    from edgewise.report.inspection.document import inspection_page
    from edgewise.verbs.context import Context
    from edgewise.verbs.inspect.request import InspectRequest
    from edgewise.verbs.verb import carry_out

    (inspection,) = carry_out(InspectRequest(model=str(path), hash_weights=True), Context(keep=False))
    if as_graph:
        from edgewise.studio.graph_part import render_model_graph

        html = render_model_graph(inspection)
    else:
        with as_part():
            html = render_document_page(inspection_page(inspection, title=title), kind="inspection")
    return {"sha256": inspection.source["sha256"], "format": inspection.graph.format, "page": html}


def name_weights(path: Path) -> list[str]:
    """Weight files that the model at `path` names in its content; empty for other formats, and for what can't be read.

    An OpenVINO IR and a Paddle program name none: theirs has the model's own name.
    """
    from edgewise.model.readers.onnx import OnnxReader

    reader = OnnxReader()
    try:
        return list(reader.locations(path)) if reader.sniff(_head(path), path) else []
    except BadModel:  # said when it is taken
        return []


def take(folder: Path, names: Sequence[str], *, title: str, most_bytes: int) -> dict[str, Any]:
    """Return what the first of the files `names` in `folder` is; an archive of a folder is unpacked in its place.

    Args:
        names: the model, then its weight files.
        title: the client's name for the first.

    Raises:
        BadInput: a file that runs code, no model and no data, or an archive that must not be unpacked.
        OSError: the disk is full.
    """
    for name in names:
        refuse_code(name)
    path, left_out = folder / names[0], list[str]()
    is_zip, is_data = path.suffix.lower() == ".zip", path.suffix.lower() in DATA
    key = _hash(path) if is_zip or is_data else ""
    if is_zip:
        tree = path.with_suffix("")
        left_out = unpack(path, tree, most_bytes=most_bytes)
        path.unlink()
        model = find_model(tree)
        path, is_data = model or tree, model is None
    try:
        found = _describe_data(path, key) if is_data else _describe_model(path)
    except MissingWeights as error:
        if is_zip:
            missing = (path.parent / error.name).relative_to(tree)
            raise BadInput(f"{title} lacks the weight file {str(missing)!r} of {path.name}", advice="add it") from None
        same = path.suffix.lower() in WEIGHTS  # the model's own name, which the client gave
        named = Path(title).stem + Path(error.name).suffix if same else error.name
        raise BadInput(f"the weight file {named!r} of {title} is missing", advice=DROP_BOTH) from None
    return {**found, "main": str(found["main"].relative_to(folder)), "left_out": left_out}


def refuse_code(name: str) -> None:
    """Raise `BadInput` for the name of a file that runs code when it is loaded."""
    if (suffix := Path(name).suffix.lower()) in CODE:
        raise BadInput(
            f"{Path(name).name}: a {suffix} file can run code, which an upload must not", advice=_CODE_ADVICE
        )


def unpack(path: Path, tree: Path, *, most_bytes: int) -> list[str]:
    """Unpack the archive at `path` into the new folder `tree`, and return the members that were left out.

    Raises:
        BadInput: a name that leads elsewhere, a link or special file, a file that runs code, encryption, or too much of
            anything.
        OSError: the disk is full.
    """
    with open_archive(path) as archive:
        members = list(archive.entries)
        if len(members) > MOST_MEMBERS:
            raise BadInput(f"the archive has {len(members)} members, more than {MOST_MEMBERS}")
        most = min(most_bytes, MOST_RATIO * path.stat().st_size + FREE_BYTES)
        if sum(member.file_size for member in members) > most:
            raise BadInput(
                f"the archive would unpack to more than {format_bytes(most)}",
                advice=f"at most {format_bytes(most_bytes)}, and {MOST_RATIO} times the archive's own size",
            )
        places = [(member, _place(member)) for member in members if not member.is_dir()]
        tree.mkdir(mode=0o700)
        left_out = []
        for member, place in places:
            if _is_left_out(place):
                left_out.append("/".join(place))
                continue
            target = tree.joinpath(*place)
            try:
                target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                stream = target.open("xb")
            except (FileExistsError, NotADirectoryError) as error:
                raise BadInput(f"the archive has {'/'.join(place)!r} twice", advice="make the archive again") from error
            with stream:
                for block in archive.blocks(member, most):
                    stream.write(block)
                    most -= len(block)
    return [each for each in left_out if each.endswith(SETTINGS)]


def _place(member: ZipInfo) -> list[str]:
    """Return the parts of the path at which a member is written, below the folder. Raises `BadInput`."""
    name, mode = member.orig_filename, member.external_attr >> 16
    advice = "make the archive of a plain folder: zip -r model.zip model/"
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        raise BadInput(f"{name[:200]!r} in the archive is a link or a special file", advice=advice)
    parts = name.split("/")
    if not name.isprintable() or {"\\", ":"} & {*name} or {"", ".", ".."} & {*parts}:
        raise BadInput(f"{name[:200]!r} in the archive is no path below a folder", advice=advice)
    if len(parts) > MOST_DEPTH or any(len(part.encode()) > 255 for part in parts):
        raise BadInput(f"{name[:200]!r} in the archive is too deep or too long", advice=advice)
    refuse_code(name)
    return parts


def _is_left_out(place: list[str]) -> bool:
    return place[-1].lower().endswith(SETTINGS) or any(part.startswith(".") or part == "__MACOSX" for part in place)


def find_model(tree: Path) -> Path | None:
    """Return the one model in a folder; None where there is none. Raises `BadInput` where there are several."""
    if format_of(tree, "models"):
        return tree
    found = [entry.path for entry in look("", tree, "models")]
    if len(found) > 1:
        names = ", ".join(sorted(str(path.relative_to(tree)) for path in found)[:5])
        raise BadInput(f"the archive holds {len(found)} models: {names}", advice="upload one model at a time")
    return found[0] if found else None


def _describe_model(path: Path) -> dict[str, Any]:
    """Return the model at `path`, which gets the ending that its format has. Raises `BadModel`."""
    from edgewise.model.identity import open_model

    model = open_model(path)
    form = model.ref.format
    if form not in (*FORMATS.values(), "savedmodel"):
        raise BadModel(f"{path.name}: a model of the format {form} is not taken from an upload", advice=_CODE_ADVICE)
    endings = [ending for ending, each in FORMATS.items() if each == form]
    if path.is_file() and endings and path.suffix.lower() not in endings:
        path = path.rename(path.with_suffix(endings[0]))
    facts = {"format": form, "size_bytes": model.ref.size_bytes}
    return {"kind": "models", "key": model.ref.sha256, "main": path, **facts}


def _describe_data(path: Path, key: str) -> dict[str, Any]:
    """Return the data at `path`. Raises `BadInput`."""
    from edgewise.workload.arrays import explain_damage, open_array
    from edgewise.workload.arrays import open_archive as open_arrays

    form = format_of(path, "data")
    if form in (None, "loader"):
        known = "a SavedModel, .onnx, .tflite, .xml with .bin, or a folder of images or sounds per class"
        raise BadInput("the archive holds no model, and no data set that is known", advice=f"pack {known}")
    if form == "npz":
        open_arrays(path)
    elif form == "npy":
        with explain_damage(path.name):
            open_array(path)
    elif path.is_file() and (b"\0" in _head(path) or not path.stat().st_size):
        raise BadInput(f"{path.name} is not a table of text", advice="save it as CSV")
    size = sum(each.stat().st_size for each in (path, *path.rglob("*")) if each.is_file())
    return {"kind": "data", "key": key, "main": path, "format": form, "size_bytes": size}


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(2**16)


def _hash(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


if __name__ == "__main__":
    raise SystemExit(serve(answer, limits=lambda request: LIMITS))
