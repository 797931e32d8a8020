"""Profiles as graphs: nodes, blocks, edges, values, and the page without a script."""

import csv
import html
import io
import json
import math
import re
from dataclasses import replace

import pytest

from edgewise.errors import BadInput
from edgewise.report import graph as module
from edgewise.report.document.text import to_text
from edgewise.report.graph import NO_SNR, make_graph, plain_type, scopes_of
from edgewise.report.graph.columns import bounds, document_of
from edgewise.report.profile.cells import BELOW
from edgewise.report.profile.csv import layers_csv
from edgewise.report.profile.diff import NO_ENDS
from edgewise.report.profile.document import profile_document
from edgewise.report.profile.order import NOT_PROVEN
from edgewise.studio.graph_part import render_graph
from messages import says, wording
from report_pages import render_profile_html
from sample_profiles import HOSTILE, faster_run, layer_of, many_layers_run, profiled_run, tensor, unprofiled_run


def of_layers(*layers, number=31):
    """A run of these layers."""
    return replace(profiled_run(number), layers=tuple(replace(one, index=at) for at, one in enumerate(layers)))


def with_added(**layer):
    """Two models in one engine, of which the second has one layer more, of 9 µs."""
    first = of_layers(layer_of(0, "a", "Conv", 9))
    second = of_layers(layer_of(0, "a", "Conv", 9), layer_of(1, "new", "Conv", 9, **layer), number=32)
    model = replace(first.job.model, name="more.onnx", sha256="f" * 64)
    return first, replace(second, job=replace(second.job, model=model))


def named(*names, micros=10.0):
    """A run whose layers have these names and take `micros` each, one after the other."""
    layers = [
        layer_of(at, name, "Conv", micros, start=at * 1e-5, macs=100, weight_bytes=10, activation_bytes=20,
                 inputs=(tensor(f"t{at}", 1),), outputs=(tensor(f"t{at + 1}", 1),))
        for at, name in enumerate(names)
    ]  # fmt: skip
    return of_layers(*layers)


def blocks_of(graph):
    """Name of each block → the numbers of its nodes."""
    return {block.name: inside for block, inside in zip(graph.blocks, graph.inside, strict=True)}


def texts(document, key):
    return [document["texts"][number] for number in document[key]]


class TestDocument:
    def test_a_small_profile_exactly(self):
        document = document_of(make_graph([named("a/x", "a/y", "b")]))
        assert document["names"] == ["a/x", "a/y", "b", "a"]
        assert texts(document, "ops") == ["Conv", "Conv", "Conv"]
        assert texts(document, "kinds") == ["operator"] * 3
        assert document["parents"] == [3, 3, -1, -1]
        assert document["opened"] == [3]
        assert document["edges"] == [0, 1, 1, 2]
        assert document["order"] == []
        assert document["keys"] == ["time", "share", "memory", "live", "macs", "roof", "snr"]
        assert document["values"] == {
            "time": [1e-5, 1e-5, 1e-5, 2e-5],
            "low": [9.8e-6, 9.8e-6, 9.8e-6, 1.96e-5],
            "high": [1.02e-5, 1.02e-5, 1.02e-5, 2.04e-5],
            "share": [0.01, 0.01, 0.01, 0.02],
            "memory": [30, 30, 30, 60],
            "live": [None] * 4,
            "macs": [100, 100, 100, 200],
            "roof": [None] * 4,
            "snr": [None] * 4,
        }
        assert document["metrics"]["macs"] == {"title": "MACs", "unit": "MAC", "sums": "sum", "why": ""}
        assert document["metrics"]["snr"]["why"] == NO_SNR
        assert document["lacking"] == {"live": {3: 2}, "roof": {3: 2}, "snr": {3: 2}}
        assert document["why"] == {}
        layers = document["runs"][0]["layers"]
        assert layers["name"] == ["a/x", "a/y", "b"]
        assert [document["texts"][number] for number in layers["inputs"]] == ["1 float32"] * 3
        assert layers["start"] == [0.0, 1e-5, 2e-5]
        json.dumps(document, allow_nan=False)

    def test_what_is_not_known_has_its_reason_and_is_not_zero(self):
        document = document_of(make_graph([profiled_run()]))
        assert document["values"]["time"][4] is None
        assert document["texts"][document["why"]["time"][4]] == "the engine removed it"
        assert document["values"]["time"][7] is None
        assert document["texts"][document["why"]["time"][7]] == "the engine has no event for it"
        assert document["values"]["macs"][5] is None
        assert document["texts"][document["why"]["macs"][5]] == wording(
            "no-formula", noun="custom", op="operator 'Whirl'"
        )
        assert document["values"]["macs"][7] == 0
        assert document["texts"][document["why"]["macs"][1]] == wording("work-engine-which-no-operator")
        assert all(
            (document["values"][key][node] is None) == (node in document["why"].get(key, ()))
            for key in document["keys"] for node in range(11) if not document["metrics"][key]["why"]
        )  # fmt: skip

    def test_live_bytes_are_the_most_at_the_operators_of_a_layer(self):
        graph = make_graph([profiled_run()])
        assert graph.values["live"][0] == 60_000  # operators 0, 1 and 2 have 20, 40 and 60 kB

    def test_the_error_of_a_layer_comes_from_an_optimization(self):
        graph = make_graph([named("a/x", "a/y", "b")], snr={"a/x": 30.0, "a/y": 12.5})
        assert graph.values["snr"] == [30.0, 12.5, None, 12.5]
        assert graph.why["snr"] == {2: "this layer was not quantised alone"}
        assert graph.metrics["snr"].why == ""

    def test_hostile_names_stay_one_line_of_bounded_length(self):
        hostile = [
            "a/" * 4000 + "x",
            "\u202e/\x00\x1b[31m/x",
            "/".join("😀" * 300),
            ";;;",
            "/",
            "",
            "../../etc/passwd",
            HOSTILE,
        ]
        document = document_of(make_graph([named(*hostile)]))
        for name in (*document["names"], *document["texts"]):
            assert name.isprintable(), repr(name)
            assert len(name) <= 300
        assert max(map(len, (module.scopes_of(name) for name in hostile))) <= 8
        assert len(document["parents"]) == len(document["names"])


