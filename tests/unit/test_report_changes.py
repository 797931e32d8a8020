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
from sample_profiles import faster_run, many_layers_run, profiled_run, sample_layers, unprofiled_run


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
        "largest differences by layer, openvino less onnxruntime: pw1 -100.0 ± 7.4 µs "
        "(faster; kernel Conv_kernel → Conv_kernel + Relu_kernel; 76.9 ± 12.6 % of the difference)"
    )
    assert summed == (
        "the differences of the layers add up to -130 µs (1 without a time left out) of the difference of the whole, "
        "-130 ± 10 µs, measured in turns (100 %)"
    )


def test_the_change_of_the_whole_is_that_of_the_turns_and_not_of_the_runs_alone():
    """0.9 of 1000 µs is 100 µs less, where the runs alone differ by 130 µs."""
    _, summed = change_lines(two(0.9))
    assert summed.endswith("of the difference of the whole, -100.0 ± 10.0 µs, measured in turns (130 %)")


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


def test_a_layer_whose_change_is_unclear_has_no_share():
    largest, _ = change_lines(two(0.87, low=20e-6, high=200e-6))
    assert "(unclear; kernel Conv_kernel → Conv_kernel + Relu_kernel)" in largest


def test_kernels_are_named_where_both_engines_tell_them_and_once_where_they_agree():
    before, after = two(0.87)
    for kernel, words in (("", "(faster; 76.9 ± "), ("Conv_kernel", "(faster; kernel Conv_kernel; 76.9 ± ")):
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


def test_other_runs_have_no_such_lines():
    run = profiled_run()
    for runs in ([run], [run, unprofiled_run()], [run, many_layers_run()]):
        assert change_lines(runs) == []


def test_both_lines_stand_in_the_answer():
    runs = two(0.87)
    assert {*change_lines(runs)} < {*profile_document(runs).answer}


def test_times_have_intervals_and_changes_their_ends():
    """Turns of 0.87 ± 0.01: the second run's 97.8 to 102.2 µs may be 96.68 to 103.38 µs at the time of the first."""
    row = diff_table(two(0.87)).rows[0]
    assert [row[at].text for at in (0, 2, 3, 4)] == ["pw1", "200 ± 4", "100 ± 3", "-100.0"]
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
    assert "openvino is" in " ".join(to_text(profile_document(two(0.87)), width=80).split())
