"""A Llama computed in float64 from its weights, by the definition alone: what an engine's probabilities should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgewise.model.readers.gguf import GgufTensor, read_header

Array = np.ndarray[Any, np.dtype[np.float64]]


class Weights:
    """The tensors of a file by their names, read when they are asked for; of the types F32, Q8_0 and Q4_1.

    Args:
        rounded: whether the least number of a block of Q4_1 becomes a multiple of its scale, as OpenVINO GenAI has it.
    """

    def __init__(self, path: Path, *, rounded: bool) -> None:
        self._data = np.memmap(path, np.uint8, "r")
        self._tensors = {each.name: each for each in read_header(path).tensors}
        self._rounded = rounded

    def __getitem__(self, name: str) -> Array:
        tensor = self._tensors[f"{name}.weight"]
        return self._numbers(tensor).reshape(tensor.shape)

    def _numbers(self, tensor: GgufTensor) -> Array:
        raw = np.array(self._data[tensor.offset : tensor.offset + tensor.size])
        if tensor.kind == "F32":
            return raw.view(np.float32).astype(np.float64)
        if tensor.kind == "Q8_0":  # blocks of 32: a scale, and integers
            blocks = raw.reshape(-1, 34)
            scale = blocks[:, :2].copy().view(np.float16).astype(np.float64)
            return blocks[:, 2:].copy().view(np.int8) * scale
        assert tensor.kind == "Q4_1"  # blocks of 32: a scale, the least number, and halves of bytes, the low ones first
        blocks = raw.reshape(-1, 20)
        scale, least = blocks[:, :4].copy().view(np.float16).astype(np.float64).T[..., None]
        if self._rounded:
            least = -scale * np.clip(np.round(-least / np.where(scale == 0, 1, scale)), 0, 15)
        return np.concatenate([blocks[:, 4:] & 15, blocks[:, 4:] >> 4], axis=1) * scale + least


def log_probabilities(path: Path, tokens: list[int], *, rounded: bool) -> Array:
    """The natural logarithm of the probability of each token but the first."""
    about = {key.removeprefix("llama."): value for key, value in read_header(path).metadata.items()}
    found = all_log_probabilities(about, Weights(path, rounded=rounded), tokens)
    return found[np.arange(len(tokens) - 1), tokens[1:]]


def all_log_probabilities(about: Mapping[str, Any], weights: Any, tokens: Sequence[int]) -> Array:
    """The natural logarithm of the probability of every token behind each of `tokens`: tokens × vocabulary.

    Args:
        about: what the header of a file in GGUF says, by the keys below ``llama.``.
        weights: name of a tensor in GGUF, without ``.weight`` → its numbers.
    """
    heads, groups = about["attention.head_count"], about["attention.head_count_kv"]
    small, base = about["attention.layer_norm_rms_epsilon"], about["rope.freq_base"]
    count = len(tokens)
    future = np.triu(np.full((count, count), -np.inf), 1)

    def normal(x: Array, name: str) -> Array:
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + small) * weights[name]

    def turned(x: Array) -> Array:
        """Each pair of neighbours by an angle that grows with the place (RoPE)."""
        angles = np.arange(count)[:, None] * base ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
        a, b = x[..., ::2], x[..., 1::2]
        pair = a * np.cos(angles) - b * np.sin(angles), a * np.sin(angles) + b * np.cos(angles)
        return np.stack(pair, axis=-1).reshape(x.shape)

    def split(x: Array, parts: int) -> Array:
        return x.reshape(count, parts, -1).transpose(1, 0, 2)

    table = weights["token_embd"]
    x = table[list(tokens)]
    for layer in range(about["block_count"]):
        own = f"blk.{layer}"
        y = normal(x, f"{own}.attn_norm")
        q, k = (turned(split(y @ weights[f"{own}.attn_{each}"].T, n)) for each, n in (("q", heads), ("k", groups)))
        v = split(y @ weights[f"{own}.attn_v"].T, groups)
        k, v = (np.repeat(each, heads // groups, axis=0) for each in (k, v))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1]) + future
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        x = x + (shares @ v).transpose(1, 0, 2).reshape(count, -1) @ weights[f"{own}.attn_output"].T
        y = normal(x, f"{own}.ffn_norm")
        gate = y @ weights[f"{own}.ffn_gate"].T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ weights[f"{own}.ffn_up"].T)) @ weights[f"{own}.ffn_down"].T
    logits = normal(x, "output_norm") @ table.T
    logits -= logits.max(axis=-1, keepdims=True)
    found: Array = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    return found
