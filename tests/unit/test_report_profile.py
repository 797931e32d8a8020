"""What a profile says: layers, sums, memory, findings, differences, in text, Markdown and CSV."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len

from edgewise.api import Runs
from edgewise.errors import BadInput
from edgewise.formatting import plus_minus, quantity
from edgewise.profiling.findings import IN_TWO, NOT_KNOWN
from edgewise.profiling.layer_matching import LayerPair, pair_layers
from edgewise.profiling.layers import NAMELESS, NOT_THE_WHOLE
from edgewise.profiling.limits import divide_at_roofs
from edgewise.record import Caution, Finding, InTurns, Peak, Trust
from edgewise.report.bench.document import bench_document
from edgewise.report.charts import render_svg
from edgewise.report.charts.files import scheme_colours, with_colours
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.names import keep_end, needed_width, short_names, shorten
from edgewise.report.document.text import to_text
from edgewise.report.files import render_report
from edgewise.report.profile.cells import (
    ABOVE_LIMIT,
    ABOVE_WHOLE,
    AT_LIMIT,
    BELOW,
    roof_reason,
    roof_words,
    time_line,
    type_table,
)
from edgewise.report.profile.charts import KINDS, chart_of, render_chart
from edgewise.report.profile.csv import layers_csv
from edgewise.report.profile.diff import diff_table, pair_row
from edgewise.report.profile.document import (
    CONDITIONS,
    NAMELESS_NOTE,
    TOO_SHORT,
    WHOLE_IS_LATENCY,
    WHOLE_NOTE,
    conservation_line,
    header,
    layer_table,
    memory_line,
    memory_sections,
    operator_names,
    profile_document,
    sum_line,
)
from edgewise.report.profile.findings import (
    evidence_of,
    evidence_sections,
    finding_line,
    finding_sections,
    next_section,
    nothing_found,
    ranked_findings,
    unmeasured_words,
    with_others,
)
from edgewise.report.profile.model_explorer import node_data
from edgewise.report.profile.order import leader_of
from edgewise.report.profile.page import profile_page
from edgewise.report.runs.cells import notes_of
from edgewise.report.runs.conditions import engine_of
from edgewise.store.codec import decode, from_document, to_document
from edgewise.verbs.measuring import Measured
from edgewise.verbs.profile.presentation import ProfilePresentation
from messages import says
from report_pages import render_profile_html
from sample_profiles import (
    FINDINGS,
    FORMULA,
    HOSTILE,
    LONG,
    MEMORY,
    NO_COST,
    NO_TIME,
    PEAKS,
    faster_run,
    layer_of,
    many_layers_run,
    profiled_run,
    sample_profile,
    unprofiled_run,
)
from sample_runs import make_run, measured


def profile_text(runs, *, width, details=False):
    return to_text(profile_document(runs, width=width), width=width, details=details)


def column(table, title):
    index = [each.title for each in table.columns].index(title)
    return [row[index].text for row in table.rows]


def test_layers_come_by_time_then_overheads_then_the_rest_and_the_whole():
    table = layer_table(profiled_run())
    assert column(table, "Layer")[1:] == [
        LONG, "pw1", "whirl", FORMULA, "softmax", "silent",
        "reorder a", "between operators", "session", "unattributed", "whole",
    ]  # fmt: skip
    assert column(table, "Op")[:3] == ["Conv +2", "DepthwiseConv", "Conv +1"]
    assert column(table, "Time (µs)") == [
        "300 ± 6", "250 ± 5", "200 ± 4", "80.0 ± 1.6", "60.0 ± 1.2", "30.0 ± 0.6", "n/a",
        "30.0 ± 0.6", "20.0 ± 0.4", "10.0", "20.0", "1000",
    ]  # fmt: skip
    assert column(table, "%") == [
        "30.0", "25.0", "20.0", "8.0", "6.0", "3.0", "–", "3.0", "2.0", "1.0", "2.0", "100.0",
    ]  # fmt: skip
    assert column(table, "Σ %")[:6] == ["30.0", "55.0", "75.0", "83.0", "89.0", "92.0"]
    assert column(table, "MACs")[:6] == ["6.00 M", "400 k", "4.00 M", "n/a", "64.0 k", "0"]
    assert column(table, "Of limit (%)")[:2] == ["66.7 compute", "10.0 memory"]
    assert table.notes[1] == "removed by the engine: 1 operator"


def test_the_parts_of_the_table_add_up_to_the_whole():
    *parts, whole = layer_table(profiled_run(), top=2).rows
    times = [row[3].value for row in parts if row[3].value is not None]
    assert sum(times) == pytest.approx(whole[3].value)
    assert sum(row[4].value for row in parts if row[4].value is not None) == pytest.approx(100.0)


def test_what_is_folded_keeps_its_sum_and_says_what_it_lacks():
    table = layer_table(profiled_run(), top=3)
    folded = table.rows[3]
    assert folded[1].text == "… 4 more layers"
    assert folded[1].notes == (f"1 of them without a time: {NO_TIME}",)
    assert folded[3].value == pytest.approx(170.0)
    assert folded[5].text == "92.0"
    assert folded[6].text == "–"  # one of them has an unknown cost, so their sum has too


def test_one_layer_more_is_not_folded():
    assert len(layer_table(profiled_run(), top=6).rows) == len(layer_table(profiled_run(), top=7).rows)


def test_absent_values_have_reasons():
    table = layer_table(profiled_run())
    notes = {note for row in table.rows for cell in row for note in cell.notes}
    assert notes == {NO_COST, NO_TIME, WHOLE_IS_LATENCY}
    without = layer_table(faster_run())
    rows = {row[1].text: row for row in without.rows}
    assert rows["silent"][8].notes == (NO_TIME,)
    assert rows["pw1"][8].text != "n/a"
    layers = tuple(replace(layer, roof_share=None) for layer in faster_run().layers)
    rows = {row[1].text: row for row in layer_table(replace(faster_run(), layers=layers)).rows}
    assert rows["pw1"][8].notes == ("peaks were not measured",)


def test_without_a_roof_no_profile_says_that_no_cost_is_avoidable():
    clean = replace(sample_profile(), findings=())
    judged = [layer for layer in profiled_run().layers if layer.roof or layer.macs == 0 or layer.kind != "operator"]
    run = replace(profiled_run(), profile=clean, layers=tuple(judged))
    assert finding_sections(run)[0].lines == (
        "none: no single cost stands out that this engine could avoid at this precision; what may help: less work "
        "(a smaller model), a lower precision (int8, or bf16 where the engine has it) or another engine",
    )
    layers = tuple(replace(layer, roof=None, roof_share=None) for layer in run.layers)
    absent = replace(clean, peaks=(), peaks_absent_because="the measured float32 peak is too low for a roof")
    run = replace(run, profile=absent, layers=layers)
    for text in (finding_sections(run)[0].lines[0], render_profile_html([run]), profile_text([run], width=120)):
        assert "stands out" not in text
        assert "the measured float32 peak is too low for a roof" in " ".join(text.split())


def test_where_layers_have_only_upper_bounds_no_profile_says_that_nothing_stands_out():
    wide = [replace(layer, low=0.0, roof=None) if layer.macs else layer for layer in profiled_run().layers]
    run = replace(profiled_run(), profile=replace(sample_profile(), findings=()), layers=tuple(wide))
    (line,) = finding_sections(run)[0].lines
    assert "stands out" not in line and BELOW in line
    few = [replace(layer, high=1e-6) if layer.macs else layer for layer in wide]  # too short to be worth a finding
    (line,) = finding_sections(replace(run, layers=tuple(few)))[0].lines
    assert BELOW not in line


OPTIMIZE = (
    "--data DATA --task TASK --prepare STEP=VALUE' tries int8 and other variants; these options are those of "
    "'edgewise evaluate'"
)


def test_the_next_commands_name_threads_where_cores_were_idle_and_the_options_that_they_need(tmp_path):
    one = replace(profiled_run(), environment={"cpu": {"usable_cores": 4}}, effective={"threads": 1})
    shape = ["--shape", "input=1x49x10x1"]
    assert next_section([one, one], {"optimize": shape, "bench": [*shape, "--input-data", "x y.npz"]}).lines == (
        f"'edgewise optimize kws.onnx --shape input=1x49x10x1 {OPTIMIZE}",
        "'edgewise bench kws.onnx --threads 1,4 --shape input=1x49x10x1 --input-data 'x y.npz'' measures it on every "
        "engine, with 1 thread as here and with 4",
    )
    assert f"'edgewise optimize kws.onnx {OPTIMIZE}" in " ".join(profile_text([one], width=120).split())
    assert "edgewise bench kws.onnx --threads 1,4" in render_profile_html([one])
    typed = next_section([one], {}, {one.job.model.sha256: "nets/a b/kws.onnx"})
    assert [line.partition(" kws")[0][:41] for line in typed.lines] == [
        "'edgewise optimize 'nets/a b/kws.onnx' --", "'edgewise bench 'nets/a b/kws.onnx' --thr"
    ]  # fmt: skip
    page = render_report(
        [one], ".html", after={"typed": {one.job.model.sha256: "nets/a b/kws.onnx"}, "again": {"bench": shape}}
    )
    assert "edgewise bench &#39;nets/a b/kws.onnx&#39; --threads 1,4 --shape input=1x49x10x1" in page
    for name, shown in (("nets/kws.onnx", "nets/kws.onnx"), ("/home/me/nets/kws.onnx", "kws.onnx")):
        file = tmp_path / f"{len(name)}.html"
        result = Measured(runs=[one], again={}, typed={one.job.model.sha256: name})
        ProfilePresentation().write(result, file, overwrite=False)
        assert f"edgewise bench {shown} --threads" in file.read_text() and "/home/me" not in file.read_text()
    plain = "'edgewise bench kws.onnx' measures it on every engine"
    for environment, threads in (
        ({"cpu": {"usable_cores": 1}}, 1),
        ({"cpu": {"usable_cores": 4, "quota_cores": 1.5}}, 1),
        ({"cpu": {"usable_cores": 4}}, 2),
        ({}, 1),
    ):
        run = replace(one, environment=environment, effective={"threads": threads})
        assert next_section([run], {}).lines[1] == plain
    int8 = replace(one, environment={}, effective={"precision_of_products": {"i8": 3}})
    assert next_section([int8], {}).lines == (plain,)
    assert next_section([replace(one, profile=None)], {}).lines == ()


def test_the_next_command_measures_a_lower_precision_that_the_processor_has():
    """bf16 halved the time, and no command of *Next* had it."""
    flags = ["avx2", "amx_bf16", "avx512_fp16"]
    one = replace(profiled_run(), environment={"cpu": {"flags": flags}})
    assert next_section([one], {}).lines[1] == (
        "'edgewise bench kws.onnx --precision f32,bf16' measures it on every engine, in f32 and, where it can, in bf16, "
        "in which this processor computes faster"
    )
    assert unmeasured_words(one) == "; what int8 and bf16 would save was not measured: see Next"
    lower = replace(one, effective={"precision": "bf16"})
    away = replace(one, job=replace(one.job, target=replace(one.job.target, device="pi")))
    plain = replace(one, environment={"cpu": {"flags": ["avx2"]}})
    for runs in ([one, lower], [lower], [away], [plain], [replace(one, environment={})]):
        assert not any("--precision" in line for line in next_section(runs, {}).lines)
    assert unmeasured_words(one, others=[one, lower]) == "; what int8 would save was not measured: see Next"


def test_int8_is_not_advised_where_layers_compute_in_it_though_the_engine_reports_no_precision():
    """LiteRT ran an int8 network, and *Next* said that int8 and bf16 were not measured."""
    flags = ["avx2", "amx_bf16"]
    run = replace(profiled_run(), environment={"cpu": {"flags": flags}}, effective={})
    assert "int8 and bf16" in unmeasured_words(run)

    def computing(*types):
        products = [layer for layer in run.layers if layer.macs]
        layers = [replace(layer, dtype=types[at % len(types)]) for at, layer in enumerate(products)]
        return replace(run, layers=tuple(layers))

    assert unmeasured_words(computing("int8", "uint8")) == ""
    assert next_section([computing("int8")], {}).lines[-1] == "'edgewise bench kws.onnx' measures it on every engine"
    assert not any("optimize" in line for line in next_section([computing("int8")], {}).lines)
    assert unmeasured_words(computing("int8", "float32")) == "; what bf16 would save was not measured: see Next"


UNKNOWN = f"{NOT_KNOWN}: a profile in two engines (--runtime ENGINE,ENGINE) shows whether another one runs them faster"


def with_slow_layer(run, **times):
    """`run` with a finding on its layer pw1, of which the reason is not known."""
    layers = tuple(replace(one, **times) if one.name == "pw1" else one for one in run.layers)
    finding = Finding(code="far-from-roof", message="slow", suggestion=UNKNOWN, saving=1e-4, layers=(3,))
    return replace(run, layers=layers, profile=replace(run.profile, findings=(finding,)))


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"time": 5e-3, "low": 4.9e-3, "high": 5.1e-3},
         ", but it lies in this engine: openvino 1.2.3 takes 100 µs for the same work, 50 times less"),
        ({"time": 2e-4, "low": 5e-5, "high": 5e-4},
         "; openvino 1.2.3 takes 100 µs for the same work, which is not proven here: profile again on a quiet machine"),
        ({"time": 5e-5, "low": 4e-5, "high": 6e-5}, ", and no other engine of this profile is faster with them"),
    ],
)  # fmt: skip
def test_slow_layers_of_which_no_reason_is_known_are_held_against_another_engine(times, words):
    """The same layers took 50 times less in another engine, and the advice was on channel counts."""
    slow = with_slow_layer(profiled_run(), **times)
    (line,) = finding_sections(slow, others=[slow, faster_run()])[0].lines
    assert line == f"1. up to 100 µs (10.0 %): slow → {NOT_KNOWN}{words} (far-from-roof)"
    assert any(f"{NOT_KNOWN}{words} (far-from-roof)" in line for line in profile_document([slow, faster_run()]).answer)
    assert words in profile_page([slow, faster_run()]).tables[1].rows[0][3].text
    (alone,) = finding_sections(slow, others=[slow])[0].lines
    assert UNKNOWN in alone


SLOW = {"time": 5e-3, "low": 4.9e-3, "high": 5.1e-3}


@pytest.mark.parametrize(
    ("layers", "times", "words"),
    [
        ((1, 3), SLOW, ", but it lies in this engine: for 1 of these 2 layers, 5.00 ms here, openvino 1.2.3 takes 100 µs, "
                       "50 times less"),
        ((1, 3), {"time": 2e-3, "low": 5e-5, "high": 5e-3},
         "; for 1 of these 2 layers, 2.00 ms here, openvino 1.2.3 takes 100 µs, which is not proven here: profile again on "
         "a quiet machine"),
        ((1, 2, 3), SLOW, ", but it lies in this engine: for 2 of these 3 layers, 5.25 ms here, openvino 1.2.3 takes "
                          "350 µs, 15 times less"),
        ((2, 3), SLOW, ", but it lies in this engine: openvino 1.2.3 takes 350 µs for the same work, 15 times less"),
        ((2,), {}, ", and no other engine of this profile is faster with them"),
    ],
)  # fmt: skip
def test_slow_layers_are_held_against_those_that_do_their_work(layers, times, words):
    """A finding of two layers quoted what another engine takes for one of them as "the same work"."""
    slow = with_slow_layer(profiled_run(), **times)
    (finding,) = slow.profile.findings
    slow = replace(slow, profile=replace(slow.profile, findings=(replace(finding, layers=layers),)))
    (line,) = finding_sections(slow, others=[slow, faster_run()])[0].lines
    assert line == f"1. up to 100 µs (10.0 %): slow → {NOT_KNOWN}{words} (far-from-roof)"


def test_an_engine_without_one_of_the_slow_layers_is_not_faster_for_that():
    """One had 1 of 2 layers and took 340 µs for it, and stood before the one that took 350 µs for both."""
    slow, both = with_slow_layer(profiled_run(), **SLOW), faster_run()
    (finding,) = slow.profile.findings
    slow = replace(slow, profile=replace(slow.profile, findings=(replace(finding, layers=(2, 3)),)))
    least = {"time": 330e-6, "low": 320e-6, "high": 340e-6}
    kept = [replace(one, **least) if one.name == "pw1" else one for one in both.layers if one.name != LONG]
    one = replace(make_run(23, runtime="litert"), layers=tuple(kept), profile=both.profile)
    for others, words in (
        ((one,), "for 1 of these 2 layers, 5.00 ms here, litert 1.2.3 takes 340 µs, 15 times less"),
        ((one, both), "openvino 1.2.3 takes 350 µs for the same work, 15 times less"),
    ):
        (line,) = finding_sections(slow, others=[slow, *others])[0].lines
        assert line.endswith(f", but it lies in this engine: {words} (far-from-roof)")


def test_slow_layers_that_another_engine_joins_with_others_are_told_with_them():
    """Layer 2 and pw1 are one step of the other engine, or the finding's one layer is."""
    slow, other = with_slow_layer(profiled_run(), **SLOW), faster_run()
    joined = next(one for one in other.layers if one.name == "pw1")
    first = next(one for one in other.layers if one.index != joined.index and one.operators == slow.layers[2].operators)
    both = replace(
        joined, nodes=first.nodes + joined.nodes, operators=first.operators + joined.operators,
        macs=first.macs + joined.macs, time=1e-3, low=9e-4, high=1.1e-3,
    )  # fmt: skip
    kept = [both if one is joined else one for one in other.layers if one is not first]
    (line,) = finding_sections(slow, others=[slow, replace(other, layers=tuple(kept))])[0].lines
    assert line.endswith(
        ", but it lies in this engine: for this layer and 1 beside it, 5.25 ms here, openvino 1.2.3 takes 1.01 ms, "
        "5.2 times less (far-from-roof)"
    )


