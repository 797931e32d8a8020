"""A search as text, Markdown, CSV, JSON and files: the conclusion first, nothing absent as 0, nothing injected."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest

from edgewise.errors import StoreError
from edgewise.evaluating.evaluator import SampleResults
from edgewise.formatting import factor_text
from edgewise.optimizing.accuracy import Accuracy
from edgewise.optimizing.base import Capabilities
from edgewise.optimizing.variant import (
    ABSENT_ENGINES,
    BUSY_MACHINE,
    Bound,
    Factor,
    MetricValue,
    NotTried,
    Prediction,
    PredictionWithData,
)
from edgewise.record import Caution
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.page import as_part
from edgewise.report.optimization.document import describe_optimization, runtime_text
from edgewise.report.optimization.tables import before_after_table, layers_table, variants_table
from edgewise.report.optimization.words import (
    accuracy_text,
    bytes_text,
    headline_of,
    int8_line,
    memory_text,
    number_of,
    precision_line,
    reason_line,
    speed_text,
    speedup_text,
    verdict_of,
)
from edgewise.studio.sharing import frozen
from edgewise.verbs.optimize.presentation import FORMAT as OPTIMIZATION
from messages import wording
from sample_comparisons import HOSTILE
from sample_optimizations import (
    PICTURE,
    TEST,
    bounds_unmet,
    changed_search,
    chosen_variant,
    evaluation,
    found,
    hostile_search,
    losers,
    nothing_found,
    number,
    optimization_text,
    original,
    variant,
    without_data,
)
from sample_runs import make_run

TOP_AT_80 = """\
/out/kws.ort-static.onnx on openvino against kws.onnx on onnxruntime: 2.97×
faster [2.91, 3.03], 3.50× smaller, Top-1 accuracy 91.67 % (+0.00 pt [−0.92,
+0.92])
ort-static @ openvino: 6 of 6 heavy operators compute in int8; QLinearConv is
3.1× faster than Conv here

Before and after: original → ort-static @ openvino
                                                          Change
Metric           Original     Chosen             (95 % interval)
────────────────────────────────────────────────────────────────
Latency            420 µs     141 µs   2.97× faster [2.91, 3.03]
Model size       52.7 KiB   15.0 KiB               3.50× smaller
Peak memory      45.8 MiB   45.7 MiB              about the same
Top-1 accuracy    91.67 %    91.67 %     +0.00 pt [−0.92, +0.92]
intervals left out for width: Original, Chosen; use a wider terminal or -o

7 variants
                                                        Top-1 accuracy      Size
Variant                       Predicted      Measured             (pt)     (KiB)
────────────────────────────────────────────────────────────────────────────────
○ original                            –             –                –      52.7
★ ort-static @ openvino           2.80×         2.97×            +0.00      15.0
                            [2.20,3.60]   [2.91,3.03]    [−0.92,+0.92]
· ort-dynamic @                   0.45×         0.41×            −0.20      14.6
onnxruntime                 [0.30,0.70]   [0.40,0.42]    [−0.50,+0.10]
· nncf-ptq @ openvino           n/a [1]       n/a [2]            −4.10      14.6
                                                         [−4.70,−3.50]
