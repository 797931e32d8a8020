"""A signature as a file of its own: what `estimate`, `convert` and `optimize` work on computes the same."""

from __future__ import annotations

import json
import zipfile
from itertools import pairwise
from pathlib import Path
from random import Random

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.converting.signature_file import take_signature
from edgewise.errors import BadField, BadInput, BadModel, Unavailable
from edgewise.estimating.mcu.cortex_m import emulation_availability
from edgewise.model.identity import open_model, read_graph
from edgewise.optimizing.result_builder import provenance_of
from edgewise.registry import Availability
from edgewise.runtime.tflite_buffers import has_buffers_behind
from edgewise.verbs.estimate.request import EstimateRequest
from edgewise.verbs.estimate.work import firmware
from edgewise.verbs.optimize.request import OptimizeRequest
from edgewise.verbs.optimize.work import _REPEATED_FOR_ONE
from edgewise.verbs.profile.request import ProfileRequest
from edgewise.verbs.verb import words_of
from exported_programs import small_network
from litert_networks import write_subgraphs
from messages import says, wording
from protobuf_writer import saved_model

pytestmark = pytest.mark.engine
SIZES = {"encode": (64, 16), "decode": (16, 64, 64)}


def layers(schema, tensor, step, place, sizes, *, int8):
    """Fully connected layers of these sizes."""
    random = np.random.default_rng(len(sizes))

    def scaled(scale, zero=0):
        return schema.QuantizationParametersT(scale=[scale], zeroPoint=[zero]) if int8 else None

    kind = schema.TensorType.INT8 if int8 else schema.TensorType.FLOAT32
    at = tensor(place, "x", (1, sizes[0]), kind=kind, quantization=scaled(0.05, 3))
    place.inputs = [at]
    for number, (taken, given) in enumerate(pairwise(sizes)):
        values = random.integers(-90, 90, (given, taken)) if int8 else random.standard_normal((given, taken))
        weights = tensor(place, f"w{number}", (given, taken), values, kind=kind, quantization=scaled(0.001))
        made = tensor(place, f"y{number}", (1, given), kind=kind, quantization=scaled(0.05, -5))
        step(place, "FULLY_CONNECTED", [at, weights, -1], [made], schema.FullyConnectedOptionsT())
        at = made
    place.outputs = [at]


def write_codec(path: Path, *, int8: bool, order: tuple[str, ...] = ("encode", "decode")) -> Path:
    """``encode``: one layer of 64 → 16. ``decode``: layers of 16 → 64 → 64."""

    def build(schema, graph, tensor, step):
        for name in order:
            layers(schema, tensor, step, graph(), SIZES[name], int8=int8)

    return write_subgraphs(path, build, signatures={name: at for at, name in enumerate(order)})


def write_stateful(path: Path) -> Path:
    """``negate``; ``grow``, which doubles x in a loop of 3; and ``add``, which adds a variable, 0.5 at first."""

    def build(schema, graph, tensor, step):
        negate, condition, begin, body, grow, add = (graph() for _ in range(6))
        whole, handle_kind = schema.TensorType.INT32, schema.TensorType.RESOURCE

        def ends(place, *, outputs=None):
            place.inputs = [tensor(place, "count", (1,), kind=whole), tensor(place, "value", (1, 4))]
            place.outputs = outputs or []

        x = tensor(negate, "x", (1, 4))
        negate.inputs, negate.outputs = [x], [tensor(negate, "minus", (1, 4))]
        step(negate, "NEG", [x], negate.outputs, schema.NegOptionsT())

        ends(condition)
        condition.outputs = [tensor(condition, "goes", (1,), kind=schema.TensorType.BOOL)]
        three = tensor(condition, "three", (1,), 3, kind=whole)
        step(condition, "LESS", [condition.inputs[0], three], condition.outputs, schema.LessOptionsT())

        ends(body)
        body.outputs = [tensor(body, "next", (1,), kind=whole), tensor(body, "double", (1, 4))]
        one = tensor(body, "one", (1,), 1, kind=whole)
        step(body, "ADD", [body.inputs[0], one], body.outputs[:1], schema.AddOptionsT())
        step(body, "ADD", [body.inputs[1], body.inputs[1]], body.outputs[1:], schema.AddOptionsT())

        x, zero = tensor(grow, "x", (1, 4)), tensor(grow, "zero", (1,), 0, kind=whole)
        made = [tensor(grow, "counted", (1,), kind=whole), tensor(grow, "grown", (1, 4))]
        loop = schema.WhileOptionsT(condSubgraphIndex=1, bodySubgraphIndex=3)
        step(grow, "WHILE", [zero, x], made, loop)
        grow.inputs, grow.outputs = [x], made[1:]

        def handle(place):
            made = tensor(place, "handle", (1,), kind=handle_kind)
            step(place, "VAR_HANDLE", [], [made], schema.VarHandleOptionsT(sharedName="memory", container=""))
            return made

        step(begin, "ASSIGN_VARIABLE", [handle(begin), tensor(begin, "begin", (1, 4), 0.5)], [],
             schema.AssignVariableOptionsT())  # fmt: skip
        step(add, "CALL_ONCE", [], [], schema.CallOnceOptionsT(initSubgraphIndex=2))
        x, own, read = tensor(add, "x", (1, 4)), handle(add), tensor(add, "read", (1, 4))
        step(add, "READ_VARIABLE", [own], [read], schema.ReadVariableOptionsT())
        y = tensor(add, "y", (1, 4))
        step(add, "ADD", [x, read], [y], schema.AddOptionsT())
        step(add, "ASSIGN_VARIABLE", [own, y], [], schema.AssignVariableOptionsT())
        add.inputs, add.outputs = [x], [y]

    return write_subgraphs(path, build, signatures={"negate": 0, "grow": 4, "add": 5})