def test_slow_layers_have_a_command_that_narrows_the_reason_where_one_engine_ran():
    slow, again = with_slow_layer(profiled_run()), {"profile": ["--shape", "x=1x3"]}
    line = (
        "'edgewise profile kws.onnx --shape x=1x3' times the slow layers in every engine, and in turns which engine is "
        "faster (far-from-roof)"
    )
    assert line in next_section([slow], again).lines
    assert line not in next_section([slow, faster_run()], again).lines
    assert line not in next_section([profiled_run()], again).lines


def test_findings_call_layers_as_the_tables_do():
    """The finding said 'node_Conv_110', which no row was called: the tables had the module's name, 0/Conv_110."""
    run = profiled_run()
    layers = tuple(replace(one, label="block.0/pw1") if one.name == "pw1" else one for one in run.layers)
    finding = Finding(
        code="far-from-roof", message="most in 'pw1', not 'pw'", suggestion="try", saving=1e-4, layers=(3,)
    )
    run = replace(run, layers=layers, profile=replace(run.profile, findings=(finding,)))
    (line,) = finding_sections(run)[0].lines
    assert line == "1. up to 100 µs (10.0 %): most in 'block.0/pw1', not 'pw' → try (far-from-roof)"
    assert profile_page([run]).tables[1].rows[0][0].text == "most in 'block.0/pw1', not 'pw'"
    assert any(row[1].text == "block.0/pw1" for row in layer_table(run).rows)


def with_findings(run, *codes):
    """`run` with findings of these codes, the first with the largest saving."""
    found = [
        Finding(code=code, message="m", suggestion="try", saving=(9 - at) * 1e-5, layers=(3,))
        for at, code in enumerate(codes)
    ]
    return replace(run, profile=replace(run.profile, findings=tuple(found)))


def test_the_first_commands_of_next_prove_what_findings_would_save():
    """A finding said to make weights 0, and no command measured what that saves."""
    again = {"compare": ["--shape", "x=1x3"], "profile": []}
    run = with_findings(profiled_run(), "denormal-weights", "tiny-operators", "element-wise-chains", "channel-counts")
    engine = "-r onnxruntime/cpu --shape x=1x3'"
    assert next_section([run], again).lines[:3] == (
        "docs/profile.md has the lines that write without-denormals.onnx, with zeros; then 'edgewise compare kws.onnx "
        f"without-denormals.onnx {engine} measures in turns what they save",
        f"'edgewise compare kws.onnx simplified.onnx {engine} measures in turns what 'onnxslim kws.onnx simplified.onnx' "
        "saves (tiny-operators)",
        "'edgewise profile kws.onnx' times the slow layers in every engine, and in turns which engine is faster "
        "(element-wise-chains)",
    )
    two = replace(run.job, runtime=replace(run.job.runtime, threads=2))
    assert "-r onnxruntime/cpu --threads 2 --shape" in next_section([replace(run, job=two)], again).lines[0]
    assert not any("every engine, and" in line for line in next_section([run, faster_run()], {}).lines)
    eager = replace(run.job, runtime=replace(run.job.runtime, name="torch", provider="eager"))
    assert next_section([replace(run, job=eager)], {}).lines[2] == (
        "'edgewise compare kws.onnx -r torch/eager,torch/compile' measures in turns what compiling saves "
        "(element-wise-chains)"
    )
    assert not any("in turns" in line for line in next_section([with_findings(run, "channel-counts")], {}).lines)