"""


def test_at_80_columns_the_conclusion_comes_first_then_before_and_after_then_variants():
    text = optimization_text(found())
    assert text.startswith(TOP_AT_80)
    titles = [line for line in text.splitlines() if line and not line.startswith((" ", "·", "[", "─"))]
    wanted = [
        "Pareto front",
        "Layer sensitivity",
        "Why other variants were not chosen",
        "Files",
        "To make it again",
        "Conditions",
        "Notes",
    ]
    places = [titles.index(title) for title in wanted]
    assert places == sorted(places)


def test_doubts_about_the_original_stand_before_the_tables():
    note = "the original: --prepare pad=32,32 scores 13.00 [+8.00, +18.00] points better"
    lines = optimization_text(replace(found(), notes=(note, "another"))).splitlines()
    at = lines.index("Cautions on the accuracy")
    assert lines[at + 1].strip().startswith("the original: --prepare pad=32,32")
    assert at < lines.index("Before and after: original → ort-static @ openvino") < lines.index("Notes")
    assert sum("pad=32,32" in line for line in lines) == 1


BUSY = "other processes used up to 86% of the processor time"
UNDECIDED = f"undecided: in a short measurement it took 8.00× the time of the slowest that raced, while {BUSY}"


def busy_search():
    """Nothing beats the original, and a busy machine left one variant undecided."""
    lost = losers()[0]
    run = make_run(1, cautions=(Caution.of("busy-host", BUSY),))
    open_ = variant("ort-static", stage="screened", why=UNDECIDED, rejected=True, unreached=True)
    left = "which leaves 1 variant in openvino undecided; search again on a quiet one"
    note = f"{BUSY_MACHINE}{BUSY} in the short measurement, {left}"
    return replace(nothing_found(), candidates=(replace(lost, measured=run), open_), notes=(note, "another"))


def test_a_busy_machine_stands_before_the_tables_and_what_it_left_undecided():
    lines = optimization_text(busy_search()).splitlines()
    at = lines.index("Load while measuring")
    first_table = next(place for place, line in enumerate(lines) if line.startswith("Metric"))
    assert at < first_table < lines.index("Notes")
    assert " ".join(" ".join(lines[at + 1 : at + 7]).split()).startswith(
        "Measured while other processes used up to 86% of the processor time: how fast it is can differ on a quiet "
        "machine the machine was busy: other processes used up to 86% of the processor time in the short"
    )


def test_a_variant_that_a_busy_machine_left_undecided_is_not_out():
    result = busy_search()
    assert verdict_of(result, result.candidates[-1]) == "undecided"
    headline, evidence = headline_of(result)
    assert headline == (
        "No variant is proven faster; 1 of 2 was not decided, as the machine was busy (→ search again on a quiet one)"
    )
    assert evidence == f"the most promising of them is ort-static @ openvino: {UNDECIDED}"


def test_why_each_variant_lost_is_told_once():
    lines = optimization_text(found(), width=300)
    section = lines.partition("Why other variants were not chosen\n")[2].partition("\n\n")[0]
    assert "ort-dynamic @ onnxruntime: slower: 0.410× [0.400, 0.420]; ConvInteger has no VNNI kernel here" in section
    assert "torch-prune @ openvino: MemoryError: the pass needed more than 4 GB" in section
    assert len(section.splitlines()) == len(losers())


def test_variants_with_one_reason_share_a_line():
    late = [replace(one, why="the time budget left no room", id=f"v{place}") for place, one in enumerate(losers())]
    text = optimization_text(replace(found(), candidates=(*late, chosen_variant())), width=300)
    assert "  v0, v1, v2, v3, v4 and v5: the time budget left no room\n" in text


def test_passes_that_were_not_tried_share_a_line():
    assert "  not tried: torch-pt2e and torch-distill – torch is not installed\n" in optimization_text(found())


def test_nothing_beats_the_original_names_the_nearest_miss_and_why():
    headline, evidence = headline_of(nothing_found())
    assert headline == "Nothing beats the original"
    assert evidence.startswith("the closest variant is ort-dynamic @ onnxruntime: slower: 0.410×")
    assert "2.44× slower [2.38, 2.50]" in optimization_text(nothing_found())


SLOWER = replace(number(0.98, 0.96, 0.999), verdict="inconclusive")
"""Its interval leaves 1 out, but the verdict is adjusted for all comparisons of the race."""


def int8_search(why="probably slower, not proven: 0.98× [0.96, 0.999]", *others, speed=SLOWER):
    """Int8 raced and is no faster than the original, and one variant in float is nearer to it."""
    task = SimpleNamespace(
        capabilities=Capabilities(kind="quantisation", reads=("onnx",), writes="", arithmetic="int8", calibrates=True)
    )
    metrics = {**chosen_variant().metrics, "speedup": speed, "accuracy_drop": number(0.003, -0.01, 0.015)}
    told = Prediction(speedup=0.9, because="QLinearConv takes 1.1× the time of Conv here")
    best = variant("ort-static", why=why, task=task, metrics=metrics, predicted=told)
    other = variant("onnx-simplify", why="no difference that matters: 0.996× [0.994, 0.997]",
                    metrics={**metrics, "speedup": number(0.996, 0.994, 0.997)})  # fmt: skip
    files = {"int8": "/out/variants/ort-static-1/model.onnx"}
    return replace(nothing_found(), candidates=(other, best, *others), files=files)


FOUND = (
    "2 variants, 1 of them int8, raced; the best int8 is ort-static @ openvino: {speed}, 3.50× smaller, "
    "Top-1 accuracy 91.67 % (−0.30 pt [−1.50, +1.00])"
)
FILE = "int8 file: /out/variants/ort-static-1/model.onnx; QLinearConv takes 1.1× the time of Conv here"


def test_where_int8_raced_and_lost_the_first_line_says_how_it_did_and_the_second_where_it_is():
    """The first line was about settings that were not tried, and the table about a file in float."""
    note = "settings of openvino were not tried on original: the time budget left no room"
    late_one = late()
    result = replace(int8_search("probably slower, not proven: …", late_one), notes=(note,),
                     not_tried=NotTried(variants=(late_one.id,), of=3))  # fmt: skip
    headline, evidence = headline_of(result)
    told = FOUND.format(speed="probably 1.02× slower [1.001, 1.05], not proven")
    assert headline == (f"No variant is proven faster; 1 of 3 was not decided in 240 s (→ --time-budget 8min); {told}")
    assert evidence == (
        f"{FILE}; the most promising of them is nncf-ptq @ onnxruntime (3.41× predicted): not tried: the time "
        f"budget left no room; what was made is kept; no time for 1 of 3 variants; {note}"
    )
    text = optimization_text(result, width=200)
    assert "Before and after: original → ort-static @ openvino" in text
    assert "int8: /out/variants/ort-static-1/model.onnx" in text
    assert "/out/" not in OPTIMIZATION.render(result, ".md")


def test_where_an_int8_variant_may_still_be_faster_nothing_is_decided_but_what_was_found_is_said():
    headline, evidence = headline_of(
        int8_search("not proven faster: 1.02× [0.96, 1.08]", speed=number(1.02, 0.96, 1.08))
    )
    told = FOUND.format(speed="1.02× the speed [0.96, 1.08]")
    assert headline == (f"No variant is proven faster; 1 of 2 was not decided in 240 s (→ --time-budget 8min); {told}")
    assert evidence.startswith(f"{FILE}; the most promising of them is ort-static @ openvino: not proven faster")
    interrupted = replace(int8_search(), interrupted=True)
    assert headline_of(interrupted)[0].startswith("Interrupted: nothing so far beats the original: 2 variants")


def test_which_samples_were_judged_and_which_calibrated_is_said_once():
    """300 of 400 samples were judged, and nothing said where the others went."""
    data = replace(TEST, name="photos", split="all", size=400)
    result = replace(found(), data=data, judged=300, calibration=replace(data, size=100))
    line = "of 400 samples of photos 300 judge variants, 100 others, drawn at random (seed 1), calibrate passes"
    for details in (False, True):
        assert optimization_text(result, width=200, details=details).count(line) == 1
    assert line not in " ".join(headline_of(result))


def late(
    name="nncf-ptq",
    why="not tried: the time budget left no room",
    *,
    predicted=3.41,
    stage="planned",
    engine="onnxruntime",
):
    """A variant that the time was too short for."""
    told = Prediction(speedup=predicted, low=3.0, high=3.8) if predicted is not None else None
    return variant(name, engine=engine, stage=stage, why=why, predicted=told)


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (late(), "the most promising of them is nncf-ptq @ onnxruntime (3.41× predicted): not tried: the time budget left no room"),
        # Of variants that nothing is known of, none stands for the others.
        (late(predicted=None), ""),
        (late(why="gave up: over 30 s"), "the most promising of them is nncf-ptq @ onnxruntime (3.41× predicted): gave up: over 30 s"),
        (
            late(why="not judged: the time budget ended after 3 of 9 samples", stage="agreed"),
            "the most promising of them is nncf-ptq @ onnxruntime (3.41× predicted): not judged: the time budget ended after 3 of 9 samples",
        ),
        (
            late(why="not proven faster: 1.20× [0.90, 1.50]", stage="raced", predicted=0.9),
            "the most promising of them is nncf-ptq @ onnxruntime (0.90× predicted): not proven faster: 1.20× [0.90, 1.50]",
        ),
    ],
)  # fmt: skip
def test_where_the_time_was_too_short_nothing_is_decided(one, said):
    tried = late("ort-fuse", "not proven faster: 0.99× [0.90, 1.10]", predicted=0.7, stage="raced")
    slow = late("ort-static", predicted=0.7)
    result = replace(nothing_found(), candidates=(*losers(), tried, slow, one))
    headline, evidence = headline_of(result)
    assert headline == "No variant is proven faster; 2 of 9 were not decided in 240 s (→ --time-budget 8min)"
    assert evidence == "; ".join(filter(None, (said, "what was made is kept")))
    sized = replace(result, conditions={**result.conditions, "aim": "size"})
    assert headline_of(sized)[0].startswith("No variant is proven better; 2 of 9")


INT8 = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", arithmetic="int8")


@pytest.mark.parametrize(
    ("stage", "why", "path", "said"),
    [
        ("planned", "gave up: it took longer than 9 s", False, "no int8 file was made"),
        ("sliced", "not judged: the time budget ended after 3 of 9 samples", True, "int8 was made, but not judged in time"),
        ("judged", "not raced: the time budget left no room", True, "int8 was made and judged, but no race decided on it"),
    ],
)  # fmt: skip
def test_the_first_line_says_how_far_int8_came(stage, why, path, said):
    """What was made is kept, but nothing was."""
    one = late("nncf-ptq", why, stage=stage)
    task = SimpleNamespace(one=SimpleNamespace(name="nncf-ptq"), capabilities=INT8)
    one = replace(one, unreached=True, task=task, passes=one.passes if path else (), model=one.model if path else None)
    result = replace(nothing_found(), candidates=(one,))
    headline, evidence = headline_of(result)
    assert headline == f"No variant is proven faster; 1 of 1 was not decided in 240 s (→ --time-budget 8min); {said}"
    assert evidence == (
        f"the most promising of them is nncf-ptq @ onnxruntime (3.41× predicted): {why}{'; what was made is kept' if path else ''}"
    )


def test_what_should_be_slower_and_was_not_tried_leaves_nothing_open():
    result = replace(nothing_found(), candidates=(*losers()[:1], late(predicted=0.5)))
    assert headline_of(result)[0] == "Nothing beats the original"


def test_a_choice_names_what_should_be_faster_and_had_no_time():
    hint = "nncf-ptq @ onnxruntime (3.41× predicted) was not decided in time: give more with --time-budget; what was made is kept"
    result = replace(found(), candidates=(*found().candidates, late()))
    assert headline_of(result)[1] == hint
    assert hint in OPTIMIZATION.render(result, ".html")
    # Slower than the choice, in another engine, or cut off by the user: nothing that more time is known to help.
    raced = late(why="not proven faster: 1.10× [0.90, 1.30]", stage="raced")
    raced = replace(raced, metrics={"speedup": number(1.1, 0.9, 1.3)})
    for other in (late(predicted=2.5), late(engine="openvino"), late(predicted=None), raced):
        assert headline_of(replace(found(), candidates=(*found().candidates, other)))[1] == ""
    assert headline_of(replace(result, interrupted=True))[1] == ""


def test_without_any_variant_it_says_so():
    result = replace(nothing_found(), candidates=(), front=())
    assert headline_of(result) == ("Nothing beats the original: no variant was tried", "")
    table = before_after_table(result)
    assert [column.title for column in table.columns] == ["Metric", "Original"]


def test_bounds_that_cant_be_met_name_the_closest_and_what_stands_in_the_way():
    headline, evidence = headline_of(bounds_unmet())
    assert headline == "No variant meets --max-latency 100us and --max-size 9kB"
    assert evidence == (
        "the closest is ort-static @ openvino; in the way: Latency 141 µs is over --max-latency 100us; "
        "Model size 15.0 KiB is over --max-size 9 kB (8.79 KiB)"
    )
    assert before_after_table(bounds_unmet()).columns[2].title == "Closest"


def test_a_speed_of_the_short_race_is_marked_as_such_beside_before_and_after():
    """``n/a → n/a, 1.13× the speed`` stood there without a word."""
    one = replace(late(stage="screened"), metrics={"speedup": number(1.13)})
    nothing = nothing_found()
    result = replace(nothing, candidates=(one,), front=(), closest=one.id)
    (cell,) = [row[-1] for row in before_after_table(result).rows if row[0].text == "Latency"]
    assert cell.text == "~1.13× the speed" and cell.notes[0].startswith("in the short race that chose")
    raced = replace(one, stage="raced", metrics={"speedup": replace(number(1.13, 1.1, 1.2), verdict="inconclusive")})
    result = replace(nothing, candidates=(raced,), front=(), closest=raced.id)
    (cell,) = [row[-1] for row in before_after_table(result).rows if row[0].text == "Latency"]
    assert cell.text == "probably 1.13× faster [1.10, 1.20], not proven"
    assert cell.notes == (
        "a proof takes a risk of error below 1 % over all comparisons of the race, the interval has 5 %",
    )


def test_where_the_original_is_closest_the_table_says_nearest():
    result = replace(bounds_unmet(), closest="original")
    assert before_after_table(result).columns[2].title == "Nearest"
    assert headline_of(result)[1].startswith("the closest is original")


def test_an_interrupted_search_says_so():
    assert headline_of(replace(found(), interrupted=True))[0].startswith("interrupted; the best so far: /out/kws.ort")
    assert (
        headline_of(replace(nothing_found(), interrupted=True))[0] == "Interrupted: nothing so far beats the original"
    )
    unfinished = replace(losers()[2], why="")
    assert verdict_of(found(), unfinished) == "unfinished (judged)"


def test_where_size_is_the_aim_it_comes_first():
    result = found()
    result = replace(result, conditions={**result.conditions, "aim": "size"})
    assert headline_of(result)[0].startswith(
        "/out/kws.ort-static.onnx on openvino against kws.onnx on onnxruntime: 3.50× smaller, 2.97× faster [2.91, 3.03]"
    )


def test_a_path_wider_than_the_terminal_is_one_line_that_can_be_copied():
    path = f"/out/{'long-folder/' * 8}model.tflite"
    lines = optimization_text(replace(nothing_found(), files={"chosen": path}), width=80).splitlines()
    assert path in lines and lines[lines.index(path) - 1] == "  chosen:"


def test_factors_are_rounded_outwards():
    assert factor_text(2.9651, 2.9149, 3.0251) == "2.97× [2.91, 3.03]"
    assert factor_text(1.0041, 1.0002, 1.0079) == "1.004× [1.0002, 1.008]"
    assert factor_text(1.0041, 0.9982, 1.0079) == "1.00× [0.99, 1.01]"
    assert factor_text(35.12, 20.4, 61.7) == "35× [20, 62]"
    assert [factor_text(1.04), factor_text(1.004), factor_text(1.0)] == ["1.04×", "1.004×", "1.00×"]
    assert factor_text(12.34, 11.98, 12.71) == "12.3× [11.9, 12.8]"
    assert speedup_text(None) == "n/a"


def test_a_speed_up_has_a_word_only_where_it_is_proven():
    assert speed_text(number(2.0, 1.9, 2.1)) == "2.00× faster [1.90, 2.10]"
    assert speed_text(number(1.016, 1.011, 1.02)) == "1.02× the speed [1.01, 1.02]"  # too little to matter
    assert speed_text(number(0.5, 0.4, 0.8)) == "2.00× slower [1.25, 2.50]"
    assert speed_text(number(0.055, 0.05, 0.06)) == "18.2× slower [16.6, 20.0]"
    assert speed_text(replace(number(1.04, 1.01, 1.08), verdict="inconclusive")) == (
        "probably 1.04× faster [1.01, 1.08], not proven"
    )
    assert speed_text(replace(number(1.04, 1.01, 1.08), verdict="faster")) == "1.04× faster [1.01, 1.08]"
    assert speed_text(number(1.2, 0.9, 1.5)) == "1.20× the speed [0.90, 1.50]"
    assert speed_text(number(1.2)) == "1.20× the speed"


def test_a_memory_factor_has_a_word_only_where_it_is_proven():
    assert memory_text(number(1.25, 1.2, 1.3)) == "1.25× smaller [1.20, 1.30]"
    assert memory_text(number(0.5, 0.4, 0.8)) == "2.00× larger [1.25, 2.50]"
    assert memory_text(number(1.2, 0.9, 1.5)) == "not told apart"
    assert memory_text(number(1.0, 1.0, 1.0)) == "same"
    assert memory_text(replace(number(0.5, 0.4, 0.8), verdict="inconclusive")) == "not told apart"


@pytest.mark.parametrize(
    ("reduction", "text", "notes"),
    [
        (number(2.0, 1.9, 2.1), "2.00× smaller [1.90, 2.10]", ()),
        (number(1.2, 0.9, 1.5), "not told apart", ("before over after 1.20× [0.90, 1.50]",)),
        (number(2.0), "2.00× smaller", ("of this ratio no interval is known",)),
        (
            number(None, absent_because="the race gave no ratio"),
            "2.00× smaller",
            ("of this ratio no interval is known",),
        ),
    ],
)
def test_without_an_interval_of_the_factor_the_two_values_tell(reduction, text, notes):
    result = found()
    one = result.candidate(result.chosen)
    changed = replace(
        one, metrics={**one.metrics, "memory_peak": number(24e6, 23e6, 25e6), "memory_reduction": reduction}
    )
    result = replace(result, candidates=[changed if each is one else each for each in result.candidates])
    rows = {row[0].text: row[-1] for row in before_after_table(result).rows}
    assert (rows["Peak memory"].text, rows["Peak memory"].notes) == (text, notes)


def test_memory_that_intervals_dont_tell_apart_is_not_called_smaller():
    assert bytes_text(number(48e6, 47e6, 49e6), number(47.5e6, 46.9e6, 48e6)) == "not told apart"
    assert bytes_text(number(48e6, 47e6, 49e6), number(24e6, 23e6, 25e6)) == "2.00× smaller"
    assert bytes_text(number(24e6), number(48e6)) == "2.00× larger"
    assert bytes_text(number(24e6), number(24e6)) == "same"
    assert bytes_text(number(24e6), number(24_000_100.0)) == "about the same"
    assert bytes_text(number(24.96e6), number(24e6)) == "about the same"  # not 1.040× smaller: see SMALLER
    assert bytes_text(number(25.92e6), number(24e6)) == "1.08× smaller"
    assert bytes_text(number(24e6), number(None)) == ""


def test_a_drop_of_accuracy_is_a_change_below_0_and_a_loss_that_rises_is_above():
    assert accuracy_text(number(0.0412, 0.035, 0.047), "accuracy_top1") == "−4.12 pt [−4.70, −3.50]"
    assert accuracy_text(number(-0.0, -0.01, 0.01), "accuracy_top1") == "+0.00 pt [−1.00, +1.00]"
    assert accuracy_text(number(0.0314, 0.01, 0.05), "mae") == "+0.0314 [+0.0100, +0.0500]"
    assert accuracy_text(number(None), "accuracy_top1") == "n/a"
    # A change that is there never reads as none.
    assert accuracy_text(number(0.00002), "accuracy_top1") == "−0.002 pt"


def test_every_stage_has_its_verdict():
    result = found()
    assert [verdict_of(result, one) for one in (result.baseline, *result.candidates)] == [
        "original", "lost the race", "out in the short race", "not raced", "out at agreement", "out at loading",
        "not made", "chosen",
    ]  # fmt: skip
    assert verdict_of(replace(result, chosen=None), chosen_variant()) == "accepted"
    undecided = variant("ort-int4", why="not proven faster: 1.47× [1.29, 1.68] (not yet proven: a difference)")
    assert verdict_of(result, undecided) == "undecided"


def test_the_wide_table_has_a_reason_in_every_row():
    table = variants_table(found())
    assert [column.title for column in table.columns] == [
        "#", "Variant", "Verdict", "Predicted", "Measured", "Change of top-1 accuracy (pt)", "Size (KiB)", "Why"
    ]  # fmt: skip
    assert all(row[-1].text for row in table.rows)
    assert table.rows[1][-1].text == "faster: 5 of 6 heavy operators compute in int8"
    assert (table.rows[1][5].value, table.rows[1][5].low, table.rows[1][5].high) == (0.0, -0.0092, 0.0092)


def test_layers_are_the_most_fragile_first_and_the_terminal_has_few_of_them():
    assert [row[3].text for row in layers_table(found()).rows[:2]] == ["yes", "no"]
    assert len(layers_table(found()).rows) == 14
    short = layers_table(found(), narrow=True)
    assert len(short.rows) == 10
    assert "4 more layers are in the report's files" in short.notes
    missing = layers_table(found()).rows[-1]
    assert (missing[2].text, missing[2].notes) == ("n/a", ("the time for this test was over",))


def test_without_data_outputs_are_compared_and_nothing_is_called_accuracy():
    text = optimization_text(without_data())
    assert "Output SNR" in text
    assert "accuracy" not in text
    assert "no data: outputs were compared with the original's" in text
    assert "the original was not raced" in text


def test_json_is_the_document_of_the_search():
    assert json.loads(OPTIMIZATION.render(found(), ".json")) == json.loads(json.dumps(found().to_document()))


def test_json_has_no_nan():
    baseline = original(latency=MetricValue(value=float("nan")))
    document = json.loads(OPTIMIZATION.render(replace(found(), baseline=baseline), ".json"))
    assert document["baseline"]["metrics"]["latency"]["value"] is None


def test_csv_has_a_row_a_variant_in_si_units():
    rows = list(csv.DictReader(io.StringIO(OPTIMIZATION.render(found(), ".csv"))))
    assert [row["Variant"] for row in rows] == ["original", *(one.id for one in found().candidates)]
    best = rows[-1]
    assert (best["Latency (s)"], best["Latency (s) low"], best["Model size (B)"]) == ("0.0001414", "0.00014", "15410")
    assert (best["Speed-up (1)"], best["Speed-up (1) high"], best["Accuracy drop (1)"]) == ("2.97", "3.03", "0")
    assert (best["Verdict"], best["Accepted"], best["On the front"], best["Kept in float"]) == (
        "chosen",
        "yes",
        "yes",
        "stem",
    )
    never = rows[-2]
    assert (never["Latency (s)"], never["Model size (B)"], never["Path"]) == ("n/a", "n/a", "n/a")
    assert "it was rejected before this was measured" in never["Notes"]


def test_markdown_escapes_what_is_hostile():
    text = OPTIMIZATION.render(hostile_search(), ".md")
    assert "<script>" not in text
    assert "](http://evil" not in text
    assert "\x1b" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    header = next(line for line in rows if "Verdict" in line)
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in rows if "script" in line and line.startswith("| 1")} == {
        len(re.findall(r"(?<!\\)\|", header))
    }


def test_the_page_tells_where_the_chosen_file_comes_from():
    text = OPTIMIZATION.render(found(), ".html")
    for word in ("kws.ort-static.onnx.provenance.json", "c" * 64, "a" * 64, "d" * 64, "e" * 64, "run-1", "a note"):
        assert word in text
    assert "/out/" not in text
    assert "edgewise optimize kws.onnx --data kws.npz" in text


def test_what_was_not_saved_is_said_first():
    text = optimization_text(replace(found(), save_errors=(StoreError("the disk is full", advice=""),)))
    assert text.index("the disk is full") < text.index("Why other variants were not chosen")


def test_a_hostile_headline_is_one_line():
    headline, _ = headline_of(hostile_search())
    assert "\n" not in headline
    assert headline.startswith(" ".join(HOSTILE.replace("\x1b", " ").split())[:20])


def test_the_first_lines_say_what_there_was_no_time_for():
    """A search of three minutes tried no int8 at all, which its first line did not say."""
    untried = NotTried(variants=("a", "b"), of=3, families=("int8",), budget_s=360.0)
    _, second = headline_of(replace(found(), not_tried=untried))
    assert second.endswith(
        "no time for 2 of 3 variants, including every int8 one; give it more, such as --time-budget 6min"
    )
    first, _ = headline_of(replace(nothing_found(), not_tried=replace(untried, families=(), budget_s=90.5)))
    assert first.endswith("; no time for 2 of 3 variants; give it more, such as --time-budget 90.5s")
    assert "no time" not in headline_of(replace(found(), not_tried=NotTried(of=3)))[1]


def test_the_first_line_says_what_data_would_win():
    told = Prediction(speedup=2.1, low=1.8, high=2.4, because="5 of 6 heavy operators compute in int8")
    promise = PredictionWithData(variant="ort-static @ onnxruntime", engine="onnxruntime", prediction=told)
    plain = replace(without_data(), with_data=promise)
    first, _ = headline_of(plain)
    engine = plain.baseline.runtime.name
    assert plain.chosen is None and engine == "onnxruntime"
    assert "; about 2.10× [1.80, 2.40] more with --data, estimated (ort-static @ onnxruntime)" in first
    # Of another engine it is no factor of what was measured.
    first, _ = headline_of(replace(plain, with_data=replace(promise, engine="openvino")))
    assert "with --data over the model as it is in openvino, estimated" in first
    document = replace(plain, with_data=promise).to_document()["with_data"]
    assert (document["speedup"], document["low"], document["high"], document["basis"]) == (2.1, 1.8, 2.4, "estimated")


def test_a_speed_up_of_several_parts_is_taken_apart():
    factors = (
        Factor(kind="engine", what="openvino", before="original", after="original @ openvino",
               number=MetricValue(value=1.5, low=1.4, high=1.6, basis="derived")),
        Factor(kind="threads", what="2 threads", before="v", after="w",
               number=MetricValue(value=2.0, low=1.9, high=2.1, basis="derived")),
    )  # fmt: skip
    assert reason_line(replace(found(), factors=factors)).startswith(
        "ort-static @ openvino: made of 1.50× [1.40, 1.60] engine (openvino) × 2.00× [1.90, 2.10] threads (2 threads)"
    )
    told = replace(found(), factors=factors).to_document()["factors"]
    assert (told[1]["value"], told[1]["before"], told[1]["after"]) == (2.0, "v", "w")
    unknown = replace(factors[0], number=MetricValue(value=None, absent_because="not in one race"))
    assert reason_line(replace(found(), factors=(unknown, unknown))) == reason_line(found())


def engine_search(*steps, chosen="kws.tflite"):
    """Another engine is faster; `steps` says what int8 gains in it: passes, family, speed over the float file."""
    size = {"model_size": number(15_410.0)}
    plain = variant("kws.tflite", engine="litert", accepted=True, passes=(),
                    metrics={"model_size": number(53_936.0), "speedup": replace(number(1.76, 1.65, 1.81), verdict="faster")})  # fmt: skip
    others = [variant(what, engine="litert", why="slower", metrics=size) for what, _, _ in steps]
    found_steps = tuple(
        Factor(kind=kind, what=what, before=plain.id, after=f"{what} @ litert", number=speed)
        for what, kind, speed in steps
    )
    return replace(found(), candidates=(plain, *others), chosen=f"{chosen} @ litert", precision_steps=found_steps)


SAME = replace(number(1.0, 0.98, 1.02), verdict="same")
LOST = replace(number(0.71, 0.69, 0.73), verdict="slower")


def test_where_int8_gains_nothing_the_line_under_the_conclusion_says_what_makes_it_faster():
    """ "1.73× faster" of an int8 file was all the engine's: the float file was as fast in it."""
    steps = [("ort-static", "int8", LOST), ("weights", "weight compression", SAME)]
    line = (
        "litert makes it 1.76× faster [1.65, 1.81]; int8 and weight compression gain no speed over kws.tflite @ litert: "
        "weights: 1.00× the speed [0.98, 1.02], 3.50× smaller; ort-static: 1.41× slower [1.36, 1.45], "
        "3.50× smaller"
    )
    for chosen in ("kws.tflite", "weights"):
        result = engine_search(*steps, chosen=chosen)
        assert precision_line(result) == line
        assert optimization_text(result, width=400).splitlines()[1] == line
        assert line in OPTIMIZATION.render(result, ".md").replace("\\", "")
    assert result.to_document()["precision_steps"][1]["verdict"] == "same"
    open_ = [("weights", "weight compression", replace(SAME, verdict="inconclusive"))]
    assert precision_line(engine_search(*open_)) == (
        "litert makes it 1.76× faster [1.65, 1.81]; weight compression is not proven to gain speed over "
        "kws.tflite @ litert: weights: 1.00× the speed [0.98, 1.02], 3.50× smaller"
    )


