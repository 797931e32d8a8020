"""Whatever was measured: no report shows a share above 100 % of the machine's limit without its remark."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from edgewise.profiling.limits import divide_at_roofs
from edgewise.profiling.roofline import beaten_peaks, place, share_of_roof
from edgewise.record import Layer, Peak
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.text import to_text
from edgewise.report.graph import make_graph
from edgewise.report.profile.cells import ABOVE_LIMIT, roof_cell, roof_words
from edgewise.report.profile.csv import layers_csv
from edgewise.report.profile.document import layer_table, profile_document
from edgewise.report.profile.model_explorer import node_data
from edgewise.report.profile.trace import trace_document
from sample_profiles import profiled_run

RATIOS = st.none() | st.floats(1.0, 1.6)
JUDGED = [layer for layer in profiled_run().layers if layer.ops and layer.intensity and layer.time]
AROUND_ROOFS = {
    "shares": st.lists(st.floats(0.05, 1.5), min_size=len(JUDGED), max_size=len(JUDGED)),
    "longer": RATIOS,
    "higher": RATIOS,
}


def run_of(shares, longer, higher):
    """A profile whose layers attain `shares` of their roofs. `longer`, `higher`: upper end over value."""
    compute = Peak(kind="compute", dtype="float32", threads=1, value=60e9, high=higher and 60e9 * higher)
    peaks = (compute, Peak(kind="bandwidth", threads=1, size_bytes=2**24, value=12e9, high=higher and 12e9 * higher))
    run, timed = profiled_run(), {}
    for layer, share in zip(JUDGED, shares, strict=True):
        time = layer.ops / min(60e9, layer.intensity * 12e9) / share
        timed[layer.index] = replace(layer, time=time, low=time, high=longer and time * longer)
    layers = place([timed.get(layer.index, layer) for layer in run.layers], peaks)
    return replace(run, layers=layers, profile=replace(run.profile, peaks=peaks, latency=2e-3))


def judged(run) -> list[Layer]:
    return [layer for layer in run.layers if layer.roof_share is not None]


@given(**AROUND_ROOFS)
def test_a_share_above_100_has_its_remark_wherever_it_is_shown(shares, longer, higher):
    run = run_of(shares, longer, higher)
    shown = [roof_cell(layer, run.profile) for layer in judged(run)]
    assert all(cell.notes for cell in shown if (cell.value or 0.0) > 100.0)
    for cell in shown:
        number = float(re.sub(r"[^0-9.]", "", cell.text))
        assert cell.text.startswith("≥") == bool(cell.notes)
        assert number <= 100.0 or cell.notes == (ABOVE_LIMIT,)
    for layer, cell in zip(judged(run), shown, strict=True):
        assert ("the limit" in roof_words(layer, run.profile)) == bool(cell.notes)
    notes = {note for cell in shown for note in cell.notes}
    texts = [to_text(profile_document([run]), width=200), render_markdown(profile_document([run])), layers_csv([run])]
    for text in texts:
        words = " ".join(text.split())
        assert all(note in words for note in notes), notes
    assert {note for row in layer_table(run).rows for cell in row for note in cell.notes} >= notes
    told = [event["args"].get("of_limit", "") for event in trace_document([run])["traceEvents"]]
    assert sum("the limit" in words for words in told) == sum(bool(cell.notes) for cell in shown)


@given(**AROUND_ROOFS)
def test_what_is_above_the_limit_counts_in_no_limit_and_what_is_at_it_counts_as_100(shares, longer, higher):
    run = run_of(shares, longer, higher)
    attained = {layer.index: share_of_roof(layer, run.profile.peaks) for layer in judged(run)}
    above = {index for index, share in attained.items() if share and share.is_above}
    values = make_graph([run]).values["roof"]
    assert all(values[index] is None for index in above)
    assert all(value is None or value <= 1.0 for value in values)
    if any(index not in above for index in attained):
        assert all(one["value"] <= 100.0 for one in node_data(run, "roof")["results"].values())
    divided = divide_at_roofs(run)
    if divided is None:
        return
    counted = {layer.index for _, layer in divided.excess}
    assert not counted & above
    taken = sum(layer.time or 0.0 for layer in run.layers if layer.index in counted)
    assert sum(divided.least.values()) <= taken * (1 + 1e-9)


@given(**AROUND_ROOFS)
def test_a_layer_is_above_its_roof_exactly_where_it_beats_its_peak(shares, longer, higher):
    run = run_of(shares, longer, higher)
    for layer in judged(run):
        share = share_of_roof(layer, run.profile.peaks)
        alike = 2 * (layer.ops or 0) / (layer.intensity or 1.0) > 2**24 or layer.bound == "compute"
        if share is not None and alike and abs(share.least - 1.0) > 1e-9:
            assert share.is_above == bool(beaten_peaks([layer], run.profile.peaks, times=1.0))
        assert share is None or share.is_above + share.is_at_limit == (share.value > 1.0)