def test_layers_begin_as_in_an_inference_without_the_profiler():
    """An inference of 79 µs, of which the profiler made 250: what lies between two layers shrinks, not the layers."""
    run = of_layers(layer_of(0, "a", "Conv", 30, start=0.0), layer_of(1, "b", "Conv", 40, start=210e-6))
    run = replace(run, profile=replace(run.profile, latency=79e-6))
    document = document_of(make_graph([run]))
    assert document["runs"][0]["layers"]["start"] == pytest.approx([0.0, 39e-6])


class TestEdges:
    def test_a_layer_without_known_tensors_follows_the_one_before(self):
        graph = make_graph([profiled_run()])
        assert graph.edges == [(0, 2), (2, 3), (3, 5), (5, 6), (6, 7), (7, 8)]
        assert graph.order == [(0, 1), (3, 4), (8, 9), (9, 10)]

    def test_of_two_makers_of_a_name_the_latest_before_counts(self):
        run = of_layers(
            layer_of(0, "a", "Conv", 1, outputs=(tensor("t", 1),)),
            layer_of(1, "b", "Conv", 1, inputs=(tensor("t", 1),), outputs=(tensor("t", 1),)),
            layer_of(2, "c", "Conv", 1, inputs=(tensor("t", 1), tensor("t", 1))),
        )
        assert make_graph([run]).edges == [(0, 1), (1, 2)]

    def test_without_any_tensors_there_is_the_order_of_execution(self):
        run = of_layers(*(layer_of(at, f"n{at}", "Conv", 1) for at in range(4)))
        graph = make_graph([run])
        assert (graph.edges, graph.order) == ([], [(0, 1), (1, 2), (2, 3)])