def test_where_int8_gains_or_was_in_no_race_beside_the_float_file_no_line_says_that_it_does_not():
    won = ("ort-static", "int8", replace(number(1.4, 1.3, 1.5), verdict="faster"))
    assert precision_line(engine_search(won, ("weights", "weight compression", SAME))) == ""
    assert precision_line(engine_search()) == precision_line(found()) == precision_line(nothing_found()) == ""


def test_the_first_lines_say_whether_int8_is_worth_it():
    """The report left it out: int8 was 1.60× faster, the unchanged file in the chosen precision 1.65×."""
    size = {"model_size": number(53_936.0), "speedup": replace(number(1.65, 1.6, 1.7), verdict="faster")}
    plain = variant("kws.tflite", engine="litert", accepted=True, passes=(), metrics=size)
    plain = replace(plain, id="original @ litert, bf16", runtime=replace(plain.runtime, precision="bf16"))
    small = {"model_size": number(15_410.0), "speedup": replace(number(1.6, 1.5, 1.7), verdict="faster"),
             "accuracy_top1": number(0.9), "accuracy_drop": number(0.0167, 0.01, 0.03)}  # fmt: skip
    int8 = variant("ort-static", engine="litert", accepted=True, metrics=small)
    int8 = replace(int8, task=SimpleNamespace(capabilities=SimpleNamespace(family="int8", kind="quantisation")))
    step = Factor(kind="int8", what="ort-static", before=plain.id, after=int8.id,
                  number=replace(number(0.97, 0.93, 1.01), verdict="inconclusive"))  # fmt: skip
    chosen = replace(found(), candidates=(plain, int8), chosen=plain.id, precision_steps=(step,),
                     files={"chosen": "/out/kws.as-it-is.onnx", "int8": "/out/variants/a/kws.onnx"})  # fmt: skip
    against = "against the original: 1.60× faster [1.50, 1.70], 3.50× smaller, Top-1 accuracy 90.00 %"
    assert precision_line(chosen) == (
        "int8 is not proven to gain speed over original @ litert, bf16: "
        "ort-static: 0.97× the speed [0.93, 1.01], 3.50× smaller"
    )
    assert int8_line(chosen).startswith(f"the best int8 file, ort-static @ litert: {against}")
    assert int8_line(chosen).endswith("; /out/variants/a/kws.onnx")
    assert int8_line(chosen) in optimization_text(chosen, width=400).splitlines()[2]
    assert "int8: /out/variants/a/kws.onnx" in optimization_text(chosen, width=400)
    page = render_markdown(
        describe_optimization(chosen)
    )  # every variant's file has this name, and pages disclose no folders
    assert "int8: variants/a/kws.onnx" in page and "; variants/a/kws.onnx" in page and "/out/" not in page
    unlinked = int8_line(replace(chosen, precision_steps=()))
    assert unlinked.startswith(f"the best int8 file, ort-static @ litert: in no race with the chosen one; {against}")
    # Where int8 was chosen, the first line has its file, and this one what int8 adds to the engine.
    gained = replace(step, before="original @ litert", number=replace(number(1.17, 1.1, 1.24), verdict="faster"))
    bare = replace(plain, id="original @ litert", runtime=replace(plain.runtime, precision=None))
    won = replace(chosen, chosen=int8.id, candidates=(bare, int8), precision_steps=(gained,))
    assert int8_line(won) == "int8: 1.17× faster [1.10, 1.24] against the unchanged file, original @ litert"
    assert int8_line(replace(won, precision_steps=())) == int8_line(nothing_found()) == ""


