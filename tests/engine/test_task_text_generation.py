"""Text generation with a real model file in a real engine."""

from __future__ import annotations

import numpy as np
import pytest

from edgewise.evaluating.dataset import Sample
from edgewise.evaluating.task import Preparation, TaskContext
from edgewise.evaluating.tasks.text import TextGeneration
from edgewise.model.identity import read_graph
from edgewise.model.signature import Signature, TensorSpec

onnxruntime = pytest.importorskip("onnxruntime", reason="the model runs in onnxruntime")
pytest.importorskip("tokenizers", reason="texts become tokens by the tokenizers package")

pytestmark = pytest.mark.engine

WORDS = ["<pad>", "</s>", "[UNK]", "the", "cat", "sat", "on", "mat"]
NEXT = {"the": "cat", "cat": "sat", "sat": "on", "on": "mat", "mat": "</s>"}


@pytest.fixture
def bigrams(tmp_path):
    """logits = table[input_ids]: after each word the one that follows it, and a tokenizer for the words."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    table = np.zeros((len(WORDS), len(WORDS)), np.float32)
    for word, after in NEXT.items():
        table[WORDS.index(word), WORDS.index(after)] = 5
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "input_ids"], ["logits"])],
        "bigrams",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, [1, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, 8, len(WORDS)])],
        [numpy_helper.from_array(table, "table")],
    )
    path = tmp_path / "bigrams.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.add_special_tokens(["<pad>", "</s>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return path, tmp_path / "tokenizer.json"


class Data:
    name, path, format, split, kind, classes, labelled = "texts", None, "csv", "all", "text", (), True


def test_a_model_writes_what_it_knows(bigrams):
    path, tokenizer = bigrams
    graph = read_graph(path)
    signature = Signature(
        inputs=(TensorSpec(name="input_ids", shape=(1, 8), dtype="int64"),),
        outputs=(TensorSpec(name=graph.outputs[0], shape=(1, 8, len(WORDS)), dtype="float32"),),
    )
    scorer = TextGeneration().prepare(
        TaskContext(signature=signature, data=Data(), options={"tokenizer": str(tokenizer), "eos": "</s>"})
    )
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    records = []
    for prompt, label in (("the", "cat sat on mat"), ("cat", ("on the mat", "sat on the mat"))):
        sample = Sample(index=len(records), name=f"texts[{len(records)}]", data=prompt, label=label)
        outputs = scorer.run_model(
            lambda arrays: session.run(None, {"input_ids": arrays[0]}), [np.zeros((1, 8), np.int64)], sample
        )
        records.append(scorer.record(outputs, sample, Preparation()))
    assert [each["answer"] for each in records] == ["cat sat on mat", "sat on mat"]
    values = scorer.tabulate(records).values()
    assert values["exact_match"] == 1
