"""Text tasks: greedy writing with a model that keeps nothing, models that write themselves, and what is refused."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.task import Preparation, RunsModel, TaskContext
from edgewise.evaluating.tasks.text import TextClassification, TextGeneration
from edgewise.model.signature import Signature, TensorSpec
from messages import has, says

pytest.importorskip("tokenizers", reason="texts become tokens by the tokenizers package")

WORDS = ["<pad>", "<s>", "</s>", "[UNK]", "one", "two", "three", "four", "five", "stop"]
END = 2


@dataclass
class Data:
    name: str = "texts"
    path: Path | None = None
    format: str = "csv"
    split: str = "all"
    kind: str = "text"
    classes: tuple[str, ...] = ()
    labelled: bool = True

    def __len__(self):
        return 1

    def read(self, index):
        raise NotImplementedError

    def stamp(self):
        return ""


@pytest.fixture
def tokenizer(tmp_path):
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    found = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    found.pre_tokenizer = Whitespace()
    found.add_special_tokens(["<pad>", "<s>", "</s>"])
    found.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    found.enable_truncation(max_length=3)  # what a file says of training must not cut prompts
    found.save(str(tmp_path / "tokenizer.json"))
    return str(tmp_path / "tokenizer.json")


IDS = TensorSpec(name="input_ids", shape=(1, "length"), dtype="int64")
MASK = TensorSpec(name="attention_mask", shape=(1, "length"), dtype="int64")
PLACES = TensorSpec(name="position_ids", shape=(1, "length"), dtype="int32")
LOGITS = TensorSpec(name="logits", shape=(1, "length", len(WORDS)), dtype="float32")


def prepare(tokenizer, *, inputs=(IDS,), outputs=(LOGITS,), data=None, **options):
    if tokenizer is not None:
        options["tokenizer"] = tokenizer
    signature = Signature(inputs=tuple(inputs), outputs=tuple(outputs))
    return TextGeneration().prepare(
        TaskContext(signature=signature, data=Data() if data is None else data, options=options)
    )


def counting(ids, *rest):
    """After one comes two, after two three … and after five the end; what is fed behind the text doesn't matter."""
    logits = np.zeros((1, ids.shape[1], len(WORDS)), np.float32)
    for at, token in enumerate(ids[0]):
        logits[0, at, {4: 5, 5: 6, 6: 7, 7: 8}.get(int(token), END)] = 3.5
    return [logits]


def write(scorer, text, *, label="two three", window=12, arrays=None, model=counting):
    fed = []

    def infer(arrays):
        fed.append([each.copy() for each in arrays])
        return model(*arrays)

    sample = Sample(index=0, name="texts[0]", data=text, label=label)
    if arrays is None:
        arrays = [np.zeros((1, window), np.int64)]
    return scorer.record(scorer.run_model(infer, arrays, sample), sample, Preparation()), fed


def test_greedy_writing_ends_at_the_end_token(tokenizer):
    scorer = prepare(tokenizer, eos="</s>")
    assert isinstance(scorer, RunsModel)
    record, fed = write(scorer, "one", label=("two three four five", "other"))
    assert record == {"answer": "two three four five", "references": ["two three four five", "other"], "tokens": 4}
    assert json.loads(json.dumps(record)) == record
    assert len(fed) == 5
    assert fed[0][0].tolist() == [[1, 4, *[0] * 10]]
    assert fed[2][0].tolist() == [[1, 4, 5, 6, *[0] * 8]]
    assert scorer.settings["eos"] == END
    assert scorer.settings["tokenizer"].startswith("sha256:")
    values = scorer.tabulate([record]).values()
    assert values["exact_match"] == values["f1_tokens"] == 1
    if find_spec("sacrebleu") is None:
        assert math.isnan(values["bleu"])
    else:
        assert values["bleu"] == pytest.approx(1, abs=1e-12)
    assert scorer.answer(record) == ("two three four five", ["two three four five", "other"])


def test_masks_and_positions_are_filled(tokenizer):
    scorer = prepare(tokenizer, inputs=(MASK, PLACES, IDS), eos="2", pad="3")
    shapes = [np.zeros((1, 5), np.int64), np.zeros((1, 5), np.int32), np.zeros((1, 5), np.int64)]
    _, fed = write(scorer, "three", arrays=shapes, model=lambda mask, places, ids: counting(ids))
    assert [each.tolist() for each in fed[1]] == [[[1, 1, 1, 0, 0]], [[0, 1, 2, 3, 4]], [[1, 6, 7, 3, 3]]]
    assert fed[1][1].dtype == np.int32