def test_an_accepted_variant_that_is_slower_than_the_chosen_one_says_by_how_much():
    other = variant("nncf-ptq", engine="openvino", accepted=True, why="faster: 1.24× [1.21, 1.27]",
                    behind="1.20× slower [1.14, 1.27] than the chosen one")  # fmt: skip
    result = replace(found(), candidates=(chosen_variant(), other))
    text = optimization_text(result, width=200, details=True)
    assert "nncf-ptq @ openvino: 1.20× slower [1.14, 1.27] than the chosen one" in text
    assert "faster; 1.20× slower [1.14, 1.27] than the chosen one" in OPTIMIZATION.render(result, ".md").replace(
        "\\", ""
    )
    assert result.to_document()["variants"][1]["why"] == (
        "faster: 1.24× [1.21, 1.27]; 1.20× slower [1.14, 1.27] than the chosen one"
    )


def test_an_engine_that_took_no_part_is_in_the_first_lines_and_not_in_the_notes():
    note = (
        f"{ABSENT_ENGINES}litert can't read .onnx: edgewise convert kws.onnx --to tflite makes a file that it measures"
    )
    for make in (found, nothing_found, without_data, int8_search):
        result = replace(make(), notes=(note, "another"))
        assert note in " ".join(headline_of(result))
        text = optimization_text(result, width=1000)
        assert text.count(note) == 1 and text.index(note) < text.index("Metric ")