class TestBlocks:
    @pytest.mark.parametrize(
        ("name", "scopes"),
        [
            ("a/b/conv", ["a", "b"]),
            ("/a/b/conv", ["a", "b"]),
            ("layers.0.attn.proj", ["layers", "0", "attn"]),
            ("model/layers.0/MatMul", ["model", "layers.0"]),
            ("a/b/Relu;a/c/Conv", ["a", "b"]),
            ("conv_1", []),
            ("", []),
        ],
    )
    def test_modules_that_a_name_tells(self, name, scopes):
        assert scopes_of(name) == scopes

    def test_layers_numbered_by_their_type_are_in_no_block_of_that_type(self):
        layers = [
            layer_of(at, f"p2o.{op}.{at // 2}", op, 10.0, start=at * 1e-5) for at, op in enumerate(["Conv", "Add"] * 4)
        ]
        graph = make_graph([of_layers(*layers)])
        assert graph.blocks == []
        assert [pair.name for pair in graph.pairs][:3] == ["p2o.Conv.0", "p2o.Add.0", "p2o.Conv.1"]
        assert scopes_of("m.DEPTHWISE_CONV_2D.3", [plain_type("DepthwiseConv2D")]) == ["m"]
        # A module may be called after what it does, and its parts be numbered.
        assert scopes_of("m.conv.3", [plain_type("Relu")]) == ["m", "conv"]
        assert scopes_of("m.Conv.weight", [plain_type("Conv")]) == ["m", "Conv"]

    def test_parts_are_named_after_their_slowest_layer_and_the_slowest_is_unfolded(self):
        layers = [layer_of(at, f"p2o.Conv.{at}", "Conv", 1.0 + at % 7, start=at * 1e-5) for at in range(300)]
        layers[258] = layer_of(258, "p2o.Conv.258", "Conv", 90.0, start=258e-5)
        graph = make_graph([of_layers(*layers)])
        assert len(graph.blocks) == 30
        assert graph.blocks[25].name == "part 26: p2o.Conv.258"
        assert graph.opened == [300 + 25]

    def test_blocks_of_one_part_are_no_blocks(self):
        graph = make_graph([named("m/a/x/1", "m/a/x/2", "m/b/1", "m/c/y/1")])
        assert blocks_of(graph) == {"a/x": [0, 1]}  # m holds everything; b and c hold one layer

    def test_work_between_two_layers_is_in_the_blocks_of_both(self):
        run = of_layers(
            layer_of(0, "a/b/1", "Conv", 1),
            layer_of(1, "reorder", "Reorder", 1, kind="overhead", start=1e-6),
            layer_of(2, "a/b/2", "Conv", 1),
            layer_of(3, "reorder", "Reorder", 1, kind="overhead", start=3e-6),
            layer_of(4, "a/c/1", "Conv", 1),
            layer_of(5, "a/c/2", "Conv", 1),
            layer_of(6, "d", "Conv", 1),
            layer_of(7, "session", "call", 1, kind="overhead"),
        )
        assert blocks_of(make_graph([run])) == {"a": [0, 1, 2, 3, 4, 5], "b": [0, 1, 2], "c": [4, 5]}

    def test_too_many_parts_are_divided_in_order(self):
        graph = make_graph([named(*(f"conv_{at}" for at in range(950)))])
        assert [block.name.partition(":")[0] for block in graph.blocks] == [f"part {at}" for at in range(1, 96)]
        assert [node for inside in graph.inside for node in inside] == list(range(950))
        assert graph.opened == [950]  # the first of the hottest

    def test_levels_are_unfolded_while_there_is_room(self):
        graph = make_graph([named(*(f"b{at // 15}/c{at // 5}/conv_{at}" for at in range(300)))])
        opened = {graph.blocks[number - 300].name for number in graph.opened}
        assert opened == {f"b{at}" for at in range(20)}  # 60 blocks of 5 are visible; their 300 layers are too many
        assert make_graph([many_layers_run(count=60)]).opened == list(range(60, 75))
        assert make_graph([many_layers_run(count=100)]).opened == []  # 25 blocks: too many frames


