"""The list of boards that hold a model: order, limits, battery life, and the three ways to it."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

import edgewise
from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.errors import BadInput
from edgewise.estimating.boards import MVP, boards
from edgewise.estimating.fits import Fits, Limits, boards_by_core, rank
from edgewise.estimating.memory_only import UPPER_BOUNDS
from edgewise.record import Measurement
from edgewise.report.document.markdown import render_markdown
from edgewise.report.estimate.fits import boards_table, fits_document
from edgewise.run.battery import DAY_S, Quantity
from edgewise.verbs.estimate.work import with_battery
from edgewise.verbs.fits.request import FitsRequest
from edgewise.verbs.reading import read_request
from edgewise.verbs.verb import command_of
from estimates import dense_relu, on_board
from messages import is_in, says, wording

BOARDS = (
    on_board("unknown", ram=2000),
    on_board("slow", ram=4000, latency=0.2),
    on_board("tiny", ram=500, latency=0.01),
    on_board("maybe", ram=1500, at_least={"RAM": "arena"}),
    on_board("quick", ram=3000, latency=0.1),
    on_board("no-flash", ram=3000, flash=1024, latency=0.1),
)


def names(candidates):
    return [each.fit.board.name for each in candidates]


def test_boards_that_fit_come_first_by_latency_then_those_that_may_fit():
    found = Fits(model={"name": "m.tflite"}, candidates=rank(BOARDS, Limits()))
    assert names(found.listed) == ["quick", "slow", "unknown", "maybe"]
    assert names(found.candidates)[4:] == ["tiny", "no-flash"]
    assert found.left_out == {"not enough RAM": 1, "not enough flash": 1} and found.refused is None


def test_limits_leave_boards_out_and_are_counted():
    found = Fits(model={}, candidates=rank(BOARDS, Limits(latency=0.15)))
    assert names(found.listed) == ["quick"]
    assert found.left_out == {
        "holds it, latency above 150 ms": 1, "holds it, latency not known": 1, "may hold it, latency not known": 1,
        "not enough RAM": 1, "not enough flash": 1,
    }  # fmt: skip
    assert sum(found.left_out.values()) == len(found.candidates) - len(found.listed) == 5
    shown = " ".join(render_markdown(fits_document(found)).split())
    assert (
        "1 of 6 boards holds the model within the limits. 1 more holds it: the latency is not known. The fastest is "
        "quick: 100 ms (± 10 ms)." in shown
    )
    assert "holds it, latency not known: 1 (unknown)" in shown and "not enough RAM: 1 (tiny)" in shown
    memory = Fits(model={}, candidates=rank(BOARDS, Limits(ram=999, flash=2047)))
    assert memory.listed == () and memory.left_out["RAM of the model above 1.0 KiB"] == 4
    assert re.match(says("none-boards-holds-model-within", candidates_count=6), memory.refused)
    assert names(Fits(model={}, candidates=rank(BOARDS, Limits(ram=1000, flash=2048))).listed) == [
        "quick", "slow", "unknown", "maybe",
    ]  # fmt: skip


def test_a_part_of_the_latency_above_the_limit_leaves_a_board_out():
    one = replace(on_board("b", ram=2000), at_least={"latency": 0.2})
    assert Limits(latency=0.1).reasons(one, one.fit) == ("holds it, latency above 100 ms",)
    assert Limits(latency=0.3).reasons(one, one.fit) == ("holds it, latency not known",)


def test_a_board_whose_interval_crosses_the_limit_is_marked():
    """100 ms with an interval of 90 to 110 ms."""
    found = {most: Fits(model={}, candidates=rank(BOARDS, Limits(latency=most))) for most in (0.105, 0.111)}
    assert [found[most].listed[0].may_exceed for most in found] == [True, False]
    assert [found[most].listed[0].to_document()["may_exceed"] for most in found] == [True, False]
    shown = [render_markdown(fits_document(each)) for each in found.values()]
    assert "1 of them may take longer than the limit" in shown[0] and "reaches above the limit" in shown[0]
    assert "the limit" not in shown[1].replace("the limits", "")
    more = (on_board("close", ram=2000, latency=0.108), *BOARDS)
    answer = fits_document(Fits(model={}, candidates=rank(more, Limits(latency=0.1)))).answer
    assert answer[2:4] == (
        "1 more holds it: may be within the limit, by the interval.", "1 more holds it: the latency is not known.",
    )  # fmt: skip


def test_boards_without_any_latency_have_enough_memory_and_the_reason_stands_first():
    shown = render_markdown(fits_document(Fits(model={}, candidates=rank([on_board("b", ram=2000)], Limits()))))
    assert "1 of 1 boards has enough memory: b; no latency is known: not known." in shown
    assert wording("boards-enough-memory-model") in shown and "Boards that hold the model" not in shown


def test_a_model_that_is_larger_than_every_board_tells_what_the_closest_lacks():
    boards = [on_board(name, ram=ram, needed=5000) for name, ram in (("small", 1024), ("large", 3976), ("mid", 2048))]
    refused = Fits(model={}, candidates=rank(boards, Limits())).refused
    assert refused == wording("model-fits-none-boards-closest", lacking_count=3, name="large", lacks="1 KiB RAM")


def test_a_latency_above_the_limit_tells_the_fastest_board_and_a_model_in_float_what_helps():
    refused = Fits(model={}, candidates=rank(BOARDS, Limits(latency=0.05))).refused
    assert refused.endswith("; the fastest with enough memory, quick, takes 100 ms (± 10 ms)")
    why = "operator 0 works on float32; quantise: 'edgewise optimize MODEL --data DATA -d DEVICE'"
    row = Measurement.absent("latency", why)
    boards = [
        replace(on_board(name, ram=ram), measurements=(row,), advice=why.partition("; ")[2])
        for name, ram in (("small", 500), ("b", 2000))
    ]
    found = Fits(model={}, candidates=rank(boards, Limits(latency=0.2)))
    assert found.refused.endswith("; the latency is not known, as operator 0 works on float32")
    assert found.named_advice("my net.tflite") == "quantise: 'edgewise optimize 'my net.tflite' --data DATA -d b'"
    none = [replace(on_board(name, ram=ram, needed=9000), advice="quantise: -d DEVICE") for name, ram in
            (("small", 500), ("large", 8000), ("mid", 4000))]  # fmt: skip
    assert Fits(model={}, candidates=rank(none, Limits())).named_advice("m") == "quantise: -d large"
    listed = Fits(model={}, candidates=rank(boards, Limits()))
    assert listed.named_advice("m") == listed.advice == "use a smaller model, or raise the limits"


def test_the_first_line_is_the_answer_where_no_board_is_listed():
    boards = [on_board(name, ram=ram, needed=5000) for name, ram in (("small", 1024), ("large", 3976), ("mid", 2048))]
    (none,) = fits_document(Fits(model={}, candidates=rank(boards, Limits()))).answer
    assert none == (
        "No board of 3 holds the model; the nearest is large: the model needs 4.9 KiB of RAM where it has 3.9 KiB."
    )
    (late,) = fits_document(Fits(model={}, candidates=rank(BOARDS, Limits(latency=0.05)))).answer
    assert late == (
        "No board of 6 holds the model within the limits; the nearest is quick: the model needs 1.0 KiB of RAM and "
        "2 KiB of flash, and takes 100 ms (holds it, latency above 50.0 ms); the latency of 2 is not known: not known."
    )
    (large,) = fits_document(Fits(model={}, candidates=rank(BOARDS, Limits(ram=999)))).answer
    assert large.endswith("(RAM of the model above 1.0 KiB).")


def test_boards_left_out_for_an_unknown_latency_have_its_reason():
    (left_out, *_) = fits_document(Fits(model={}, candidates=rank(BOARDS, Limits(latency=0.15)))).sections
    assert "holds it, latency not known: 1 (unknown); not known" in left_out.lines


def test_a_model_that_must_be_converted_names_the_commands_in_its_first_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m.onnx").write_bytes(data.path("digits_cnn.onnx").read_bytes())
    (answer,) = fits_document(edgewise.fits("m.onnx")).answer
    assert re.search(r"^\d+ of \d+ boards have enough memory; ", answer)
    steps = "edgewise convert m.onnx --to tflite, then edgewise optimize m.tflite --data DATA -d "
    assert f"; convert it first: {steps}" in answer and answer.endswith(f"{steps}nucleo-h563zi.")
    refused = edgewise.fits("m.onnx", max_latency=0.01)
    assert refused.listed == () and refused.advice == f"convert it first: {steps}nucleo-h563zi"
    assert "DEVICE" not in answer and not refused.refused.endswith("nucleo-h563zi")


def test_the_table_has_needed_and_available_memory():
    found = Fits(model={"name": "m.tflite"}, candidates=rank(BOARDS, Limits()))
    shown = render_markdown(fits_document(found))
    assert "hold the model (it needs 1.0 KiB of RAM and 2 KiB of flash)" in shown
    assert (
        "| 100 MHz | 2.9 | 4 | 100 ms |" in shown
        and "≥ 1.0 / 1.5" in shown
        and "100 ms" in shown
        and "| no-flash |" not in shown
    )
    sure, possible = shown.split("Boards that may hold the model")
    assert "| slow |" in sure and "| maybe |" not in sure and "| maybe |" in possible
    assert "Interval" not in possible  # no latency of these boards is known
    assert "\nThe smallest: unknown: 2.0 KiB of RAM, 4 KiB of flash." in shown
    assert "\nThe fastest of the 2 whose latency is known is quick: 100 ms (± 10 ms)." in shown
    assert "2 of 6 boards left out" in shown and "not enough RAM: 1" in shown
    rows = boards_table(found.candidates).rows
    assert [row[-2].text for row in rows] == ["yes", "yes", "yes", "maybe", "no", "no"]
    assert [row[-1].text for row in rows][-2:] == ["not enough RAM", "not enough flash"] and len(rows) == 6


def test_a_board_whose_program_is_not_on_the_microcontroller_may_be_slower_than_its_interval():
    beside = on_board("beside", ram=3000, latency=0.05)
    board = replace(beside.fit.board, flash_access="external QSPI flash")
    beside = replace(beside, fit=replace(beside.fit, board=board), device=replace(beside.device, board=board))
    shown = " ".join(
        render_markdown(fits_document(Fits(model={}, candidates=rank((*BOARDS, beside), Limits())))).split()
    )
    why = "can be longer, also beyond the interval: external QSPI flash"
    fastest = f". The fastest of the 3 whose latency is known is beside: 50.0 ms (± 5.0 ms; {why})."
    assert fastest in shown and shown.count(why) == 2
    assert why not in render_markdown(fits_document(Fits(model={}, candidates=rank(BOARDS, Limits()))))


def test_battery_life_is_that_of_the_battery_command():
    """100 J; idle 1 mW; 360 inferences an hour of 11 mJ in 1 s, of which 1 mJ is idle: 1 mW + 0.1 / s · 10 mJ."""
    found = with_battery(on_board("b", ram=2000, latency=1.0, energy=11e-3), 100.0, Quantity(1e-3, 1e-3, 1e-3), 360.0)
    row = found.measurement("battery_life")
    assert row.value == pytest.approx(100 / 2e-3) and row.basis == "derived"
    assert row.low == pytest.approx(100 / (1e-3 + 0.1 * 11.1e-3)) and row.high == pytest.approx(
        100 / (1e-3 + 0.1 * 8.9e-3)
    )
    (cells,) = boards_table(rank([found], Limits())).rows
    assert f"{50_000 / DAY_S:.3g} days" in [cell.text for cell in cells]


@pytest.mark.parametrize(
    ("board", "why"),
    [
        (on_board("b", ram=2000, latency=1.0), "not known"),
        (on_board("b", ram=2000, latency=1.0, energy=1e-4), says("energy-j-per-inference-cant")),
        (on_board("b", ram=2000, latency=20.0, energy=1.0), says("inferences-do-not-fit-into", per_hour=360)),
    ],
)
def test_a_battery_life_that_can_not_be_known_is_absent_with_its_reason(board, why):
    row = with_battery(board, 100.0, Quantity(1e-3, None, None), 360.0).measurement("battery_life")
    assert row.value is None and is_in(why, row.absent_because)


def test_boards_with_the_same_core_are_estimated_together():
    groups = boards_by_core({})
    assert all(len({device.core for device in devices}) == 1 for _, devices in groups)
    assert len(groups) == len({(estimator.name, devices[0].core) for estimator, devices in groups})
    with pytest.raises(BadInput, match=says("boards-no-setting", unknown="nonsense")):
        boards_by_core({"nonsense": "1"})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"max_latency": 0.0}, "max_latency must be more than 0, not 0"),
        ({"max_ram": -1}, "max_ram must be more than 0, not -1"),
        ({"capacity": "10Wh"}, "a battery life needs capacity, idle_power and per_hour"),
        (
            {"capacity": "0Wh", "idle_power": "1mW", "per_hour": 1},
            "capacity must be more than 0, and per_hour at least 0",
        ),
        ({"capacity": "9Wh", "idle_power": "1mW", "per_hour": -1}, "capacity must be more than 0"),
        ({"capacity": "10", "idle_power": "1mW", "per_hour": 1}, "'10' "),
        ({"capacity": "10Wh", "idle_power": "x", "per_hour": 1}, "'x' "),
    ],
)
def test_a_request_that_can_not_be_used_names_its_field(fields, message):
    with pytest.raises(BadInput, match=f"^{message}"):
        edgewise.fits("m.tflite", **fields)


def test_a_request_is_the_command_that_makes_it(tmp_path, capsys):
    request = FitsRequest(
        model="m.tflite", max_latency=0.05, max_ram=2**18, idle_power="5mW", capacity="10Wh", per_hour=4
    )
    line = command_of(request)
    assert line == (
        "edgewise estimate --fits m.tflite --max-latency 0.05s --max-ram 262144B --capacity 10Wh --idle-power 5mW "
        "--per-hour 4.0"
    )
    assert edgewise_command([*line.split()[1:], "--dry-run", "--json"]) == 0
    assert read_request(json.loads(capsys.readouterr().out)) == request


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["m.tflite"], "give a device, or --fits"),
        (["m.tflite", "-d", "cortex-m4", "--fits"], "give a device or --fits, not both"),
        (["m.tflite", "-d", "cortex-m4", "--max-ram", "1MiB"], "--max-ram applies only to --fits"),
        (["m.tflite", "--fits", "--max-ram", "10"], "--max-ram: 10 has no unit"),
    ],
)
def test_options_that_do_not_belong_together_are_an_error(capsys, words, message):
    assert edgewise_command(["estimate", *words]) == 2
    assert message in capsys.readouterr().err


def test_without_the_tools_the_boards_are_judged_by_arena_and_weights(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    path = dense_relu(tmp_path)
    assert edgewise_command(["estimate", str(path), "--fits", "--json", "-o", str(tmp_path / "boards.csv")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["refused"] is None and told["left_out"] == {} and len(told["boards"]) >= 40
    assert told["boards"][0]["fit"]["ram_bytes"] >= 24 and told["boards"][0]["device"]["board"]["sources"]
    assert (tmp_path / "boards.csv").read_text().count("\n") == len(told["boards"]) + 1


def test_a_setting_that_no_estimator_takes_is_an_error(tmp_path, capsys):
    path = dense_relu(tmp_path)
    assert edgewise_command(["estimate", str(path), "--fits", "--set", "software=nonsense"]) == 2
    assert "not 'nonsense'" in capsys.readouterr().err


def test_a_board_whose_interval_reaches_below_the_limit_says_so():
    """100 ms with an interval of 90 to 110 ms."""
    one = on_board("quick", ram=3000, latency=0.1)
    assert Limits(latency=0.095).reasons(one, one.fit) == (
        "holds it, latency above 95.0 ms, but its interval reaches below",
    )
    assert Limits(latency=0.08).reasons(one, one.fit) == ("holds it, latency above 80.0 ms",)
    found = render_markdown(fits_document(Fits(model={}, candidates=rank([one], Limits()))))
    assert "1 of 1 boards holds the model." in found


def test_up_to_three_boards_are_named():
    four = [on_board(name, ram=2000) for name in "abcd"]
    told = {
        count: fits_document(Fits(model={}, candidates=rank(four[:count], Limits()))).answer[0] for count in (2, 3, 4)
    }
    assert told[2].startswith("2 of 2 boards have enough memory: a, b; no latency")
    assert told[3].startswith("3 of 3 boards have enough memory: a, b, c; no latency")
    assert told[4].startswith("4 of 4 boards have enough memory; no latency")


@pytest.mark.parametrize(("most", "short"), [(3000, ""), (2048, "≤ 2 / 2")])
def test_a_narrow_table_leaves_the_lower_bound_out_only_where_the_upper_one_fits(most, short):
    one = on_board("b", ram=2048, needed=1024, at_least={"RAM": "arena"})
    one = replace(one, fit=replace(one.fit, at_most={"RAM": most}))
    (row,) = boards_table(rank([one], Limits())).rows
    assert (row[3].text, row[3].short) == (f"1–{most / 1024:.4g} / 2".replace("2.93", "2.9"), short)


def test_what_most_boards_need_is_told_above_the_table_and_a_board_that_needs_more_in_a_footnote():
    other = on_board("d", ram=3072, needed=2048, latency=0.1)
    usual = [on_board(name, ram=3072, needed=1024, latency=0.1) for name in "abc"]
    usual = [replace(one, fit=replace(one.fit, at_least={"RAM": "arena"}, at_most={"RAM": 2048})) for one in usual]
    listed = rank([*usual, other], Limits(latency=0.105))
    table = boards_table(listed, "Boards", once=True)
    assert table.title == "Boards (it needs ≤ 2 KiB of RAM and 2 KiB of flash; not this RAM on d: see the footnote)"
    assert table.notes == (f"RAM ≤: {UPPER_BOUNDS['RAM']}",)
    ram = [(row[3].text, row[3].notes, row[3].value) for row in table.rows]
    assert ram == [("3", (), 1.0)] * 3 + [("3", ("needs 2 KiB of RAM",), 2.0)]
    ranks = {column.title: column.rank for column in table.columns}
    assert ranks["Interval"] == 0  # by which the limit is judged
    assert {column.title: column.rank for column in boards_table(rank(usual, Limits())).columns}["Interval"] == 1
    assert boards_table(listed).rows[0][3].text == "1–2 / 3"
    assert boards_table(listed[:1], once=True).title == "Boards (memory: needed / of the board)"


def test_the_flash_of_both_picos_is_beside_the_microcontroller():
    beside = [name for name, board in boards().items() if board.flash_beside.startswith("external QSPI flash")]
    assert beside == ["rpi-pico", "mimxrt1060-evk", "teensy41", "rpi-pico2"]


def test_several_models_get_a_loop_for_the_shell(capsys):
    assert edgewise_command(["estimate", "a.tflite", "b c.tflite", "--fits"]) == 2
    loop = """for model in a.tflite 'b c.tflite'; do edgewise estimate "$model" --fits; done"""
    assert loop in " ".join(capsys.readouterr().err.split())


def test_boards_that_are_as_fast_or_perhaps_and_as_small_are_named_or_counted():
    """90 to 110 ms, twice; 97 to 119 ms; 180 to 220 ms."""
    boards = [
        on_board(name, ram=3000, latency=latency)
        for name, latency in (("a", 0.1), ("b", 0.1), ("near", 0.108), ("slow", 0.2))
    ]
    shown = " ".join(render_markdown(fits_document(Fits(model={}, candidates=rank(boards, Limits())))).split())
    assert "The smallest: a (100 ± 10 ms), b (100 ± 10 ms), near (108 ± 11 ms) and slow (200 ± 20 ms): 2.9 KiB" in shown
    assert "The fastest are a and b: 100 ms (± 10 ms); by their intervals, 1 other is perhaps as fast." in shown
    limited = Fits(model={}, candidates=rank(boards, Limits(latency=0.115)))
    shown = " ".join(render_markdown(fits_document(limited)).split())
    assert (
        "1 of them may take longer than the limit, by their intervals. The smallest whose intervals are within it: a (100 ± 10 ms) and b"
        in shown
    )


def test_within_a_limit_the_smallest_boards_come_first_and_the_smallest_that_may_meet_it_is_named():
    """Latencies with an interval of ± 10 %; the limit is 115 ms."""
    boards = [
        on_board("large", ram=9216, latency=0.02),
        on_board("safe", ram=3072, latency=0.1),
        on_board("small", ram=2048, flash=8192, latency=0.11),
        on_board("smaller", ram=2048, latency=0.112),
        on_board("slow", ram=1024, latency=0.2),
    ]
    limited = Fits(model={}, candidates=rank(boards, Limits(latency=0.115)))
    assert names(limited.candidates) == ["smaller", "small", "safe", "large", "slow"]
    first, _, smallest, fastest = fits_document(limited).answer
    assert first == "4 of 5 boards hold the model within the limits."
    assert smallest == (
        "The smallest whose intervals are within it: safe (100 ± 10 ms): 3 KiB of RAM, 4 KiB of flash; "
        "smaller, and perhaps within it: smaller (112 ± 12 ms): 2 KiB of RAM, 4 KiB of flash."
    )
    assert fastest.startswith("The fastest is large: 20.0 ms")
    every = Fits(model={}, candidates=rank(boards, Limits()))
    assert names(every.candidates) == ["large", "safe", "small", "smaller", "slow"]
    assert not any("perhaps within" in line for line in fits_document(every).answer)


def test_what_computes_is_told_first_and_marked_where_it_is_something_else():
    def with_software(name, software, **changes):
        found = on_board(name, ram=3072, latency=0.1)
        device = replace(found.device, settings={"software": software})
        return replace(found, device=device, fit=replace(found.fit, board=replace(found.fit.board, **changes)))

    usual = [with_software(name, "cmsis-nn") for name in "ab"]
    listed = rank([*usual, with_software("x", "gecko-sdk-4.1", accelerator=MVP)], Limits())
    told = fits_document(Fits(model={}, candidates=listed)).answer[-1]
    assert told == (
        "Latencies are with cmsis-nn (Arm's CMSIS-NN kernels under tflite-micro or TVM), on x with its accelerator, "
        "Silicon Labs MVP (gecko-sdk-4.1); other software: --set software=NAME (tflm-reference, edge-impulse or "
        "vendor)."
    )
    table = boards_table(listed)
    at = {column.title: number for number, column in enumerate(table.columns)}
    marks = [row[at["Latency"]].notes for row in table.rows]
    assert marks == [(), (), ("with its accelerator, Silicon Labs MVP (gecko-sdk-4.1)",)]
    assert [row[at["Software"]].text for row in table.rows[1:]] == ["cmsis-nn", marks[2][0].removeprefix("with ")]
    assert len(fits_document(Fits(model={}, candidates=rank([on_board("a", ram=3072)], Limits()))).answer) == 1


def test_one_coverage_of_all_intervals_stands_in_the_heading_and_several_in_the_cells():
    def intervals(*shares):
        boards = [on_board(name, ram=3072, needed=1024, latency=0.1) for name in "ab"]
        boards = [replace(one, coverage={"latency": share}) for one, share in zip(boards, shares, strict=True)]
        table = boards_table(rank(boards, Limits()))
        at = next(at for at, column in enumerate(table.columns) if "nterval" in column.title)
        return [table.columns[at].title, *(row[at].text for row in table.rows)]

    usual = intervals(0.9, 0.9)
    assert usual[0] == "90% interval" and usual[1].startswith(("[", "±"))
    assert intervals(0.9, 0.8) == ["Interval", f"90%: {usual[1]}", f"80%: {usual[2]}"]