def test_a_path_that_is_wider_than_the_terminal_is_not_broken():
    """A path that is split into two lines can't be copied."""
    path = f"/home/somebody/{'folder/' * 12}kws.ort-static.onnx"
    lines = optimization_text(replace(found(), files={"chosen": path})).splitlines()
    assert lines[0] == path and lines[1].startswith("on openvino against kws.onnx on onnxruntime: 2.97×")


def test_the_first_line_names_engines_and_settings_that_differ():
    """ "X.as-it-is.onnx against X.onnx: 1.67× faster" compared a file with itself, and named no engine."""
    result = found()
    chosen = result.candidate(result.chosen)

    def begin(**runtime):
        one = replace(chosen, **{"model": runtime.pop("model", chosen.model)})
        one = replace(one, runtime=replace(one.runtime, **runtime))
        return headline_of(replace(result, candidates=(one,)))[0].partition(":")[0]

    assert begin(name="onnxruntime") == "/out/kws.ort-static.onnx against kws.onnx"
    setting = begin(model=result.baseline.model, precision="bf16", threads=2)
    assert setting == "kws.onnx, unchanged, on openvino, bf16, 2 threads against onnxruntime, 1 thread"
    threads = begin(name="onnxruntime", threads=2)
    assert threads == "/out/kws.ort-static.onnx on onnxruntime, 2 threads against kws.onnx on onnxruntime, 1 thread"