def answers(path: Path, name: str) -> list[dict[str, np.ndarray]]:
    """What LiteRT's runner of the signature gives for two inputs, one after the other."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(str(path))
    runner = interpreter.get_signature_runner(name)
    random, given = np.random.default_rng(5), []
    for _ in range(2):
        feed = {}
        for key, detail in runner.get_input_details().items():
            values = random.uniform(-100, 100, detail["shape"])
            feed[key] = values.astype(detail["dtype"])
        given.append(runner(**feed))
    return given


@pytest.mark.parametrize(
    ("file", "name", "operators", "subgraphs"),
    [
        ("float", "encode", 1, 1), ("float", "decode", 2, 1), ("int8", "encode", 1, 1), ("int8", "decode", 2, 1),
        ("stateful", "negate", 1, 1), ("stateful", "grow", 1, 3), ("stateful", "add", 5, 2),
    ],
)  # fmt: skip
def test_the_file_of_a_signature_computes_what_its_runner_does(tmp_path, file, name, operators, subgraphs):
    from ai_edge_litert.tools import flatbuffer_utils

    source = tmp_path / f"{file}.tflite"
    _ = write_stateful(source) if file == "stateful" else write_codec(source, int8=file == "int8")
    (tmp_path / "made").mkdir()
    taken, ref = take_signature(str(source), name, tmp_path / "made")
    assert (Path(taken).name, ref.name) == (f"{file}-{name}.tflite", f"{file}.tflite:{name}")
    for found, wanted in zip(answers(Path(taken), name), answers(source, name), strict=True):
        assert found.keys() == wanted.keys()
        for key in wanted:
            np.testing.assert_array_equal(found[key], wanted[key])
    graph, model = read_graph(taken), flatbuffer_utils.read_model(taken)
    assert (len(graph.operators), tuple(graph.signatures), len(model.subgraphs)) == (operators, (name,), subgraphs)
    own, whole = open_model(taken).signature, open_model(source, name).signature
    assert own == whole
    used = {operator.opcodeIndex for each in model.subgraphs for operator in each.operators}
    assert used == set(range(len(model.operatorCodes)))
    constants = {tensor.buffer for each in model.subgraphs for tensor in each.tensors}
    assert constants | {0} == set(range(len(model.buffers)))


def test_calls_of_every_kind_are_followed(tmp_path):
    """Branches, calls and composites refer to subgraphs in fields of other names."""
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.tools import flatbuffer_utils

    def build(schema, graph, tensor, step):
        places = [graph() for _ in range(7)]
        for at, place in enumerate(places):
            x, y = tensor(place, f"x{at}", (1,)), tensor(place, f"y{at}", (1,))
            place.inputs, place.outputs = [x], [y]
            step(place, "NEG", [x], [y], schema.NegOptionsT())
        for place in places:
            for name in ("second", "third"):
                tensor(place, name, (1,))
        step(places[1], "IF", [0, 0], [2], schema.IfOptionsT(thenSubgraphIndex=5, elseSubgraphIndex=6))
        step(places[6], "CALL", [0], [2], schema.CallOptionsT(subgraph=3))

    source = write_subgraphs(tmp_path / "calls.tflite", build, signatures={"first": 0, "main": 1})
    model = flatbuffer_utils.read_model(str(source))
    for made, number, options in (
        (2, "STABLEHLO_COMPOSITE", schema.StableHLOCompositeOptionsT(name="c", decompositionSubgraphIndex=4)),
        (3, "STABLEHLO_CASE", schema.StablehloCaseOptionsT(branchSubgraphIndices=[2, 4])),
    ):
        code = getattr(schema.BuiltinOperator, number)
        model.operatorCodes.append(schema.OperatorCodeT(version=1, builtinCode=code, deprecatedBuiltinCode=127))
        kind = getattr(schema.BuiltinOptions2, type(options).__name__.removesuffix("T"))
        model.subgraphs[3].operators.append(
            schema.OperatorT(
                opcodeIndex=len(model.operatorCodes) - 1, inputs=[0], outputs=[made], builtinOptions2=options,
                builtinOptions2Type=kind,
            )
        )  # fmt: skip
    flatbuffer_utils.write_model(model, str(source))
    (tmp_path / "made").mkdir()
    found = flatbuffer_utils.read_model(take_signature(str(source), "main", tmp_path / "made")[0])
    names = [each.tensors[0].name.decode() for each in found.subgraphs]
    assert names[0] == "x1" and sorted(names) == ["x1", "x2", "x3", "x4", "x5", "x6"]
    options = found.subgraphs[0].operators[1].builtinOptions
    assert [names[options.thenSubgraphIndex], names[options.elseSubgraphIndex]] == ["x5", "x6"]
    called = found.subgraphs[options.elseSubgraphIndex].operators[1].builtinOptions.subgraph
    assert names[called] == "x3"
    _, composite, case = found.subgraphs[called].operators
    assert names[composite.builtinOptions2.decompositionSubgraphIndex] == "x4"
    assert [names[at] for at in case.builtinOptions2.branchSubgraphIndices] == ["x2", "x4"]


@pytest.mark.parametrize(("name", "macs"), [("encode", 1024), ("decode", 5120)])
@pytest.mark.parametrize("order", [("encode", "decode"), ("decode", "encode")])
def test_an_estimate_is_of_the_chosen_signature(tmp_path, name, macs, order):
    source = write_codec(tmp_path / "codec.tflite", int8=True, order=order)
    found = edgewise.estimate(source, "nucleo-f207zg", signature=name)
    rows = {row.metric: row.value for row in found.measurements}
    assert (rows["macs"], rows["parameters_size"], found.refused) == (macs, macs, None)
    assert (found.model["name"], found.model["path"]) == (f"codec.tflite:{name}", str(source))
    assert found.model["sha256"] == open_model(source, order[0]).ref.sha256
    assert found.conditions[0].startswith(f"Only the signature {name} is estimated; the file also has ")
    assert found.model["assumed"] == []


def test_a_default_is_estimated_alone(tmp_path):
    """Vela compiles every subgraph of a file."""
    pytest.importorskip("ethosu.vela", reason="ethos-u-vela is not installed")
    source = write_codec(tmp_path / "codec.tflite", int8=True)
    encode, decode, default = (edgewise.estimate(source, "ethos-u55-128", signature=name) for name in (*SIZES, ""))
    assert default.measurements == encode.measurements
    cycles = [sum(layer.cycles for layer in each.layers) for each in (encode, decode)]
    assert [each.measurement("accelerator_cycles").value for each in (encode, decode)] == cycles
    assert default.model["assumed"] == ["signature: encode; the file also has decode (--signature decode)"]


def test_the_boards_that_hold_a_signature(tmp_path):
    source = write_codec(tmp_path / "codec.tflite", int8=True)
    found = edgewise.fits(source, signature="decode", max_flash=4096)
    assert found.model["name"] == "codec.tflite:decode" and found.refused
    assert found.conditions[0] == "Only the signature decode is estimated; the file also has encode."
    row = edgewise.fits(source, signature="decode").listed[0].estimate.measurement("macs")
    assert row is None or row.value == 5120


@pytest.mark.parametrize(("name", "int8"), [("encode", False), ("encode", True), ("decode", False)])
def test_a_conversion_is_of_the_chosen_signature(tmp_path, monkeypatch, name, int8):
    pytest.importorskip("openvino", reason="openvino is not installed")
    monkeypatch.chdir(tmp_path)
    source = write_codec(tmp_path / "codec.tflite", int8=int8)
    found = edgewise.convert(source, to="openvino", signature=name)
    assert (found.accepted, found.path) == (True, Path(f"codec-{name}.xml"))
    other = "decode" if name == "encode" else "encode"
    assert found.lost[0] == wording("only-signature-converted-file-also", own=name, others=other)
    assert found.agreement.outputs and found.agreement.close
    parent = json.loads(found.provenance.read_text())["parent"]
    assert (parent["name"], parent["sha256"]) == (f"codec.tflite:{name}", open_model(source).ref.sha256)
    assert found.source["path"] == str(source)
    assert f"--signature {name}" in found.command
    shapes = [spec.shape for spec in open_model(found.path).signature.inputs]
    assert shapes == [(1, SIZES[name][0])]


def test_a_variant_is_of_the_chosen_signature(tmp_path, short_races):
    source = write_codec(tmp_path / "codec.tflite", int8=False)
    found = edgewise.optimize(
        source, signature="decode", output=tmp_path / "made", passes=["litert-dynamic"], runtimes=["litert"], aim="size",
        max_size=20_000, time_budget=600.0, store=str(tmp_path / "runs.db"),
    )  # fmt: skip
    original, (variant,) = found.baseline.model, found.candidates
    assert (original.name, original.signature_words) == (
        "codec.tflite:decode", "decode; the file also has encode (--signature encode)",
    )  # fmt: skip
    taken = tmp_path / "made" / "signature" / "codec-decode.tflite"
    assert original.path == str(taken) and str(taken) in found.notes[0]
    assert variant.model.name == "codec-decode.litert-dynamic.tflite"
    assert [spec.shape for spec in open_model(variant.model.path).signature.inputs] == [(1, 16)]
    assert [each.name for each in (tmp_path / "made" / "signature").iterdir()] == [taken.name]
    with edgewise.open_store(str(tmp_path / "runs.db")) as store:
        names = {store.get(row.id).job.model.name for row in store.list()}
    assert "codec.tflite:decode" in names
    whole = open_model(source, "decode").ref
    assert provenance_of(found, variant, original, command="", whole=whole)["parent"] == {
        "name": "codec.tflite:decode", "sha256": open_model(taken).ref.sha256, "format": "tflite",
        "taken_from": {"name": "codec.tflite", "sha256": open_model(source).ref.sha256},
    }  # fmt: skip
    request = OptimizeRequest(model=str(source), signature="decode")
    assert words_of(request, only=_REPEATED_FOR_ONE) == ["--signature", "decode"]


def test_names_and_files_that_have_no_such_signature(tmp_path):
    source = write_codec(tmp_path / "codec.tflite", int8=True)
    for verb, settings in ((edgewise.estimate, {"device": "cortex-m33"}), (edgewise.convert, {"to": "openvino"}),
                           (edgewise.optimize, {"output": tmp_path / "made"})):  # fmt: skip
        with pytest.raises(BadInput, match=says("no-signature-in-identity", wanted="nope")) as error:
            verb(source, signature="nope", **settings)
        assert error.value.advice == wording("signatures-known", known="encode, decode")
    alone = write_codec(tmp_path / "alone.tflite", int8=True, order=("decode",))
    assert take_signature(str(alone), "decode", tmp_path) == (str(alone), None)
    with pytest.raises(BadInput, match=says("no-signature-in-identity", wanted="encode")):
        take_signature(str(alone), "encode", tmp_path)
    with pytest.raises(BadField, match=says("signature-applies-only-model-files")):
        EstimateRequest(model="net.py:make", device="cortex-m33", signature="decode")


def test_a_profile_of_an_estimated_device_takes_one_signature():
    asked = ProfileRequest(models=("codec.tflite",), device="cortex-m33", signatures=("decode",))
    assert asked.as_estimate() == EstimateRequest(model="codec.tflite", device="cortex-m33", signature="decode")
    with pytest.raises(BadField, match=says("signatures-must-one-signature-which")):
        ProfileRequest(models=("codec.tflite",), device="cortex-m33", signatures=("a", "b")).as_estimate()


@pytest.mark.skipif(not emulation_availability(), reason="what compiles and emulates firmware is not installed")
def test_the_firmware_of_a_signature_has_that_part_of_the_file_alone(tmp_path, capsys):
    source = str(write_codec(tmp_path / "codec.tflite", int8=True))
    made = []
    for words in ([], ["--signature", "encode"], ["--signature", "decode"]):
        folder = tmp_path / f"firmware{len(made)}"
        assert run(["firmware", source, "-d", "cortex-m4", "-o", str(folder), *words]) == 0
        made.append((folder / "constants.bin").read_bytes())
    default, encode, decode = made
    assert default == encode != decode
    capsys.readouterr()
    assert run(["firmware", source, "-d", "cortex-m4", "-o", str(tmp_path / "no"), "--signature", "other"]) == 2
    assert "decode" in capsys.readouterr().err and not (tmp_path / "no").exists()


@pytest.mark.parametrize(("estimate", "device"), [
    (lambda file: edgewise.estimate(file, "nucleo-f207zg"), "nucleo-f207zg"),
    (lambda file: edgewise.estimate(file, "ethos-u55-128"), "ethos-u55-128"),
    (edgewise.fits, "DEVICE"),
    (lambda file: firmware(str(file), file.parent / "fw", device="cortex-m4"), "cortex-m4"),
])  # fmt: skip
def test_what_can_be_converted_is_estimated_after_the_command_that_is_named(tmp_path, estimate, device):
    """TensorFlow's SavedModel, whose layers are not read at all."""
    folder = saved_model(tmp_path / "net")
    with pytest.raises((BadModel, Unavailable)) as error:
        estimate(folder)
    if isinstance(error.value, BadModel):  # Vela may not be installed
        then = f"edgewise optimize {folder.name}.tflite --data DATA -d {device}"
        assert error.value.advice == f"edgewise convert {folder} --to tflite, then {then}"