def test_layers_whose_limit_is_not_known_are_counted_of_all_with_arithmetic():
    """ "14 of 14 layers" stood beside "Conv, 83 layers"."""
    run = profiled_run()
    small = layer_of(40, "small", "Conv", 0.1, low=0.0, high=1e-6, macs=10, ops=20)
    bare = tuple(replace(one, roof=None, roof_share=None) for one in (*run.layers, small))
    profile = replace(sample_profile(), findings=(), peaks=(), peaks_absent_because="no peaks here")
    (line,) = nothing_found(replace(run, layers=bare, profile=profile))
    assert line.startswith("not known for 5 of the 6 layers with arithmetic (")
    assert line.endswith(f" % of the time at most; 1 more take less than 1 % each): no peaks here; {NO_COST}")


def test_a_wide_latency_leaves_layers_their_times_and_their_order():
    """Of 120 [64.7, 254] ms, two layers that took 70 % were only below bounds, and 139 might be as heavy."""
    run = make_run(21, latency=0.12, half=0.12 * 1.1)
    known = [layer_of(at, name, "Conv", 0) for at, name in enumerate(("first", "second", "third"))]
    layers = tuple(
        replace(one, time=time, low=time / 2.3, high=time * 2.15, share=time / 0.12)
        for one, time in zip(known, (58.9e-3, 25.4e-3, 2.4e-3), strict=True)
    )
    run = replace(run, layers=layers, profile=replace(sample_profile(), latency=0.12))
    assert time_line(run) == (
        "Conv 72.2 % (86.7 [37.6, 187] ms, 3 layers); heaviest layer: first 49.1 % (58.9 [25.6, 127] ms)"
    )
    (half,) = [row for row in profile_page([run]).tables[0].rows if row[0].text == "Half of the time"]
    assert (half[1].text, half[2].text) == ("2 layers", "of 3 take 70 % of the whole")


def test_bounds_that_hardly_add_to_a_sum_leave_it_a_value():
    """550 ms of Conv were "549 to 550", as if all of its layers were known as well."""
    run = profiled_run()
    tiny = layer_of(40, "tiny", "Conv", 1, low=0.0, high=4.9e-6)
    (conv, *_) = type_table(replace(run, layers=(*run.layers, tiny))).rows
    assert [cell.text for cell in conv] == ["Conv", "3", "501", "50.1"] and not conv[2].notes
    larger = replace(tiny, high=5.1e-6)
    (conv, *_) = type_table(replace(run, layers=(*run.layers, larger))).rows
    assert conv[2].text == "500 to 506" and conv[2].notes


def test_narrow_tables_keep_the_limit_that_findings_rest_on():
    run = profiled_run()
    wide = tuple(
        replace(one, low=one.time / 3, high=one.time * 2.5) if one.time and one.kind == "operator" else one
        for one in run.layers
    )
    text = profile_text([replace(run, layers=wide)], width=70)
    assert re.search(r"^pw1 .* 200 \[66\.6, 500\] +20\.0 +66\.7 compute$", text, re.M), text
    assert "columns left out for width: #, Op, Σ %" in text


def test_a_time_by_the_engines_clock_above_the_latency_says_why():
    """It stood above the latency without a remark, as if the engine's calls took longer than all of the call."""
    run = profiled_run()
    note = "above the latency because it is of other processes, measured at another time"
    slower, quicker = (measured("latency_engine", value) for value in (1.1e-3, 0.9e-3))
    assert (notes_of(run, slower), notes_of(run, quicker)) == ((note,), ())
    assert notes_of(replace(run, profile=None), slower) == ()
    assert notes_of(run, replace(slower, low=1e-4, high=1e-2))[0] == note


def test_what_int8_and_more_threads_would_save_is_not_among_the_findings():
    run = profiled_run()
    many = replace(run, environment={"cpu": {"usable_cores": 4}}, effective={"threads": 1})
    assert unmeasured_words(many) == "; what int8 and 4 threads would save was not measured: see Next"
    assert unmeasured_words(replace(many, effective={"threads": 4})) == (
        "; what int8 would save was not measured: see Next"
    )
    assert unmeasured_words(replace(run, effective={"precision_of_products": {"i8": 3}})) == ""


def conditions_of(*runs):
    """The lines of the first section, which says what each run was and what limits it."""
    document = profile_document(runs)
    (section,) = (each for each in (*document.lead, *document.sections) if each.title == CONDITIONS)
    return section.lines


def limits_of(run):
    """The lines that say what limits `run`."""
    return [line for line in conditions_of(run) if "limit" in line or "outside the layers" in line]


def with_times_above_roofs(run, above):
    """`run` with layers that take `above` × 1 µs more than at their roofs, ± 1 µs, one after the other."""
    judged = [layer for layer in run.layers if layer.macs and layer.roof]
    times = {layer.index: layer.ops / layer.roof + more * 1e-6 for layer, more in zip(judged, above, strict=True)}
    layers = tuple(
        replace(layer, time=times[layer.index], low=times[layer.index] - 1e-6, high=times[layer.index] + 1e-6)
        if layer.index in times
        else layer
        for layer in run.layers
    )
    return replace(run, layers=layers)


def test_the_first_lines_divide_the_time_at_the_machines_limit():
    """To the question why a model is slow, "34 % longer than at the machine's limits" was all that was said."""
    run = profiled_run()
    layers = [layer for layer in run.layers if layer.macs and layer.roof]
    at_limit, above, other = limits_of(run)
    limit, excess = sum(layer.ops / layer.roof for layer in layers), {layer.op: 0.0 for layer in layers}
    for layer in layers:
        excess[layer.op] += layer.time - layer.ops / layer.roof
    latency, unknown = run.measurement("latency"), 80e-6 * 1.02  # the operator without a formula
    low, high = (round(100 * share) for share in (limit / latency.high, (limit + unknown) / latency.low))
    assert at_limit.startswith(
        f"the machine's limit for this work is at least {quantity(limit, 's')}, {low} to {high} % of the time ("
    )
    assert "arithmetic at its peak 333 µs, memory at its bandwidth" in at_limit
    assert "can shorten it" not in at_limit  # most of the time is above the limit
    total = sum(excess.values())
    spread = math.hypot(*(0.02 * layer.time for layer in layers), 0.01 * sum(layer.time for layer in layers))
    ordered = sorted(excess, key=lambda op: -excess[op])
    parts = ", ".join(f"{op} {quantity(excess[op], 's')}" for op in ordered)
    assert above.startswith(
        f"{plus_minus(total * 1e6, (total - spread) * 1e6, (total + spread) * 1e6)} µs ({100 * total / 1e-3:.0f} %) is "
        f"above that limit: {parts}; most in "
    )
    assert above.endswith("; other kernels, such as another engine's, may save it")
    assert other == (
        "190 µs (19 %) is outside the layers with a limit: overheads of the engine, layers without arithmetic, layers whose "
        "limit is not known and 20.0 µs unattributed"
    )
    told = replace(run, profile=replace(run.profile, unattributed=9e-6))  # below a hundredth of the whole
    assert limits_of(told)[2].endswith("layers without arithmetic and layers whose limit is not known")
    quick = with_times_above_roofs(run, [30, 1, 1, 1])
    assert limits_of(quick)[0].endswith(
        ": only less work (a smaller model) or a lower precision (int8, or bf16 where the engine has it) can shorten it"
    )
    many = replace(quick, environment={"cpu": {"usable_cores": 4}}, effective={"threads": 1})
    assert limits_of(many)[0].endswith(
        ": only less work (a smaller model), a lower precision (int8, or bf16 where the engine has it) or more threads can "
        "shorten it"
    )
    quantised = replace(quick, effective={"precision_of_products": {"i8": 3}})
    assert limits_of(quantised)[0].endswith(": only less work (a smaller model) can shorten it")


def test_layers_below_their_limits_count_against_those_above():
    """Each layer's noise above its limit was added up, and nothing was taken off."""
    run = replace(profiled_run(), measurements=())  # no latency with an interval that all layers share
    assert limits_of(with_times_above_roofs(run, [9, -3, -1, -1]))[1].startswith("4.00 ± 2.00 µs (0.40 %) is above")
    assert limits_of(with_times_above_roofs(run, [3, -3, 1, 0]))[1] == (
        "how much is above that limit can't be told: at most 3.00 µs of the 1.00 ms that the whole takes, perhaps nothing"
    )
    assert limits_of(with_times_above_roofs(run, [-3, -3, 1, 0]))[1] == "no time is above that limit"
    exact = with_times_above_roofs(run, [9, -3, -1, -1])
    layers = tuple(replace(layer, low=None, high=None) for layer in exact.layers)
    assert limits_of(replace(exact, layers=layers))[1].startswith("4.00 µs (0.40 %) is above")


def test_no_time_above_the_limit_passes_the_upper_end_of_the_whole():
    """Of a whole of 2.48 ms, at most 3.18 ms was said to be above the limit."""
    run = profiled_run()
    rows = tuple(replace(row, low=0.05e-3, high=1.2e-3) if row.metric == "latency" else row for row in run.measurements)
    least = sum(layer.ops / layer.roof for layer in run.layers if layer.macs and layer.roof)
    assert limits_of(replace(run, measurements=rows))[1].startswith(
        f"how much is above that limit can't be told: at most {quantity(1.2e-3 - least, 's')} of the 1.20 ms that the "
        "whole takes at most, perhaps nothing"
    )


def test_a_limit_that_is_next_to_nothing_of_the_time_has_no_empty_list():
    run = profiled_run()
    slow = replace(run, profile=replace(run.profile, latency=1.0))  # a thousand times as long
    assert limits_of(run)[0].split("% of the time")[1].startswith(" (")
    assert limits_of(slow)[0].split("% of the time")[1] == ""


def test_the_layers_that_take_half_take_half_of_the_whole():
    """4 layers that took 43 % of the whole stood as "half of the time": it was half of that of all layers."""

    def told(run):
        overview = next(table for table in profile_page([run]).tables if table.title == "Overview")
        return [[cell.text for cell in row] for row in overview.rows][1]

    assert told(profiled_run()) == ["Half of the time", "2 layers", "of 7 take 55 % of the whole"]
    assert told(many_layers_run(count=49)) == ["All layers", "49 %", "of the whole, in 49 layers"]  # of 10 µs in 1000
    assert told(many_layers_run()) == ["Half of the time", "50 layers", "of 60 take 50 % of the whole"]