def test_speed_ups_of_another_race_than_the_chosen_one_are_marked():
    """The rows of two races stood in one column, and their quotient was another than the verdict between the two."""
    result = found()
    first, second = (replace(result.baseline, run=run) for run in ("race-1", "race-2"))
    chosen = replace(result.candidate(result.chosen), beside=second)
    beside = variant("nncf-ptq", accepted=True, beside=second, metrics={"speedup": number(1.25, 1.13, 1.38)})
    before = variant("ort-dynamic", accepted=True, beside=first, metrics={"speedup": number(1.57, 1.32, 1.87)})
    result = replace(result, candidates=(chosen, beside, before))
    for narrow in (False, True):
        table = variants_table(result, narrow=narrow)
        column = [one.title for one in table.columns].index("Measured")
        assert [row[column].text.partition(" ")[0] for row in table.rows] == ["–", "2.97×", "1.57×†", "1.25×"]
        assert any(note.startswith("†: in another race") for note in table.notes)
    alone = variants_table(replace(result, candidates=(chosen, beside)))
    assert not any(note.startswith("†") for note in alone.notes)


def test_an_accuracy_has_its_number_of_samples():
    assert "Top-1 accuracy 91.67 % of 1,200 samples (+0.00 pt" in headline_of(replace(found(), judged=1200))[0]