def test_a_program_of_a_pt2_archive_is_an_archive_of_its_own_with_its_weights_alone(tmp_path):
    file = tmp_path / "two.pt2"
    with zipfile.ZipFile(file, "w") as written:
        written.writestr("m/archive_format", "pt2")
        for number, name in enumerate(("model", "decode")):
            written.writestr(f"m/models/{name}.json", json.dumps(small_network()))
            config = {"config": {"w": {"path_name": f"weight_{number}"}}}
            written.writestr(f"m/data/weights/{name}_weights_config.json", json.dumps(config))
            written.writestr(f"m/data/weights/weight_{number}", name)
    assert take_signature(str(file), "model", tmp_path) == (str(file), None)
    taken, ref = take_signature(str(file), "decode", tmp_path / "made")
    assert ref is not None and (Path(taken).name, ref.signature) == ("two-decode.pt2", "decode")
    with zipfile.ZipFile(taken) as archive:
        assert {name: archive.read(name) for name in archive.namelist() if "config" not in name} == {
            "archive/archive_format": b"pt2",
            "archive/models/model.json": json.dumps(small_network()).encode(),
            "archive/data/weights/weight_1": b"decode",
        }
    with pytest.raises(BadModel, match=says("only-tflite-files-can-lowered")) as error:
        edgewise.estimate(file, "rpi-pico", signature="decode")
    assert str(file) in error.value.advice and error.value.advice.endswith(
        "--signature decode --to tflite, then edgewise optimize two-decode.tflite --data DATA -d rpi-pico"
    )


