"""Models of the Hugging Face Hub: ``hf:ORG/NAME[:FILE]`` where a command takes a model, and only there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.text import first_line, listing
from edgewise.verbs.option import Option

ENDINGS = (".onnx", ".ort", ".tflite", ".gguf", ".pt2", ".pte", ".keras", ".pdmodel", ".xml")
_WORD = re.compile(r"(?P<label>[^=,/]*=)?hf:(?P<id>[\w.-]+/[\w.-]+)(:(?P<file>[^,:]+))?(?P<settings>,.*)?", re.DOTALL)
_MOST_NAMED = 6


def takes_models(option: Option) -> bool:
    """Whether words of this argument may be models: that of `exec` is another program."""
    return not option.flags and not option.metavar.startswith("--")


def fetch_models(value: Any) -> Any:
    """`value`, with the path of a fetched file in place of each ``hf:ORG/NAME[:FILE]``; anything else as it is.

    A label before it, and settings after it, stay.

    Raises:
        BadInput: the repository has no such file, or several models and no FILE was named.
        Unavailable: the package is not installed, or the Hub, or what it holds, can't be reached.
    """
    if isinstance(value, list | tuple):
        return type(value)(map(fetch_models, value))
    found = _WORD.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        return value
    return f"{found['label'] or ''}{_fetch(found['id'], found['file'])}{found['settings'] or ''}"


def _fetch(name: str, file: str | None) -> Path:
    """Return the path of a file of a repository, its weight files beside it, in a folder that outlasts the command."""
    try:
        import huggingface_hub
    except ImportError as error:
        raise Unavailable(
            f"hf:{name} needs the package huggingface_hub", advice="pip install 'edgewise[hub]'"
        ) from error
    from platformdirs import user_cache_path

    try:
        if file is None:
            file = _choose(name, huggingface_hub.list_repo_files(name))
        # Links, as the Hub's own cache has them, would lead weights out of the model's folder.
        place = user_cache_path("edgewise") / "hub" / name
        wanted = [file, f"{file}[_.]*", f"{Path(file).with_suffix('.bin').as_posix()}"]
        path = Path(huggingface_hub.snapshot_download(name, allow_patterns=wanted, local_dir=place)) / file
    except BadInput:
        raise
    except Exception as error:  # its own, those of its HTTP library, and of the disk
        raise Unavailable(
            f"hf:{name} can't be fetched: {first_line(error)}",
            advice="check the name, the network and 'hf auth whoami'; what was fetched with its file named, "
            f"hf:{name}:FILE, needs no network; or name a file on this machine",
        ) from error
    if ".." in Path(file).parts or not path.is_file():
        raise BadInput(f"hf:{name} has no file {file}", advice=f"see the files of {name} on the Hub")
    return path


def _choose(name: str, files: Sequence[str]) -> str:
    """Return the only model among the files of a repository. Raises `BadInput`."""
    models = sorted(one for one in files if one.endswith(ENDINGS))
    if len(models) != 1:
        shown = listing(models[:_MOST_NAMED])
        more = f" and {len(models) - _MOST_NAMED} more" if len(models) > _MOST_NAMED else ""
        raise BadInput(
            f"hf:{name} has {len(models)} models{f': {shown}{more}' if models else ''}",
            advice=f"name one: hf:{name}:{models[0]}" if models else f"one of these is read: {', '.join(ENDINGS)}",
        )
    return models[0]
