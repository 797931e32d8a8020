"""The scenario generate: exact times of a scripted language model, its rates, two speeds in a run, and bad input."""

from __future__ import annotations

import random

import pytest

import edgewise
from edgewise.errors import BadInput, BadModel
from edgewise.model import identity
from edgewise.progress import RequestsDone
from edgewise.record import Job, ModelRef, RuntimeSpec, Scenario, Workload
from edgewise.report.bench.document import bench_document
from edgewise.run import host_protocol
from edgewise.run.generated import Stretch, split_stalls, stretches, why_no_prompt_rate
from edgewise.run.generation import _check_whole, random_text
from edgewise.run.host_protocol import SessionResult, _check_requests, _speed_of
from edgewise.run.language_models import check_language_model, kv_cache_row
from edgewise.run.protocol import ProtocolError
from edgewise.testing import write_fake_model
from edgewise.workload.prompts import MOST_PROMPTS, read_prompts
from gguf_files import LLAMA, gguf
from messages import says

pytestmark = pytest.mark.usefixtures("threads")

MS = 1_000_000
TOLD = {"token_ns": [10 * MS, 30 * MS], "prefill_ns": MS, "encode_ns": 500_000, "decode_ns": 200_000}


def generate(tmp_path, told=TOLD, *, behaviour=None, **settings):
    path = write_fake_model(tmp_path / "m.fake", generation=told, **({"behaviour": behaviour} if behaviour else {}))
    given = {"sessions": 2, "iterations": 2, "new_tokens": 5, "prompt_tokens": 16, "meters": False, **settings}
    return edgewise.bench(path, scenario="generate", **given)


def test_every_time_is_exact(tmp_path):
    (run,) = generate(tmp_path)
    assert run.headline == "tpot"
    assert run.value("ttft") == pytest.approx(0.5e-3 + 16e-3 + 0.2e-3)
    assert run.value("ttft_model") == pytest.approx(16e-3)
    assert run.value("ttft_first") == run.value("ttft")
    assert run.value("tpot") == pytest.approx(20e-3)
    assert run.value("decode_rate") == pytest.approx(50)
    assert run.value("prefill_rate") == pytest.approx(1000)
    row = run.measurement("tpot")
    assert row.samples == pytest.approx([10e-3, 30e-3] * 2 * 4)
    assert row.session_lengths == (8, 8)
    assert run.measurement("ttft").session_lengths == (2, 2)
    assert [session.warmup for session in run.sessions] == [1, 1]
    assert run.sessions[0].facts["generation"]["prompt_tokens"] == [16, 16]
    assert run.sessions[0].stopped_because == "2 requests"


def test_rates_follow_from_the_samples(tmp_path):
    (run,) = generate(tmp_path)
    gaps, firsts = run.measurement("tpot").samples, run.measurement("ttft_model").samples
    told = [session.facts["generation"] for session in run.sessions]
    assert run.value("decode_rate") == pytest.approx(len(gaps) / sum(gaps))
    prompts = [count for each in told for count in each["prompt_tokens"]]
    assert run.value("prefill_rate") == pytest.approx(sum(prompts) / sum(firsts))
    assert run.measurement("prefill_rate").samples == pytest.approx(
        [n / t for n, t in zip(prompts, firsts, strict=True)]
    )
    assert sum(count for each in told for count in each["gaps"]) == len(gaps)


def test_prompts_and_depths_are_rows(tmp_path):
    runs = generate(tmp_path, prompt_tokens=(16, 32), depth=(0, 64))
    scenarios = [run.job.workload.scenario for run in runs]
    assert [(each.depth, each.prompt_tokens) for each in scenarios] == [(0, 16), (0, 32), (64, 16), (64, 32)]
    assert len({run.job.key for run in runs}) == 4
    # At a depth, the first token of the prompt is the one that filling has made.
    assert [round(run.value("ttft_model") * 1e3) for run in runs] == [16, 32, 15, 31]
    assert runs[3].sessions[0].facts["generation"]["prompt_tokens"] == [32, 32]