def test_a_damaged_pt2_archive_is_one_clear_error(tmp_path):
    file = tmp_path / "two.pt2"
    with zipfile.ZipFile(file, "w") as written:
        for name in ("model", "decode"):
            written.writestr(f"m/models/{name}.json", json.dumps(small_network()))
        written.writestr("m/data/constants/decode_constants_config.json", '{"config": [1]}')
    with pytest.raises(BadModel, match=says("program-cant-taken-out")):
        take_signature(str(file), "decode", tmp_path / "made")


def test_without_litert_the_reason_is_said(tmp_path, monkeypatch):
    source = write_codec(tmp_path / "codec.tflite", int8=True)
    lacking = Availability(False, "the package is not installed", install_hint="pip install 'edgewise[litert]'")
    monkeypatch.setattr("edgewise.converting.signature_file.package_availability", lambda *a, **b: lacking)
    with pytest.raises(Unavailable, match=r"codec\.tflite needs LiteRT: the package is not installed") as error:
        edgewise.estimate(source, "cortex-m33", signature="decode")
    assert error.value.advice == lacking.install_hint


def test_labels_behind_the_network_stay(tmp_path):
    """They are named in metadata of the first subgraph, which no other signature keeps."""
    from ai_edge_litert import schema_py_generated as schema
    from ai_edge_litert.tools import flatbuffer_utils

    source = write_codec(tmp_path / "codec.tflite", int8=True)
    model = flatbuffer_utils.read_model(str(source))
    notes = {"TFLITE_METADATA": b"described", "min_runtime_version": b"1.5.0", "OfflineMemoryAllocation": b"plan"}
    for name, content in notes.items():
        model.metadata = [*(model.metadata or []), schema.MetadataT(name=name, buffer=len(model.buffers))]
        model.buffers.append(schema.BufferT(data=np.frombuffer(content, np.uint8)))
    flatbuffer_utils.write_model(model, str(source))
    with zipfile.ZipFile(source, "a") as archive:
        archive.writestr("labels.txt", "cat")
    (tmp_path / "made").mkdir()
    for name, kept in (("encode", ["TFLITE_METADATA", "min_runtime_version"]), ("decode", ["min_runtime_version"])):
        taken = take_signature(str(source), name, tmp_path / "made")[0]
        found = flatbuffer_utils.read_model(taken)
        assert [each.name.decode() for each in found.metadata] == kept
        assert [bytes(found.buffers[each.buffer].data) for each in found.metadata] == [notes[each] for each in kept]
        assert zipfile.is_zipfile(taken) == (name == "encode")
    with zipfile.ZipFile(tmp_path / "made" / "codec-encode.tflite") as archive:
        assert archive.read("labels.txt") == b"cat"