class TestSums:
    @pytest.mark.parametrize("layers", [12, 60, 5000])
    def test_every_time_is_in_exactly_one_block_of_each_level(self, layers):
        run = profiled_run() if layers == 12 else many_layers_run(count=layers)
        graph = make_graph([run])
        count = len(graph.pairs)
        whole = math.fsum(layer.time for layer in run.layers if layer.time is not None)
        for key, expected in (("time", whole), ("macs", sum(layer.macs or 0 for layer in run.layers))):
            top = [graph.values[key][node] for node, parent in enumerate(graph.parents) if parent < 0]
            assert math.fsum(value for value in top if value is not None) == pytest.approx(expected, rel=1e-12)
            for number in range(count, len(graph.parents)):
                children = (
                    [child for child, parent in enumerate(graph.parents) if parent == number] if count < 100 else []
                )
                if children:
                    assert graph.values[key][number] == pytest.approx(
                        math.fsum(graph.values[key][child] for child in children)
                    )

    def test_a_block_sums_what_is_known_and_counts_what_is_not(self):
        run = of_layers(
            layer_of(0, "a/1", "Conv", 10, macs=5),
            layer_of(1, "a/2", "Conv", 0, time=None, low=None, high=None, time_absent_because="no event"),
            layer_of(2, "a/3", "Conv", 0, kind="eliminated", time=None, low=None, high=None),
            layer_of(3, "b/1", "Conv", 0, kind="eliminated", time=None, low=None, high=None),
            layer_of(4, "b/2", "Conv", 0, kind="eliminated", time=None, low=None, high=None),
        )
        graph = make_graph([run])
        assert [block.name for block in graph.blocks] == ["a", "b"]
        assert graph.values["time"][5:] == [pytest.approx(1e-5), None]
        assert graph.lacking["time"] == {5: 1}  # what is not executed lacks no time
        assert graph.values["macs"][5:] == [5, None]
        assert graph.lacking["macs"] == {5: 1}

    def test_an_interval_needs_those_of_all_parts(self):
        layers = [
            layer_of(0, "a/1", "Conv", 10),
            layer_of(1, "a/2", "Conv", 10, low=None, high=None),
            layer_of(2, "b", "Conv", 1),
        ]
        graph = make_graph([of_layers(*layers)])
        assert graph.values["time"][3] == pytest.approx(2e-5)
        assert (graph.values["low"][3], graph.values["high"][3]) == (None, None)

    def test_a_share_of_the_roof_is_weighted_by_time(self):
        layers = [
            layer_of(0, "a/1", "Conv", 30, roof_share=0.5),
            layer_of(1, "a/2", "Conv", 10, roof_share=0.1),
            layer_of(2, "b", "Conv", 1),
        ]
        assert make_graph([of_layers(*layers)]).values["roof"][3] == pytest.approx((30 * 0.5 + 10 * 0.1) / 40)


def bounded(index, name, most, **more):
    """A layer that takes less than the profiler can tell: at most `most` µs."""
    return replace(layer_of(index, name, "Clip", most / 2, **more), low=0.0, high=most * 1e-6)