def test_a_sum_beside_a_long_label_has_the_whole_width():
    runs = [profiled_run(), faster_run()]
    names = [f"lastweek/{'denoise' * 4}.{word}.onnx" for word in ("one", "two")]
    runs = [
        replace(run, job=replace(run.job, model=replace(run.job.model, name=name, sha256=name)))
        for run, name in zip(runs, names, strict=True)
    ]
    lines = profile_text(runs, width=80).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("Sum of the layers: "))
    assert lines[at + 1].startswith("operators ") or not lines[at + 1].startswith(" ")


def with_shares_of_roofs(run, shares):
    """`run` whose layers with a roof attain `shares` of it one after the other, exactly: their peaks have no interval."""
    judged = [layer for layer in run.layers if layer.macs and layer.roof]
    times = {
        layer.index: [layer.ops / layer.roof / share for share in (value, least)]
        for layer, (value, least) in zip(judged, shares, strict=True)
    }
    layers = tuple(
        replace(
            layer, time=times[layer.index][0], low=times[layer.index][0], high=times[layer.index][1],
            ops_per_second=layer.ops / times[layer.index][0], roof_share=layer.ops / times[layer.index][0] / layer.roof,
        )
        if layer.index in times
        else layer
        for layer in run.layers
    )  # fmt: skip
    return replace(run, layers=layers, profile=replace(run.profile, peaks=tuple(replace(p, high=None) for p in PEAKS)))


def test_a_share_of_the_limit_above_100_is_at_the_limit_or_counts_for_nothing():
    """Layers stood at 105 to 115 % of the machine's limit, without a remark."""
    run = with_shares_of_roofs(profiled_run(), [(0.5, 0.4), (1.12, 0.952), (1.15, 1.031), (0.9, 0.8)])
    table = layer_table(run)
    place = [one.title for one in table.columns].index("Of limit (%)")
    cells = {row[0].text: row[place] for row in table.rows}
    assert [cells[index].text for index in "0236"] == [
        "50.0 compute",
        "≥ 95.2 memory",
        "≥ 103.1 compute",
        "90.0 memory",
    ]
    assert [cells[index].notes for index in "0236"] == [(), (AT_LIMIT,), (ABOVE_LIMIT,), ()]
    assert cells["2"].value == pytest.approx(112.0)
    lines = list(csv.DictReader(io.StringIO(layers_csv([run]))))
    assert [float(lines[at]["Share of roof (1)"]) for at in (2, 3)] == pytest.approx([1.12, 1.15])
    assert f"Share of roof: {AT_LIMIT}" in lines[2]["Notes"] and f"Share of roof: {ABOVE_LIMIT}" in lines[3]["Notes"]
    assert [roof_words(run.layers[at], run.profile) for at in (0, 2, 3)] == [
        "50 % of its roof", "at least 95 % of its roof, at the limit", "at least 103 % of its roof, above the limit",
    ]  # fmt: skip
    far_above = replace(run.layers[3], roof=None, roof_share=None)
    assert roof_reason(far_above, run.profile) == roof_reason(run.layers[3], run.profile) == ABOVE_LIMIT
    assert roof_reason(replace(far_above, dtype="float64"), run.profile) == "no measured peak is a roof for it"
    assert node_data(run, "roof")["results"][LONG]["value"] == 100.0
    assert "pw1" not in node_data(run, "roof")["results"]
    divided = divide_at_roofs(run)
    assert divided is not None and [layer.name for layer in divided.unknown] == ["pw1", "whirl"]
    known = [run.layers[at] for at in (0, 2, 6)]
    assert divided.above == pytest.approx(sum(layer.time - layer.ops / layer.roof for layer in known))


def test_the_limit_of_a_model_is_at_most_the_time_that_it_takes():
    run = with_shares_of_roofs(profiled_run(), [(1.25, 0.9)] * 4)
    divided = divide_at_roofs(run)
    assert divided is not None and divided.above < 0
    taken = sum(layer.time for layer in run.layers if layer.macs and layer.roof)
    assert sum(divided.least.values()) == pytest.approx(taken)
    assert limits_of(run)[0].startswith(f"the machine's limit for this work is at least {quantity(taken, 's')}, ")
    assert limits_of(run)[1].startswith("how much is above that limit can't be told: at most ")


def test_how_often_peaks_were_measured_is_a_condition_and_no_part_of_the_answer():
    """Counts of two engines stood side by side, and did not tell what had been measured so often."""
    run = profiled_run()
    peaks = tuple(replace(one, times_measured=11, since="2026-03-01", measured_at="2026-03-04T05:00") for one in PEAKS)
    document = profile_document([replace(run, profile=replace(run.profile, peaks=peaks))])
    assert not [line for line in (*document.answer, *document.lead[0].lines) if "measured 11 times" in line]
    (timed,) = [section for section in document.sections if section.title == "How it was timed"]
    assert (
        "arithmetic, float32: 60.0 Gop/s (matrix product of numpy, 512 × 512, 1 thread, measured 11 times since "
        "2026-03-01, the highest rate counts: that of 2026-03-04)"
    ) in timed.lines


def test_a_type_that_takes_more_than_the_whole_says_why():
    run = profiled_run()
    shrunk = replace(run, profile=replace(run.profile, latency=400e-6))
    layers = tuple(replace(layer, share=None) for layer in run.layers)
    (conv, *_) = type_table(replace(shrunk, layers=layers)).rows
    assert (conv[0].text, conv[3].text, conv[3].notes) == ("Conv", "125.0", (ABOVE_WHOLE,))


def test_limits_that_were_measured_on_a_busy_machine_say_so():
    run = profiled_run()
    busy = replace(run, cautions=(*run.cautions, Caution.of("busy-host", "others used 90%")))
    (said,) = [line for line in conditions_of(busy) if line not in conditions_of(run)]
    assert (
        said
        == "other processes ran meanwhile, so that the limit and the times can be far off: profile on a quiet machine"
    )


def test_without_roofs_or_with_unmatched_operators_no_time_is_divided():
    run = profiled_run()
    assert limits_of(replace(run, layers=tuple(replace(layer, roof=None) for layer in run.layers))) == []
    bare = replace(run, layers=tuple(replace(layer, roof=None) for layer in run.layers))
    reason = replace(sample_profile(), peaks_absent_because="no engine measures them here")
    assert limits_of(replace(bare, profile=reason)) == [
        "the machine's limit is not known: no engine measures them here"
    ]
    lost = replace(run.layers[0], index=99, kind="unmatched", time=None)
    assert limits_of(replace(run, layers=(*run.layers, lost))) == []


def test_two_sessions_whose_times_are_bounds_ask_for_more():
    run = profiled_run()
    wide = tuple(replace(layer, low=0.0) if layer.macs else layer for layer in run.layers)
    two = replace(run, layers=wide, profile=replace(sample_profile(), sessions=2))
    line = (
        "the interval of most layers spans more than a factor of 2: two processes hardly show how a third differs; "
        "give --sessions 5"
    )
    assert line in conditions_of(two)
    assert line not in conditions_of(replace(two, profile=sample_profile()))
    assert line not in conditions_of(replace(two, layers=run.layers))


def bounded_run(*, sessions, high=6e-4):
    """Every layer of `profiled_run` is only known to be below `high` (s)."""
    run = profiled_run()
    layers = tuple(
        replace(layer, low=0.0, high=high) if layer.kind == "operator" and layer.time else layer for layer in run.layers
    )
    return replace(run, layers=layers, profile=replace(sample_profile(), sessions=sessions))


def test_layers_of_which_two_sessions_tell_bounds_alone_have_their_times_without_bounds():
    run = bounded_run(sessions=2)
    document = profile_document([run])
    line = (
        "two sessions are too few for layers: their times have no intervals here, and their order is not proven; "
        "give --sessions 5"
    )
    assert conditions_of(run).count(line) == 1
    assert "Conv 50.0 % (500 µs, 2 layers), DepthwiseConv 25.0 % (250 µs, 1 layer)" in document.answer[0]
    assert [cell.text for cell in type_table(run).rows[0]] == ["Conv", "2", "500", "50.0"]
    assert not any(cell.text.startswith("<") for table in document.tables for row in table.rows for cell in row)


def test_no_type_takes_more_than_the_whole():
    """Two layers below 600 µs each are not below 1200 µs, 120 % of 1000 ± 10 µs, but within the whole."""
    run = bounded_run(sessions=3)
    assert [cell.text for cell in type_table(run).rows[0]] == ["Conv", "2", "< 951", "< 94.1"]
    alone = bounded_run(sessions=3, high=2e-3)
    row = layer_table(alone).rows[0]
    assert (row[3].text, row[4].text) == ("< 951", "< 94.1")


def test_the_first_lines_say_what_is_slower_then_by_which_types_and_layers_then_where_its_time_goes():
    """The first line was where the time of the fast engine goes, though one asks why the other is slow."""
    slow, fast = profiled_run(), faster_run()
    order, types, layers, where, other = profile_document([slow, fast]).answer[:5]
    assert order == (
        "least latency: openvino/cpu; onnxruntime/cpu takes 1.149× [1.132, 1.167] the time; measured at different times: "
        "the order is not proven"
    )
    assert types == "by type of operator, openvino less onnxruntime: Conv -100 ± 27 µs"
    assert layers.startswith("largest differences by layer, openvino less onnxruntime: ")
    assert where.startswith("onnxruntime/cpu takes 1.00 ± 0.01 ms: Conv 50.0 % (500 ± 10 µs, 2 layers), Depth")
    assert other.startswith("openvino/cpu (least latency) takes 870 ± 9 µs: Conv 41.0 % (390 ± 8 µs, 2 layers), Depth")


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict", "first", "asked"),
    [
        (0.87, 0.86, 0.88, "faster", "openvino/cpu is 1.15× faster than onnxruntime/cpu", "onnxruntime/cpu takes "),
        (2.0, 1.9, 2.1, "slower", "openvino/cpu is 2.00× slower than onnxruntime/cpu", "openvino/cpu takes "),
        (1.2, 0.9, 1.5, "inconclusive", "openvino/cpu and onnxruntime/cpu can't be told apart", "onnxruntime/cpu (least"),
    ],
)  # fmt: skip
def test_the_slower_engine_in_turns_is_the_one_that_is_asked_about(ratio, low, high, verdict, first, asked):
    named, other = profiled_run(), faster_run()
    opposite = {"faster": "slower", "slower": "faster"}.get(verdict, verdict)
    told = InTurns(against=named.id, ratio=ratio, low=low, high=high, verdict=verdict, method="made up")
    back = replace(told, against=other.id, ratio=1 / ratio, low=1 / high, high=1 / low, verdict=opposite)
    runs = [replace(named, in_turns=(back,)), replace(other, in_turns=(told,))]
    lines = profile_document(runs).answer
    assert lines[0].startswith(f"{first} (ratio ")
    assert next(line for line in lines if " takes " in line).startswith(asked)
    types = [line for line in lines if line.startswith("by type of operator")]
    sure = "by type of operator, openvino less onnxruntime: Conv -100 ± 23 µs (76.9 [55.0, 103] % of the difference)"
    assert types == ([sure] if verdict == "faster" else []), "others have intervals in common by the ratio in turns"


