"""OpenVINO GenAI's own folder of a small Llama, as the engine writes it from GGUF: the same tokens and probabilities."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import edgewise
from edgewise.runtime.base import LoadOptions
from edgewise.runtime.openvino_genai import OpenVinoGenAi
from genai_folders import (
    ABOUT,
    CONTEXT,
    END,
    HEAD,
    KEPT_HEADS,
    LAYERS,
    VOCABULARY,
    as_halves,
    random_weights,
    write_gguf,
)
from llama_oracle import all_log_probabilities

genai = pytest.importorskip("openvino_genai")
pytestmark = pytest.mark.engine

TEXT = "The capital of France is"
TOKENS = list(TEXT.encode())


@pytest.fixture(scope="module")
def weights():
    return as_halves(random_weights())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the file in GGUF, too, from which the engine made the others."""
    folder = tmp_path_factory.mktemp("models") / "llama"
    folder.mkdir()
    source = write_gguf(folder / "llama.gguf")
    genai.LLMPipeline(str(source), "CPU", ATTENTION_BACKEND="SDPA", enable_save_ov_model=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama", "max_position_embeddings": CONTEXT}))
    return folder


def load(path):
    runtime = OpenVinoGenAi()
    runtime.import_engine()
    return runtime.load(path, LoadOptions(provider="cpu", threads=2))


@pytest.fixture(scope="module")
def session(folder):
    return load(folder / "openvino_model.xml")


def made(session, tokens, count):
    found = []
    session.fill([])
    session.generate(tokens, count, found.append)
    return found


def test_the_folder_makes_the_tokens_of_the_definition_and_of_the_file_in_gguf(folder, session, weights):
    seen = list(TOKENS)
    for _ in range(8):
        seen.append(int(all_log_probabilities(ABOUT, weights, seen)[-1].argmax()))
    assert (session.encode(TEXT), session.vocabulary, list(session.ends)) == (TOKENS, VOCABULARY, [END])
    assert made(session, TOKENS, 8) == seen[len(TOKENS) :]
    assert made(load(folder / "llama.gguf"), TOKENS, 8) == seen[len(TOKENS) :]
    # The engine gives a file of floats this cache, and writes so into the network.
    assert session.kv_cache_type == "f16"


def test_probabilities_are_those_of_the_definition(session, weights):
    found = all_log_probabilities(ABOUT, weights, TOKENS)
    expected = found[np.arange(len(TOKENS) - 1), TOKENS[1:]]
    assert session.log_probabilities(TOKENS) == pytest.approx(expected, abs=1e-2)


def test_runs_of_both_make_the_same_tokens(folder):
    given = {"scenario": "generate", "prompt_tokens": 8, "new_tokens": 6, "sessions": 1, "iterations": 2}
    runs = [edgewise.bench(path, **given)[0] for path in (folder, folder / "llama.gguf")]
    assert [run.status for run in runs] == ["done", "done"], [run.failure for run in runs]
    assert [run.job.model.format for run in runs] == ["openvino-genai", "gguf"]
    ours, theirs = (run.sessions[0].facts["generation"]["answers"] for run in runs)
    assert ours == theirs
    bytes_kept = LAYERS * KEPT_HEADS * 2 * HEAD * 2 * (8 + 6)
    assert [run.value("kv_cache_bytes") for run in runs] == [bytes_kept, bytes_kept]


def test_it_differs_from_the_file_in_gguf_by_no_probability(folder, tmp_path):
    """The engine tells those of the text's own tokens alone."""
    path = tmp_path / "prompts.jsonl"
    path.write_text(json.dumps(TEXT))
    pair = folder, folder / "llama.gguf"
    found = edgewise.compare(pair, scenario="generate", input_data=path, new_tokens=2, rounds=1)
    (row,) = found.to_document()["agreement"].values()
    assert (row["share"], row["kl_places"]) == (1, len(TOKENS) - 1)
    assert row["kl_absent_because"].startswith("not given by the engine")
    assert row["log_probability_difference"] == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize("task", ["perplexity", "multiple-choice", "text-generation"])
def test_it_is_evaluated_as_the_file_in_gguf_is(folder, session, tmp_path, monkeypatch, task):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / ("text.txt" if task == "perplexity" else "d.jsonl")
    label = {"reference": "of"} if task == "text-generation" else {"choices": ["of", "at"], "answer": 0}
    path.write_text(TEXT if task == "perplexity" else json.dumps({"prompt": "The capital", **label}))
    given = {"data": path, "task": task, "latency": False, "threads": 2}
    if task == "text-generation":
        given["task_options"] = {"max_new_tokens": "3"}
    ours, theirs = (edgewise.evaluate(each, **given).runs[0] for each in (folder, folder / "llama.gguf"))
    assert ours.status == "done", ours.failure
    quality = {"perplexity": "perplexity", "multiple-choice": "accuracy_top1", "text-generation": "rouge_l"}[task]
    assert ours.value(quality) == pytest.approx(theirs.value(quality), rel=1e-3)
    if task == "perplexity":
        expected = session.log_probabilities(TOKENS)[2:]  # the first word has nothing before it
        assert math.log(ours.value(quality)) == pytest.approx(-np.mean(expected), abs=1e-3)


def test_inspect_tells_what_the_file_in_gguf_tells(folder):
    ours, theirs = (edgewise.inspect(each) for each in (folder, folder / "llama.gguf"))
    told = [each.graph.metadata["language_model"] for each in (ours, theirs)]
    for key in ("architecture", "context_length", "vocabulary", "kv_cache_numbers_per_token"):
        assert told[0][key] == told[1][key]
    assert told[0]["quantisation"] == "float16"
