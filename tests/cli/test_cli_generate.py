"""A language model from the command line: what its exported runs tell."""

import json
from statistics import median

import pytest

from edgewise.cli.main import run as edgewise
from edgewise.testing import write_fake_model

pytestmark = pytest.mark.usefixtures("threads")

TIMES_NS = [7_000_001, 9_000_003, 8_000_005, 31_000_007, 6_500_011]
TOLD = {"token_ns": TIMES_NS, "prefill_ns": 1_100_000, "encode_ns": 500_000, "decode_ns": 200_000}


@pytest.fixture
def exported(tmp_path, monkeypatch, capsys):
    """The runs of two lengths of prompts at two depths, and of prompts of several lengths, as JSON."""
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.chdir(tmp_path)
    write_fake_model(tmp_path / "m.fake", generation=TOLD)
    (tmp_path / "p.jsonl").write_text('"abc"\n"abcde"\n"abcdefghi"\n')
    words = [
        "bench",
        "m.fake",
        "--scenario",
        "generate",
        "--new-tokens",
        "6",
        "--iterations",
        "4",
        "--sessions",
        "3",
        "--no-meters",
    ]
    assert edgewise([*words, "--prompt-tokens", "16,32", "--depth", "0,64"]) == 0
    assert edgewise([*words, "--input-data", "p.jsonl"]) == 0
    assert edgewise(["runs", "export", "-o", "all.json"]) == 0
    capsys.readouterr()
    return json.loads((tmp_path / "all.json").read_text(encoding="utf-8"))["runs"]


def test_every_rate_can_be_computed_from_the_exported_samples(exported):
    assert len(exported) == 5
    for run in exported:
        rows = {row["metric"]: row for row in run["measurements"]}
        samples = {name: row["samples"] for name, row in rows.items()}
        told = [session["facts"]["generation"] for session in run["sessions"]]
        prompts = [count for each in told for count in each["prompt_tokens"]]
        again = {
            "tpot": sum(samples["tpot"]) / len(samples["tpot"]),
            "decode_rate": len(samples["tpot"]) / sum(samples["tpot"]),
            "prefill_rate": sum(prompts) / sum(samples["ttft_model"]),
            **{name: median(samples[name]) for name in ("ttft", "ttft_model", "ttft_first")},
        }
        assert {name for name, row in rows.items() if row["unit"] == "1/s" and row["value"] is not None} <= set(again)
        for name, value in again.items():
            assert rows[name]["value"] == pytest.approx(value, rel=1e-12), name


def test_the_gaps_of_each_request_are_told_apart(exported):
    for run in exported:
        gaps = next(row for row in run["measurements"] if row["metric"] == "tpot")
        counts = [session["facts"]["generation"]["gaps"] for session in run["sessions"]]
        assert [sum(each) for each in counts] == gaps["session_lengths"] == [20, 20, 20]
        assert counts == [[5] * 4] * 3