def test_the_lines_of_the_fastest_engine_are_those_of_its_own_profile():
    """One sentence for one engine and for several, and each run has it once."""
    slow, fast = profiled_run(), faster_run()
    fast = replace(fast, profile=replace(fast.profile, findings=FINDINGS))
    alone = profile_document([fast]).answer
    both = [line for line in profile_document([slow, fast]).answer if line.startswith("openvino/cpu (least latency) ")]
    (saving,) = (line for line in conditions_of(slow, fast) if line.startswith("openvino/cpu: largest saving "))
    assert alone[0].startswith("openvino/cpu takes 870 ± 9 µs: Conv ")
    assert alone[1].startswith("largest saving among the findings: up to 225 µs (25.9 %): ")
    assert alone[1].endswith("(far-from-roof); what int8 would save was not measured: see Next")
    assert [line.replace(" (least latency)", "") for line in both] == [alone[0]]
    assert saving == f"openvino/cpu: {alone[1]}", "whose saving it is"
    assert not any(" takes 1.00 ± 0.01 ms: " in line for line in conditions_of(slow, fast)), "the answer has it"
    failed = replace(slow, profile=None, layers=(), profile_absent_because="no", measurements=())
    assert profile_document([failed, fast]).answer[:2] == (alone[0], saving)


def test_layers_that_are_not_the_whole_are_cautioned_in_the_first_line():
    run = profiled_run()
    odd = replace(run, cautions=(*run.cautions, Caution.of("layers-off", f"{NOT_THE_WHOLE}they are 128%")))
    assert profile_document([odd]).answer[0] == (
        "onnxruntime/cpu: layer times of this run don't add up to the whole: they are 128%; measure again on a quiet "
        "machine"
    )
    stored = replace(run, profile=replace(run.profile, conservation=1.2))  # by a version that divided nothing
    assert profile_document([stored]).answer[0].startswith(f"onnxruntime/cpu: {NOT_THE_WHOLE}they are 120% of it; ")
    fine = replace(run, profile=replace(run.profile, conservation=1.1))
    assert not any(NOT_THE_WHOLE in line for line in profile_document([fine]).answer)


@pytest.mark.parametrize(
    ("saving", "times", "code", "layers", "about"),
    [
        (70e-6, {}, "denormal-weights", (5,), "a finding on whirl"),
        (70e-6, {}, "denormal-weights", (5, 6, 3, 8), "a finding on pw1, whirl and 2 more layers"),
        (70e-6, {}, "denormal-weights", (), "a finding"),
        (60e-6, {}, "denormal-weights", (), ""),  # less than half of the 130 µs
        (70e-6, {"low": 860e-6}, "denormal-weights", (), ""),  # it may be as fast
        (70e-6, {}, "far-from-roof", (), ""),
    ],
)
def test_what_explains_a_slower_engine_comes_behind_where_the_time_of_both_goes(saving, times, code, layers, about):
    slow, fast = profiled_run(), faster_run()
    finding = Finding(code=code, message="m", suggestion="do it", saving=saving, layers=layers)
    latency = replace(slow.measurement("latency"), **times)
    slow = replace(
        slow,
        profile=replace(slow.profile, findings=(finding,)),
        measurements=tuple(latency if row.metric == "latency" else row for row in slow.measurements),
    )
    fast = replace(fast, profile=replace(fast.profile, findings=FINDINGS))
    lines = profile_document([slow, fast]).answer
    told = (
        f"onnxruntime/cpu takes 130 µs longer, and {about} may explain most of that, up to 70.0 µs (7.0 %): do it "
        "(denormal-weights)"
    )
    place = next(at for at, line in enumerate(lines) if line.startswith("openvino/cpu (least latency) takes ")) + 1
    saving = "onnxruntime/cpu: largest saving among the findings: up to "
    assert lines[place] == told if about else lines[place].startswith(saving)
    assert not any(line.startswith(saving) for line in lines[place + 1 :])
    known = replace(finding, low=finding.saving * 0.9, high=finding.saving * 1.1)
    lines = profile_document([replace(slow, profile=replace(slow.profile, findings=(known,))), fast]).answer
    assert any(" explains most of that, " in line for line in lines) == bool(about)
    refuted = replace(finding, low=-finding.saving, high=finding.saving * 3)
    lines = profile_document([replace(slow, profile=replace(slow.profile, findings=(refuted,))), fast]).answer
    assert not any("most of that" in line for line in lines)


def test_steps_of_which_the_clock_tells_nothing_are_one_row():
    run = profiled_run()
    none = [layer_of(20 + at, f"r{at}", "Reorder", 0, kind="overhead", engine_nodes=(f"r{at}",), low=0.0, high=0.0)
            for at in range(27)]  # fmt: skip
    for top in (15, None):
        rows = layer_table(replace(run, layers=(*run.layers, *none)), top=top).rows
        rows = [row for row in rows if row[0].text == "+"]
        assert [row[1].text for row in rows] == [
            "reorder a",
            "between operators",
            "session",
            "27 steps too short to time",
        ]
        assert (rows[-1][3].text, rows[-1][1].notes) == ("0", (TOO_SHORT,))
    rows = layer_table(replace(run, layers=(*run.layers, none[0]))).rows
    assert [row[1].text for row in rows if row[0].text == "+"][-1] == "r0"


def test_layers_have_verdicts_where_turns_tell_the_ratio_of_latencies_of_grade_d():
    slow, fast = profiled_run(), faster_run()
    doubtful = replace(fast, trust=Trust(grade="D"))
    assert verdicts_of(slow, doubtful)["pw1"] == "unclear"
    turns = InTurns(against=slow.id, ratio=0.87, low=0.86, high=0.88, verdict="faster", method="turns")
    found = verdicts_of(slow, replace(doubtful, in_turns=(turns,)))
    assert (found["pw1"], found["whirl"]) == ("faster", "unclear")


def verdicts_of(*runs):
    return {row[0].text: row[6].text for row in diff_table(runs).rows}


def test_of_two_models_in_one_engine_the_difference_comes_first():
    before = profiled_run()
    model = replace(before.job.model, sha256="0" * 64)
    after = replace(faster_run(), job=replace(before.job, model=model))
    found = profile_document([before, after])
    assert found.answer[0].startswith("least latency: ")
    titles = [table.title.partition(":")[0] for table in found.tables]
    assert titles[:3] == ["By type of operator", "Before and after", "Time by type of operator"]
    assert leader_of([before, after]) is None
    elsewhere = replace(before.job.target, device="pi")
    assert leader_of([before, replace(faster_run(), job=replace(faster_run().job, target=elsewhere))]) is None


def test_work_of_the_engine_that_takes_most_stands_first():
    run = profiled_run()
    slow = [layer for layer in run.layers if layer.kind == "operator"][:1]
    own = layer_of(20, "between operators", "idle", 600, kind="overhead", engine_nodes=())
    run = replace(run, layers=(*slow, own))
    assert time_line(run).startswith(
        "overheads of the engine 60.0 % (600 ± 12 µs), Conv 30.0 % (300 ± 6 µs, 1 layer); "
    )


def test_the_page_gives_no_share_of_a_peak_that_the_model_beats():
    low = replace(sample_profile(), peaks=(Peak(kind="compute", dtype="float32", threads=1, value=1e9),))
    known = tuple(layer for layer in profiled_run().layers if layer.ops is not None)
    run = replace(profiled_run(), layers=known)
    assert "% of the highest measured peak" in render_profile_html([run])
    assert "% of the highest measured peak" not in render_profile_html([replace(run, profile=low)])


def test_records_of_earlier_versions_lose_the_rates_of_bounded_layers():
    document = to_document(profiled_run())
    document["layers"][0] |= {"low": 0.0, "high": 6e-4}
    assert document["layers"][0]["ops_per_second"] and document["layers"][0]["roof"]
    for run in (decode(json.dumps(document)), from_document(document)):
        layer = run.layers[0]
        assert (layer.ops_per_second, layer.roof, layer.roof_share, layer.bound) == (None, None, None, None)
        row = next(row for row in layer_table(run).rows if row[0].text == "0")
        assert row[7].notes == row[8].notes == (BELOW,)


