"""LiteRT, by its interpreter and as a compiled model, on graphs whose answers are known by hand."""

import numpy as np
import pytest

from edgewise.runtime.base import InvalidModel, LoadOptions, ReportsEngineLatency, RunsConcurrently, UnsupportedModel
from edgewise.runtime.litert import LiteRt, _explain
from edgewise.runtime.litert_sessions import _count_delegated
from messages import says

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not LiteRt().availability(), reason="ai-edge-litert is not installed"),
]
flatbuffers = pytest.importorskip("flatbuffers")

RUNTIME = LiteRt()
EVERY = pytest.mark.parametrize("provider", [provider.name for provider in RUNTIME.providers])
ADD, CUSTOM = 0, 32
TYPES = {"float32": 0, "int32": 2, "int64": 4}


@pytest.fixture
def write(tmp_path):
    """A model of additions and custom operators."""
    from ai_edge_litert import schema_py_generated as schema

    def write(*operators, tensors, inputs, outputs, dtype="float32", signature=None):
        graph = schema.SubGraphT()
        graph.tensors, graph.operators, graph.inputs, graph.outputs = [], [], inputs, outputs
        for name, shape in tensors:
            tensor = schema.TensorT()
            tensor.name, tensor.type, tensor.buffer = name, TYPES[dtype], 0
            tensor.shape = [max(1, size) for size in shape]
            tensor.shapeSignature = shape if -1 in shape else None
            graph.tensors.append(tensor)
        model = schema.ModelT()
        model.version, model.operatorCodes, model.buffers, model.subgraphs = 3, [], [schema.BufferT()], [graph]
        for kind, given, made in operators:
            code, operator = schema.OperatorCodeT(), schema.OperatorT()
            code.version = 1
            code.builtinCode = code.deprecatedBuiltinCode = CUSTOM if isinstance(kind, str) else kind
            code.customCode = kind if isinstance(kind, str) else None
            operator.opcodeIndex, operator.inputs, operator.outputs = len(model.operatorCodes), given, made
            if kind == ADD:
                operator.builtinOptionsType = schema.BuiltinOptions.AddOptions
                operator.builtinOptions = schema.AddOptionsT()
            model.operatorCodes.append(code)
            graph.operators.append(operator)
        if signature:
            definition = schema.SignatureDefT()
            definition.signatureKey, definition.subgraphIndex = "serving_default", 0
            definition.inputs, definition.outputs = [], []
            for name, index in signature.items():
                entry = schema.TensorMapT()
                entry.name, entry.tensorIndex = name, index
                (definition.outputs if index in outputs else definition.inputs).append(entry)
            model.signatureDefs = [definition]
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        path = tmp_path / "m.tflite"
        path.write_bytes(bytes(builder.Output()))
        return path

    return write


@pytest.fixture
def total(write):
    """c = (a + b) + b over one row of a and two of b."""
    return write(
        (ADD, [0, 1], [2]),
        (ADD, [2, 1], [3]),
        tensors=[("a", [1, 3]), ("b", [2, 3]), ("d", [2, 3]), ("c", [2, 3])],
        inputs=[0, 1],
        outputs=[3],
    )


def options(provider, **given):
    return LoadOptions(**({"provider": provider, "threads": 1} | given))


def infer(session, *arrays):
    session.bind(arrays)
    session.invoke()
    return [array.tolist() for array in session.read_outputs()]


def rows(*values, dtype="float32"):
    return np.array([[value] * 3 for value in values], dtype)


@EVERY
def test_two_inputs(total, provider):
    session = RUNTIME.load(total, options(provider))
    assert [(spec.name, spec.shape, spec.dtype) for spec in (*session.inputs, *session.outputs)] == [
        ("a", (1, 3), "float32"),
        ("b", (2, 3), "float32"),
        ("c", (2, 3), "float32"),
    ]
    assert infer(session, rows(1), rows(10, 20)) == [[[21] * 3, [41] * 3]]
    assert infer(session, rows(2), rows(10, 20)) == [[[22] * 3, [42] * 3]]


@EVERY
def test_inputs_stand_in_the_graphs_order_not_the_signatures(write, provider):
    path = write(
        (ADD, [0, 1], [2]),
        tensors=[("s_a:0", [1, 3]), ("s_b:0", [2, 3]), ("o:0", [2, 3])],
        inputs=[1, 0],
        outputs=[2],
        signature={"a": 0, "b": 1, "o": 2},
    )
    session = RUNTIME.load(path, options(provider))
    assert [(spec.name, spec.shape) for spec in session.inputs] == [("s_b:0", (2, 3)), ("s_a:0", (1, 3))]
    assert infer(session, rows(10, 20), rows(1)) == [[[11] * 3, [21] * 3]]


@EVERY
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_numbers(write, provider, dtype):
    path = write((ADD, [0, 0], [1]), tensors=[("a", [1, 3]), ("c", [1, 3])], inputs=[0], outputs=[1], dtype=dtype)
    session = RUNTIME.load(path, options(provider))
    assert infer(session, rows(2**30 - 1, dtype=dtype)) == [[[2**31 - 2] * 3]]
    assert session.read_outputs()[0].dtype == dtype


@EVERY
def test_an_open_batch(write, provider):
    path = write((ADD, [0, 0], [1]), tensors=[("a", [-1, 3]), ("c", [-1, 3])], inputs=[0], outputs=[1])
    session = RUNTIME.load(path, options(provider, shapes={"a": (4, 3)}))
    assert (session.inputs[0].shape, session.outputs[0].shape) == ((4, 3), (4, 3))
    assert infer(session, rows(1, 2, 3, 4)) == [[[2] * 3, [4] * 3, [6] * 3, [8] * 3]]