def test_parts_that_no_race_tells_apart_are_named():
    whole = Factor(kind="engine + precision", what="openvino, nncf-ptq", before="original", after="w",
                   number=MetricValue(value=1.7, low=1.6, high=1.8, basis="derived"))  # fmt: skip
    line = reason_line(replace(found(), factors=(whole,)))
    assert line.startswith(
        "ort-static @ openvino: not told apart: engine + precision (openvino, nncf-ptq), for no race had the variant between them"
    )
    assert "made of" not in line


def test_where_no_profile_and_no_file_says_why_the_line_says_how_to_see_it():
    line = reason_line(replace(found(), reason=""))
    assert line == "ort-static @ openvino: " + wording("which-layers-gain-not-known")
    assert reason_line(nothing_found()) == "" and reason_line(replace(found(), device="pixel8")) == ""


def test_the_first_lines_say_what_the_file_as_it_is_gains_in_another_precision():
    result = found()
    runtime = replace(result.baseline.runtime, name="openvino", precision="bf16")
    tuned = replace(
        result.candidates[0], id="original @ openvino, bf16", model=result.baseline.model, runtime=runtime,
        metrics={"speedup": MetricValue(value=1.55, low=1.5, high=1.6)},
    )  # fmt: skip
    _, evidence = headline_of(replace(result, candidates=(*result.candidates, tuned)))
    assert "the file as it is, original @ openvino, bf16: 1.55× faster [1.50, 1.60]" in evidence
    assert "as it is" not in headline_of(result)[1]
    slower = replace(tuned, metrics={"speedup": MetricValue(value=0.9, low=0.8, high=1.0)})
    assert "as it is" not in headline_of(replace(result, candidates=(*result.candidates, slower)))[1]


def test_the_first_lines_say_that_settings_were_not_tried():
    note = "settings of openvino were not tried on original @ openvino: the time budget left no room"
    assert headline_of(replace(found(), notes=(note,)))[1] == note


def test_the_first_lines_say_why_this_variant_of_those_as_fast():
    because = "1 other is as fast, as far as can be told; nncf-ptq is smaller, but less accurate"
    assert because in headline_of(replace(found(), chosen_because=because))[1]
    assert because in OPTIMIZATION.render(replace(found(), chosen_because=because), ".html")
    document = replace(found(), chosen_because=because).to_document()
    assert document["chosen_because"] == because and found().to_document()["chosen_because"] is None


def test_an_int8_file_with_an_engine_setting_of_bf16_is_called_what_it_is():
    int8 = SimpleNamespace(
        capabilities=Capabilities(kind="quantisation", reads=("onnx",), writes="", arithmetic="int8")
    )
    setting = SimpleNamespace(capabilities=Capabilities(kind="tuning", reads=("onnx",), writes=""))
    file = replace(chosen_variant(), task=int8)
    runtime = replace(file.runtime, precision="bf16")
    tuned = replace(file, id=f"{file.id}, bf16", parent=file.id, task=setting, runtime=runtime)
    search = replace(found(), candidates=(file, tuned), chosen=tuned.id)
    assert reason_line(search).startswith("ort-static @ openvino, bf16 (int8 file, engine setting bf16): ")
    assert reason_line(replace(search, chosen=file.id)).startswith("ort-static @ openvino (int8): ")
    two = replace(tuned, id=f"{file.id}, 2 threads", runtime=file.runtime)
    search = replace(search, candidates=(file, two), chosen=two.id)
    assert reason_line(search).startswith("ort-static @ openvino, 2 threads (int8): ")
    assert "setting precision bf16" in runtime_text(tuned)


def test_the_page_says_why_intervals_of_a_number_and_of_its_change_differ():
    (latency, accuracy) = before_after_table(found()).notes
    assert "for a re-run on this machine" in latency and "same samples" in accuracy
    assert before_after_table(found(), narrow=True).notes == ()  # there, only changes have intervals
    assert before_after_table(replace(nothing_found(), candidates=())).notes == ()