def test_the_speed_is_told_between_requests_twice_a_second_at_most(tmp_path):
    """A request takes 0.0974 s with the text of its prompt: 6 of them are the first to take 0.5 s, 12 to take 1 s."""
    events = []
    (run,) = generate(tmp_path, iterations=13, sessions=1, progress=events.append)
    told = [each for each in events if isinstance(each, RequestsDone)]
    assert [each.done for each in told] == [6, 12]
    assert [each.elapsed_s for each in told] == pytest.approx([0.5844, 1.1688])
    assert [each.prefill_rate for each in told] == pytest.approx([1000, 1000])
    assert [each.decode_rate for each in told] == pytest.approx([50, 50])
    assert run.measurement("tpot").samples == pytest.approx([10e-3, 30e-3] * 2 * 13)  # no message is in a gap


def test_a_speed_that_is_no_number_is_garbage():
    told = {"done": 1, "elapsed_s": 1.0, "prefill_rate": None, "decode_rate": 50.0}
    assert _speed_of(told) == RequestsDone(**told)
    for name, value in (("decode_rate", -1.0), ("prefill_rate", float("inf")), ("elapsed_s", float("nan"))):
        with pytest.raises(ValueError, match="speed"):
            _speed_of({**told, name: value})


def test_the_number_of_requests_follows_from_the_time(tmp_path):
    (run,) = generate(tmp_path, {**TOLD, "token_ns": [400 * MS]}, iterations=None, sessions=1)
    assert run.sessions[0].stopped_because == "5 s of requests"
    assert len(run.measurement("ttft").samples) == 4  # of 1.6167 s each
    (run,) = generate(tmp_path, iterations=None, duration=1.0, sessions=1)
    assert len(run.measurement("ttft").samples) == 11  # of 0.0967 s


def test_warm_up_is_requests(tmp_path):
    (run,) = generate(tmp_path, {**TOLD, "token_ns": [10 * MS] * 12 + [20 * MS]}, warmup=3, sessions=1, iterations=1)
    assert run.measurement("tpot").samples == pytest.approx([20e-3, 10e-3, 10e-3, 10e-3])


def test_prompts_of_a_file(tmp_path):
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "abc"}\n\n"abcde"\n{"text": "abcdefg", "id": 7}\n')
    (run,) = generate(tmp_path, input_data=prompts, prompt_tokens=(), iterations=4, sessions=1)
    told = run.sessions[0].facts["generation"]
    assert told["prompt_tokens"] == [5, 7, 3, 5]  # the cold request had the first
    assert run.value("prefill_rate") == pytest.approx(1000)
    row = run.measurement("prefill_rate")
    assert (row.low, row.high) == (None, None)
    assert "several lengths" in row.method
    (cut,) = generate(tmp_path, input_data=prompts, prompt_tokens=4, sessions=1)
    assert cut.sessions[0].facts["generation"]["prompt_tokens"] == [4, 4]
    (none,) = generate(tmp_path, input_data=prompts, prompt_tokens=100, sessions=1)
    assert none.failure.cause == "BadInput"
    assert "the longest has 7" in none.failure.message
    assert "--prompt-tokens" in none.failure.advice


def test_a_prompt_of_a_file_longer_than_the_context_is_refused(tmp_path, monkeypatch):
    """Its tokens are known only to the worker; the seven of the longest, with five new ones, are twelve."""
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('"abc"\n"abcdefg"\n')
    given = {"input_data": prompts, "prompt_tokens": (), "iterations": 2, "sessions": 1}
    monkeypatch.setattr(host_protocol, "longest_context", lambda model: 12)
    (fits,) = generate(tmp_path, **given)
    assert fits.failure is None
    monkeypatch.setattr(host_protocol, "longest_context", lambda model: 11)
    (run,) = generate(tmp_path, **given)
    assert run.failure.cause == "BadInput"
    assert "are 12 tokens; the model has a context of 11" in run.failure.message
    assert "--prompt-tokens" in run.failure.advice
    (cut,) = generate(tmp_path, **{**given, "prompt_tokens": 3})
    assert cut.failure is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", says("no-prompt")),
        ("\n\n", says("no-prompt")),
        ("abc\n", says("not-json-in-prompts")),
        ('{"question": "a"}', says("no-text-under")),
        ('"a"\n5\n', says("no-text-under", where="line 2 of p.jsonl")),
        ('"' + "a" * 2**20 + '"', says("line-longer-than-b")),
    ],
)
def test_wrong_files_of_prompts(tmp_path, text, message):
    path = tmp_path / "p.jsonl"
    path.write_text(text)
    with pytest.raises(BadInput, match=message):
        generate(tmp_path, input_data=path)


