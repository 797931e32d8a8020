"""Models of the Hugging Face Hub: ``hf:ORG/NAME[:FILE]`` where a command takes a model, and only there."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, Unavailable
from edgewise.silence import silenced
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

    # Links, as the Hub's own cache has them, would lead weights out of the model's folder.
    place = user_cache_path("edgewise") / "hub" / name
    absent = BadInput(f"hf:{name} has no file {file}", advice=f"see the files of {name} on the Hub")
    if file is not None and ".." in Path(file).parts:
        raise absent
    # What it prints of its progress is for a terminal alone.
    with nullcontext() if sys.stderr.isatty() else silenced():
        try:
            # Its list of files would try again for 20 s where there is no network.
            found = huggingface_hub.HfApi().model_info(name).siblings or ()
        except Exception as error:  # its own, and those of its HTTP library
            if file is not None and (place / file).is_file():
                return place / file
            raise _explain(name, error) from error
        files = [one.rfilename for one in found]
        if file is None:
            file = _choose(name, files)
        if file not in files:
            raise absent
        wanted = [file, f"{file}[_.]*", Path(file).with_suffix(".bin").as_posix()]
        try:
            return Path(huggingface_hub.snapshot_download(name, allow_patterns=wanted, local_dir=place)) / file
        except Exception as error:  # those, and of the disk
            raise _explain(name, error) from error


def _explain(name: str, error: Exception) -> Unavailable:
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    cause = first_line(error)
    advice = (
        f"check the network; what was fetched with its file named, hf:{name}:FILE, needs none; "
        "or name a file on this machine"
    )
    if isinstance(error, GatedRepoError):
        cause = "its owners give access on request, and you have none"
        advice = "ask for it on the page of the model, then log in: hf auth login"
    elif isinstance(error, RepositoryNotFoundError):
        cause = "the Hub has no such repository, or hides it from you"
        advice = "check the name, or log in: hf auth login"
    return Unavailable(f"hf:{name} can't be fetched: {cause}", advice=advice)


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
