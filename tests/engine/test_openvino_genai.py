"""OpenVINO GenAI on a real language model: its own clock beside ours, depth, prompts as text, and what it refuses."""

from __future__ import annotations

import math
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.model.readers.gguf import read_header
from edgewise.runtime.base import Generates, LoadOptions, ScoresTokens
from edgewise.runtime.openvino_genai import OpenVinoGenAi
from gguf_files import LLAMA, gguf, smollm2
from llama_oracle import log_probabilities

genai = pytest.importorskip("openvino_genai")
pytestmark = [pytest.mark.engine, pytest.mark.long]  # loading it, and the same in numpy

PROMPT = "The capital of France is"


@pytest.fixture(scope="module")
def session():
    runtime = OpenVinoGenAi()
    runtime.import_engine()
    return runtime.load(smollm2(), LoadOptions(provider="cpu", threads=2))


def made(session, tokens, count):
    found = []
    session.generate(tokens, count, found.append)
    return found


def test_it_generates(session):
    assert isinstance(session, Generates)
    assert session.vocabulary == read_header(smollm2()).metadata["tokenizer.ggml.tokens"].count
    tokens = session.encode(PROMPT)
    assert session.decode(tokens) == PROMPT
    assert len(tokens) == 5
    assert " Paris" in session.decode(made(session, tokens, 4))
    assert (session.effective["precision"], session.effective["threads"]) == ("f32", 2)
    assert session.kv_cache_type == "u8"


def test_the_end_of_the_text_ends_nothing(session):
    assert len(made(session, session.encode("Bye."), 64)) == 64


def test_filling_is_what_a_longer_prompt_is(session):
    tokens = session.encode(f"{PROMPT} Paris. The capital of Italy is Rome. The capital of Spain is")
    session.fill([])
    whole = made(session, tokens, 4)
    # Filling ends with a new token, which is the first of the prompt that follows.
    session.fill(tokens[:4])
    following = session.encode(PROMPT)[4:]
    ahead = made(session, following, 4)
    session.fill([])
    first = made(session, tokens[:4], 1)
    assert made(session, [*tokens[:4], *first, *following], 4) == ahead
    assert made(session, tokens, 4) == whole


def test_the_engine_s_own_times_lie_within_ours(session):
    tokens = session.encode(PROMPT * 10)
    pipeline = session._pipeline
    session.fill([])
    results = []
    original = type(pipeline).generate

    class Keeping:
        def generate(self, *arguments):
            results.append(original(pipeline, *arguments))

    stamps = []
    session._pipeline = Keeping()
    try:
        begin = time.perf_counter_ns()
        session.generate(tokens, 32, lambda token: stamps.append(time.perf_counter_ns()))
        end = time.perf_counter_ns()
    finally:
        session._pipeline = pipeline
    raw = results[0].perf_metrics.raw_metrics
    assert len(stamps) == 32
    first, rest = raw.m_times_to_first_token[0], sum(raw.m_durations[:31])
    assert 0 < first <= (stamps[0] - begin) / 1e3  # real time: one span within another, on any machine
    assert 0 < first + rest <= (end - begin) / 1e3  # real time: one span within another, on any machine


SENTENCE = "The capital of France is Paris, and the capital of Italy is Rome. Water freezes at zero degrees."


@pytest.fixture(scope="module")
def plain():
    """Without the rounding of what goes into each layer, which the engine does unless it is told not to."""
    options = LoadOptions(provider="cpu", threads=2, extra={"DYNAMIC_QUANTIZATION_GROUP_SIZE": 0})
    return OpenVinoGenAi().load(smollm2(), options)


def test_probabilities_are_those_of_the_definition(plain):
    tokens = list(plain.encode(SENTENCE))
    found = np.array(plain.log_probabilities(tokens))
    assert isinstance(plain, ScoresTokens)
    assert (list(plain.beginning), list(plain.ends)) == ([], [2])
    assert found == pytest.approx(log_probabilities(smollm2(), tokens, rounded=True), abs=0.4)
    # The engine rounds weights of Q4_1 once more, which the perplexity shows.
    assert found.mean() < log_probabilities(smollm2(), tokens, rounded=False).mean() - 0.2


def test_what_follows_changes_no_probability(plain):
    tokens = list(plain.encode(SENTENCE * 20))
    assert len(tokens) > 256  # the usual size of a piece that is computed at once
    part = plain.log_probabilities(tokens[:200])
    assert np.array(plain.log_probabilities(tokens)[:199]) == pytest.approx(np.array(part), abs=1e-2)


def test_text_is_made_after_probabilities_as_before(plain):
    tokens = plain.encode(PROMPT)
    before = made(plain, tokens, 4)
    plain.log_probabilities(list(tokens))
    plain.fill([])
    assert made(plain, tokens, 4) == before


def test_the_perplexity_of_a_text(plain, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    path = tmp_path / "text.txt"
    path.write_text(SENTENCE)
    (run,) = edgewise.evaluate(smollm2(), data=path, task="perplexity", latency=False, threads=2).runs
    assert run.status == "done", run.failure
    found = np.array(plain.log_probabilities(list(plain.encode(SENTENCE))))
    assert run.value("tokens_scored") == len(found)
    assert math.log(run.value("perplexity")) == pytest.approx(-found.mean(), abs=0.2)


def test_a_run_of_it_at_a_depth():
    """Depths side by side, 0 among them: tests/unit/test_generate.py; loading the model takes 5 s."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (run,) = edgewise.bench(
            smollm2(), scenario="generate", prompt_tokens=24, new_tokens=6, depth=32, sessions=1, iterations=2
        )
    assert run.status == "done", run.failure
    assert run.job.runtime.name == "openvino-genai"
    assert run.sessions[0].facts["generation"]["prompt_tokens"] == [24, 24]
    assert len(run.measurement("tpot").samples) == 10
    assert run.value("kv_cache_bytes") == 11520 * (24 + 6 + 32)
    assert run.value("parameters") == 134_515_008


def test_what_it_can_not_read_is_a_failed_run(tmp_path: Path):
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf(LLAMA))
    (run,) = edgewise.bench(path, scenario="generate", prompt_tokens=4, new_tokens=2, sessions=1)
    assert run.failure.phase == "load"
    assert run.failure.cause in ("Unsupported", "BadModel")