def test_a_million_prompts_are_not_read(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('"a"\n' * MOST_PROMPTS + "no JSON\n")
    assert read_prompts(path) == ["a"] * MOST_PROMPTS


class Doubling:
    """A tokenizer that makes two tokens of each letter a, so that no text of random tokens has as many."""

    vocabulary, kv_cache_type = 2, None

    def encode(self, text):
        return [token for letter in text for token in ([0, 0] if letter == "a" else [1])]

    def decode(self, tokens):
        return "".join("ab"[token] for token in tokens)


def test_random_text_has_the_tokens_that_were_asked_for():
    for count in (1, 2, 17):
        text = random_text(Doubling(), count, seed="1")
        assert len(Doubling().encode(text)) >= count
        assert text == random_text(Doubling(), count, seed="1") != random_text(Doubling(), count, seed="2") * 9


class Hiding(Doubling):
    """A tokenizer whose texts end at the token 0, as texts of C do at a NUL."""

    def encode(self, text):
        return [1] * len(text)

    def decode(self, tokens):
        return "b" * [*tokens, 0].index(0)


def test_random_text_has_its_tokens_where_one_hides_those_behind_it():
    assert len(random_text(Hiding(), 64, seed="1")) >= 64


class Cutting(Doubling):
    """A tokenizer that cuts texts."""

    def encode(self, text):
        return super().encode(text)[:100]


def test_a_tokenizer_that_cuts_texts_is_named_instead_of_tried_for_ever():
    assert len(Cutting().encode(random_text(Cutting(), 100, seed="1"))) == 100
    with pytest.raises(BadInput, match="takes no more than 100 tokens of a text, and 101 are needed"):
        random_text(Cutting(), 101, seed="1")
    _check_whole(Cutting(), ["b" * 3, "b" * 49])
    with pytest.raises(BadInput, match="takes no more than 100 tokens of a text, and a prompt of the file has more"):
        _check_whole(Cutting(), ["b" * 3, "b" * 101])


def test_too_few_or_too_many_tokens_are_no_measurement(tmp_path):
    for made in (3, 9):
        (run,) = generate(tmp_path, {**TOLD, "tokens": made})
        assert run.failure.cause == "Unsupported"
        assert f"{made} tokens instead of 5" in run.failure.message


def test_an_endless_request_ends_at_the_timeout(tmp_path, clock):
    begin = clock.now()
    (run,) = generate(tmp_path, behaviour={"at": "invoke", "after": 0, "do": "hang"}, timeout=30.0)
    assert clock.now() - begin == 30.0
    assert (run.failure.cause, run.failure.phase) == ("Timeout", "steady")


def test_an_engine_without_a_depth_says_so(tmp_path):
    (run,) = generate(tmp_path, {**TOLD, "depth": 10}, depth=11)
    assert (run.failure.cause, run.failure.phase) == ("Unsupported", "first")


def test_a_model_that_makes_no_text(tmp_path):
    path = write_fake_model(tmp_path / "m.fake")
    (run,) = edgewise.bench(path, scenario="generate", sessions=1, meters=False)
    assert run.failure.cause == "Unsupported"


def result(*requests):
    """A session of requests, each a list of gaps, s."""
    firsts, now = [], 0.0
    for gaps in requests:
        firsts.append(now + 1.0)
        now += 1.0 + sum(gaps)
    facts = {"gaps": [len(gaps) for gaps in requests], "first_text_s": firsts}
    return SessionResult(
        index=0,
        samples={"tpot": [round(gap * 1e9) for gaps in requests for gap in gaps]},
        facts={"generation": facts},
    )


def wobbling(gap, count=128):
    return [gap * (1 + 0.01 * ((at * 7919) % 13 - 6) / 6) for at in range(count)]


def test_a_clock_that_falls_is_told_with_both_speeds():
    found = stretches([result(wobbling(0.01), wobbling(0.01), wobbling(0.02), wobbling(0.02))])
    assert [round(each.gap_s, 3) for each in found] == [0.01, 0.02]
    assert found[0].begin_s == 0.0
    assert found[1].begin_s == pytest.approx(1 + 1.28 + 1 + 1.28, abs=0.2)


def test_gaps_that_grow_with_the_context_are_no_change():
    growing = [gap * (1 + at / 128) for at, gap in enumerate(wobbling(0.01))]
    assert stretches([result(growing, growing, growing), result(growing, growing)]) == []
    assert stretches([result(wobbling(0.01)), result(wobbling(0.0105))]) == []


def test_a_run_of_two_speeds_has_no_mean(tmp_path):
    times = [round(gap * 1e9) for gap in [*wobbling(0.01, 300), *wobbling(0.02, 300)]]
    (run,) = generate(tmp_path, {**TOLD, "token_ns": times}, new_tokens=101, iterations=5, sessions=1)
    for metric in ("tpot", "decode_rate"):
        row = run.measurement(metric)
        assert row.value is None
        assert "100 tokens/s" in row.absent_because
        assert "50 tokens/s" in row.absent_because or "50.0 tokens/s" in row.absent_because
    assert len(run.measurement("tpot").samples) == 500
    assert run.value("ttft") is not None
    assert run.trust.grade == "D"


def test_a_phone_that_throttles_has_two_rates_and_the_time_and_no_middle(tmp_path):
    times = [round(gap * 1e9) for gap in [*wobbling(1 / 200, 330), *wobbling(1 / 93, 310)]]
    (run,) = generate(tmp_path, {**TOLD, "token_ns": times}, new_tokens=33, iterations=19, sessions=1)
    row = run.measurement("decode_rate")
    assert (row.value, row.low, row.high) == (None, None, None)
    assert row.absent_because == (
        "the speed changed while it was measured: 200 tokens/s, from 1.66 s on 93.0 tokens/s (process 1)"
    )


@pytest.mark.parametrize("slow_from", range(64, 576, 30))
def test_a_throttle_is_found_wherever_in_twenty_requests_it_begins(slow_from):
    gaps = [*wobbling(1 / 200, slow_from), *wobbling(1 / 93, 640 - slow_from)]
    fast, slow = stretches([result(*(gaps[at : at + 32] for at in range(0, 640, 32)))])
    assert (1 / fast.gap_s, 1 / slow.gap_s) == pytest.approx((200, 93), rel=0.01)
    begin_s = sum(gaps[:slow_from]) + 1.0 + slow_from // 32  # a first token takes 1 s
    assert slow.begin_s == pytest.approx(begin_s, abs=1.2)  # the gap itself, or that before the next first token


ISSUE = (185, 203, 185, 93, 92)


def prompted(*rates):
    """A session whose prompts of 128 tokens were computed at these rates, tokens/s, 0.5 s apart."""
    times, now = [128 / rate for rate in rates], 0.0
    firsts = []
    for time in times:
        firsts.append(now + time)
        now += time + 0.5
    told = {"gaps": [1] * len(rates), "prompt_tokens": [128] * len(rates), "first_text_s": firsts}
    samples = {"ttft_model": [round(time * 1e9) for time in times], "tpot": [500 * MS] * len(rates)}
    return SessionResult(index=0, samples=samples, facts={"generation": told})


def test_the_five_prompts_of_a_phone_prove_no_change_and_have_no_mean():
    assert why_no_prompt_rate([prompted(*ISSUE)]) == (
        "the speed of the prompts may have changed, which 5 requests can't prove: 185, 203, 185, 93.0, 92.0 tokens/s "
        "(process 1); --iterations 12 would tell"
    )


def test_twelve_prompts_of_a_phone_prove_the_change():
    rates = (185, 203, 185, 190, 198, 187, 93, 92, 94, 93, 92, 95)
    begin_s = sum(128 / rate + 0.5 for rate in rates[:6])
    assert why_no_prompt_rate([prompted(*rates)]) == (
        f"the speed of the prompts changed while it was measured: 191 tokens/s, from {begin_s:.3g} s on 93.2 tokens/s "
        "(process 1)"
    )


@pytest.mark.parametrize(
    "rates",
    [
        (185, 203, 185),
        (185, 93),
        (185, 203, 185, 190, 92),  # one of them is no state
        (93, 185, 92, 203, 185),
        (185, 203, 185, 172, 169),
        (185, 203, 185, 190, 198, 187, 192, 185, 203, 199, 188, 186),
    ],
)
def test_prompts_at_one_speed_or_of_one_stray_have_a_rate(rates):
    assert why_no_prompt_rate([prompted(*rates)]) == ""


def test_prompts_of_several_lengths_are_no_change_of_the_speed():
    session = prompted(*ISSUE)
    session.facts["generation"]["prompt_tokens"][1] = 64
    assert why_no_prompt_rate([session]) == ""


def test_a_run_whose_prompts_slow_down_has_no_single_time_to_first_text(tmp_path):
    """The script halves the speed after the cold request and 3 of 5 others, of 18.4 ms each with their texts."""
    path = write_fake_model(tmp_path / "m.fake", generation={**TOLD, "token_ns": [0, 1 * MS]}, speeds=[[74 * MS, 200]])
    (run,) = edgewise.bench(
        path, scenario="generate", sessions=1, iterations=5, new_tokens=3, prompt_tokens=16, meters=False
    )
    why = run.measurement("prefill_rate").absent_because
    assert why.startswith(
        "the speed of the prompts may have changed, which 5 requests can't prove: 1000, 1000, 1000, 500, 500 tokens"
    )
    assert [run.value(metric) for metric in ("ttft", "ttft_model", "prefill_rate")] == [None] * 3
    assert len(run.measurement("ttft_model").samples) == 5
    (line,) = bench_document([run]).answer
    assert line.startswith(f"no single time to first text ({why}), then ")


def write(tmp_path, **change):
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf({**LLAMA, **change}))
    return path


