"""The header of GGUF files: exact values, and hostile files."""

from __future__ import annotations

import struct

import pytest

from edgewise.errors import BadModel
from edgewise.model.identity import open_model, read_graph
from edgewise.model.inspection import inspect_graph
from edgewise.model.readers import gguf as reader
from edgewise.model.readers.gguf import Elements, read_header
from gguf_files import LLAMA, WEIGHTS, gguf, text, value
from messages import says


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "m.gguf"
        path.write_bytes(data)
        return path

    return write


def test_header(write):
    header = read_header(write(gguf()))
    assert (header.version, header.architecture, header.context_length, header.tokenizer) == (3, "llama", 64, "gpt2")
    assert not header.has_chat_template
    assert header.metadata["tokenizer.ggml.tokens"] == ("a", "b", "c")
    first, second = header.tensors[:2]
    assert (first.shape, first.kind, first.size) == ((3, 32), "F32", 3 * 32 * 4)
    assert (second.shape, second.kind, second.size) == ((2, 32), "Q4_1", 2 * 20)
    assert second.offset == first.offset + first.size
    assert header.weight_bytes == 384 + 40 + 40 + 192
    assert header.quantisation == "F32"


@pytest.mark.parametrize(
    ("change", "numbers", "why"),
    [
        ({}, 2 * 2 * (8 + 8), ""),
        ({"llama.attention.key_length": 16}, 2 * 2 * (16 + 8), ""),
        ({"llama.attention.head_count_kv": (1, 3)}, 4 * (8 + 8), ""),
        ({"llama.attention.head_count_kv": (1, 3, 1)}, None, "does not tell"),
        ({"llama.attention.sliding_window": 512}, None, "sliding_window"),
        ({"llama.attention.kv_lora_rank": 512}, None, "kv_lora_rank"),
        ({"llama.block_count": "two"}, None, "does not tell"),
    ],
)
def test_numbers_of_the_kv_cache(write, change, numbers, why):
    found, reason = read_header(write(gguf({**LLAMA, **change}))).cached_numbers()
    assert found == numbers
    assert why in reason


def test_model_and_graph(write):
    path = write(gguf({**LLAMA, "tokenizer.chat_template": "{{ evil() }}"}))
    model = open_model(path)
    assert (model.ref.format, model.signature.inputs, model.signature.outputs) == ("gguf", (), ())
    graph = read_graph(path)
    assert [operator.name for operator in graph.operators] == ["token_embd", "blk.2", "blk.10", "output"]
    told = inspect_graph(graph, source={}, sets=[]).to_dict()
    assert told["totals"]["parameters"] == 96 + 64 + 64 + 96
    assert told["totals"]["weight_bytes"] == 384 + 40 + 40 + 192
    assert (told["totals"]["macs"], told["totals"]["depth"], told["totals"]["activation_peak_bytes"]) == (None,) * 3
    language = told["model"]["metadata"]["language_model"]
    assert language["chat_template"] == "present, never executed"
    assert language["kv_cache_numbers_per_token"] == 64


def test_a_long_array_is_kept_as_its_length(write, monkeypatch):
    monkeypatch.setattr(reader, "KEPT_ELEMENTS", 2)
    metadata = {**LLAMA, "x": (1, 2, 3), "y": (1, 2)}
    header = read_header(write(gguf(metadata)))
    assert header.metadata["tokenizer.ggml.tokens"] == Elements(3) == header.metadata["x"]
    assert header.metadata["y"] == (1, 2)
    assert header.tokenizer == "gpt2"


HEAD = struct.pack("<4sIQQ", b"GGUF", 3, 0, 1)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GGUF\3\0\0\0", says("ends-inside", what="its counts")),
        (gguf()[:100], says("ends-inside")),
        (gguf()[:-200], says("tensor-lies-b-beyond-end")),
        (gguf(version=1), says("gguf-version-edgewise-reads", number=1)),
        (gguf(version=3 << 24), says("bytes-big-endian-gguf-version")),
        (struct.pack("<4sIQQ", b"GGUF", 3, 2**60, 0), says("tensors-keys-more-than-any")),
        (struct.pack("<4sIQQ", b"GGUF", 3, 0, 2**60), says("tensors-keys-more-than-any")),
        (HEAD + struct.pack("<Q", 2**62), says("text-bytes-more-than", what="a key")),
        (HEAD + text("a") + struct.pack("<I", 13), says("unknown-type")),
        (HEAD + text("a") + struct.pack("<IIQ", 9, 0, 2**50), says("elements-more-than")),
        (HEAD + text("a") + struct.pack("<IIQ", 9, 9, 1), says("array-unknown-type")),
        (HEAD + text("a") + struct.pack("<IIQQ", 9, 8, 5000, 2**40), says("ends-inside")),
        (HEAD + text("general.alignment") + value(0), says("alignment-alignment-r")),
        (gguf(weights=(("w", (32,), 77),)), says("tensor-ggml-type-quantisation-edgewise", number=77)),
        (gguf(weights=(("w", (33,), 3),)), says("tensor-type-shape")),
        (gguf(weights=(("w", (2**50,), 30),)), says("tensor-type-shape")),
        (gguf(weights=(("w", (0,), 0),)), says("tensor-type-shape")),
        (gguf(weights=(("w", (1, 1, 1, 1, 1), 0),)), says("tensor-dimensions-ggml-1")),
        (gguf(weights=(WEIGHTS[0], WEIGHTS[0])), says("two-tensors-one-name")),
        (gguf(weights=()), says("no-weights-only-vocabulary")),
    ],
)
def test_hostile_files(write, data, message):
    with pytest.raises(BadModel, match=message):
        open_model(write(data))
    with pytest.raises(BadModel):
        read_graph(write(data))
