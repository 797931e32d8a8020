"""Steps for text: token numbers from a ``tokenizer.json`` of the tokenizers package (Hugging Face)."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.step_settings import LOWER_CASE, FileName, Item, Step, YesNo
from edgewise.text import one_line

MAX_TOKENIZER_BYTES = 128 * 2**20
MAX_TEXT_CHARACTERS = 2**22

ROLES = {
    "input_ids": "ids", "ids": "ids", "input_word_ids": "ids",
    "attention_mask": "mask", "input_mask": "mask", "mask": "mask",
    "token_type_ids": "types", "segment_ids": "types", "input_type_ids": "types",
}  # fmt: skip
"""Input name → what it takes: token numbers, 1 where there is a token, or which of two texts."""
_PADS = ("[PAD]", "<pad>", "<|pad|>", "<PAD>")


def load_tokenizer(path: Path) -> tuple[Any, str]:
    """Return the tokenizer in a file, and the file's SHA-256. Raises `BadInput`, `Unavailable`."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise Unavailable("text needs the tokenizers package", advice="pip install 'edgewise[data]'") from None
    try:
        if not path.is_file():
            raise BadInput(f"no tokenizer found at {path}", advice="give the path of a tokenizer.json")
        if path.stat().st_size > MAX_TOKENIZER_BYTES:
            raise BadInput(
                f"{path.name} is not a tokenizer: more than {MAX_TOKENIZER_BYTES} B", advice="give a tokenizer.json"
            )
        content = path.read_bytes()
        return Tokenizer.from_buffer(content), hashlib.sha256(content).hexdigest()
    except BadInput:
        raise
    except Exception as error:  # its parser raises nothing more precise
        raise BadInput(
            f"{path.name} is not a tokenizer: {one_line(str(error))[:200]}", advice="give a tokenizer.json"
        ) from error


@lru_cache(maxsize=4)
def _open(path: str, stamp: tuple[int, int], length: int | None, pad: int | None) -> Any:
    """Return the tokenizer at `path`, set to cut and pad to `length`. `stamp` changes with the file."""
    found, _ = load_tokenizer(Path(path))
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
        f"{Path(path).name} has no padding token", advice="set the token's number with pad in the tokenize step"
    )


class Tokenize(Step, name="tokenize", main="file", takes=("text",), gives="array"):
    """Token numbers by a tokenizer.json."""

    file: FileName = Field(description="a tokenizer.json beside the YAML file")
    length: Annotated[int, Field(ge=1, le=2**20)] | None = Field(
        None, description="cut or pad to this number of tokens"
    )
    pad: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(None, description="number of the padding token")
    special: YesNo = Field(True, description="add the tokens that begin and end a text")
    give: Annotated[Literal["ids", "mask", "types"], LOWER_CASE] | None = Field(
        None, description="input's content; by default by its name"
    )

    def describe(self) -> str:
        """Return the step in a few words, with the file's name: its folder is another one on each machine."""
        return Step.describe(self.model_copy(update={"file": Path(self.file).name}))

    def _check(self) -> None:
        self._tokenizer()

    def _apply(self, item: Item) -> None:
        if not isinstance(item.data, str):
            raise BadInput(f"{item.sample} is not text", advice="tokenize must be the first step, on text")
        if len(item.data) > MAX_TEXT_CHARACTERS:
            raise BadInput(f"{item.sample} has more than {MAX_TEXT_CHARACTERS} characters", advice="shorten it")
        role = self.give or ("ids" if item.alone else ROLES.get(item.input))
        if role is None:
            known = ", ".join(sorted(ROLES))
            raise BadInput(
                f"the name of input {item.input!r} does not show which part of a tokenized text it takes",
                advice=f"add 'give: ids', 'mask' or 'types' to its tokenize step (known names: {known})",
            )
        try:
            found = self._tokenizer().encode(item.data, add_special_tokens=self.special)
        except Exception as error:
            raise BadInput(f"{item.sample} can't be tokenized: {one_line(str(error))[:200]}", advice="") from error
        if found.overflowing:
            item.changes.append(f"cut to {len(found.ids)} tokens")
        numbers = {"ids": found.ids, "mask": found.attention_mask, "types": found.type_ids}[role]
        item.data = np.asarray(numbers, dtype=np.int64)

    def _tokenizer(self) -> Any:
        path = Path(self.file)
        try:
            stat = path.stat()
        except (OSError, ValueError) as error:
            raise BadInput(f"no tokenizer found at {path}", advice="give the path of a tokenizer.json") from error
        return _open(str(path), (stat.st_mtime_ns, stat.st_size), self.length, self.pad)


STEPS: tuple[type[Step], ...] = (Tokenize,)
