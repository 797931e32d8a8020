"""What two profiles say of the largest changes by layer, and of all changes against the change of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.profiling.layer_matching import LayerPair
from edgewise.record import InTurns, Run
from edgewise.report.document.text import to_text
from edgewise.report.profile.changes import change_lines
from edgewise.report.profile.diff import diff_table, pair_row
from edgewise.report.profile.document import profile_document
from sample_profiles import faster_run, layer_of, many_layers_run, profiled_run, sample_layers, unprofiled_run
from sample_runs import make_run


def two(ratio: float | None = None, verdict: str = "faster", *, half: float = 0.01, **layers: object) -> list[Run]:
    """1000 ± 10 µs and 870 ± 9 µs, which took turns at `ratio` ± `half`; `layers` replaces fields of the second pw1."""
    before, after = profiled_run(), faster_run()
    changed = tuple(replace(one, **layers) if one.name == "pw1" else one for one in after.layers)
    turns = (
        InTurns(against=before.id, ratio=ratio, low=ratio - half, high=ratio + half, verdict=verdict, method="turns")
        if ratio is not None
        else None
    )
    return [before, replace(after, layers=changed, in_turns=(turns,) if turns is not None else ())]


def test_a_layer_has_its_kernels_and_its_share_of_a_proven_change():
    """pw1 goes from 196 to 204 to 97.8 to 102.2 µs, which the turns widen by 860/870 and 880/870: at least
    196 − 103.38 = 92.6, at most 204 − 96.68 = 107.3 of 120 to 140 µs."""
    largest, summed = change_lines(two(0.87))
    assert largest == (
        "largest differences by layer, openvino less onnxruntime: pw1 -100 ± 7.4 µs "
        "(faster; kernel Conv_kernel → Conv_kernel + Relu_kernel; 76.9 [66.1, 89.5] % of the difference)"
    )
    assert summed == (
        "the differences of the layers add up to -130 µs (1 without a time left out) of the difference of the whole, "
        "-130 ± 10 µs, measured in turns (100 %)"
    )


def test_the_change_of_the_whole_is_that_of_the_turns_and_not_of_the_runs_alone():
    """0.9 of 1000 µs is 100 µs less, where the runs alone differ by 130 µs."""
    _, summed = change_lines(two(0.9))
    assert summed.endswith("of the difference of the whole, -100 ± 10.0 µs, measured in turns (130 %)")


@pytest.mark.parametrize(
    ("ratio", "verdict", "words"),
    [
        (None, "", "the difference of the whole, -130 ± 19 µs, is not proven, so no layer has a share of it"),
        (0.99, "inconclusive", "measured in turns, is not proven, so no layer has a share of it"),
        (0.998, "same", "measured in turns, is too small to matter, so no layer has a share of it"),
        (1.08, "slower", "measured in turns, is the other way, so no layer has a share of it"),
    ],
)
def test_no_layer_has_a_share_of_a_change_that_is_not_proven(ratio, verdict, words):
    largest, summed = change_lines(two(ratio, verdict))
    assert summed.endswith(words)
    assert " % " not in largest and "kernel Conv_kernel" in largest


def test_layers_are_not_named_where_every_change_is_unclear():
    """ "call +51.5 µs (unclear)" was called one of the largest differences, where the whole differs by 91,800 µs."""
    runs = two(0.87, low=20e-6, high=200e-6)
    (summed,) = change_lines(runs)
    assert summed.startswith("the differences of the layers add up to -130 µs")
    document = profile_document(runs)
    assert summed in document.sections[0].lines and summed not in document.answer
    assert not any(line.startswith("largest d") for line in document.answer)


def test_layers_are_not_named_where_they_explain_little_of_a_proven_change():
    """100 µs of 940 µs are more than a tenth, of 1040 µs less."""
    for latency, named in ((1.81e-3, True), (1.91e-3, False)):
        before, after = two(0.87)
        before = replace(before, measurements=make_run(21, latency=latency, half=1e-5).measurements)
        turns = replace(after.in_turns[0], ratio=0.87e-3 / latency, low=0.4, high=0.5)
        lines = change_lines([before, replace(after, in_turns=(turns,))])
        assert any(line.startswith("largest ") for line in lines) == named


def test_changes_have_the_unit_of_their_size():
    """A line said -226000 to +22400 µs."""
    runs = two(0.8, time=6e-6, low=0.0, high=12e-6)
    before, after = (replace(run, layers=tuple(in_thousands(one) for one in run.layers)) for run in runs)
    (summed,) = change_lines([before, after])
    assert summed.startswith("the differences of the layers add up to -220 to -208 ms (1 without")
    assert summed.count("whole, -200 ± 10 µs") == 1


def in_thousands(layer):
    """A layer that takes a thousand times as long."""
    times = {name: getattr(layer, name) for name in ("time", "low", "high")}
    return replace(layer, **{name: time and time * 1000 for name, time in times.items()})


def test_kernels_are_named_where_both_engines_tell_them_and_once_where_they_agree():
    before, after = two(0.87)
    for kernel, words in (("", "(faster; 76.9 ["), ("Conv_kernel", "(faster; kernel Conv_kernel; 76.9 [")):
        layers = tuple(replace(one, engine_op=kernel) for one in after.layers)
        assert words in change_lines([before, replace(after, layers=layers)])[0]


def test_the_sum_has_its_interval_where_every_layer_has_one():
    """970 ± 19.4 µs before, 840 ± 17 µs after."""
    layers = tuple(one for one in sample_layers() if one.low is not None)
    before = replace(profiled_run(), layers=layers)
    after = replace(faster_run(), layers=tuple(one for one in faster_run().layers if one.low is not None))
    turns = InTurns(against=before.id, ratio=0.87, low=0.87, high=0.87, verdict="faster", method="turns")
    line = change_lines([before, replace(after, in_turns=(turns,))])[1]
    assert line == (
        "the differences of the layers add up to -130 ± 37 µs of the difference of the whole, -130 ± 0 µs, "
        "measured in turns (100 ± 28 %)"
    )


def test_the_sum_lies_between_two_ends_where_a_time_is_only_bounded():
    """pw1 and relu2: 200 µs before; below 12 and 10 µs after, so 178 to 190 µs less, and the rest 30 µs less."""
    (summed,) = change_lines(two(0.8, time=6e-6, low=0.0, high=12e-6))
    assert summed == (
        "the differences of the layers add up to -220 to -208 µs (1 without a time left out) of the difference of the "
        "whole, -200 ± 10 µs, measured in turns (104 to 110 %)"
    )


def test_before_and_after_speak_of_changes():
    before, after = two(0.87)
    after = replace(after, job=replace(after.job, runtime=before.job.runtime))
    largest, summed = change_lines([before, after])
    assert largest.startswith("largest changes by layer: pw1 ") and " of the change)" in largest
    assert summed.startswith("the changes of the layers add up to -130 µs")


def with_denoise(*, micros: float = 150.0, **layer: object) -> list[Run]:
    """A model of 1000 ± 10 µs, and one of 1150 ± 10 µs that has one layer more and runs in the same engine; pw1 takes
    10 µs more, which is unclear."""
    before = profiled_run()
    model = replace(before.job.model, name="today.onnx", sha256="f" * 64)
    own = layer_of(11, "denoise", "Conv", micros, macs=7_000_000, **layer)
    pw1 = next(one for one in before.layers if one.name == "pw1")
    slower = replace(pw1, time=210e-6, low=190e-6, high=230e-6)
    layers = (*(slower if one is pw1 else one for one in before.layers), own)
    turns = InTurns(against=before.id, ratio=1.15, low=1.14, high=1.16, verdict="slower", method="turns")
    after = make_run(22, model=model, latency=1.15e-3, half=1e-5)
    return [before, replace(after, layers=layers, profile=before.profile, in_turns=(turns,))]


def test_the_time_of_an_added_layer_is_the_largest_change():
    """147 to 153 µs, which the turns widen by 1.14/1.15 and 1.16/1.15: 145.7 to 154.3 µs of 140 to 160 µs. The sum
    counts it once, beside the 10 µs of pw1."""
    largest, summed = change_lines(with_denoise())
    assert largest == (
        "largest changes by layer: denoise +150 ± 5 µs (Conv, only in today.onnx; 100 [91.0, 111] % of the change)"
    )
    assert summed.startswith("the changes of the layers add up to +160 µs (1 without a time left out) of the change of")


def test_the_time_of_a_removed_layer_is_a_change_as_well():
    after, before = with_denoise()
    turns = InTurns(against=before.id, ratio=0.87, low=0.86, high=0.88, verdict="faster", method="turns")
    largest, _ = change_lines([replace(before, in_turns=()), replace(after, in_turns=(turns,))])
    assert largest == (
        "largest changes by layer: denoise -150 ± 3 µs (Conv, only in today.onnx; 100 [91.3, 111] % of the change)"
    )


def test_an_added_layer_has_its_change_in_the_table_and_no_ratio():
    table = diff_table(with_denoise())
    rows = {row[0].text: [cell.text for cell in row[2:]] for row in table.rows}
    assert rows["denoise"] == ["none", "150 ± 3", "+150", "–", "added"]
    assert rows["pw1"][-1] == "unclear" and "unpaired" not in {row[-1] for row in rows.values()}
    assert table.notes[1:] == (
        "added, removed: only one of the models has it, and one engine ran both, so its whole time is the change",
    )


def test_several_added_layers_have_a_row_with_their_sum():
    before, after = with_denoise()
    more = layer_of(12, "sharpen", "Conv", 50, macs=1_000_000)
    rows = diff_table([before, replace(after, layers=(*after.layers, more))]).rows
    (row,) = [row for row in rows if row[0].text == "all 2 added operators"]
    assert [cell.text for cell in row[2:]] == ["0", "200", "+200", "–", "added"]


@pytest.mark.parametrize("field", ["version", "provider", "options"])
def test_a_layer_that_only_another_engine_has_may_be_a_fusion(field):
    before, after = with_denoise()
    runtime = replace(after.job.runtime, **{field: {"level": 1} if field == "options" else "other"})
    runs = [before, replace(after, job=replace(after.job, runtime=runtime))]
    (row,) = [row for row in diff_table(runs).rows if row[0].text == "denoise"]
    assert (row[4].text, row[-1].text) == ("–", "unpaired")
    assert "denoise" not in change_lines(runs)[0]
    assert "unpaired: only one run has it, or has it in other rows; no claim is made for it" in diff_table(runs).notes


def test_a_step_whose_operators_are_not_known_may_do_other_work_of_the_model():
    runs = with_denoise(nodes=())
    (row,) = [row for row in diff_table(runs).rows if row[0].text == "denoise"]
    assert row[-1].text == "unpaired"


def test_an_added_layer_without_a_certain_time_is_not_named():
    (summed,) = change_lines(with_denoise(low=None, high=None))
    assert summed.startswith("the changes of the layers add up to +160 µs")


def test_other_runs_have_no_such_lines():
    run = profiled_run()
    for runs in ([run], [run, unprofiled_run()], [run, many_layers_run()]):
        assert change_lines(runs) == []


def test_the_largest_stand_in_the_answer_and_their_sum_below_it():
    runs = two(0.87)
    document, (largest, summed) = profile_document(runs), change_lines(runs)
    assert largest in document.answer and summed in document.sections[0].lines


def test_times_have_intervals_and_changes_their_ends():
    """Turns of 0.87 ± 0.01: the second run's 97.8 to 102.2 µs may be 96.68 to 103.38 µs at the time of the first."""
    row = diff_table(two(0.87)).rows[0]
    assert [row[at].text for at in (0, 2, 3, 4)] == ["pw1", "200 ± 4", "100 ± 3", "-100"]
    assert (row[2].low, row[2].high) == (pytest.approx(196), pytest.approx(204))
    assert (row[3].low, row[3].high) == (pytest.approx(97.8), pytest.approx(102.2))
    assert row[4].low == pytest.approx(97.8 * 860 / 870 - 204)
    assert row[4].high == pytest.approx(102.2 * 880 / 870 - 196)