def test_an_snr_is_shown_as_it_is():
    best = found().candidate(found().chosen)
    snr = MetricValue(value=27.26, low=26.81, high=27.84)
    best = replace(
        best, metrics={**best.metrics, "output_snr_worst": snr, "output_max_abs_error": MetricValue(value=1.0)}
    )
    del best.metrics["accuracy_drop"]
    result = replace(
        found(), candidates=(*losers(), best), headline="output_snr_worst", task="",
        bounds=(Bound(metric="output_snr_worst", limit=20.0, words="--min-snr 20dB", upper=False),),
    )  # fmt: skip
    first, _ = headline_of(result)
    assert "SNR 27.3 dB [26.8, 27.9]" in first
    text = optimization_text(result)
    assert "SNR of the worst output" in text and "27.3" in text and "no data" not in text


CHANGED = """\
## Changed answers

| Variant | Samples | Changed | Share (95 % interval) | Right → wrong | Wrong → right | Wrong → wrong |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
| ort-static @ openvino | 400 | 0 | 0.00 % \\[0.00, 0.96\\] | 0 | 0 | 0 |
| ort-dynamic @ onnxruntime | 400 | 3 | 0.75 % \\[0.25, 2.19\\] | 1 | 1 | 1 |

- changed: of the samples that both models answered, those with another class than the original's

## Changed samples: ort-dynamic @ onnxruntime

| Sample | Change | Label | Original | Variant |
| --- | --- | --- | --- | --- |
| net.png | right → wrong | yes | yes (0.970) | no (0.500) |
| net.png | wrong → right | no | class 2 (0.970) | no (0.500) |
| net.png | wrong → wrong | yes | no (0.970) | none (NaN) |
"""


def test_changed_answers_are_counted_for_every_variant_and_listed_for_the_first_that_has_some():
    assert CHANGED in OPTIMIZATION.render(changed_search(), ".md")
    document = json.loads(OPTIMIZATION.render(changed_search(), ".json"))["changed_answers"]
    assert [one["changed"] for one in document.values()] == [0, 3]
    other = document["ort-dynamic @ onnxruntime"]
    assert other["counts"] == {"lost": 1, "gained": 1, "other": 1} and other["classes"] == {"0": "yes", "1": "no"}
    assert [one["index"] for one in other["samples"]] == [7, 8, 9]
    assert "data:image" not in json.dumps(document)
    assert "Changed" not in optimization_text(changed_search(), details=False)


def test_without_labels_no_change_is_called_right_or_wrong():
    result = changed_search()
    changed = replace(result.changed["ort-dynamic @ onnxruntime"], counts={"other": 3})
    samples = tuple(replace(one, label=None, change="other") for one in changed.samples)
    text = OPTIMIZATION.render(replace(result, changed={"v": replace(changed, samples=samples)}), ".md")
    assert "| Variant | Samples | Changed | Share (95 % interval) |\n" in text
    assert "| net.png | yes (0.970) | no (0.500) |\n" in text and "right →" not in text.lower()


def test_changed_samples_are_a_gallery_where_there_are_pictures_else_a_table(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # drawing charts takes seconds
    page = OPTIMIZATION.render(changed_search(), ".html")
    gallery = page.partition('<ul class="gallery">')[2].partition("</ul>")[0]
    assert gallery.count(f'<p>net.png</p>\n<img src="{PICTURE}" alt="">') == 2 and gallery.count("no picture") == 1
    assert '<dt>Variant</dt><dd class="bad">no (0.500)</dd>' in gallery
    assert "Changed answers: 0.75 %" in page and "Error rate" not in page
    assert "1 without a picture: 9: damaged" in page and "img-src data:;" in page
    without = replace(changed_search(), thumbnails=({}, "no pictures: the samples are sounds"))
    page = OPTIMIZATION.render(without, ".html")
    assert "<img" not in page and 'class="gallery"' not in page and "no pictures: the samples are sounds" in page
    assert "Changed samples: ort-dynamic @ onnxruntime" in page
    assert 'id="changed"' not in OPTIMIZATION.render(found(), ".html")


def test_a_page_that_the_studio_shares_keeps_the_pictures(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with as_part():
        part = OPTIMIZATION.render(changed_search(), ".html")
    shared = frozen(f"<title>job</title><main>{part}</main>", lambda path: None)
    assert shared.count(f'<img src="{PICTURE}" alt="">') == 2 and "img-src data:;" in shared


def test_the_page_has_the_confusion_before_and_after(monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = found()
    judged = Accuracy(answers=SampleResults(entries=()), evaluation=evaluation())
    *others, best = result.candidates
    result = replace(
        result, baseline=replace(result.baseline, accuracy=judged),
        candidates=(*others, replace(best, accuracy=judged)),
    )  # fmt: skip
    page = OPTIMIZATION.render(result, ".html")
    assert page.count('<table class="confusion"') == 2
    assert "original: labels down" in page and f"{best.id}: labels down" in page


def test_what_had_no_time_says_so_instead_of_being_rejected():
    never = replace(losers()[0], stage="planned", metrics={}, why="")
    late = never.leave("not tried: the time budget left no room")
    assert number_of(late, "speedup").absent_because == "not tried: the time budget left no room"
    assert "rejected before" in (number_of(never.reject("a crash"), "speedup").absent_because or "")


@pytest.mark.parametrize(
    ("stage", "verdict"),
    [("planned", "not made"), ("made", "not judged"), ("agreed", "not judged"), ("judged", "not raced")],
)
def test_what_ctrl_c_left_open_was_neither_rejected_nor_out(stage, verdict):
    *_, last = losers()
    left = replace(last, stage=stage, metrics={}, why="", accepted=False).leave("not raced: interrupted")
    assert verdict_of(found(), left) == verdict
    text = optimization_text(replace(nothing_found(), candidates=(left,), interrupted=True), width=200)
    assert "not raced: interrupted" in text and "reject" not in text


def test_where_all_that_raced_is_int8_the_first_line_counts_it_once():
    result = int8_search()
    _, best = result.candidates
    one, two = (replace(result, candidates=(best, replace(best, id="v"))[:count]) for count in (1, 2))
    assert headline_of(one)[0].startswith("Nothing beats the original: 1 int8 variant raced; the best int8 is ")
    assert headline_of(two)[0].startswith("Nothing beats the original: 2 int8 variants raced; the best int8 is ")


def test_an_int8_variant_that_is_faster_but_out_of_bounds_says_so():
    why = "faster: 1.50× [1.40, 1.60], but Peak memory 90 MB is over --max-memory 64MiB"
    headline, evidence = headline_of(int8_search(why, speed=number(1.5, 1.4, 1.6)))
    assert "the best int8 is ort-static @ openvino: 1.50× faster [1.40, 1.60]" in headline and why in evidence
