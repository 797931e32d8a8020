"""Texts and JSON lines for language models: pieces that make up the text, bad lines by name, many lines in little
memory.
"""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Choices, CorruptSample, open_data
from edgewise.evaluating.formats.text import BEFORE_BYTES
from messages import says


def pieces(path: Path, content: str | bytes, **options: str):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    (found,) = open_data(str(path), form="text", options=options).values()
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return tmp_path_factory.mktemp("texts") / "text.txt"


@given(st.text(alphabet="ab é漢\n", min_size=1, max_size=600))
def test_pieces_make_up_the_text_behind_its_first_word(file, content):
    try:
        data = pieces(file, content, bytes="64")
    except BadInput:
        assert len(content.encode()) <= 64
        return
    samples = [data.read(index) for index in range(len(data))]
    first = samples[0].data
    assert first
    assert first + "".join(each.label for each in samples) == content
    for index, each in enumerate(samples):
        assert each.data == first + "".join(one.label for one in samples[:index])
        assert 0 < len(each.label.encode()) <= 64 + 32


def test_pieces_begin_with_white_space(file):
    data = pieces(file, "some words and more of them " * 20, bytes="64")
    assert {data.read(index).label[0] for index in range(len(data))} == {" "}
    assert data.read(0).data == "some"
    assert data.read(1).name == "text.txt, bytes 66 to 131"


def test_the_text_before_is_bounded(file):
    data = pieces(file, "é " * 40_000)
    last = data.read(len(data) - 1)
    assert BEFORE_BYTES - 4 <= len(last.data.encode()) <= BEFORE_BYTES


def test_text_in_another_encoding_is_named(file):
    data = pieces(file, b"word " * 20 + b"\xff" + b" word" * 40, bytes="64")
    with pytest.raises(CorruptSample, match=says("not-utf-8")):
        data.read(1)
    assert data.read(3).label


@pytest.mark.parametrize("content", ["", "w"])
def test_a_text_without_anything_to_predict_is_refused(file, content):
    with pytest.raises(BadInput, match=says("no-text-after-first-word")):
        pieces(file, content)


@pytest.mark.parametrize("word", ["63", "x", "9" * 9, "²²²"])
def test_sizes_of_pieces_are_bounded(file, word):
    with pytest.raises(BadInput, match=says("data-option-bytes-must-not", word=word)):
        pieces(file, "a b", bytes=word)


def test_a_text_is_recognised_by_its_name(tmp_path: Path):
    path = tmp_path / "a.txt"
    path.write_text("one two")
    assert open_data(str(path))["all"].format == "text"


# --- JSON lines ---


def rows(tmp_path: Path, content: str | bytes):
    path = tmp_path / "d.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return open_data(str(path))["all"]


def test_prompts_with_references(tmp_path: Path):
    data = rows(tmp_path, '{"prompt": "a", "reference": "b"}\n\n  \n{"text": "é", "references": ["c", "d"]}')
    samples = [data.read(index) for index in range(len(data))]
    assert [(each.name, each.data, each.label) for each in samples] == [
        ("d.jsonl, line 1", "a", "b"),
        ("d.jsonl, line 4", "é", ("c", "d")),
    ]


@pytest.mark.parametrize(("answer", "number"), [(1, 1), ("B", 1), ("b", 1), ("x", 0), ("A", 2)])
def test_choices(tmp_path: Path, answer, number):
    data = rows(tmp_path, json.dumps({"question": "q", "choices": ["x", "y", "A"], "answer": answer}))
    assert data.read(0).label == Choices(("x", "y", "A"), number)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", says("not-json-utf-8")),
        (b"\xff", says("not-json-utf-8")),
        ('{"prompt": "\\ud800", "answer": "a"}', says("not-json-utf-8")),
        ("[" * 100_000, says("not-json-utf-8")),
        ("[1]", says("no-json-object")),
        ("{}", says("no-text-under-in-jsonl")),
        ('{"prompt": " "}', says("no-text-under-in-jsonl")),
        ('{"prompt": "a"}', says("no-text-under-in-jsonl-2")),
        ('{"prompt": "a", "reference": []}', says("no-text-under-in-jsonl-2")),
        ('{"prompt": "a", "choices": "ab", "answer": 0}', says("choices-no-list-texts")),
        ('{"prompt": "a", "choices": ["b"], "answer": 0}', says("choices-2-allowed")),
        ('{"prompt": "a", "choices": ["b", "c"], "answer": 2}', says("answer-none-choices")),
        ('{"prompt": "a", "choices": ["b", "c"], "answer": true}', says("answer-none-choices")),
        ('{"prompt": "a", "choices": ["b", "c"]}', says("answer-none-choices")),
        ('"' + "a" * 2**20 + '"', says("longer-than-b")),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line, reason):
    content = line if isinstance(line, bytes) else line.encode()
    data = rows(tmp_path, content + b'\n{"prompt": "a", "reference": "b"}\n')
    with pytest.raises(CorruptSample, match=reason) as caught:
        data.read(0)
    assert caught.value.name == "d.jsonl, line 1"
    assert data.read(1).label == "b"


@given(st.lists(st.sampled_from([b"", b" ", b"{}", b"\r", b"x" * 9]), max_size=40), st.booleans())
def test_lines_are_those_that_a_reader_finds(tmp_path_factory, parts, ended):
    content = b"\n".join(parts) + b"\n" * ended
    expected = [(number, part) for number, part in enumerate(content.split(b"\n"), 1) if part.strip()]
    path = tmp_path_factory.mktemp("lines") / "d.jsonl"
    path.write_bytes(content)
    if not expected:
        with pytest.raises(BadInput, match=says("no-lines")):
            open_data(str(path))
        return
    data = open_data(str(path))["all"]
    assert list(data.numbers) == [number for number, _ in expected]
    assert [content[begin:].split(b"\n")[0] for begin in data.begins] == [part for _, part in expected]


def test_many_lines_take_little_memory(tmp_path: Path):
    path = tmp_path / "d.jsonl"
    line = b'{"prompt": "a", "reference": "b"}\n'
    path.write_bytes(line)
    open_data(str(path))  # what is imported on the way does not count
    path.write_bytes(line * 200_000)
    tracemalloc.start()
    data = open_data(str(path))["all"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(data) == 200_000
    assert peak < path.stat().st_size + 10 * 200_000  # the file once, and where each line begins
    assert data.read(199_999).name == "d.jsonl, line 200000"