def test_weights_behind_the_flatbuffer_come_along(tmp_path):
    """As they stand in files above 2 GB."""
    from ai_edge_litert.tools import flatbuffer_utils

    plain, source = write_codec(tmp_path / "plain.tflite", int8=False), tmp_path / "codec.tflite"
    model = flatbuffer_utils.read_model(str(plain))
    held = [each for each in model.buffers if each.data is not None]
    contents = [bytes(each.data) for each in held]
    begin = 2**20
    for _ in range(2):  # the first time tells how long the flatbuffer is
        at = begin
        for each, content in zip(held, contents, strict=True):
            each.data, each.offset, each.size = None, at, len(content)
            at += len(content)
        packed = flatbuffer_utils.convert_object_to_bytearray(model)
        begin = len(packed)
    source.write_bytes(bytes(packed) + b"".join(contents))
    assert has_buffers_behind(source)
    taken, _ = take_signature(str(source), "decode", tmp_path / "made")
    assert not has_buffers_behind(Path(taken))
    for found, wanted in zip(answers(Path(taken), "decode"), answers(plain, "decode"), strict=True):
        np.testing.assert_array_equal(found["decode_out"], wanted["decode_out"])


def test_a_damaged_file_is_refused(tmp_path):
    source = write_stateful(tmp_path / "stateful.tflite")
    good, random, damaged = source.read_bytes(), Random(3), tmp_path / "damaged.tflite"
    refused = 0
    for _ in range(200):
        content = bytearray(good)
        for _ in range(random.choice((1, 2, 4))):
            content[random.randrange(len(content))] = random.choice((0, 1, 128, 255))
        damaged.write_bytes(content)
        try:
            take_signature(str(damaged), "grow", tmp_path / "made")
        except (BadModel, BadInput):
            refused += 1
    assert refused


def test_a_default_that_is_not_the_first_subgraph_is_taken_out(tmp_path):
    def build(schema, graph, tensor, step):
        for kind in ("NEG", "ABS", "SQRT"):
            place = graph()
            place.inputs, place.outputs = [tensor(place, "x", (1,))], [tensor(place, kind, (1,))]
            options = schema.AbsOptionsT() if kind == "ABS" else schema.NegOptionsT()
            step(place, kind, place.inputs, place.outputs, options)

    source = write_subgraphs(tmp_path / "later.tflite", build, signatures={"abs": 1, "root": 2})
    (tmp_path / "made").mkdir()
    taken, ref = take_signature(str(source), "", tmp_path / "made")
    assert (ref.name, [each.op for each in read_graph(taken).operators]) == ("later.tflite:abs", ["ABS"])