def test_a_time_without_an_interval_has_none():
    layer = replace(sample_layers()[0], low=None, high=None)
    cells = pair_row(LayerPair(name="a", op="Conv", kind="operator", before=(layer,), after=(layer,)))
    assert (cells[2].text, cells[2].low, cells[4].low) == ("300", None, None)


def test_the_verdict_stays_on_a_narrow_terminal():
    """With intervals beside the times, it was the column that went."""
    (row,) = [
        line
        for line in to_text(profile_document(two(0.87)), width=80).splitlines()
        if line.startswith("pw1 ") and "100 [" in line
    ]
    assert row.split()[-1] == "faster"


def loaded(*, speed: float) -> list[Run]:
    """As `with_denoise`, but all of the second run took `speed` times as long as it does beside the first."""
    before, after = with_denoise()
    times = {"time", "low", "high"}
    layers = tuple(
        replace(one, **{name: value * speed for name in times if (value := getattr(one, name)) is not None})
        for one in after.layers
    )
    slow = make_run(22, model=after.job.model, latency=1.15e-3 * speed, half=1e-5)
    return [before, replace(slow, layers=layers, profile=before.profile, in_turns=after.in_turns)]


def test_layers_that_the_load_slowed_are_no_cause_and_come_last():
    """3 times as slow: denoise 450 µs; dw1 and its like took 3 times as long, pw1 3.15 times."""
    runs = loaded(speed=3.0)
    largest, load, summed = change_lines(runs)
    assert largest.startswith("largest changes by layer: denoise +450 ")
    assert load == "no cause: unchanged layers took 3.00 to 3.15 times as long, which the load of the machine explains"
    assert "off the change of the whole, +150 ± 10 µs, measured in turns: beside the first run's" in summed
    assert summed.endswith("the profiled processes of the second were 3.00× slower than in turns")
    assert diff_table(runs).rows[0][0].text == "denoise"
    change, ratio, _ = diff_table(runs).rows[-1][-3:]
    assert (change.text, ratio.text) == ("+150", "1.15")


def test_without_a_change_of_speed_no_layer_is_put_down_to_the_load():
    assert not any(line.startswith("no cause") for line in change_lines(loaded(speed=1.05)))
