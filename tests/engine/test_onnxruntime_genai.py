"""ONNX Runtime GenAI on a small Llama: its tokens and probabilities are those of the definition, whatever it is told."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest

import edgewise
from edgewise.runtime.base import Generates, LoadOptions, ScoresTokens, UnsupportedModel
from edgewise.runtime.onnxruntime_genai import OnnxGenAi
from genai_folders import (
    ABOUT,
    BEGIN,
    CONTEXT,
    END,
    HEAD,
    KEPT_HEADS,
    LAYERS,
    VOCABULARY,
    configuration,
    random_weights,
    write_folder,
)
from llama_oracle import all_log_probabilities
from messages import says
from patience import LIMIT_S

pytest.importorskip("onnxruntime_genai")
pytestmark = pytest.mark.engine

TEXT = "The capital of France is"
TOKENS = list(TEXT.encode())


def load(folder, threads=2):
    runtime = OnnxGenAi()
    runtime.import_engine()
    return runtime.load(folder / "genai_config.json", LoadOptions(provider="cpu", threads=threads))


@pytest.fixture(scope="module")
def weights():
    return random_weights()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, weights):
    return write_folder(tmp_path_factory.mktemp("models") / "llama", weights=weights)


@pytest.fixture(scope="module")
def session(folder):
    return load(folder)


def made(session, tokens, count):
    found = []
    session.generate(tokens, count, found.append)
    return found


def likeliest(weights, tokens, count):
    """The tokens that follow by the definition."""
    seen = list(tokens)
    for _ in range(count):
        seen.append(int(all_log_probabilities(ABOUT, weights, seen)[-1].argmax()))
    return seen[len(tokens) :]


def test_its_tokens_are_the_likeliest_ones_whatever_the_configuration_samples(session, weights):
    assert isinstance(session, Generates)
    assert session.vocabulary == VOCABULARY
    assert session.encode(TEXT) == TOKENS
    assert session.decode(TOKENS) == TEXT
    session.fill([])
    assert made(session, TOKENS, 8) == likeliest(weights, TOKENS, 8)
    assert made(session, TOKENS[3:], 3) == likeliest(weights, TOKENS[3:], 3)
    assert session.effective == {"provider": "cpu", "device": "CPU", "threads": None, "precision": None}


def test_any_tokens_are_text(session):
    assert isinstance(session.decode([0xE2, 0x82]), str)
    assert session.decode([BEGIN, END]) == "<s></s>"
    assert isinstance(session.decode([VOCABULARY + 9]), str)


def test_a_text_that_the_engine_would_cut_is_refused(session):
    with pytest.raises(UnsupportedModel, match=says("text-nul-character-engine-takes")):
        session.encode("a\0b")


def test_the_end_of_the_text_ends_nothing(tmp_path, weights):
    expected = likeliest(weights, TOKENS, 8)
    ending = [expected[1], expected[4]]
    session = load(write_folder(tmp_path / "m", weights=weights, config=configuration(eos_token_id=ending)))
    session.fill([])
    assert made(session, TOKENS, 8) == expected
    assert session.ends == ending


def test_filling_is_what_a_longer_prompt_is(session, weights):
    before, behind = TOKENS[:10], TOKENS[10:]
    first = likeliest(weights, before, 1)
    session.fill(before, room=1 + len(behind) + 6)
    ahead = made(session, behind, 6)
    assert ahead == likeliest(weights, [*before, *first, *behind], 6)
    session.fill([])
    assert made(session, [*before, *first, *behind], 6) == ahead


def test_probabilities_are_those_of_the_definition(session, weights):
    assert isinstance(session, ScoresTokens)
    assert (list(session.beginning), list(session.ends)) == ([], [END])
    found = all_log_probabilities(ABOUT, weights, TOKENS)
    expected = found[np.arange(len(TOKENS) - 1), TOKENS[1:]]
    assert session.log_probabilities(TOKENS) == pytest.approx(expected, abs=1e-4)
    assert session.log_probabilities(TOKENS[:5]) == pytest.approx(expected[:4], abs=1e-4)


def test_the_divergence_of_two_roundings_is_that_of_the_definition(tmp_path, folder, weights):
    """Against the same weights in steps of 1/8, on the text of the prompts."""
    rough = {name: np.round(each * 8) / 8 for name, each in weights.items()}
    other = write_folder(tmp_path / "rough", weights={name: each.astype(np.float32) for name, each in rough.items()})
    texts = [TEXT, "Water freezes."]
    path = tmp_path / "prompts.jsonl"
    path.write_text("".join(f'"{text}"\n' for text in texts))
    found = edgewise.compare(
        (folder, other), scenario="generate", input_data=path, new_tokens=2, rounds=1, force=True
    ).to_document()["agreement"]
    (row,) = found.values()
    pairs = [
        [all_log_probabilities(ABOUT, each, list(text.encode()))[:-1] for each in (weights, rough)] for text in texts
    ]
    places = [(np.exp(a) * (a - b)).sum(axis=1) for a, b in pairs]
    assert row["kl_divergence"] == pytest.approx(np.concatenate(places).mean(), rel=1e-3)
    assert row["kl_divergence"] > 0.01
    own = [np.abs(a - b)[np.arange(len(a)), list(text.encode())[1:]] for (a, b), text in zip(pairs, texts, strict=True)]
    assert row["log_probability_difference"] == pytest.approx(np.concatenate(own).mean(), rel=1e-3)
    assert row["kl_places"] == sum(map(len, texts)) - 2


def test_a_network_that_gives_logits_of_the_last_token_scores_nothing(tmp_path, weights):
    session = load(write_folder(tmp_path / "m", weights=weights, last_logits=True))
    with pytest.raises(UnsupportedModel, match=says("network-gives-logits-tokens")):
        session.log_probabilities(TOKENS)
    assert made(session, TOKENS, 4) == likeliest(weights, TOKENS, 4)


def test_a_run_of_it_at_a_depth(folder):
    (run,) = edgewise.bench(
        folder, scenario="generate", prompt_tokens=8, new_tokens=6, depth=16, sessions=1, iterations=2
    )
    assert run.status == "done", run.failure
    assert (run.job.runtime.name, run.job.model.name) == ("onnxruntime-genai", "llama")
    assert run.sessions[0].facts["generation"]["prompt_tokens"] == [8, 8]
    assert len(run.measurement("tpot").samples) == 10
    assert run.value("kv_cache_bytes") == LAYERS * KEPT_HEADS * 2 * HEAD * 4 * (16 + 8 + 6)
    assert run.value("parameters") > 0


def test_the_perplexity_of_a_text(folder, session, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text(TEXT)
    (run,) = edgewise.evaluate(folder, data=path, task="perplexity", latency=False, threads=2).runs
    assert run.status == "done", run.failure
    found = session.log_probabilities(TOKENS)[2:]  # the first word has nothing before it
    assert run.value("tokens_scored") == len(found)
    assert math.log(run.value("perplexity")) == pytest.approx(-np.mean(found), abs=1e-3)


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_what_it_can_not_read_is_a_failed_run(tmp_path, weights, name):
    folder = write_folder(tmp_path / "m", weights=weights)
    (folder / name).write_bytes((folder / name).read_bytes()[:-40])
    if name == "model.onnx":
        with pytest.raises(edgewise.BadModel):
            edgewise.bench(folder, scenario="generate", prompt_tokens=4, new_tokens=2, sessions=1)
        return
    (run,) = edgewise.bench(folder, scenario="generate", prompt_tokens=4, new_tokens=2, sessions=1)
    assert run.failure.phase == "load"


def test_it_keeps_and_sends_no_events(folder, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    names = ("XDG_", "EDGEWISE_", "ORT", "CI", "DO_NOT_TRACK")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(names)}
    words = ["bench", str(folder), "--scenario", "generate", "--prompt-tokens", "4", "--new-tokens", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "edgewise", *words, "--sessions", "1", "--iterations", "1", "-q"],
        env={**environment, "HOME": str(home), "TMPDIR": str(home)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kept = {str(path.relative_to(home)) for path in home.rglob("*") if path.is_file()}
    assert {path for path in kept if not path.startswith((".cache/edgewise/", ".local/share/edgewise/"))} == set()
    assert kept


def test_a_prompt_longer_than_the_context_is_refused_by_the_configuration(folder):
    with pytest.raises(edgewise.BadInput, match=f"context of {CONTEXT}"):
        edgewise.bench(folder, scenario="generate", prompt_tokens=CONTEXT, new_tokens=4)


def test_inspect_reads_the_network(folder, weights):
    told = edgewise.inspect(folder)
    assert (told.source["name"], told.source["format"]) == ("llama", "onnx-genai")
    assert told.total.parameters == sum(each.size for each in weights.values()) + weights["token_embd"].size
