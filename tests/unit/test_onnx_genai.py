"""Folders of ONNX Runtime GenAI before any engine is loaded: what they are, what is known of them, what is refused."""

from __future__ import annotations

import json
import re

import pytest

import edgewise
from edgewise.errors import BadInput, BadModel
from edgewise.model.identity import describe_file, is_model_folder, open_model
from edgewise.model.readers.onnx_genai import OnnxGenAiReader, read_config
from edgewise.record import Job, RuntimeSpec, Scenario, Workload
from edgewise.run.generation import Requests
from edgewise.run.language_models import kv_cache_row
from edgewise.run.timing import Clock
from genai_folders import CONTEXT, HEAD, KEPT_HEADS, LAYERS, VOCABULARY, configuration, tokenizer, write_folder
from messages import says

NUMBERS = LAYERS * KEPT_HEADS * 2 * HEAD


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("models") / "llama")


def rewrite(folder, tmp_path, config):
    """A folder with the files of `folder` and another configuration."""
    made = tmp_path / "m"
    made.mkdir()
    for file in folder.iterdir():
        (made / file.name).write_bytes(file.read_bytes())
    (made / "genai_config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    return made


def test_a_folder_is_a_model_of_all_that_the_engine_reads(folder):
    model = open_model(folder)
    assert (model.ref.name, model.ref.format) == ("llama", "onnx-genai")
    names = [file.name for file in model.files]
    assert names == ["genai_config.json", "model.onnx", "tokenizer.json", "tokenizer_config.json"]
    assert model.ref.size_bytes == sum(file.stat().st_size for file in folder.iterdir())
    assert (model.signature.inputs, model.signature.outputs) == ((), ())
    assert is_model_folder(folder)
    assert open_model(folder / "genai_config.json").ref == model.ref
    assert describe_file(folder, read_all=True)["sha256"] == model.ref.sha256


def test_the_configuration_tells_size_context_and_kv_cache(folder):
    config = read_config(folder / "genai_config.json")
    assert config.context_length == CONTEXT
    assert config.cached_numbers() == (NUMBERS, "")
    assert config.kv_cache_type == "f32"
    assert config.weight_bytes == (folder / "model.onnx").stat().st_size
    told = edgewise.inspect(folder).graph.metadata["language_model"]
    assert told == {
        "architecture": "llama", "context_length": CONTEXT, "quantisation": None, "tokenizer": "tokenizer.json",
        "vocabulary": VOCABULARY, "chat_template": None, "kv_cache_numbers_per_token": NUMBERS,
        "kv_cache_absent_because": None,
    }  # fmt: skip


def test_the_kv_cache_has_the_type_of_the_network_s_input(folder):
    scenario = Scenario(kind="generate", prompt_tokens=10, new_tokens=6, depth=16)
    job = Job(model=open_model(folder).ref, runtime=RuntimeSpec(name="fake"), workload=Workload(scenario=scenario))
    row = kv_cache_row(job, None)
    assert (row.value, row.basis) == (NUMBERS * 32 * 4, "derived")


def test_attention_of_another_kind_has_no_size(folder, tmp_path):
    config = configuration()
    config["model"]["decoder"]["sliding_window"] = {"window_size": 8}
    found, why = read_config(rewrite(folder, tmp_path, config) / "genai_config.json").cached_numbers()
    assert found is None
    assert "model.decoder.sliding_window" in why


def test_a_tokenizer_is_no_configuration(folder):
    path = folder / "tokenizer.json"
    assert not OnnxGenAiReader().sniff(path.read_bytes()[:4096], path)
    assert {"model", "decoder"} <= set(tokenizer())


def changed(**decoder):
    config = configuration()
    config["model"]["decoder"] |= decoder
    return config


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ('{"model": {"decoder": {"head_size": ', "it is no JSON: "),
        ({"model": {"decoder": ["head_size"]}}, says("no-section-decoder-section-model")),
        (changed(filename=""), says("names-no-file-network-model")),
        (changed(filename="other.onnx"), says("cant-used-weight-file-missing")),
        (changed(filename="../llama/model.onnx"), says("weights-outside-model-folder")),
        (changed(session_options={"custom_ops_library": "x.so"}), "custom_ops_library"),
        (changed(session_options={"enable_profiling": "/tmp/x"}), "enable_profiling"),
        (changed(pipeline=[{}]), "pipeline"),
        (configuration(vision={"filename": "v.onnx"}), "vision"),
        (configuration(tokenizer_dir="/tmp"), "tokenizer_dir"),
        ({**configuration(), "speculative": {"ngram_size": 2}}, "speculative"),
    ],
)
def test_what_is_more_or_less_than_one_decoder_of_text_is_refused(folder, tmp_path, config, message):
    with pytest.raises(BadModel, match=message):
        open_model(rewrite(folder, tmp_path, config))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"model": {"decoder": {"head_si', "it is no JSON: "),
        ("{}", "it has no section 'decoder'"),
        ("[1]", "it is no JSON object"),
        ("<html>", "it is no JSON: "),
        (" " * (2**20 + 1), "it is longer than 1048576 bytes"),
    ],
)
def test_a_damaged_configuration_is_named_with_what_is_wrong(folder, tmp_path, content, message):
    with pytest.raises(BadModel, match=r"genai_config\.json can't be used: ") as error:
        open_model(rewrite(folder, tmp_path, content))
    assert re.search(message, error.value.message)