class TestBounds:
    """A time that is only known to be below a bound is shown as one, wherever it stands."""

    def test_of_one_run(self):
        run = of_layers(bounded(0, "a/1", 3.99), bounded(1, "a/2", 2), layer_of(2, "b", "Conv", 300))
        document = document_of(make_graph([run]))
        words = {key: {node: document["texts"][n] for node, n in of.items()} for key, of in document["bounds"].items()}
        assert words["time"] == {0: "< 3.99 µs", 1: "< 2.00 µs", 3: "< 5.99 µs"}
        assert words["share"][0] == f"< {math.ceil(3.99e-6 / run.profile.latency * 1e5) / 1e3} %"
        part = json.loads(render_graph([run], ".html"))["part"]
        assert '<td class="timebar">&lt; 3.99<' in part and f"&lt;: {BELOW}." in part
        rows = list(csv.DictReader(io.StringIO(layers_csv([run]))))
        assert [f"Time, Share of latency: {BELOW}" in row["Notes"] for row in rows] == [True, True, False, False]

    def test_of_two_runs_as_in_their_table(self):
        runs = [
            of_layers(bounded(0, "a", 2.23), layer_of(1, "b", "Conv", 300)),
            of_layers(bounded(0, "a", 1.93), layer_of(1, "b", "Conv", 100), number=32),
        ]
        document = document_of(make_graph(runs))
        table = render_graph(runs, ".html")
        words = {key: document["texts"][of[0]] for key, of in document["bounds"].items()}
        assert words == {"time": "< 2.23 µs", "after": "< 1.93 µs", "change": "−2.23 to +1.97 µs"}
        assert "-2.23 to +1.97<" in table and 1 not in document["bounds"]["change"]

    def test_of_sums_with_bounded_parts(self):
        """300 µs and less than 4 are 300 to 304; with a time that is not known there is only a lower bound."""
        run = of_layers(bounded(0, "a/1", 4), layer_of(1, "a/2", "Conv", 300), layer_of(2, "b", "Conv", 1))
        assert bounds(make_graph([run]))["time"][3] == "300 to 304 µs"
        assert bounds(make_graph([run]))["share"][3] == "30.0 to 30.4 %"
        untimed = replace(run.layers[1], time=None, low=None, high=None)
        layers = (run.layers[0], untimed, run.layers[2])
        assert bounds(make_graph([replace(run, layers=layers)]))["time"][3] == "≥ 0 µs"

    def test_of_the_change_of_a_block(self):
        first = of_layers(bounded(0, "a/1", 4), layer_of(1, "a/2", "Conv", 300), layer_of(2, "b", "Conv", 1))
        second = of_layers(layer_of(0, "a/1", "Clip", 1), layer_of(1, "a/2", "Conv", 100), layer_of(2, "b", "Conv", 1))
        graph = make_graph([first, replace(second, id=faster_run(44).id)])
        assert (
            bounds(graph)["change"][3] == "−213 to −189 µs"
        )  # with what the latencies, 1000 ± 10 µs, may have drifted
        no_ends = replace(second.layers[1], low=None, high=None)
        layers = (second.layers[0], no_ends, second.layers[2])
        graph = make_graph([first, replace(second, layers=layers, id=faster_run(44).id)])
        assert graph.values["change"][3] is None and graph.why["change"][3] == NO_ENDS
        assert 3 not in bounds(graph)["change"]

    def test_the_answer_stands_first(self):
        part = json.loads(render_graph([profiled_run(), faster_run()], ".html"))["part"]
        words, _, _ = part.partition('<section id="graph-part"')
        assert f"takes 1.149× [1.132, 1.167] the time; {NOT_PROVEN}.</strong>" in words
        assert "Median latency: onnxruntime 1000 µs, openvino 870 µs." in words
        assert "Largest clear difference: pw1, -100 µs." in words
        same = named("a", "b"), replace(named("a", "b"), id=faster_run(46).id)
        part = json.loads(render_graph(same, ".html"))["part"]
        assert re.search(r"Median latency: ([\d.]+) → \1 µs\.", part) and NOT_PROVEN in part
        assert "No layer has a clear change." in part