@pytest.mark.parametrize(
    ("settings", "change", "message"),
    [
        ({"scenario": "single-stream"}, {}, says("language-model-which-scenario-cant")),
        ({"new_tokens": 40, "prompt_tokens": 30}, {}, "context of 64"),
        ({"new_tokens": 40, "prompt_tokens": (8, 30)}, {}, "context of 64"),
        ({"new_tokens": 4, "prompt_tokens": 8, "depth": 60}, {}, "context of 64"),
        ({"new_tokens": 4, "prompt_tokens": 8, "memory_limit": 100}, {}, says("weights-memory-available")),
        (
            {"new_tokens": 4, "prompt_tokens": 8},
            {"tokenizer.ggml.tokens": ()},
            says("no-tokenizer-tokenizer-ggml-model"),
        ),
        ({"new_tokens": 4, "prompt_tokens": 8, "runtimes": "onnxruntime"}, {}, says("no-runtime-asked-makes-text")),
    ],
)
def test_what_can_not_work_is_refused_before_loading(tmp_path, settings, change, message):
    with pytest.raises((BadInput, BadModel), match=message):
        edgewise.bench(write(tmp_path, **change), **{"scenario": "generate", **settings})


@pytest.mark.parametrize("verb", ["bench", "compare", "gate", "evaluate"])
def test_a_model_that_the_memory_can_not_hold_is_not_read_for_its_hash(tmp_path, monkeypatch, verb):
    path, text = write(tmp_path), tmp_path / "t.txt"
    text.write_text("some words " * 50)
    monkeypatch.setattr(identity, "_read_files", lambda files: pytest.fail("read to its end"))
    given = {"memory_limit": 100}
    generating = {"scenario": "generate", "prompt_tokens": 8, "new_tokens": 4}
    calls = {
        "bench": lambda: edgewise.bench(path, **generating, **given),
        "compare": lambda: edgewise.compare([path, tmp_path / "other.gguf"], **generating, **given),
        "gate": lambda: edgewise.gate(path, budget="tpot=1ms", **generating, **given),
        "evaluate": lambda: edgewise.evaluate(path, data=text, task="perplexity", **given),
    }
    (tmp_path / "other.gguf").write_bytes(path.read_bytes())
    with pytest.raises(BadInput, match=says("weights-memory-available")):
        calls[verb]()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt_tokens": 8}, says("only-scenario-generate")),
        ({"scenario": "generate", "batches": 2}, says("scenario-generate-one-request-time")),
        ({"scenario": "generate", "new_tokens": 1}, says("field-must-least-not", field="new_tokens")),
        ({"scenario": "generate", "prompt_tokens": 1, "depth": 8}, says("field-must-least-not", field="prompt_tokens")),
        ({"scenario": "generate", "prompt_tokens": (8, 0)}, says("field-must-least-not", field="prompt_tokens")),
        ({"scenario": "generate", "depth": 2**30}, says("tokens-more-than")),
    ],
)
def test_numbers_of_tokens_are_checked(tmp_path, settings, message):
    with pytest.raises(BadInput, match=message):
        edgewise.bench(write_fake_model(tmp_path / "m.fake"), **settings)


