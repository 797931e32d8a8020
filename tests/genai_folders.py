"""Language models as engines take them, written by tests: a Llama of two layers with random weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gguf_files import gguf

WIDTH, HEADS, KEPT_HEADS, HEAD, INNER, LAYERS, CONTEXT = 64, 4, 2, 16, 96, 2, 320
LETTERS = 256
BEGIN, END = LETTERS, LETTERS + 1
VOCABULARY = LETTERS + 2
ABOUT = {
    "attention.head_count": HEADS, "attention.head_count_kv": KEPT_HEADS, "attention.layer_norm_rms_epsilon": 1e-5,
    "rope.freq_base": 10000.0, "block_count": LAYERS,
}  # fmt: skip
"""As `llama_oracle.all_log_probabilities` takes it."""

Weights = dict[str, np.ndarray[Any, Any]]


def random_weights(seed: int = 7) -> Weights:
    """Name of a tensor as in GGUF → its numbers, float32, [outputs, inputs]."""
    chance = np.random.default_rng(seed)

    def some(*shape: int) -> np.ndarray[Any, Any]:
        return (chance.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    kept = KEPT_HEADS * HEAD
    weights = {"token_embd": some(VOCABULARY, WIDTH) * 2, "output_norm": np.ones(WIDTH, np.float32)}
    for layer in range(LAYERS):
        own = f"blk.{layer}"
        weights |= {f"{own}.{name}_norm": 1 + some(WIDTH) for name in ("attn", "ffn")}
        weights |= {f"{own}.attn_q": some(WIDTH, WIDTH), f"{own}.attn_output": some(WIDTH, WIDTH) * 4}
        weights |= {f"{own}.attn_k": some(kept, WIDTH), f"{own}.attn_v": some(kept, WIDTH)}
        weights |= {f"{own}.ffn_{name}": some(INNER, WIDTH) for name in ("gate", "up")}
        weights[f"{own}.ffn_down"] = some(WIDTH, INNER) * 4
    return weights


class _Network:
    """Nodes and constants of a graph, added one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, op: str, *inputs: str, outputs: tuple[str, ...] = (), domain: str = "", **attributes: Any) -> str:
        from onnx import helper

        outputs = outputs or (f"{op}_{len(self.nodes)}",)
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def constant(self, name: str, numbers: Any) -> str:
        from onnx import numpy_helper

        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(numbers), name))
        return name

    def normal(self, x: str, name: str, weights: Weights) -> str:
        scale = self.constant(name, weights[name])
        return self.add("SimplifiedLayerNormalization", x, scale, epsilon=1e-5, axis=-1)

    def product(self, x: str, name: str, weights: Weights) -> str:
        return self.add("MatMul", x, self.constant(name, weights[name].T))


def _layer(net: _Network, x: str, layer: int, weights: Weights) -> str:
    own = f"blk.{layer}"
    y = net.normal(x, f"{own}.attn_norm", weights)
    q, k, v = (net.product(y, f"{own}.attn_{each}", weights) for each in "qkv")
    past, present = ([f"{word}.{layer}.{each}" for each in ("key", "value")] for word in ("past_key_values", "present"))
    taken = net.add(
        "GroupQueryAttention", q, k, v, *past, "last", "total", "cosines", "sines",
        outputs=(f"{own}.attended", *present), domain="com.microsoft",
        num_heads=HEADS, kv_num_heads=KEPT_HEADS, do_rotary=1, rotary_interleaved=1,
    )  # fmt: skip
    x = net.add("Add", x, net.product(taken, f"{own}.attn_output", weights))
    y = net.normal(x, f"{own}.ffn_norm", weights)
    gate = net.product(y, f"{own}.ffn_gate", weights)
    gated = net.add("Mul", gate, net.add("Sigmoid", gate))
    inner = net.add("Mul", gated, net.product(y, f"{own}.ffn_up", weights))
    return net.add("Add", x, net.product(inner, f"{own}.ffn_down", weights))