class TestTwoRuns:
    def test_a_node_is_the_work_that_both_do(self):
        graph = make_graph([profiled_run(), faster_run()])
        document = document_of(graph)
        node = document["names"].index("pw1")
        assert document["members"][node] == [[3], [2, 3]]  # the second run has relu2 in a layer of its own
        assert document["values"]["time"][node] == pytest.approx(200e-6)
        assert document["values"]["after"][node] == pytest.approx(100e-6)
        assert document["values"]["change"][node] == pytest.approx(-100e-6)
        assert document["texts"][document["verdicts"][node]] == "faster"

    def test_the_interval_of_a_change_excludes_zero_where_the_verdict_is_clear(self):
        graph = make_graph([profiled_run(), faster_run()])
        document = document_of(graph)
        clear = 0
        for node in range(len(graph.pairs)):
            low, high = graph.values["low"][node], graph.values["high"][node]
            if document["texts"][document["verdicts"][node]] in ("faster", "slower"):
                assert high < 0 or low > 0
                clear += 1
            elif graph.pairs[node].is_alike and low is not None:
                assert low <= 0 <= high
        assert clear == 1
        node = document["names"].index("pw1")
        least, most = (861 / 1010 / 0.87, 879 / 990 / 0.87)  # what the latencies may have drifted
        assert (graph.values["low"][node], graph.values["high"][node]) == pytest.approx(
            (97.8e-6 * least - 204e-6, 102.2e-6 * most - 196e-6)
        )

    def test_what_one_run_alone_has_is_told(self):
        document = document_of(make_graph([profiled_run(), faster_run()]))
        node = document["names"].index("reorder a")
        assert document["members"][node] == [[1], []]
        assert document["texts"][document["verdicts"][node]] == "unpaired"
        assert document["alone"][node] == 0 and set(document["alone"]) == {-1, 0}
        assert document["values"]["change"][node] is document["values"]["low"][node] is None
        assert document["values"]["after"][node] is None
        assert document["texts"][document["why"]["after"][node]] == "only in onnxruntime"

    @pytest.mark.parametrize(
        ("low", "is_clear", "row"),
        [(8e-6, True, ["+9.00", "added", "7.84 to 10.2"]), (0.0, False, ["0 to +10.2", "added", "0 to 10.2"])],
    )
    def test_a_layer_that_was_added_has_its_whole_time_as_its_change(self, low, is_clear, row):
        first, second = with_added(low=low, high=10e-6)
        graph = make_graph([first, second])
        document = document_of(graph)
        node = document["names"].index("new")
        assert document["texts"][document["verdicts"][node]] == "added"
        assert document["clear"][node] is is_clear
        assert document["values"]["change"][node] == 9e-6
        assert graph.values["high"][node] == pytest.approx(10e-6 * 1010 / 990)  # what the latencies may have drifted
        assert document["texts"][document["why"]["time"][node]] == f"only in {second.job.model.name}"
        (cells,) = re.findall(rf"#node={node}.*?</tr>", json.loads(render_graph([first, second], ".html"))["part"])
        assert re.findall(r"<td>(.*?)</td>", cells)[:3] == row

    def test_an_added_layer_without_a_time_says_why_it_has_no_change(self):
        graph = make_graph(with_added(time=None, low=None, high=None, time_absent_because="the engine hides it"))
        node = document_of(graph)["names"].index("new")
        assert graph.values["change"][node] is None and graph.why["change"][node] == "the engine hides it"

    def test_what_the_second_run_alone_has_comes_after_what_it_executes_before(self):
        first = of_layers(layer_of(0, "a", "Conv", 9), layer_of(1, "b", "Conv", 9))
        second = of_layers(
            layer_of(0, "new", "Relu", 1),
            layer_of(1, "a", "Conv", 9),
            layer_of(2, "late", "Relu", 1),
            layer_of(3, "b", "Conv", 9),
            number=32,
        )
        assert [pair.name for pair in make_graph([first, second]).pairs] == ["new", "a", "late", "b"]

    def test_sums_of_both_sides_are_those_of_the_runs(self):
        runs = [profiled_run(), faster_run()]
        graph = make_graph(runs)
        for key, run in zip(("time", "after"), runs, strict=True):
            known = [value for value in graph.values[key][: len(graph.pairs)] if value is not None]
            assert math.fsum(known) == pytest.approx(
                math.fsum(layer.time for layer in run.layers if layer.time is not None)
            )

    def test_a_block_has_a_verdict_of_its_own(self):
        first = named("a/1", "a/2", "b", micros=10)
        graph = make_graph([first, replace(named("a/1", "a/2", "b", micros=5), id=faster_run(44).id)])
        document = document_of(graph)
        assert document["names"][3] == "a"
        assert document["values"]["change"][3] == pytest.approx(-1e-5)
        assert document["texts"][document["verdicts"][3]] == "faster"
        assert graph.values["high"][3] < 0

    def test_what_only_one_run_has_counts_in_the_change_of_its_block(self):
        first = of_layers(*(layer_of(at, f"a/{at}", "Conv", 10) for at in range(3)), layer_of(3, "b", "Conv", 10))
        second = of_layers(*(replace(layer, time=9e-6) for layer in (*first.layers[:2], first.layers[3])), number=32)
        graph = make_graph([first, second])
        assert graph.values["change"][:3] == [pytest.approx(-1e-6)] * 2 + [None]
        assert graph.values["change"][4] == pytest.approx(-12e-6)

    def test_two_files_are_called_by_their_names(self):
        first, second = named("a", "b"), replace(named("a", "b"), id=faster_run(46).id)
        model = replace(second.job.model, name="int8.onnx")
        second = replace(second, job=replace(second.job, model=model))
        graph = make_graph([first, second])
        assert graph.metrics["after"].title == "Time: int8.onnx"
        part = json.loads(render_graph([first, second], ".html"))["part"]
        assert "int8.onnx (µs)" in part and not re.search(r">(Before|After)\b", part)

    def test_runs_without_work_in_common_are_refused(self):
        other = of_layers(layer_of(0, "quite", "Sigmoid", 5), layer_of(1, "other", "Tanh", 5), number=33)
        with pytest.raises(BadInput, match=says("two-runs-no-layers-common")):
            make_graph([named("a", "b"), other])


def test_a_run_without_a_profile_says_why():
    with pytest.raises(BadInput, match=r"litert 9\.9 is not a version whose profiler is known"):
        make_graph([unprofiled_run()])


