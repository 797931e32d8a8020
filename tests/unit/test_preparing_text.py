"""Text by a tokenizer.json."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.instructions import Instructions, read_flags
from edgewise.evaluating.preparing import Preparer
from edgewise.evaluating.steps_text import _open
from edgewise.record import InputSpec
from messages import says, wording
from preparations import apply, sample

tokenizers = pytest.importorskip("tokenizers", reason="tokenizes")

WORDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "good": 4, "film": 5, "bad": 6}


@pytest.fixture
def tokenizer(tmp_path):
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(WORDS, unk_token="[UNK]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    path = tmp_path / "tokenizer.json"
    made.save(str(path))
    return path


def ready(names, flags, length=6, dtype="int64"):
    specs = [InputSpec(name=name, shape=(1, length), dtype=dtype) for name in names]
    return Preparer(Instructions(steps=read_flags(flags)), specs=specs, quantizations=[None] * len(specs), kind="text")


def test_inputs_are_fed_by_their_names(tokenizer):
    found = ready(["attention_mask", "input_ids", "token_type_ids"], [f"tokenize={{file: {tokenizer}, length: 6}}"])
    arrays, preparation = found.prepare(sample("good film"))
    assert [array.tolist() for array in arrays] == [[[1, 1, 1, 1, 0, 0]], [[2, 4, 5, 3, 0, 0]], [[0] * 6]]
    assert preparation.scale is None and preparation.changes == ()
    arrays, preparation = found.prepare(sample("good bad good bad good bad"))
    assert preparation.changes == ("cut to 6 tokens",)
    assert arrays[1].tolist() == [[2, 4, 6, 4, 6, 3]]


def test_the_only_input_gets_the_numbers_and_roles_can_be_given(tokenizer):
    (array,), _ = ready(["whatever"], [f"tokenize={{file: {tokenizer}, length: 6}}"], dtype="int32").prepare(
        sample("bad")
    )
    assert array.dtype == np.int32
    assert array.tolist() == [[2, 6, 3, 0, 0, 0]]
    flags = [
        f"a:tokenize={{file: {tokenizer}, length: 6, give: mask}}",
        f"b:tokenize={{file: {tokenizer}, length: 6, give: ids}}",
    ]
    arrays, _ = ready(["a", "b"], flags).prepare(sample("bad"))
    assert arrays[0].tolist() == [[1, 1, 1, 0, 0, 0]]
    with pytest.raises(BadInput, match=says("name-input-does-not-show", input="a")):
        ready(["a", "b"], [f"tokenize={{file: {tokenizer}, length: 6}}"]).prepare(sample("bad"))


def test_without_a_length_the_text_must_fit(tokenizer):
    found = ready(["x"], [f"tokenize={tokenizer}"])
    assert found.prepare(sample("good bad good film"))[0][0].shape == (1, 6)
    one = ready(["x"], [f"tokenize={tokenizer}"])
    with pytest.raises(BadInput, match=says("shape-input-takes", shape="[3]", name="x", want="[1, 6]")):
        one.prepare(sample("good"))


def test_the_words_of_the_step_are_the_same_in_all_folders(tokenizer):
    assert ready(["x"], [f"tokenize={{file: {tokenizer}, length: 6}}"]).notes == (
        "x: tokenize tokenizer.json length=6 → int64 [1, 6]",
    )


def test_special_tokens_and_padding(tokenizer):
    assert apply("good", "tokenize", file=str(tokenizer), special=False).tolist() == [4]
    assert apply("good", "tokenize", file=str(tokenizer), length=4, pad=5).tolist() == [2, 4, 3, 5]
    document = json.loads(tokenizer.read_text())
    del document["model"]["vocab"]["[PAD]"]
    document["added_tokens"] = [token for token in document["added_tokens"] if token["content"] != "[PAD]"]
    bare = tokenizer.with_name("bare.json")
    bare.write_text(json.dumps(document))
    with pytest.raises(BadInput, match=says("no-padding-token")):
        apply("good", "tokenize", file=str(bare), length=4)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": {"type": "Nonsense"}}', "\x00" * 100])
def test_files_that_are_no_tokenizer(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content)
    with pytest.raises(BadInput, match=says("not-tokenizer", name="tokenizer.json")):
        ready(["x"], [f"tokenize={path}"])


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(BadInput, match=says("no-tokenizer-found")):
        ready(["x"], [f"tokenize={tmp_path / 'absent.json'}"])
    with pytest.raises(BadInput, match=says("no-tokenizer-found")):
        ready(["x"], [f"tokenize={tmp_path}"])


def test_arrays_are_no_text(tokenizer):
    found = ready(["x"], [f"tokenize={tokenizer}"])
    with pytest.raises(BadInput, match=says("not-text-in-steps-text")):
        found.prepare(sample(np.zeros(3)))


def test_without_the_package(tokenizer, monkeypatch):
    _open.cache_clear()
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(Unavailable) as caught:
        ready(["x"], [f"tokenize={tokenizer}"])
    assert caught.value.advice == wording("pip-install-edgewise-data")
