"""Steps for text: token numbers from a ``tokenizer.json`` of the tokenizers package (Hugging Face)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.step_settings import Action, Choice, Item, StepKind, one_of, text, whole, yes_no
from edgewise.text import one_line

MAX_TOKENIZER_BYTES = 128 * 2**20
MAX_TEXT_CHARACTERS = 2**22

_ROLES = {
    "input_ids": "ids", "ids": "ids", "input_word_ids": "ids",
    "attention_mask": "mask", "input_mask": "mask", "mask": "mask",
    "token_type_ids": "types", "segment_ids": "types", "input_type_ids": "types",
}  # fmt: skip
"""What inputs of these names are fed: token numbers, 1 where there is a token, which of two texts."""
_PADS = ("[PAD]", "<pad>", "<|pad|>", "<PAD>")


@lru_cache(maxsize=4)
def _open(path: str, stamp: tuple[int, int], length: int | None, pad: int | None) -> Any:
    """The tokenizer at `path`, told to bring everything to `length`. `stamp` tells versions of the file apart."""
    del stamp
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable("tokenizing needs the tokenizers package", advice="pip install 'edgewise[data]'") from None
    try:
        found = Tokenizer.from_file(path)
    except Exception as error:  # its parser raises nothing more precise
        raise BadInput(
            f"{Path(path).name} is no tokenizer: {one_line(str(error))[:200]}", advice="give a tokenizer.json"
        ) from error
    if length is not None:
        number, word = _find_pad(found, path, pad)
        try:
            found.enable_truncation(max_length=length)
            found.enable_padding(length=length, pad_id=number, pad_token=word)
        except Exception as error:
            raise BadInput(
                f"{Path(path).name} can't make {length} tokens: {one_line(str(error))[:200]}", advice="a greater length"
            ) from error
    return found


def _find_pad(found: Any, path: str, pad: int | None) -> tuple[int, str]:
    if pad is not None:
        return pad, found.id_to_token(pad) or ""
    if found.padding is not None:
        return int(found.padding["pad_id"]), str(found.padding["pad_token"])
    for word in _PADS:
        number = found.token_to_id(word)
        if number is not None:
            return int(number), word
    raise BadInput(
        f"{Path(path).name} does not say what short texts are padded with",
        advice="give tokenize a pad: the token's number",
    )


def _build_tokenize(settings: Mapping[str, Any]) -> Action:
    path = Path(settings["file"])
    try:
        stat = path.stat()
    except (OSError, ValueError) as error:
        raise BadInput(f"no tokenizer at {path}", advice="give the path of a tokenizer.json") from error
    if not path.is_file() or stat.st_size > MAX_TOKENIZER_BYTES:
        raise BadInput(
            f"{path.name} is no tokenizer: not a file of at most {MAX_TOKENIZER_BYTES} B", advice="tokenizer.json"
        )
    tokenizer = _open(str(path), (stat.st_mtime_ns, stat.st_size), settings["length"], settings["pad"])
    special = settings["special"]

    def tokenize(item: Item) -> None:
        if not isinstance(item.data, str):
            raise BadInput(f"{item.sample} is no text", advice="tokenize must be the first step, on text")
        if len(item.data) > MAX_TEXT_CHARACTERS:
            raise BadInput(f"{item.sample} has more than {MAX_TEXT_CHARACTERS} characters", advice="shorten it")
        role = settings["give"] or ("ids" if item.alone else _ROLES.get(item.input))
        if role is None:
            known = ", ".join(sorted(_ROLES))
            raise BadInput(
                f"what input {item.input!r} is fed of a text is not to be told from its name",
                advice=f"give its tokenize step 'give: ids', 'mask' or 'types' (known names: {known})",
            )
        try:
            found = tokenizer.encode(item.data, add_special_tokens=special)
        except Exception as error:
            raise BadInput(f"{item.sample} can't be tokenized: {one_line(str(error))[:200]}", advice="") from error
        numbers = {"ids": found.ids, "mask": found.attention_mask, "types": found.type_ids}[role]
        item.data = np.asarray(numbers, dtype=np.int64)

    return tokenize


KINDS = (
    StepKind(
        name="tokenize", summary="token numbers by a tokenizer.json", main="file", takes=("text",), gives="array",
        build=_build_tokenize,
        settings={
            "file": Choice(parse=text, meaning="a tokenizer.json beside the file that says so"),
            "length": Choice(parse=whole(1, 2**20), default=None, meaning="cut or pad to so many tokens"),
            "pad": Choice(parse=whole(0, 2**31 - 1), default=None, meaning="number of the padding token"),
            "special": Choice(parse=yes_no, default=True, meaning="add the tokens that begin and end a text"),
            "give": Choice(parse=one_of("ids", "mask", "types"), default=None,
                           meaning="what the input is fed; by default by its name"),
        },
    ),
)  # fmt: skip