def test_damaged_records_are_drawn_with_what_they_have():
    run = of_layers(layer_of(0, "a", "Conv", 1, time=math.inf, operators=(-3,)), layer_of(1, "b", "Conv", 1))
    run = replace(run, layers=tuple(replace(one, index=7) for one in run.layers))
    document = document_of(make_graph([run]))
    json.dumps(document, allow_nan=False)
    assert document["values"]["time"] == [None, 1e-6]
    assert document["values"]["live"] == [None, None]
    assert document["order"] == [0, 1]
    assert document_of(make_graph([run, replace(run, id=faster_run(46).id)]))["members"] == [[[0], [0]], [[1], [1]]]


class TestFiveThousandLayers:
    def test_size_and_what_is_visible(self):
        graph = make_graph([many_layers_run(count=5000)])
        document = document_of(graph)
        assert len(json.dumps(document, separators=(",", ":"))) < 2_000_000
        opened = set(graph.opened)
        visible = [
            number for number, parent in enumerate(graph.parents)
            if (parent < 0 or parent in opened) and number not in opened
        ]  # fmt: skip
        assert len(visible) <= 400
        assert len(graph.edges) == 4999

    @pytest.mark.parametrize("two", [False, True], ids=["one run", "two runs"])
    def test_the_work_grows_with_the_number_of_layers(self, two):
        """Calls of functions, which are counted, are in proportion: four times the layers, at most five times the calls."""
        import sys

        def calls(count):
            runs = [many_layers_run(24, count), many_layers_run(25, count)][: 2 if two else 1]
            number = 0

            def tally(frame, event, argument):
                nonlocal number
                number += event in ("call", "c_call")

            sys.setprofile(tally)
            try:
                document_of(make_graph(runs))
            finally:
                sys.setprofile(None)
            return number

        assert calls(1600) < 5 * calls(400)


@pytest.fixture(scope="module")
def studio(serve):
    """One studio for all pages: each would start a process that draws."""
    return serve()