def test_an_answer_is_limited(tokenizer):
    assert write(prepare(tokenizer, max_new_tokens="2"), "one")[0]["answer"] == "two three"
    # without an end token it goes on until the input is full, plus the token after that
    record, fed = write(prepare(tokenizer), "four", window=4)
    assert (record["answer"], record["tokens"], len(fed)) == ("five", 3, 3)
    record, fed = write(prepare(tokenizer, stop="four"), "one")
    assert (record["answer"], len(fed)) == ("two three", 3)


def test_a_prompt_surrounds_the_sample(tokenizer):
    scorer = prepare(tokenizer, prompt="five {} two", special="no", max_new_tokens="1")
    record, fed = write(scorer, "one")
    assert fed[0][0].tolist() == [[8, 4, 5, *[0] * 9]]
    assert record["answer"] == "three"


def test_a_prompt_too_long_is_the_sample_s_fault(tokenizer):
    scorer = prepare(tokenizer)
    with pytest.raises(CorruptSample, match=r"texts\[0\]: a prompt of 5 tokens does not go into an input of 4"):
        write(scorer, "one two one two", window=4)
    record, _ = write(scorer, "one two one", window=4)
    assert record["answer"] == "two"
    with pytest.raises(CorruptSample, match=says("prompt-tokens-does-not-go", prompt_count=0)):
        write(prepare(tokenizer, special="no"), "")


def test_prepared_tokens_are_the_prompt_where_the_sample_is_no_text(tokenizer):
    ids, mask = np.array([[1, 4, 5, 0, 0, 0]]), np.array([[1, 1, 1, 0, 0, 0]])
    masked = prepare(tokenizer, inputs=(IDS, MASK), max_new_tokens="1")
    record, _ = write(masked, ids, arrays=[ids, mask], model=lambda ids, mask: counting(ids))
    assert record["answer"] == "three"
    padded = prepare(tokenizer, pad="0", max_new_tokens="1")
    assert write(padded, ids, arrays=[ids])[0]["answer"] == "three"


def test_logits_of_the_next_token_alone(tokenizer):
    scorer = prepare(tokenizer, max_new_tokens="1")
    for shape in ((1, len(WORDS)), (1, 1, len(WORDS))):
        last = np.zeros(shape, np.float32)
        last[..., 7] = 1
        assert write(scorer, "one", model=lambda ids, last=last: [last])[0]["answer"] == "four"
    for shape in ((len(WORDS),), (1, 2, 3, 4), (2, 12, 10), (1, 0, 10)):
        with pytest.raises(BadInput, match=says("output-shape-no-scores-token", name="texts[0]")):
            write(scorer, "one two", model=lambda ids, shape=shape: [np.zeros(shape)])


def test_where_there_are_no_numbers_the_answer_ends(tokenizer):
    def broken(ids):
        logits = counting(ids)[0]
        logits[:, 2:] = np.nan
        return [logits]

    assert write(prepare(tokenizer), "one", model=broken)[0]["answer"] == "two"


TOKENS = TensorSpec(name="sequences", shape=(1, None), dtype="int64")


def test_a_model_that_writes_itself_is_run_once(tokenizer):
    scorer = prepare(tokenizer, outputs=(TOKENS,), eos="</s>")
    assert scorer.settings["decoding"] == "the model writes tokens itself"
    # with and without the prompt before the answer
    for tokens in ([[1, 4, 5, 6, 2, 7]], [[5, 6, 2, 0, 0, 0]]):
        record, fed = write(scorer, "one", model=lambda ids, tokens=tokens: [np.array(tokens)])
        assert (record["answer"], record["tokens"], len(fed)) == ("two three", 2, 1)
    with pytest.raises(BadInput, match=says("output-shape-not-one-row-tokens")):
        write(scorer, "one", model=lambda ids: [np.zeros((2, 3), np.int64)])
    with pytest.raises(BadInput, match=says("model-wrote-token-tokenizer", name="texts[0]", wrong=-5, size=10)):
        write(scorer, "one", model=lambda ids: [np.array([[-5]])])