def test_steps_that_nobody_could_name_are_said_to_be_unattributed():
    run = profiled_run()
    layers = tuple(replace(each, op=NAMELESS) if each.name == "reorder a" else each for each in run.layers)
    rows = {row[1].text: row for row in layer_table(replace(run, layers=layers)).rows}
    assert rows["unattributed"][1].notes == (NAMELESS_NOTE,)
    assert {row[1].text: row for row in layer_table(run).rows}["unattributed"][1].notes == ()


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("runs", [[profiled_run()], [profiled_run(), faster_run()], [many_layers_run(count=200)]])
def test_text_fits_the_terminal(width, runs):
    lines = profile_text(runs, width=width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert not any(character in line for line in lines for character in "\x1b\x00\r")


def test_eighty_columns_have_the_seven_that_matter_and_wide_ones_all():
    narrow, wide = (profile_text([profiled_run()], width=width) for width in (80, 120))
    assert "columns left out for width: #, Σ %, GOP/s, dtype" in narrow
    assert re.search(r"^…FusedBatchNormV3 +DepthwiseConv +250 ± 5 +25\.0 +400 k +10\.0 memory$", narrow, re.M)
    assert "no room" not in wide
    assert re.search(r"400 k +3\.20 +10\.0 memory +float32$", wide, re.M)


def test_text_says_everything_of_a_profile():
    text = " ".join(profile_text([profiled_run()], width=120, details=True).split())
    for words in (
        "kws.onnx · onnxruntime 1.2.3 (cpu, 1 thread, f32) · median latency 1.00 ± 0.01 ms",
        "operators 92.0 % + overheads 6.0 % = 98.0 % of the whole, 1.00 ms; 2.0 % unattributed",
        "removed by the engine: 1 operator",
        "arena 96.0 KiB, lower bound 88.0 KiB, peak at operator 3",
        "1. up to 225 µs (22.5 %): the depthwise layer",
        "time 250 µs, roof share 10.0 %, ops per second 3.20 G/s; saving: time at the roof",
        "2. up to 30.0 µs (3.0 %)",
        "300 inferences in 3 processes of their own",
        "under the profiler an inference takes 1.06 ms (mean), 6.0 % more than the whole",
    ):
        assert words in text


def test_time_by_type_of_operator_adds_up():
    table = type_table(profiled_run())
    assert column(table, "Type of operator") == [
        "Conv", "DepthwiseConv", "Whirl", "Gemm", "Softmax", "Reshape", "(overheads of the engine)",
    ]  # fmt: skip
    assert column(table, "Layers") == ["2", "1", "1", "1", "1", "1", "3"]
    assert column(table, "Time (µs)") == ["500", "250", "80.0", "60.0", "30.0", "n/a", "60.0"]
    assert column(table, "%") == ["50.0", "25.0", "8.0", "6.0", "3.0", "–", "6.0"]
    few = type_table(profiled_run(), most=2)
    assert column(few, "Type of operator")[2] == "… 4 more types"
    assert few.rows[2][2].value == pytest.approx(170.0)
    assert few.rows[2][0].notes == (f"1 of them without a time: {NO_TIME}",)


def test_findings_come_first_then_types_then_layers_then_run_against_run():
    text = profile_text([profiled_run(), faster_run()], width=120)
    places = [text.index(words) for words in ("Findings", "Time by type", "Layers by time", "Engine against engine")]
    assert places == sorted(places)
    text = render_markdown(profile_document([profiled_run()]))
    assert text.index("## Findings") < text.index("## Time by type") < text.index("## Layers by time")
    page = render_profile_html([profiled_run(), faster_run()]).partition("<main")[2]
    titles = ["Overview: ", "Charts", "Findings: ", "Time by type of operator: ", "Layers by time: "]
    places = [re.search(rf"<h2 [^>]*>{title}", page).start() for title in titles]
    assert places == sorted(places)
    assert "DepthwiseConv" in page[places[3] : places[4]]


def test_the_other_engine_that_fuses_a_chain_is_named():
    chain = replace(FINDINGS[0], code="element-wise-chains", message="2 operators run one by one", layers=(0, 1),
                    suggestion=f"try an engine{IN_TWO}, or export")  # fmt: skip
    layers = [layer_of(at, name, name, 10) for at, name in enumerate(("Add", "Mul"))]
    alone = replace(profiled_run(), layers=tuple(layers), profile=replace(sample_profile(), findings=(chain,)))
    whole = layer_of(0, "Conv", "Conv", 10, nodes=("Conv", "Add", "Mul"))
    fusing = replace(alone, id=faster_run().id, job=faster_run().job, layers=(whole,))
    told, advice = (getattr(with_others(chain, alone, [alone, fusing]), name) for name in ("message", "suggestion"))
    assert (advice, with_others(chain, alone, [alone])) == ("try an engine, or export", chain)
    assert told == f"2 operators run one by one; {engine_of(fusing)} runs 2 of these 2 together with other operators"
    other = replace(fusing, job=replace(fusing.job, model=replace(fusing.job.model, sha256="0" * 64)))
    assert with_others(chain, alone, [other]).message == chain.message


def test_a_run_without_a_profile_says_why():
    text = profile_text([unprofiled_run()], width=80)
    assert "Not profiled\n  litert 9.9 is not a version whose profiler is known" in text
    sections = profile_document([make_run(1)]).sections
    assert [section.lines for section in sections] == [("the run was not asked to be profiled",)]


def test_operators_that_are_not_matched_are_told_with_their_macs():
    run = profiled_run()
    layers = [
        replace(each, kind="unmatched", time=None, share=None) if each.name == "pw1" else each for each in run.layers
    ]
    assert "not matched: 2 operators with an unknown share of the MACs" in sum_line(replace(run, layers=tuple(layers)))
    known = [replace(each, macs=each.macs or 0) for each in layers]
    lost = replace(run, layers=tuple(known))
    assert sum_line(lost).endswith("; 2.0 % unattributed; not matched: 2 operators with 38.2 % of the MACs")
    notes = layer_table(lost).notes
    assert "not matched: 2 operators with 38.2 % of the MACs, of which no step of the engine is known" in notes
    assert "not matched" not in sum_line(run)


def test_more_than_the_whole_is_said():
    profile = replace(sample_profile(), operators_time=1.0e-3, unattributed=-6e-5, conservation=1.06)
    assert conservation_line(profile).endswith("= 106.0 % of the whole, 1.00 ms; 6.0 % more than the whole")


def test_memory_that_is_not_known_says_why():
    assert memory_line(faster_run()) == "memory of the activations: n/a (an input has an open shape)"
    planless = replace(sample_profile(), memory={**MEMORY, "arena_bytes": None})
    run = replace(profiled_run(), profile=planless)
    assert "arena n/a (too many tensors to plan), lower bound 88.0 KiB" in memory_line(run)


def test_the_timeline_of_memory_is_as_high_as_the_peak_and_no_wider_than_asked():
    (section,) = memory_sections(profiled_run(), width=62)
    *bars, axis, peak = section.drawing
    # Four cells an operator; eighths of a quarter of 90,112 B are rounded up, so that 20,000 B fill the lowest row.
    assert [line.count("█") for line in bars] == [4, 12, 16, 32]
    assert axis == "live bytes along operators 0 to 10"
    assert peak.startswith("highest: 88.0 KiB at operator 3 (…")
    (folded,) = memory_sections(many_layers_run(count=200), width=62)
    assert max(map(len, folded.drawing)) <= 60
    assert "each bar the highest of 4" in folded.drawing[-2]
    (unknown,) = memory_sections(faster_run(), width=62)
    assert unknown.drawing == () and "n/a" in unknown.lines[0]


def test_operators_are_named_by_their_layers():
    names = operator_names(profiled_run())
    assert (names[1], names[5], names[7]) == ("bn1", "relu2", "whirl")


@pytest.mark.parametrize(("text", "width", "short"), [("abc", 3, "abc"), ("abcdefgh", 5, "ab…gh"), ("a\n b", 9, "a b")])
def test_names_are_shortened_in_the_middle(text, width, short):
    assert shorten(text, width) == short


def test_findings_that_are_won_once_come_last_and_say_so():
    once = Finding(
        code="slow-first", message="slow", suggestion="warm up", saving=0.5, evidence={"first": 0.51}, once=True
    )
    profile = replace(sample_profile(), findings=(once, *sample_profile().findings))
    assert [finding.code for finding in ranked_findings(profile)] == ["far-from-roof", "layout", "slow-first"]
    assert finding_line(once, profile) == "up to 500 ms once, at the start: slow → warm up (slow-first)"
    (evidence,) = evidence_sections(replace(profiled_run(), profile=profile))
    assert evidence.lines[2] == "3. slow-first: first 510 ms" and evidence.brief == ""


def test_long_names_of_layers_are_short_in_findings():
    run = profiled_run()
    name = f"functional_1/part_of_the_network/another_part/{run.layers[1].name}"
    layers = tuple(replace(layer, name=name) if layer is run.layers[1] else layer for layer in run.layers)
    finding = replace(run.profile.findings[0], message=f"slow. The furthest is {name!r} at 9 %", saving=1e-4)
    run = replace(run, layers=layers, profile=replace(run.profile, findings=(finding,)))
    (line,) = finding_sections(run)[0].lines
    assert "slow. The furthest is '…another_part/reorder a' at 9 % → " in line


def test_evidence_has_units_by_name():
    finding = Finding(code="x", message="", suggestion="", saving=0.0,
                      evidence={"time_at_roof": 2e-5, "worst": 0.125, "moved_bytes": 2048, "steps": 7.0, "factor": 1.25})  # fmt: skip
    assert evidence_of(finding) == [
        ("time at roof", "20.0 µs"), ("worst", "12.5 %"), ("moved bytes", "2.00 KiB"), ("steps", "7"), ("factor", "1.25"),
    ]  # fmt: skip


def test_markdown_has_tables_sums_and_no_html():
    text = render_markdown(profile_document([profiled_run()]))
    assert text.startswith("# Profile of kws.onnx on Example CPU")
    assert "<script>" not in text
    assert "operators 92.0 % + overheads 6.0 %" in text


def test_two_runs_are_aligned_by_the_operators_that_layers_execute():
    pairs = {pair.name: pair for pair in pair_layers(profiled_run(), faster_run())}
    assert [layer.name for layer in pairs["pw1"].after] == ["pw1", "relu2"]
    assert pairs["pw1"].change == pytest.approx(-100e-6)
    assert pairs["pw1"].is_clear
    assert not pairs["whirl"].is_clear
    assert pairs["reorder a"].times == (pytest.approx(30e-6), 0)
    assert pairs["silent"].times == (None, None)


def test_nothing_is_lost_or_counted_twice_in_a_comparison():
    before, after = profiled_run(), faster_run()
    pairs = pair_layers(before, after)
    assert sum(len(pair.before) for pair in pairs) == len(before.layers)
    assert sum(len(pair.after) for pair in pairs) == len(after.layers)
    whole = sum(layer.time for layer in after.layers if layer.time) - sum(
        layer.time for layer in before.layers if layer.time
    )
    assert sum(pair.change for pair in pairs if pair.change is not None) == pytest.approx(whole)


def test_the_table_of_changes_says_what_is_clear():
    table = diff_table([profiled_run(), faster_run()])
    assert table.title == "Engine against engine: onnxruntime/cpu | openvino/cpu"
    titles = ["onnxruntime (µs)", "openvino (µs)", "Difference (µs)", "Ratio", "openvino is"]
    assert [column.title for column in table.columns[2:]] == titles
    assert [cell.text for cell in table.rows[0]] == ["pw1", "Conv", "200 ± 4", "100 ± 3", "-100", "0.500", "faster"]
    assert table.rows[0][3].notes == ("2 steps: pw1, relu2",)
    assert [cell.text for cell in table.rows[-1]] == [
        "end to end",
        "–",
        "1000 ± 10",
        "870 ± 9",
        "-130",
        "0.870",
        "not proven",
    ]
    assert {row[0].text: row[6].text for row in table.rows}["whirl"] == "unclear"


def test_the_change_of_a_time_that_has_only_a_bound_lies_between_two_ends():
    """Below 3 µs before, 2.5 to 2.9 µs after."""
    layer = profiled_run().layers[0]
    before, after = replace(layer, time=1e-6, low=0.0, high=3e-6), replace(layer, time=2.7e-6, low=2.5e-6, high=2.9e-6)
    pair = LayerPair(name="pw1", op="Conv", kind="operator", before=(before,), after=(after,))
    assert [cell.text for cell in pair_row(pair)[2:]] == ["< 3.00", "2.70 ± 0.20", "-0.500 to +2.90", "–", "unclear"]


def test_work_that_one_run_has_has_neither_change_nor_ratio():
    table = diff_table([profiled_run(), faster_run()])
    (row,) = [row for row in table.rows if row[0].text == "reorder a"]
    assert [cell.text for cell in row[3:]] == ["none", "–", "–", "unpaired"]


def test_the_sum_of_the_rows_left_out_is_bounded_where_one_of_them_is():
    """300 ± 6 µs and a time below 3 µs: 294 to 309 µs, in both runs, of latencies of 1000 ± 10 µs."""
    run = profiled_run()
    most, more, below = run.layers[0], run.layers[2], run.layers[3]
    layers = (
        replace(most, index=0, name="most", nodes=("most",), outputs=()),
        replace(more, index=1, name="more", nodes=("more",), outputs=(), time=300e-6, low=294e-6, high=306e-6),
        replace(below, index=2, name="below", nodes=("below",), outputs=(), time=1e-6, low=0.0, high=3e-6),
    )
    slower = (replace(layers[0], time=layers[0].time * 2), *layers[1:])
    runs = [replace(run, layers=layers), replace(run, id=faster_run().id, layers=slower)]
    cells = diff_table(runs, most=1).rows[1]
    assert [cell.text for cell in cells[2:5]] == ["300 to 303", "300 to 303", "-20.8 to +21.2"]


def test_two_engines_are_no_before_and_after():
    before, after = profiled_run(), faster_run()
    again = replace(after, job=replace(after.job, runtime=before.job.runtime))
    table = diff_table([before, again])
    assert table.title.startswith("Before and after: ") and table.columns[6].title == "Verdict"
    for runs, shown, other in (
        ((before, after), "Engine against engine", "Before and after"),
        ((before, again), "Before and after", "Engine against engine"),
    ):
        for text in (profile_text(runs, width=120), render_profile_html(runs)):
            assert shown in text and other not in text


def test_changes_are_folded_with_their_sums():
    table = diff_table([profiled_run(), faster_run()], most=3)
    assert table.rows[3][0].text == "… 7 more with smaller changes"
    assert table.rows[3][2].value == pytest.approx(450.0)


def test_models_without_common_names_are_not_compared():
    assert diff_table([profiled_run(), many_layers_run()]) is None
    assert diff_table([profiled_run()]) is None
    assert diff_table([profiled_run(), unprofiled_run()]) is None


def test_csv_has_every_layer_in_si_units_and_no_formula():
    rows = list(csv.DictReader(io.StringIO(layers_csv([profiled_run(), faster_run()]), newline="")))
    assert len(rows) == 12 + 12
    whole = rows[11]
    assert [whole[key] for key in ("Run", "Kind", "Name", "Grade", "Time (s)", "Share of latency (1)", "MACs (1)")] == [
        rows[0]["Run"], "whole", "whole", "B", "0.001", "1", "n/a",
    ]  # fmt: skip
    assert (whole["Time (s) low"], whole["Time (s) high"]) == ("0.00099", "0.00101")
    assert whole["Notes"] == f"Name: {WHOLE_IS_LATENCY}"
    assert {row["Grade"] for row in rows} == {"B"}
    assert rows[0]["Time (s)"] == "0.0003"
    assert (rows[0]["Time (s) low"], rows[0]["Time (s) high"]) == ("0.000294", "0.000306")
    assert rows[0]["MACs (1)"] == "6000000"
    assert rows[0]["Outputs"] == "a 1×64×25×5 float32"
    assert rows[2]["Outputs"] == "b 1×64×?×w float32"
    formula = next(row for row in rows if row["Op"] == "Gemm")
    assert formula["Name"] == f"'{FORMULA}"
    assert not any(value.startswith(("=", "+", "@")) for row in rows for value in row.values())
    whirl = next(row for row in rows if row["Name"] == "whirl")
    assert whirl["MACs (1)"] == "n/a"
    assert (
        f"MACs, Ops, Parameters, Weights, Activations, Intensity, Ops per second, Roof, Share of roof: {NO_COST}"
        == whirl["Notes"]
    )


def test_every_chart_draws_its_layers():
    pytest.importorskip("vl_convert")
    svgs = {kind: render_svg(chart_of(profiled_run(), kind).spec) for kind in KINDS}
    marks = {kind: set(re.findall(r'data-layer="(\d+)"', svg)) for kind, svg in svgs.items()}
    assert marks["layers"] == marks["timeline"] == {"0", "1", "2", "3", "5", "6", "8", "9", "10"}
    assert marks["roofline"] == {"0", "2", "3", "6", "8"}
    assert marks["memory"] == set()


def test_names_in_charts_are_text():
    pytest.importorskip("vl_convert")
    svg = render_svg(chart_of(profiled_run(), "layers").spec)
    assert "<script" not in svg
    assert "alert(1)&lt;/script&gt;" in svg or "alert(1)&lt;" in svg


def test_cut_names_on_the_timeline_name_one_layer_each():
    def texts(*names, seconds=100e-6):
        layers = [
            layer_of(index, name, "Conv", seconds * 1e6, start=index * seconds, operators=(index,))
            for index, name in enumerate(names)
        ]
        spec = chart_of(replace(profiled_run(), layers=tuple(layers)), "timeline").spec
        return [row["short"] for row in spec["layer"][1]["data"]["values"]]

    shared = "the_same_end_of_the_name_of_a_long_layer"
    assert texts(f"a/{shared}", "short", f"b/{shared}") == ["short"]
    (own,) = texts(f"a/{shared}", f"another_{shared}_x", f"b/{shared}")
    assert own.startswith("…") and own.endswith("_layer_x")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_known_is_not_drawn(kind):
    bare = replace(profiled_run(), layers=(), profile=replace(sample_profile(), peaks=(), memory=None))
    assert chart_of(bare, kind) is None
    with pytest.raises(BadInput, match=says("run-nothing-chart")):
        render_chart(bare, kind, ".svg")


def test_a_chart_of_another_name_is_refused():
    with pytest.raises(BadInput, match=says("there-no-chart", kind="pie")) as caught:
        chart_of(profiled_run(), "pie")
    assert caught.value.advice == "one of: timeline, layers, roofline, memory"


def test_files_have_the_pages_colours_and_their_data_as_it_is():
    spec = {"mark": {"color": "var(--ink)"}, "data": {"values": [{"name": "var(--ink)"}]}}
    light, dark = scheme_colours(dark=False), scheme_colours(dark=True)
    for colours, ink, overhead in ((light, "#16202c", "#9aa4b0"), (dark, "#e7ecf2", "#77828f")):
        assert with_colours(spec, colours) == {"mark": {"color": ink}, "data": {"values": [{"name": "var(--ink)"}]}}
        assert colours["--overhead"] == overhead
    assert light.keys() == dark.keys() >= {"--paper", "--soft", "--rule", "--accent", "--series-1", "--series-8"}


def test_charts_are_files_of_their_own():
    pytest.importorskip("vl_convert")
    assert render_chart(profiled_run(), "memory", ".png").startswith(b"\x89PNG\r\n")
    svg = render_chart(profiled_run(), "roofline", ".svg").decode()
    assert svg.startswith("<svg")
    assert "var(--" not in svg


def test_every_time_of_an_inference_has_its_own_name():
    """Several figures that a reader takes for the same number: the median latency, the whole, that under the profiler."""
    run = profiled_run()
    latency = replace(run.measurement("latency"), value=9.5e-4, low=9.4e-4, high=9.6e-4)
    run = replace(run, measurements=tuple(latency if row.metric == "latency" else row for row in run.measurements))
    text = " ".join(profile_text([run], width=80, details=True).split())
    assert header(run).endswith("median latency 950 ± 10 µs") and header(run) in text
    assert "= 98.0 % of the whole, 1.00 ms;" in text and "whole [" in text
    assert WHOLE_NOTE in text and WHOLE_IS_LATENCY not in text
    assert "under the profiler an inference takes 1.06 ms (mean), 6.0 % more than the whole" in text
    assert "end to end" not in text and "end-to-end" not in text
    page = render_profile_html([run])
    tile = re.search(r">Latency</th>.*?</tr>", page, re.DOTALL)[0]
    assert ">950 µs</button>" in tile and "median; 95 % interval ± 10 µs" in tile
    assert "the whole is the mean of inferences without the profiler" in page and "end to end" not in page


def test_the_tile_of_a_lopsided_latency_has_its_interval_apart():
    run = profiled_run()
    latency = replace(run.measurement("latency"), value=1e-3, low=9e-4, high=2.9e-3)
    run = replace(run, measurements=(latency,))
    tile = re.search(r">Latency</th>.*?</tr>", render_profile_html([run]), re.DOTALL)[0]
    assert ">1.00 ms</button>" in tile and "median; 95 % interval [0.900, 2.90] ms" in tile


def test_the_header_of_a_failed_latency_says_so():
    run = replace(profiled_run(), measurements=())
    assert header(run).endswith("whole of the layers 1.00 ms")
    assert header(replace(run, profile=None)).endswith("median latency n/a")


def test_hostile_names_stay_on_one_line():
    assert "\n" in HOSTILE
    assert all("\n" not in cell.text for row in layer_table(profiled_run()).rows for cell in row)


def test_what_all_names_share_is_left_out_first():
    names = [f"model/backbone/stage/block_{at}/convolution" for at in range(12)]
    found = short_names(names, 18)
    assert len(set(found)) == 12
    assert all(len(name) <= 18 for name in found)
    assert found[3] == "…block_3/convolution"[:18] or "3" in found[3]


def test_names_that_fit_stay_whole():
    assert short_names(["a", "b\nc"], 10) == ["a", "b c"]
    # The ending of a file's name tells less than the rest, where it tells nothing apart.
    assert short_names(["clothes.onnx", "lastweek/clothes.onnx", "net.onnx"], 12) == [
        "clothes.onnx", "last…clothes", "net.onnx",
    ]  # fmt: skip
    assert short_names(["clothes.onnx", "net_int8_v2.onnx"], 11) == ["clothes…", "net_int8_v2"]
    assert short_names(["network.onnx", "network.tflite"], 9) == ["net….onnx", "net…flite"]
    assert short_names(["python3 fir.py"], 11) == ["pyth…fir.py"]
    assert short_names(["x" * 50], None) == ["x" * 50]


def test_equal_names_cannot_be_told_apart():
    assert len(set(short_names(["y" * 50, "y" * 50], 10))) == 1


def test_names_that_differ_in_the_middle_are_told_apart_beside_others():
    names = [f"__main__.Net/torch.nn.Sequential_features/Sequential_{at}/torch.nn.modules.ReLU_2" for at in range(4)]
    found = short_names([*names, "serving_default_args_0_output_of_the_net"], 18)
    assert len(set(found)) == 5 and all(len(name) <= 18 for name in found)


LAYERS = {
    "paddle": [*(f"p2o.pd_op.{op.lower()}.{op}.{at}" for op in ("Conv", "HardSigmoid", "Mul") for at in range(3)), "x"],
    "torch": [f"/stages.{at}/blocks.{of}/mixer/{op}" for at in range(3) for of in range(2) for op in ("Conv", "Relu")],
    "openvino": [f"/features/features.{at}/conv/Conv/{end}Biases" for at in range(11) for end in ("Without", "Fused")],
    "tflite": [f"net/block_{at}_{part}/Conv2D" for at in range(1, 13) for part in ("expand", "project", "depthwise")],
}


@pytest.mark.parametrize("width", [12, 16, 18, 24, 40])
@pytest.mark.parametrize("names", LAYERS.values(), ids=LAYERS)
def test_names_of_layers_keep_their_end_and_stay_apart(names, width):
    found = short_names(names, width, ends=True)
    assert len(set(found)) == len(names) and max(map(len, found)) <= width
    for name, short in zip(names, found, strict=True):
        assert short == name or (short.startswith("…") and (width < 16 or short.endswith(name[-4:])))


@pytest.mark.parametrize(
    ("name", "width", "short"),
    [
        ("p2o.pd_op.hardsigmoid.HardSigmoid.0", 18, "…HardSigmoid.0"),
        ("p2o.Conv.58 + p2o.HardSigmoid.0", 18, "…p2o.HardSigmoid.0"),
        ("a/very_long_and_only_word", 10, "…only_word"),
        ("averylongandonlyword", 10, "…donlyword"),
        ("a\n b", 9, "a b"),
    ],
)
def test_the_end_of_a_name_begins_with_a_whole_word_where_there_is_one(name, width, short):
    assert keep_end(name, width) == short


@pytest.mark.parametrize(("names", "least"), [(LAYERS["torch"], 24), (LAYERS["openvino"], 27), (["a/b", "a/c"], 2)])
def test_segments_of_paths_stay_whole_where_there_is_room_for_those_that_tell_apart(names, least):
    assert needed_width(names) == least
    for width in (least, least + 5):
        for name, short in zip(names, short_names(names, width, ends=True), strict=True):
            assert set(re.split("[/…]", short)) <= {*name.split("/"), ""}
    assert short_names(LAYERS["torch"][:1] + LAYERS["torch"][-1:], 16, ends=True) == ["…mixer/Conv", "…mixer/Relu"]


def test_a_table_of_layers_drops_columns_before_it_cuts_segments():
    names = [f"/features/features.{at}/conv/conv.{of}/conv.{of}.0/Conv" for at in range(1, 4) for of in (0, 1)]
    layers = [layer_of(at, name, "Conv", 10.0) for at, name in enumerate(names)]
    text = profile_text([replace(profiled_run(), layers=tuple(layers))], width=80)
    assert "…features.1/…conv.0.0/Conv " in text and "…features.3/…conv.1.0/Conv " in text, text
    assert max(map(len, text.splitlines())) <= 80


def test_tables_of_layers_cut_names_at_their_beginning():
    layers = [
        layer_of(at, name, "Conv", 10.0)
        for at, name in enumerate(f"p2o.pd_op.{op}.{op}.7" for op in ("Conv", "HardSigmoid", "Clip"))
    ]
    text = profile_text([replace(profiled_run(), layers=tuple(layers))], width=80)
    assert re.search(r"^1 +…HardSigmoid\.7 ", text, re.M), text


def test_a_time_that_the_profiler_cannot_tell_is_a_bound():
    run = profiled_run()
    short = layer_of(90, "gemm", "Tiny", 0.03, low=0.0, high=2.02e-6, ops=1000, macs=500)
    run = replace(run, layers=(*run.layers, short))
    layers, types = layer_table(run, top=None), type_table(run, most=None)
    (row,) = (row for row in layers.rows if row[1].text == "gemm")
    assert (row[3].text, row[3].low, row[3].high, row[4].text) == ("< 2.02", 0.0, pytest.approx(2.02), "< 0.202")
    assert (row[7].text, row[8].text) == ("n/a", "n/a")
    assert row[7].notes == ("its time is less than the profiler can tell: an upper bound",)
    (row,) = (row for row in types.rows if row[0].text == "Tiny")
    assert [cell.text for cell in row] == ["Tiny", "1", "< 2.02", "< 0.202"]
    assert (row[2].low, row[2].high) == (0.0, pytest.approx(2.02))
    assert "&lt; 2.02" in render_profile_html([run])
    (line,) = (line for line in csv.DictReader(io.StringIO(layers_csv([run]))) if line["Name"] == "gemm")
    assert [line[f"Time (s){end}"] for end in ("", " low", " high")] == ["n/a", "0", "2.02e-06"]
    assert [line[f"Share of latency (1){end}"] for end in ("", " low", " high")] == ["n/a", "0", "0.00202"]
    assert line["Ops per second (1/s)"] == "n/a"
    assert line["Notes"].startswith(
        "Time, Share of latency, Ops per second, Roof, Share of roof: its time is less than"
    )
    row = next(row for row in Runs([run]).as_rows() if row["name"] == "gemm")
    assert (row["time (s)"], row["time (s) high"], row["share"], row["share high"]) == (None, 2.02e-6, None, 0.00202)
    (row,) = (row for row in diff_table([run, run], most=None).rows if row[0].text == "gemm")
    assert [row[2].text, row[3].text, row[5].text] == ["< 2.02", "< 2.02", "–"]


def test_the_first_line_says_where_the_time_goes_and_no_share_of_upper_bounds():
    run = profiled_run()
    assert profile_document([run]).answer[0] == (
        "onnxruntime/cpu takes 1.00 ± 0.01 ms: Conv 50.0 % (500 ± 10 µs, 2 layers), DepthwiseConv 25.0 % (250 ± 5 µs, "
        "1 layer); heaviest layer: conv \"one\" </td><script>alert(1)</script> & 'two' 30.0 % (300 ± 6 µs)"
    )
    bounded = replace(run, layers=tuple(replace(layer, low=0.0) for layer in run.layers if layer.kind == "operator"))
    assert all(layer.is_bounded for layer in bounded.layers if layer.time is not None)
    line, saving = profile_document([bounded]).answer[:2]
    assert "%" not in line and ": only upper bounds are known: Conv (< 510 µs, 2 layers)" in line
    assert saving.startswith("largest saving among the findings: up to 225 µs (22.5 %): ")


def test_layers_that_may_be_as_heavy_as_the_heaviest_are_counted():
    """One of three layers within each other's intervals was called the heaviest, as a fact."""
    run = profiled_run()
    timed = sorted((layer for layer in run.layers if layer.kind == "operator" and layer.time), key=lambda one: one.time)
    apart = tuple(replace(layer, low=layer.time, high=layer.time) for layer in run.layers if layer.time)
    assert "may be as heavy" not in time_line(replace(run, layers=apart))
    first, second = timed[-1], timed[-2]
    reaching = tuple(
        replace(layer, high=first.time * 1.01) if layer.index == second.index and layer.name == second.name else layer
        for layer in apart
    )
    assert time_line(replace(run, layers=reaching)).endswith(" 30.0 % (300 ± 0 µs, 1 more may be as heavy)")


def test_a_default_precision_that_was_not_measured_stands_in_the_first_lines():
    """The largest gain of all stood at the end of the cautions."""
    caution = Caution.of("not-default-precision", "its default is bf16, and this ran in f32; --precision f32,bf16")
    run = replace(profiled_run(), cautions=(caution,))
    line = "not measured: its default is bf16, and this ran in f32; --precision f32,bf16"
    assert conditions_of(run, replace(run, id="0193-9")).count(line) == 1
    assert bench_document([run]).answer[-1] == line
    assert line not in conditions_of(profiled_run())


def test_a_default_precision_stands_once_in_a_report():
    """Conditions, cautions and *Next* of a profile all had it; so had the first lines and the cautions of bench."""
    message = "its default is bf16, and this ran in f32; --precision f32,bf16 measures both"
    cautions = (Caution.of("not-default-precision", message), Caution.of("limit-not-held", "the limit was not held"))
    run = replace(profiled_run(), cautions=cautions, effective={"precision": "f32", "default_precision": "bf16"})
    fast = replace(run, environment=run.environment | {"cpu": {"flags": ["avx512_bf16"]}})
    for one, next_has_it in ((run, False), (fast, True)):
        found = profile_document([one])
        assert sum(message in line for line in conditions_of(one)) == (not next_has_it)
        assert any("--precision f32,bf16" in line for line in next_section([one], {}).lines) == next_has_it
        briefs = [section.brief for section in found.sections if section.title == "Cautions"]
        assert briefs == ["limit-not-held (the limit was not held), not-default-precision"]
    (brief,) = [section.brief for section in bench_document([run]).sections if section.title == "Cautions"]
    assert brief == "limit-not-held (the limit was not held), not-default-precision"
    assert [message in line for line in bench_document([run]).answer].count(True) == 1


def test_the_command_that_measures_a_default_precision_names_the_model_and_the_engines(monkeypatch, tmp_path):
    caution = Caution.of("not-default-precision", "its default is bf16")
    effective = {"precision": "f32", "default_precision": "bf16"}
    run = replace(make_run(1, runtime="openvino"), cautions=(caution,), effective=effective)
    run = replace(run, job=replace(run.job, model=replace(run.job.model, path=str(tmp_path / "a b" / "kws.onnx"))))
    other = replace(make_run(2), job=replace(make_run(2).job, model=run.job.model))
    end = "-r openvino,onnxruntime --precision f32,bf16"
    assert bench_document([run, other]).answer[-1] == (
        f"not measured: its default is bf16: edgewise bench kws.onnx {end}"
    )
    assert (
        bench_document([run, other], places=True)
        .answer[-1]
        .endswith(f": edgewise bench '{tmp_path / 'a b' / 'kws.onnx'}' {end}")
    )
    monkeypatch.chdir(tmp_path)
    for places in (True, False):
        told = bench_document([run, other], places=places).answer[-1]
        assert told.endswith(f": edgewise bench 'a b/kws.onnx' {end}")
    two = replace(make_run(3, threads=2), job=replace(run.job, runtime=replace(run.job.runtime, threads=2)))
    two = replace(two, cautions=(caution,), effective=effective)
    told = bench_document([run, other, two]).answer[-1]
    assert told.endswith(" -r openvino,onnxruntime --threads 1,2 --precision f32,bf16")


def test_the_first_lines_of_two_profiles_name_the_layers_that_differ_most():
    slow, fast = profiled_run(), faster_run()
    (line,) = [line for line in profile_document([slow, fast]).answer if line.startswith("largest d")]
    assert line.startswith("largest differences by layer, openvino less onnxruntime: ")
    assert not any(line.startswith("largest d") for line in profile_document([slow]).answer)
