"""The page of an inspection: operators, support by engine, and the chart of memory."""

from __future__ import annotations

import re

import pytest

from edgewise.model.inspection import Inspection, inspect_graph
from edgewise.report.document.page import as_part, render_document_page
from edgewise.report.inspection import document as inspection_charts
from edgewise.report.inspection.document import inspection_page, memory_chart
from edgewise.report.inspection.tables import operator_table, support_matrix
from graphs import convnet, graph, op, tensor

HOSTILE = "</title><script>alert(1)</script>"


class OnlyRelu:
    """An engine that supports Relu, and of which nothing is known for Sin."""

    name, title, formats, source = "toy/cpu", "Toy", ("test",), "made up"

    def refusal(self, operator, network):
        return None if operator.op in ("Relu", "Sin") else f"no kernel for {operator.op}"

    def unknown(self, operator, network):
        return "not tried" if operator.op == "Sin" else None


def inspected(network, **more) -> Inspection:
    return inspect_graph(network, source={"name": "net.onnx", "size_bytes": 10, **more}, sets=[OnlyRelu()])


def chain(*kinds, size=256) -> Inspection:
    names = ["x", *(f"t{at}" for at in range(len(kinds)))]
    operators = [op(f"{kind} {at}", "elementwise", names[at : at + 1], names[at + 1 : at + 2], op=kind)
                 for at, kind in enumerate(kinds)]  # fmt: skip
    return inspected(graph([tensor(name, 1, size) for name in names], operators, inputs=["x"], outputs=[names[-1]]))


def page_of(inspection, *, title=""):
    return render_document_page(inspection_page(inspection, title=title), kind="inspection")


def texts(table):
    return [tuple(row[index].text for index in table.visible) for row in table.rows]


def test_operators_are_counted_by_type():
    inspection = inspected(convnet())
    table = operator_table(inspection)
    counts = {row[0].text: row[2].value for row in table.rows}
    kinds = [operator.op for operator in inspection.graph.operators]
    assert counts == {kind: kinds.count(kind) for kind in kinds}
    assert sum(row[3].value for row in table.rows) == inspection.total.macs
    assert sum(row[5].value for row in table.rows) == inspection.total.parameters
    assert sum(row[4].value for row in table.rows) == pytest.approx(1)


def test_support_is_told_by_engine_and_operator():
    table = support_matrix(chain("Relu", "Exp", "Sin", "Exp"))
    assert texts(table) == [("Exp (2)", "no"), ("Sin (1)", "unknown")]
    assert [row[1].notes for row in table.rows] == [("no kernel for Exp",), ("not tried",)]
    assert table.notes == ("operators that every engine supports are left out",)
    assert support_matrix(chain("Relu", "Relu")) is None


def test_a_box_per_tensor_covers_its_life_and_its_addresses():
    inspection = chain("Relu", "Relu", "Relu")
    svg = memory_chart(inspection)["svg"]
    boxes = re.findall(
        r'<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)".*?<title>(.*?)</title>', svg
    )
    across = (960 - 74 - 8) / 3
    assert len(boxes) == len(inspection.plan.placements) == 4
    for place, (x, y, width, height, title) in zip(inspection.plan.placements, boxes, strict=True):
        share = 284 / inspection.plan.arena_bytes
        assert float(x) == pytest.approx(74 + place.first * across, abs=0.01)
        assert float(width) == pytest.approx((place.last - place.first + 1) * across, abs=0.01)
        assert float(height) == pytest.approx(place.size_bytes * share, abs=0.01)
        assert float(y) == pytest.approx(296 - (place.offset + place.size_bytes) * share, abs=0.01)
        assert title.startswith(f"{place.tensor}: 1.00 KiB at {place.offset:,}; lives from operator {place.first} ")


def test_the_area_is_what_lives_at_each_operator():
    inspection = chain("Relu", "Relu", "Relu")
    (area,) = re.findall(r'<path d="M74 296((?:V[\d.]+H[\d.]+)+)V296Z"', memory_chart(inspection)["svg"])
    steps = [tuple(map(float, step.split("H"))) for step in area.split("V")[1:]]
    plan, across = inspection.plan, (960 - 74 - 8) / 3
    for at, (live, (y, x)) in enumerate(zip(plan.live_bytes, steps, strict=True)):
        assert y == pytest.approx(296 - live * 284 / plan.arena_bytes, abs=0.06)
        assert x == pytest.approx(74 + (at + 1) * across, abs=0.06)


def test_a_part_has_the_data_of_the_memory_plan():
    inspection = chain("Relu", "Relu")
    with as_part():
        page = page_of(inspection)
    (data,) = re.findall(r'<pre class="chart-data" hidden>(.*?)</pre>', page, re.DOTALL)
    rows = [line.split(",") for line in data.splitlines()]
    assert rows[0] == ["tensor", "offset (B)", "size (B)", "first operator", "last operator"]
    assert [row[0] for row in rows[1:]] == [each.tensor for each in inspection.plan.placements]
    assert "chart-data" not in page_of(inspection)


def test_a_large_plan_shows_its_largest_tensors(monkeypatch):
    monkeypatch.setattr(inspection_charts, "MOST_DRAWN", 2)
    chart = memory_chart(chain("Relu", "Relu", "Relu"))
    assert chart["svg"].count("<rect") == 2
    assert "; the 2 largest of 4 tensors" in chart["caption"]


def test_without_a_plan_there_is_no_chart():
    open_sizes = inspected(graph([tensor("x", "n", 4), tensor("y", "n", 4)], [op("a", "elementwise", ["x"], ["y"], op="Relu")],
                                 inputs=["x"], outputs=["y"]))  # fmt: skip
    assert memory_chart(open_sizes) is None
    page = page_of(open_sizes)
    assert "not planned: the size of 2 tensor(s) is open" in page and "<svg" not in page
    assert memory_chart(inspected(graph([], []))) is None
    assert "nothing lives: the network has no operators" in page_of(inspected(graph([], [])))


def test_names_of_a_model_are_text():
    names = [f"{HOSTILE} 0", f"{HOSTILE} 1"]
    network = graph([tensor(name, 1, 4) for name in names],
                    [op(HOSTILE, "elementwise", names[:1], names[1:], op=HOSTILE)], inputs=names[:1], outputs=names[1:])  # fmt: skip
    page = page_of(inspected(network, assumed=[HOSTILE]), title=HOSTILE)
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