class TestPage:
    def test_the_table_is_whole_without_a_script(self, studio, client):
        run = profiled_run()
        studio.store.save(run)
        page = client.get(f"/runs/{run.id}/graph").text
        table = html.unescape(page[page.index("<table") : page.index("</table>")])
        assert table.count("<tr>") == 12
        assert "300 ± 6" in table and "the engine has no event for it" in table
        assert "no formula for the custom operator 'Whirl'" in table
        assert NO_SNR in html.unescape(page)
        assert "means of 300 profiled inferences in 3 processes" in page
        assert "<script>alert" not in page and "</td><script" not in page

    def test_long_profiles_have_pages(self, studio, client):
        studio.store.save(run := many_layers_run(count=450))
        first, last = client.get(f"/runs/{run.id}/graph").text, client.get(f"/runs/{run.id}/graph?from=400").text
        assert "1 to 200 of 450" in first and "from=200#layers" in first
        assert "401 to 450 of 450" in last and "block_112/conv_449" in last and ">next<" not in last
        assert client.get(f"/runs/{run.id}/graph?from=99999999").status_code == 200
        assert client.get(f"/runs/{run.id}/graph?from=-1e9").status_code == 200

    def test_two_profiles_are_a_table_of_changes(self, studio, client):
        before, after = profiled_run(), faster_run()
        studio.store.save(before)
        studio.store.save(after)
        page = client.get(f"/runs/{before.id}/graph?with={after.id}").text
        rows = page[page.index("<tbody") : page.index("</tbody>")].split("<tr")
        assert "pw1" in rows[1] and "faster" in rows[1] and "-108 to -91.7" in rows[1]
        assert "end to end" in rows[-1]

    def test_only_runs_with_layers_are_suggested(self, studio, client):
        run, other, plain = profiled_run(), faster_run(), unprofiled_run()
        assert run.job.model.sha256 == other.job.model.sha256 == plain.job.model.sha256
        for each in (run, other, plain):
            studio.store.save(each)
        page = client.get(f"/runs/{run.id}/graph").text
        assert f'<option value="{other.id}">' in page
        assert f'<option value="{plain.id}">' not in page

    def test_the_data_are_those_of_the_page(self, studio, client):
        run = profiled_run()
        studio.store.save(run)
        data = client.get(f"/runs/{run.id}/graph.json").json()
        assert data["names"][3] == "pw1"
        page = client.get(f"/runs/{run.id}/graph").text
        inside = page.split('id="graph-data">')[1].split("</script>")[0]
        assert json.loads(inside) == data

    def test_errors_of_layers_come_from_an_optimize_job(self, studio, client):
        studio.store.save(run := named("a", "b"))
        plain = replace(run, id=faster_run(45).id, layers=(), profile=None)  # as an optimization keeps its runs
        studio.store.save(plain)
        job = studio.store.jobs.add(
            {"verb": "optimize"}, title="optimize", queue="without a dispatcher", device="local"
        )
        path = f"/runs/{run.id}/graph.json?job={job}"
        assert client.get(path).status_code == 400
        folder = studio.folder / "jobs" / job / "result"
        folder.mkdir(parents=True)
        for content in ("[]", '{"sensitivity": [7]}', '{"sensitivity": []}'):
            (folder / "result.json").write_text(content)
            assert wording("job-measured-no-error-layers") in client.get(f"/runs/{run.id}/graph?job={job}").text
        studio.store.jobs.finish(studio.store.jobs.claim("without a dispatcher", "test"), "done", runs=[run.id])
        assert f"/graph?job={job}" not in client.get(f"/jobs/{job}").text
        rows = [{"layer": "a", "op": "Conv", "snr_db": 21.5}, {"layer": "b", "snr_db": None}]
        (folder / "result.json").write_text(json.dumps({"sensitivity": rows}))
        assert f"/graph?job={job}" in client.get(f"/jobs/{job}").text
        assert client.get(path).json()["values"]["snr"] == [21.5, None]
        page = client.get(f"/runs/{run.id}/graph?job={job}").text
        assert "<td>21.5 dB</td>" in page and wording("layer-not-quantised-alone") in page
        answer = client.get(f"/runs/{plain.id}/graph?job={job}")  # the profile of the same model is drawn
        assert (answer.status_code, answer.headers["location"]) == (303, f"/runs/{run.id}/graph?job={job}")
        for bad in ("job-2", "..", "../jobs/job-1", f"{job}/", "%00", ""):
            assert client.get(f"/runs/{run.id}/graph.json?job={bad}").status_code == 400

    def test_a_tag_leads_to_the_address_of_its_run(self, studio, client):
        studio.store.save(run := profiled_run())
        studio.store.tag("release", run.id)
        assert client.get("/runs/release/graph?from=3").headers["location"] == f"/runs/{run.id}/graph?from=3"

    def test_what_can_not_be_drawn_says_why(self, studio, client):
        studio.store.save(unprofiled_run())
        studio.store.save(run := profiled_run())
        answer = client.get(f"/runs/{unprofiled_run().id}/graph")
        assert answer.status_code == 400 and wording("profile-model-then-open-run") in answer.text
        assert client.get(f"/runs/{run.id}/graph?with=nothing-like-it").status_code == 400
        assert client.get("/runs/nothing-like-it/graph").status_code == 400


def test_every_metric_of_one_run_has_a_value_in_the_sample_but_the_error():
    graph = make_graph([profiled_run()])
    assert [key for key, metric in graph.metrics.items() if metric.why] == ["snr"]


def test_two_engines_have_no_before_and_after():
    one, other = profiled_run(), faster_run()
    part = json.loads(render_graph([one, other], ".html"))["part"]
    assert "Before" not in part and "openvino (µs)" in part and "openvino is" in part
    assert "Differences, the largest first" in part
    other = replace(other, job=replace(other.job, runtime=one.job.runtime))
    part = json.loads(render_graph([one, other], ".html"))["part"]
    assert "Before (µs)" in part and "After: " in part and "Changes, the largest first" in part


def test_a_layer_has_one_name_in_text_file_page_and_graph():
    run = named("features.1/conv", "features.2/conv", "p2o.Conv.58")
    titles = [layer.title for layer in run.layers if layer.kind == "operator"]
    drawn = document_of(make_graph([run]))["names"]
    written = {row["Name"].removeprefix("'") for row in csv.DictReader(io.StringIO(layers_csv([run])))}
    text, page = to_text(profile_document([run], width=200), width=200), render_profile_html([run])
    for title in titles:
        assert title in drawn and title in written and title in text and html.escape(title) in page