def write_network(path: Path, weights: Weights, *, last_logits: bool = False) -> None:
    """Write the decoder as one file in ONNX; with `last_logits` it gives those of the last token alone."""
    from onnx import TensorProto, helper, save_model

    net = _Network()
    angles = np.arange(CONTEXT)[:, None] * 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
    net.constant("cosines", np.cos(angles).astype(np.float32))
    net.constant("sines", np.sin(angles).astype(np.float32))
    one, axis = net.constant("one", np.array([1])), net.constant("axis", np.array(1))
    seen = net.add("ReduceSum", "attention_mask", one, keepdims=0)
    net.add("Cast", net.add("Sub", seen, one), outputs=("last",), to=TensorProto.INT32)
    length = net.add("Gather", net.add("Shape", "attention_mask"), axis)
    net.add("Cast", length, outputs=("total",), to=TensorProto.INT32)
    x = net.add("Gather", net.constant("token_embd", weights["token_embd"]), "input_ids")
    for layer in range(LAYERS):
        x = _layer(net, x, layer, weights)
    if last_logits:
        x = net.add("Slice", x, net.constant("minus", np.array([-1])), net.constant("end", np.array([2**31])), one)
    x = net.normal(x, "output_norm", weights)
    net.add("MatMul", x, net.constant("head", weights["token_embd"].T), outputs=("logits",))

    def value(name: str, kind: int, *sizes: int | str) -> Any:
        return helper.make_tensor_value_info(name, kind, list(sizes))

    kept = [f"{layer}.{each}" for layer in range(LAYERS) for each in ("key", "value")]
    number, whole = TensorProto.FLOAT, TensorProto.INT64
    inputs = [value("input_ids", whole, "batch", "tokens"), value("attention_mask", whole, "batch", "total_tokens")]
    inputs += [value(f"past_key_values.{each}", number, "batch", KEPT_HEADS, "past", HEAD) for each in kept]
    outputs = [value("logits", number, "batch", 1 if last_logits else "tokens", VOCABULARY)]
    outputs += [value(f"present.{each}", number, "batch", KEPT_HEADS, "total_tokens", HEAD) for each in kept]
    graph = helper.make_graph(net.nodes, "llama", inputs, outputs, net.constants)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    save_model(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)