def test_a_folder_without_its_network_says_which_file_is_missing(folder, tmp_path):
    made = rewrite(folder, tmp_path, configuration())
    (made / "model.onnx").unlink()
    with pytest.raises(BadModel, match=r"genai_config\.json can't be used: its weight file 'model\.onnx' is missing"):
        open_model(made)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scenario": "single-stream"}, says("language-model-which-scenario-cant")),
        ({"new_tokens": 260, "prompt_tokens": 80}, f"context of {CONTEXT}"),
        ({"new_tokens": 4, "prompt_tokens": 8, "memory_limit": 100}, says("weights-memory-available")),
        ({"new_tokens": 4, "prompt_tokens": 8, "runtimes": "openvino-genai"}, says("no-runtime-asked-makes-text")),
    ],
)
def test_what_can_not_work_is_refused_before_loading(folder, settings, message):
    with pytest.raises((BadInput, BadModel), match=message):
        edgewise.bench(folder, **{"scenario": "generate", **settings})


class Noting:
    """A language model whose every letter is a token, and which notes how it is filled."""

    vocabulary, kv_cache_type = 26, None

    def __init__(self):
        self.filled = []

    def encode(self, text):
        return [ord(letter) - ord("a") for letter in text]

    def decode(self, tokens):
        return "".join(chr(token + ord("a")) for token in tokens)

    def fill(self, tokens, *, room=0):
        self.filled.append((len(tokens), room))

    def generate(self, tokens, count, take):
        for _ in range(count):
            take(0)


class Silent:
    """A reporter that reports nothing."""

    def beat(self):
        pass


@pytest.mark.parametrize(
    ("depth", "prompt", "texts", "filled"),
    [
        (0, 8, None, (0, 8 + 3)),
        (5, 8, None, (5, 8 + 3)),
        (5, None, ["ab", "abcdef"], (5, 1 + 6 + 3)),  # the first token of each prompt is the one that filling makes
    ],
)
def test_filling_is_told_what_will_follow(tmp_path, depth, prompt, texts, filled):
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f"{json.dumps(text)}\n" for text in texts or ()))
    scenario = {"new_tokens": 3, "depth": depth, "prompt_tokens": prompt}
    job = {
        "workload": {"scenario": scenario, "seed": 0, "input_path": str(path) if texts else None},
        "session": 0, "stopping": {"iterations": 1},
    }  # fmt: skip
    session = Noting()
    Requests(session, job, Clock.of(session), Silent()).make()
    assert session.filled == [filled]