def test_the_kv_cache_follows_from_the_header(tmp_path):
    model = ModelRef(name="m", path=str(write(tmp_path)), format="gguf", sha256="0" * 64, size_bytes=1)
    scenario = Scenario(kind="generate", prompt_tokens=10, new_tokens=6, depth=16)
    check_language_model(model, scenario)
    job = Job(model=model, runtime=RuntimeSpec(name="fake"), workload=Workload(scenario=scenario))
    row = kv_cache_row(job, "f16")
    assert (row.value, row.basis) == (64 * 32 * 2, "derived")
    assert kv_cache_row(job, "u8").value == 64 * 32
    assert "does not tell the type" in kv_cache_row(job, None).absent_because


def noisy(chance, requests, count, *, slow_from=None, until=2**62, factor=2.0):
    """Gaps with the noise and the outliers of a real machine, `factor` times as long from `slow_from` to `until`."""
    slow_from = requests * count if slow_from is None else slow_from
    gaps = [
        0.01
        * (factor if slow_from <= at < until else 1)
        * chance.lognormvariate(0, 0.05)
        * (1.5 if chance.random() < 0.02 else 1)
        for at in range(requests * count)
    ]
    return result(*(gaps[at : at + count] for at in range(0, len(gaps), count)))


def test_a_planted_throttle_is_named_and_a_quiet_series_is_not():
    chance = random.Random(1)
    found = [stretches([noisy(chance, 2, 127, slow_from=chance.randrange(60, 200))]) for _ in range(20)]
    assert [len(each) for each in found] == [2] * 20
    assert all(split_stalls(each) == (each, []) for each in found)
    assert not any(stretches([noisy(chance, 2, 127)]) for _ in range(100))