@EVERY
def test_shapes_that_can_not_be(total, provider):
    with pytest.raises(UnsupportedModel, match=r"does not accept a=\[5, 3\]: "):
        RUNTIME.load(total, options(provider, shapes={"a": (5, 3), "b": (2, 3)}))
    with pytest.raises(UnsupportedModel, match=says("input-dimensions-requested-shape", name="a", rank=2)):
        RUNTIME.load(total, options(provider, shapes={"a": (1, 3, 1), "b": (2, 3)}))


@EVERY
def test_an_operator_that_nobody_has(write, provider):
    path = write(("Nope", [0], [1]), tensors=[("a", [1, 3]), ("c", [1, 3])], inputs=[0], outputs=[1])
    with pytest.raises(UnsupportedModel):
        RUNTIME.load(path, options(provider))


@EVERY
def test_a_file_of_another_kind(tmp_path, provider):
    path = tmp_path / "m.tflite"
    path.write_bytes(b"\x1c\x00\x00\x00TFL9" + bytes(64))
    with pytest.raises(InvalidModel):
        RUNTIME.load(path, options(provider))


@EVERY
def test_a_precision_or_provider_that_is_not_there(total, provider):
    with pytest.raises(UnsupportedModel, match=says("litert-runs-model-own-precision", precision="f16")):
        RUNTIME.load(total, options(provider, precision="f16"))
    with pytest.raises(UnsupportedModel, match=says("litert-no-provider", provider="tpu")):
        RUNTIME.load(total, options("tpu"))


def test_what_came_into_force(total):
    effective = RUNTIME.load(total, options("interpreter")).effective
    assert (effective["op_resolver"], effective["delegate"]) == ("AUTO", "XNNPACK")
    assert (effective["operators"], effective["operators_delegated"], effective["delegate_partitions"]) == (2, 2, 1)
    for provider, resolver in (
        ("interpreter-noxnnpack", "BUILTIN_WITHOUT_DEFAULT_DELEGATES"),
        ("interpreter-reference", "BUILTIN_REF"),
    ):
        effective = RUNTIME.load(total, options(provider)).effective
        assert (effective["op_resolver"], effective["delegate"]) == (resolver, None)
        assert (effective["operators"], effective["operators_delegated"]) == (2, 0)
    assert effective["inputs_handed_over"] == "before the timing"
    compiled = RUNTIME.load(total, options("compiled")).effective
    assert compiled["fully_accelerated"] is True and compiled["inputs_handed_over"] == "before the timing"


def test_what_xnnpack_does_not_take_is_told(write):
    path = write((ADD, [0, 0], [1]), tensors=[("a", [1, 3]), ("c", [1, 3])], inputs=[0], outputs=[1], dtype="int64")
    effective = RUNTIME.load(path, options("interpreter")).effective
    assert (effective["delegate"], effective["operators_delegated"]) == (None, 0)
    assert RUNTIME.load(path, options("compiled")).effective["fully_accelerated"] is False


class Interpreter:
    """0 → A → 1 → B → 2 → C → 3, of which a delegate took B, and A once more beside it."""

    def _get_ops_details(self):
        def node(index, name, inputs, outputs):
            return {"index": index, "op_name": name, "inputs": inputs, "outputs": outputs}

        return [
            node(0, "A", [0], [1]),
            node(1, "B", [1, 9], [2]),
            node(2, "C", [2], [3]),
            node(3, "DELEGATE", [1, 9], [2]),
        ]


def test_only_what_lies_inside_a_partition_is_delegated():
    assert _count_delegated(Interpreter()) == (3, 1, 1)
    assert _count_delegated(object()) == (None, None, None)


def test_settings_by_their_own_names(total):
    session = RUNTIME.load(total, options("interpreter", extra={"experimental_disable_delegate_clustering": True}))
    assert infer(session, rows(1), rows(10, 20)) == [[[21] * 3, [41] * 3]]
    effective = RUNTIME.load(total, options("compiled", extra={"kernel_mode": 1})).effective
    assert effective["fully_accelerated"] is False
    for provider, name in (
        ("interpreter", "num_threads"),
        ("interpreter", "experimental_delegates"),
        ("compiled", "x"),
    ):
        with pytest.raises(UnsupportedModel, match=name):
            RUNTIME.load(total, options(provider, extra={name: 1}))
    with pytest.raises(UnsupportedModel, match="experimental_nonsense"):
        RUNTIME.load(total, options("interpreter", extra={"experimental_nonsense": 1}))


@EVERY
def test_threads_are_taken_and_not_told(total, provider):
    session = RUNTIME.load(total, options(provider, threads=2))
    assert session.effective["threads"] is None  # the engine does not tell
    assert infer(session, rows(1), rows(10, 20)) == [[[21] * 3, [41] * 3]]


@EVERY
def test_it_claims_no_talent_it_has_not(total, provider):
    assert not isinstance(RUNTIME.load(total, options(provider)), ReportsEngineLatency | RunsConcurrently)


@EVERY
def test_a_closed_session_does_not_infer(total, provider):
    session = RUNTIME.load(total, options(provider))
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.invoke()
    infer(session, rows(1), rows(10, 20))
    session.close()
    session.close()
    with pytest.raises(RuntimeError, match=says("nothing-bound-session-closed")):
        session.invoke()


def test_messages_lose_what_only_the_engines_authors_need():
    text = "CompiledModel error: ERROR: [./a.h:1]\n└ ERROR: [./b.h:2]\n└ Failed to allocate tensors"
    found = _explain(RuntimeError(text), otherwise=UnsupportedModel)
    assert isinstance(found, UnsupportedModel) and str(found) == "Failed to allocate tensors"
    assert isinstance(_explain(RuntimeError("std::bad_alloc"), otherwise=UnsupportedModel), MemoryError)
