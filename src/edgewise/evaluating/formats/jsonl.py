"""JSON lines: prompts for a language model, each with the texts that are right, or with choices."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Choices, CorruptSample, Dataset, Sample
from edgewise.evaluating.formats.recognition import BuiltInFormat
from edgewise.evaluating.formats.split import ALL, Split

PROMPTS = ("prompt", "question", "text")
REFERENCES = ("reference", "references", "answer")
MOST_LINE_BYTES = 2**20
MOST_CHOICES = 100
_BLOCK = 2**20
_ADVICE = 'give lines such as {"prompt": "…", "reference": "…"}'


@dataclass(kw_only=True)
class Lines(Split):
    """Lines of a file, each read when it is asked for: a million of them take 16 MB.

    Attributes:
        begins: where each line begins that is not empty.
        numbers: of these lines, from 1.
    """

    file: Path
    begins: Sequence[int]
    numbers: Sequence[int]

    def __len__(self) -> int:
        return len(self.numbers)

    def read(self, index: int) -> Sample:
        """Return a prompt with its label. Raises `CorruptSample` for a line that is not as it should be."""
        name = f"{self.name}, line {self.numbers[index]}"
        begin = self.begins[index]
        try:
            with self.file.open("rb") as file:
                file.seek(begin)
                line = file.readline(MOST_LINE_BYTES + 1)
        except OSError as error:
            raise BadInput(f"can't read {self.file}: {error.strerror}", advice=_ADVICE) from error
        if len(line) > MOST_LINE_BYTES:
            raise CorruptSample(name, f"it is longer than {MOST_LINE_BYTES} B")
        entry = _parse(line, name)
        prompt = next((entry[key] for key in PROMPTS if key in entry), None)
        if not isinstance(prompt, str) or not prompt.strip():
            raise CorruptSample(name, f"it has no text under {' or '.join(PROMPTS)}")
        label = _read_choices(entry, name) if "choices" in entry else _read_references(entry, name)
        return Sample(index=index, name=name, data=prompt, label=label)

    def find_files(self) -> tuple[Path, Iterable[str]]:
        """As `Split.find_files`."""
        return self.file.parent, [self.file.name]


class JsonLines(BuiltInFormat):
    """A line for each prompt: ``prompt`` (or ``question``, ``text``), and either ``reference`` (or ``references``,
    ``answer``), a text or a list of texts of which any counts; or ``choices``, a list of texts, and ``answer``, the
    number of the right one, from 0, its text, or its letter.
    """

    name = "jsonl"
    title = "JSON lines: prompts with references, or with choices"

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        try:
            begins, numbers = _find_lines(path)
        except OSError as error:
            raise BadInput(f"can't read {path}: {error.strerror}", advice=_ADVICE) from error
        if not numbers:
            raise BadInput(f"{path.name} has no lines", advice=_ADVICE)
        found = Lines(
            name=path.name, path=path, format=self.name, split=ALL, kind="text", labelled=True,
            file=path, begins=begins, numbers=numbers,
        )  # fmt: skip
        return {ALL: found}


def _find_lines(path: Path) -> tuple[array[int], array[int]]:
    """Return where the lines of a file begin that are not empty, and their numbers. Memory does not grow with them."""
    begins, numbers = array("Q"), array("Q")
    begin, number, at, empty = 0, 1, 0, True
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            check()
            *whole, rest = block.split(b"\n")
            for part in whole:
                if not empty or part.strip():
                    begins.append(begin)
                    numbers.append(number)
                at += len(part) + 1
                begin, number, empty = at, number + 1, True
            at, empty = at + len(rest), empty and not rest.strip()
    if not empty:
        begins.append(begin)
        numbers.append(number)
    return begins, numbers


def _parse(line: bytes, name: str) -> Mapping[str, Any]:
    try:
        entry = json.loads(line)
        json.dumps(entry, ensure_ascii=False).encode()  # which half of a character is not
    except (ValueError, RecursionError) as error:
        raise CorruptSample(name, "it is not JSON in UTF-8") from error
    if not isinstance(entry, dict):
        raise CorruptSample(name, "it is no JSON object")
    return entry


def _read_references(entry: Mapping[str, Any], name: str) -> tuple[str, ...] | str:
    given = next((entry[key] for key in REFERENCES if key in entry), None)
    if isinstance(given, str):
        return given
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise CorruptSample(name, f"it has no text under {' or '.join(REFERENCES)}")
    return tuple(given)


def _read_choices(entry: Mapping[str, Any], name: str) -> Choices:
    texts, answer = entry["choices"], entry.get("answer")
    if not isinstance(texts, list) or not all(isinstance(each, str) and each.strip() for each in texts):
        raise CorruptSample(name, "its choices are no list of texts")
    if not 2 <= len(texts) <= MOST_CHOICES:
        raise CorruptSample(name, f"it has {len(texts)} choices, and 2 to {MOST_CHOICES} are allowed")
    if isinstance(answer, str):
        answer = texts.index(answer) if answer in texts else _number_of(answer.strip())
    if type(answer) is not int or not 0 <= answer < len(texts):
        raise CorruptSample(name, f"its answer is none of its {len(texts)} choices")
    return Choices(tuple(texts), answer)


def _number_of(letter: str) -> int | None:
    """Return the number of a choice by its letter, 0 for ``A`` and ``a``; None for other words."""
    return ord(letter.upper()) - ord("A") if len(letter) == 1 and letter.isascii() and letter.isalpha() else None