def test_a_throttle_that_ends_again_is_named_as_one():
    chance = random.Random(2)
    for _ in range(20):
        begin = chance.randrange(40, 100)
        found = stretches([noisy(chance, 2, 127, slow_from=begin, until=begin + chance.randrange(50, 100))])
        assert split_stalls(found) == (found, [])


def test_a_planted_stall_leaves_the_rate():
    """Of 15 to 22 of 254 gaps, which take less than 15 % of the time, and a speed that comes back. A few are missed."""
    chance = random.Random(3)
    named = 0
    for _ in range(20):
        begin, count = chance.randrange(40, 200), chance.randrange(15, 23)
        found = stretches([noisy(chance, 2, 127, slow_from=begin, until=begin + count, factor=1.5)])
        changed, stalls = split_stalls(found)
        assert changed == []
        for stall in stalls:
            assert stall.gap_s == pytest.approx(0.015, rel=0.1)
            assert stall.spent_s == pytest.approx(0.015 * count, rel=0.2)
        named += len(stalls)
    assert named >= 18


def stretched(*told):
    """Stretches of one session, of (time per token, time spent)."""
    return [Stretch(session=0, begin_s=0.0, gap_s=gap, level_s=gap, spent_s=spent) for gap, spent in told]


@pytest.mark.parametrize(
    ("told", "is_stall"),
    [
        (((0.01, 4.0), (0.02, 1.0), (0.01, 4.0)), True),
        (((0.01, 4.0), (0.02, 1.5), (0.01, 4.0)), False),  # 15.8 % of the time
        (((0.01, 4.0), (0.005, 1.0), (0.011, 4.0)), True),
        (((0.01, 4.0), (0.02, 0.7), (0.01, 3.0), (0.03, 0.7), (0.01, 4.0)), True),
        (((0.01, 4.0), (0.02, 1.0), (0.01, 3.0), (0.03, 1.0), (0.01, 4.0)), False),  # together 15.4 %
        (((0.01, 9.0), (0.02, 0.5)), False),  # it may have stayed so
        (((0.02, 0.5), (0.01, 9.0)), False),  # nor is it known what was before
        (((0.01, 4.0), (0.02, 1.0), (0.012, 4.0)), False),  # another speed than before
        (((0.01, 1.0), (0.0118, 1.0), (0.0109, 3.0)), False),
    ],
)
def test_what_is_a_stall(told, is_stall):
    found = stretched(*told)
    changed, stalls = split_stalls(found)
    assert bool(stalls) == is_stall
    assert changed == ([] if is_stall else found)