def _letters() -> list[str]:
    """The character by which a byte-level vocabulary writes each byte: itself, or the next one above 255."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(LETTERS, 2 * LETTERS))
    return [chr(byte if byte in shown else next(others)) for byte in range(LETTERS)]


def tokenizer() -> dict[str, Any]:
    """A tokenizer with a token for each byte, as the library tokenizers writes it."""
    special = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": BEGIN, "content": "<s>", **special}, {"id": END, "content": "</s>", **special}],
        "normalizer": None, "pre_tokenizer": step, "post_processor": None, "decoder": step,
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
            "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
            "vocab": {letter: byte for byte, letter in enumerate(_letters())}, "merges": [],
        },
    }  # fmt: skip


def configuration(**changes: Any) -> dict[str, Any]:
    """The content of ``genai_config.json``; `changes` replace parts of its section ``model``."""
    names = {f"past_{each}_names": f"past_key_values.%d.{each}" for each in ("key", "value")}
    decoder = {
        "session_options": {"log_id": "genai", "provider_options": []}, "filename": "model.onnx",
        "head_size": HEAD, "hidden_size": WIDTH, "num_attention_heads": HEADS, "num_hidden_layers": LAYERS,
        "num_key_value_heads": KEPT_HEADS,
        "inputs": {"input_ids": "input_ids", "attention_mask": "attention_mask", **names},
        "outputs": {
            "logits": "logits", "present_key_names": "present.%d.key", "present_value_names": "present.%d.value",
        },
    }  # fmt: skip
    model = {
        "bos_token_id": BEGIN, "context_length": CONTEXT, "decoder": decoder, "eos_token_id": [END],
        "pad_token_id": END, "type": "llama", "vocab_size": VOCABULARY,
    }  # fmt: skip
    # Sampling, which a measurement replaces by the likeliest token.
    search = {"do_sample": True, "top_k": 50, "temperature": 2.0, "repetition_penalty": 1.3, "max_length": CONTEXT}
    return {"model": model | changes, "search": search | {"past_present_share_buffer": True}}


def write_folder(
    folder: Path, *, weights: Weights | None = None, config: Mapping[str, Any] | None = None, last_logits: bool = False
) -> Path:
    """Write a model of `random_weights`, or of `weights`, and return its folder."""
    folder.mkdir(exist_ok=True)
    write_network(folder / "model.onnx", weights or random_weights(), last_logits=last_logits)
    settings = {"tokenizer_class": "GPT2Tokenizer", "bos_token": "<s>", "eos_token": "</s>", "add_bos_token": False}
    texts = {"genai_config.json": config or configuration(), "tokenizer.json": tokenizer()}
    for name, content in {**texts, "tokenizer_config.json": settings}.items():
        (folder / name).write_text(json.dumps(content))
    return folder


def write_gguf(path: Path, weights: Weights | None = None) -> Path:
    """Write the same Llama as a GGUF file with matrices in F16, and return its path."""
    weights = weights or random_weights()
    about: dict[str, Any] = {
        "general.architecture": "llama", "general.name": "tiny", "general.file_type": 1,
        **{f"llama.{key}": value for key, value in ABOUT.items()},
        "llama.context_length": CONTEXT, "llama.embedding_length": WIDTH, "llama.feed_forward_length": INNER,
        "llama.rope.dimension_count": HEAD, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": (*_letters(), "<s>", "</s>"),
        "tokenizer.ggml.token_type": (*(1,) * LETTERS, 3, 3), "tokenizer.ggml.merges": (),
        "tokenizer.ggml.bos_token_id": BEGIN, "tokenizer.ggml.eos_token_id": END,
    }  # fmt: skip
    rows = [(f"{name}.weight", each.shape[::-1], int(each.ndim == 2)) for name, each in weights.items()]
    numbers = [each.astype(np.float16 if each.ndim == 2 else np.float32).tobytes() for each in weights.values()]
    zeros = gguf(about, rows)
    padded = b"".join(each + bytes(-len(each) % 32) for each in numbers)
    path.write_bytes(zeros[: len(zeros) - len(padded)] + padded)
    return path


def as_halves(weights: Weights) -> Weights:
    """The weights as `write_gguf` rounds them, in float64."""
    return {
        name: (each.astype(np.float16) if each.ndim == 2 else each).astype(np.float64) for name, each in weights.items()
    }


_NETWORK = """<?xml version="1.0"?>
<net name="tiny" version="11"><layers>{layers}</layers><edges>{edges}</edges><rt_info>{info}</rt_info></net>
"""


def _layer_of(place: int, kind: str, name: str, options: str, ports: str) -> str:
    return f'<layer id="{place}" name="{name}" type="{kind}" version="opset6"><data {options}/>{ports}</layer>'


def _port(side: str, place: int, kind: str, names: str, *sizes: int) -> str:
    dims = "".join(f"<dim>{size}</dim>" for size in sizes)
    label = f' names="{names}"' if names else ""
    return f'<{side}><port id="{place}" precision="{kind}"{label}>{dims}</port></{side}>'


def write_openvino_folder(folder: Path, *, state: str = "?,2,?,16", context: int | None = CONTEXT) -> Path:
    """Write the files of a model of OpenVINO GenAI and return its folder: they can be read, and not run.

    Args:
        state: shape of what the network keeps, its keys and its values alike.
    """
    folder.mkdir(exist_ok=True)
    layers = [
        _layer_of(0, "Parameter", "input_ids", 'shape="?,?" element_type="i64"', _port("output", 0, "I64", "input_ids", -1, -1)),
        _layer_of(1, "Parameter", "beam_idx", 'shape="?" element_type="i32"', _port("output", 0, "I32", "beam_idx", -1)),
        _layer_of(2, "Const", "table", 'element_type="u4" shape="258,64" offset="0" size="8256"', _port("output", 0, "U4", "", 258, 64)),
        *(
            _layer_of(place, "ReadValue", name, f'variable_id="{name}" variable_type="f32" variable_shape="{state}"', _port("output", 0, "FP32", "", -1, 2, -1, 16))
            for place, name in ((3, "keys"), (4, "values"))
        ),
        _layer_of(6, "Unknown", "logits", "", _port("output", 0, "FP32", "", -1, -1, VOCABULARY)),
        _layer_of(5, "Result", "out", "", _port("input", 0, "FP32", "", -1, -1, VOCABULARY)).replace('type="Result"', 'type="Result" output_names="logits"'),
    ]  # fmt: skip
    info = '<chat_template value="{{ x }}"/>'
    words = _layer_of(
        0, "Const", "words", 'element_type="u8" shape="9" offset="0" size="9"', _port("output", 0, "U8", "", 9)
    )
    result = _layer_of(1, "Result", "out", "", _port("input", 0, "U8", "", 9))
    edge = '<edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>'
    made = edge.replace('"0"', '"6"', 1).replace('"1"', '"5"')
    (folder / "openvino_model.xml").write_text(_NETWORK.format(layers="".join(layers), edges=made, info=""))
    (folder / "openvino_model.bin").write_bytes(bytes(8256))
    for name in ("tokenizer", "detokenizer"):
        text = _NETWORK.format(layers=words + result, edges=edge, info=info if name == "tokenizer" else "")
        (folder / f"openvino_{name}.xml").write_text(text)
        (folder / f"openvino_{name}.bin").write_bytes(bytes(9))
    if context is not None:
        (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": context}))
    return folder
