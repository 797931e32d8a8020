"""Whatever runs there are: what a report of a benchmark says of two, and what comparing them says, never contradict."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from comparable_runs import row_of, run_of
from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import Variant
from edgewise.comparing.criteria import Criteria
from edgewise.record import InTurns, Measurement, Run, Trust, Variation
from edgewise.report.bench.answer import answer_of
from edgewise.report.bench.ranking import NOT_TOLD, finalists, rank_models
from edgewise.report.bench.recommendation import recommendation
from edgewise.report.comparison.document import comparison_document
from edgewise.store.codec import from_document, to_document
from sample_runs import measured

OPPOSITE = {"faster": "slower", "slower": "faster"}
LABELS = ("onnxruntime/cpu", "litert/cpu")


@st.composite
def rows(draw) -> tuple[Measurement, int]:
    """A latency, and by how many processes: with samples or without, with an interval or without."""
    value = draw(st.floats(1e-7, 1.0))
    half = draw(st.none() | st.floats(0.0, 0.9).map(lambda share: share * value))
    processes = draw(st.integers(0, 5))
    if processes and draw(st.booleans()):
        medians = [value * draw(st.floats(0.9, 1.2)) for _ in range(processes)]
        row = row_of("latency", [[one, one * 1.01, one * 0.99] for one in medians])
        return replace(row, low=half and row.value - half, high=half and row.value + half), processes
    return measured("latency", value, half=half), processes


@st.composite
def stored_runs(draw, number: int) -> Run:
    row, processes = draw(rows())
    others = [measured("model_size", 1e6)]
    if draw(st.booleans()):
        others.append(measured("memory_peak", draw(st.floats(1e6, 1e9)), half=draw(st.floats(1.0, 1e5))))
    variation = draw(
        st.none()
        | st.builds(
            Variation, sigma=st.floats(5e-4, 0.5), degrees=st.none() | st.floats(2.0, 30.0), source=st.just("learnt"),
            method=st.just("of earlier runs"),
        )
    )  # fmt: skip
    run = run_of(row, *others, number=number, processes=processes, group=draw(st.sampled_from(["g", f"g{number}"])))
    runtime = replace(run.job.runtime, name=LABELS[number - 1].partition("/")[0])
    grade = draw(st.sampled_from("ABCD"))
    return replace(
        run, job=replace(run.job, runtime=runtime), variation=variation, trust=Trust(grade=grade, reasons=("so",))
    )


@st.composite
def pairs(draw) -> tuple[Run, Run]:
    first, second = draw(stored_runs(1)), draw(stored_runs(2))
    if draw(st.booleans()):
        ratio, word = draw(st.floats(0.5, 2.0)), draw(st.sampled_from(["same", "inconclusive", "by ratio"]))
        word = ("faster" if ratio < 1.0 else "slower") if word == "by ratio" else word

        def told(against: Run, value: float, verdict: str) -> tuple[InTurns, ...]:
            ends = {"low": value * 0.98, "high": value * 1.02}
            return (InTurns(against=against.id, ratio=value, **ends, verdict=verdict, method="turns"),)

        first = replace(first, in_turns=told(second, 1.0 / ratio, OPPOSITE.get(word, word)))
        second = replace(second, in_turns=told(first, ratio, word))
    return first, second


def said_by_compare(first: Run, second: Run) -> str:
    """The verdict on `second` in the headline."""
    sides = [Variant(label=label, run=run) for label, run in zip(LABELS, (first, second), strict=True)]
    found = assess(sides, Criteria(force=True))
    (row,) = (row for row in found.comparisons if row.metric == "latency")
    line = comparison_document(found).title
    words = {"faster": "faster", "slower": "slower", "same": "as fast"}
    unproven = any(word in line for word in ("No verdict", "not proven"))
    assert unproven if row.verdict == "inconclusive" else words[row.verdict] in line and not unproven
    return row.verdict


def said_by_report(text: str) -> set[str]:
    """What a sentence of a report says of a run against another one."""
    if "probably " in text:
        assert "not proven" in text
        return {"inconclusive"}
    words = {"faster": (" faster",), "slower": (" slower",), "same": ("as fast",)}
    words["inconclusive"] = (NOT_TOLD.removesuffix(" from it"),)
    return {verdict for verdict, some in words.items() if any(word in text for word in some)}


@settings(max_examples=300, deadline=None)
@given(pairs())
def test_report_and_compare_never_contradict(runs):
    first, second = runs
    verdict = said_by_compare(first, second)
    assert said_by_compare(second, first) == OPPOSITE.get(verdict, verdict)
    # Stored and read again, they say the same.
    again = [from_document(to_document(run)) for run in runs]
    assert said_by_compare(*again) == verdict
    found = recommendation(again)
    if found is None or any(" is left out: " in reason for reason in found.why):
        return  # a run that is not ranked is called neither fast nor slow
    of_chosen = verdict if found.run == second.id else OPPOSITE.get(verdict, verdict)
    assert of_chosen != "slower"  # what is proven slower is never recommended
    assert said_by_report(found.why[0]) == {of_chosen}
    # The first line speaks of the other one, if it does.
    line = answer_of(again)[0].partition(";")[2].split(";")[0]
    assert said_by_report(line) <= {OPPOSITE.get(of_chosen, of_chosen)}


@settings(max_examples=100, deadline=None)
@given(pairs())
def test_models_share_a_place_only_where_comparing_them_proves_neither_faster(runs):
    first, second = runs
    second = replace(second, job=replace(second.job, model=replace(second.job.model, name="other", sha256="c" * 64)))
    verdict = said_by_compare(first, second)
    places = {one.run.id: one.place for one in rank_models([first, second])}
    if None not in places.values():
        ahead = {"faster": -1, "slower": 1}.get(verdict, 0)
        assert (places[second.id] > places[first.id]) - (places[second.id] < places[first.id]) == ahead
        line = answer_of([first, second])[0]
        assert line.startswith("Fastest: ") == bool(ahead)
        assert bool(ahead) == (" can't be told apart" not in line and " probably " not in line)
    took = [{run.id for run in some} for some in finalists([first, second])]
    assert took in ([], [{first.id, second.id}])
    assert bool(took) == (verdict in ("same", "inconclusive")) or not all(run.value("latency") for run in runs)