def stalling(factor=2):
    times = [*wobbling(0.01, 300), *wobbling(0.01 * factor, 30), *wobbling(0.01, 270)]
    return [round(gap * 1e9) for gap in times]


def test_a_run_with_a_stall_has_the_rate_of_the_whole_and_a_caution(tmp_path):
    (run,) = generate(tmp_path, {**TOLD, "token_ns": stalling()}, new_tokens=101, iterations=5, sessions=1)
    gaps = run.measurement("tpot").samples
    assert run.value("tpot") == pytest.approx(sum(gaps) / 500)
    assert run.value("decode_rate") == pytest.approx(500 / sum(gaps))
    (caution,) = [each for each in run.cautions if each.code == "stalled"]
    assert caution.message == (
        "the speed was another for a short time: 50.0 tokens/s for 600 ms from 2.03 s on (process 1)"
    )
    (run,) = generate(tmp_path, iterations=5, sessions=1)
    assert "stalled" not in [each.code for each in run.cautions]


def test_the_first_line_is_the_answer(tmp_path):
    document = bench_document(generate(tmp_path, prompt_tokens=(16, 32), depth=64))
    assert [line.partition(" at ")[2] for line in document.answer] == [
        "depth 64, after a prompt of 16",
        "depth 64, after a prompt of 32",
    ]
    assert document.answer[0].startswith("first text after 15.7")
    (table,) = document.tables
    titles = [column.title for column in table.columns]
    assert {"Prompt", "Depth", "First text (ms)", "Tokens (1/s)", "Prompt tokens (1/s)"} <= set(titles)
    assert [row[titles.index("Prompt")].text for row in table.rows] == ["16", "32"]
    assert [row[titles.index("Tokens (1/s)")].value for row in table.rows] == pytest.approx([50, 50])
    assert not any(section.title.startswith("Recommended") for section in document.sections)


def test_the_first_line_has_both_speeds_and_failures(tmp_path):
    times = [round(gap * 1e9) for gap in [*wobbling(0.01, 300), *wobbling(0.02, 300)]]
    runs = generate(tmp_path, {**TOLD, "token_ns": times}, new_tokens=101, iterations=5, sessions=1)
    (line,) = bench_document(runs).answer
    assert line == (
        "first text after 16.7 ± 0.1 ms, then no single rate at depth 0, after a prompt of 16: the speed changed while it "
        "was measured: 100 tokens/s, from 2.03 s on 50.0 tokens/s (process 1)"
    )
    (line,) = bench_document(generate(tmp_path, {**TOLD, "tokens": 3})).answer
    assert line.startswith("nothing was measured at depth 0, after a prompt of 16: ")
    assert "3 tokens instead of 5" in line


@pytest.mark.parametrize(
    "change",
    [
        {"gaps": [4]},
        {"gaps": [4, 5]},
        {"gaps": [4, "4"]},
        {"prompt_tokens": [0, 1]},
        {"first_text_s": [0.0, float("nan")]},
        {"first_text_s": [0.0]},
        {"answers": [["a", [1, -1]]]},
        {"answers": [["a"]]},
        {"answers": [[1, [1]]]},
    ],
)
def test_requests_that_do_not_fit_their_times_are_garbage(change):
    told = {"gaps": [4, 4], "prompt_tokens": [16, 16], "first_text_s": [0.0, 1.0]}
    samples = {"ttft": [1, 1], "ttft_model": [1, 1], "tpot": [1] * 8}
    _check_requests(SessionResult(index=0, samples=samples, facts={"generation": told}))
    with pytest.raises(ProtocolError):
        _check_requests(SessionResult(index=0, samples=samples, facts={"generation": {**told, **change}}))
    with pytest.raises(ProtocolError):
        _check_requests(SessionResult(index=0))