def test_the_output_is_told_by_its_name_or_shape(tokenizer):
    hidden = TensorSpec(name="last_hidden", shape=(1, "length", 8), dtype="float32")
    cache = TensorSpec(name="present", shape=(1, 2, "length", 8), dtype="float32")
    assert prepare(tokenizer, outputs=(hidden, LOGITS)).settings["output"] == "logits"
    scores = TensorSpec(name="scores", shape=(1, "length", 10), dtype="float32")
    assert prepare(tokenizer, outputs=(cache, scores)).settings["output"] == "scores"
    with pytest.raises(BadInput, match=says("model-outputs-reads-one", outputs_count=2)):
        prepare(tokenizer, outputs=(hidden, scores))
    assert prepare(tokenizer, outputs=(hidden, scores), output="scores").settings["output"] == "scores"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"eos": "<end>"}, says("tokenizer-no-token", word="<end>")),
        ({"prompt": "no place"}, says("prompt-no-place-sample")),
        ({"special": "1"}, "special must be yes or no, not 1"),
        ({"max_new_tokens": "0"}, "a whole number of at least 1, not 0"),
        ({"max_new_tokens": "-1"}, says("task-option-must-not", name="max_new_tokens", accepted=has("a whole number"))),
        ({"temperature": "1"}, says("no-option", name="temperature")),
    ],
)
def test_options_are_checked(tokenizer, options, words):
    with pytest.raises(BadInput, match=words):
        prepare(tokenizer, **options)


def test_tokenizers_are_hostile_input(tmp_path):
    broken = tmp_path / "broken.json"
    for content in (b"", b"{", b"[1, 2]", b'{"version": "1.0", "model": {"type": "BPE", "vocab": 3}}', b"\xff\xfe"):
        broken.write_bytes(content)
        with pytest.raises(BadInput, match=says("not-tokenizer", name="broken.json")):
            prepare(str(broken))
    with pytest.raises(BadInput, match=says("no-tokenizer-found")):
        prepare(str(tmp_path))
    with pytest.raises(BadInput, match=says("no-tokenizer-found")):
        prepare(str(tmp_path / "none.json"))
    with pytest.raises(BadInput, match=says("text-generation-needs-tokenizer")):
        prepare(None)


def test_inputs_of_models_with_a_cache_are_refused(tokenizer):
    cache = TensorSpec(name="past_key_values.0.key", shape=(1, 2, None, 8), dtype="float32")
    with pytest.raises(BadInput, match=r"past_key_values\.0\.key"):
        prepare(tokenizer, inputs=(IDS, cache))
    with pytest.raises(BadInput, match=says("model-no-input-token-numbers")):
        prepare(tokenizer, inputs=(MASK, PLACES))
    with pytest.raises(BadInput, match=says("no-labels")):
        prepare(tokenizer, data=Data(labelled=False))


@pytest.mark.parametrize("label", [None, 3, (), ("a", 3), np.zeros(3)])
def test_labels_that_are_no_text_name_the_sample(tokenizer, label):
    with pytest.raises(BadInput, match=says("label-which-not-text", name="texts[0]")):
        write(prepare(tokenizer), "one", label=label)


def test_a_text_is_classified_as_anything_else():
    task = TextClassification()
    assert (task.name, tuple(task.kinds)) == ("text-classification", ("text", "array"))
    logits = TensorSpec(name="logits", shape=(1, 3), dtype="float32")
    scorer = task.prepare(
        TaskContext(signature=Signature(inputs=(IDS,), outputs=(logits,)), data=Data(classes=("a", "b", "c")))
    )
    records = []
    for label, row in ((0, [3, 1, 2]), (1, [3, 1, 2]), (2, [0, 1, 2])):
        sample = Sample(index=0, name="texts[0]", data="x", label=label)
        records.append(scorer.record([np.array([row], np.float32)], sample, Preparation()))
    assert scorer.tabulate(records).values()["accuracy_top1"] == pytest.approx(2 / 3)
    with pytest.raises(BadInput, match=says("name-data-label-labelshift-rest", name="texts[0]", label="", shift=3)):
        scorer.record(
            [np.zeros((1, 3), np.float32)], Sample(index=0, name="texts[0]", data="x", label=3), Preparation()
        )
