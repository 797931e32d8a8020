"""`edgewise inspect` from the command line: totals checked by hand, and everything that may be wrong with a model."""

import csv
import io
import json
import re
import subprocess
import sys
import textwrap
from math import prod
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

import edgewise.data
from edgewise.cli.main import run as edgewise_cli
from messages import has, is_in, says, wording
from patience import LIMIT_S
from tiny_models import write_tiny_onnx

DIGITS = Path(edgewise.data.__file__).parent
FORMULA = "=HYPERLINK(A1)"
HOSTILE = 'mat "mul"\n</td><script>\x1b[31m'


@pytest.fixture(autouse=True)
def terminal(tmp_path, monkeypatch):
    """No terminal, 80 columns, an empty folder to work in."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def call(capsys):
    """Runs one command line; its exit code, standard output and standard error."""

    def call(*words):
        code = edgewise_cli(["inspect", *map(str, words)])
        answer = capsys.readouterr()
        return code, answer.out, answer.err

    return call


@pytest.fixture
def document(call):
    """The one JSON document of a command line that succeeds."""

    def document(*words):
        code, out, err = call(*words, "--json")
        assert (code, err.replace("the factory talks\n", "")) == (0, "")
        return json.loads(out)

    return document


def write_named(path, name, *, op="MatMul", domain=""):
    """``y = relu(x @ w)`` with an operator of that name."""
    import onnx

    model = onnx.load(write_tiny_onnx(path))
    model.graph.node[0].name = name
    model.graph.node[0].op_type, model.graph.node[0].domain = op, domain
    if domain:
        model.opset_import.append(onnx.helper.make_opsetid(domain, 1))
    onnx.save(model, path)
    return path


# -- numbers


# Output rows × columns × channels, and what each of its elements sums up: kernel rows × columns × input channels.
DIGITS_LAYERS = [
    ((32, 32, 32), 3 * 3),  # depthwise on one channel
    ((32, 32, 32), 3 * 3 * 32),
    ((16, 16, 64), 3 * 3 * 32),
    ((8, 8, 64), 3 * 3 * 64),
    ((8, 8, 64), 3 * 3 * 64),
    ((10,), 64),
]
DIGITS_MACS = [prod(outputs) * reduction for outputs, reduction in DIGITS_LAYERS]
DIGITS_POOLING = 64 * (8 * 8 + 1)  # 64 means of 8 × 8 values, each with one division
# One bias per output of every layer, and per output of a convolution a ReLU: a maximum in ONNX, a clamp in TFLite.
DIGITS_BIASES = sum(prod(outputs) for outputs, _ in DIGITS_LAYERS)
DIGITS_ACTIVATED = sum(prod(outputs) for outputs, _ in DIGITS_LAYERS[:-1])
DIGITS_PARAMETERS = 3 * 3 * 32 + 32 + 9 * 32 * 32 + 32 + 9 * 32 * 64 + 64 + 2 * (9 * 64 * 64 + 64) + 64 * 10 + 10


@pytest.mark.parametrize(("name", "per_activation"), [("digits_cnn.tflite", 2), ("digits_cnn.onnx", 1)])
def test_totals_and_layers_are_those_of_a_hand_calculation(document, name, per_activation):
    found = document(DIGITS / name)
    totals = found["totals"]
    assert totals["macs"] == sum(DIGITS_MACS) == 19_169_920
    assert totals["ops"] == (2 * sum(DIGITS_MACS) + DIGITS_BIASES + DIGITS_POOLING + per_activation * DIGITS_ACTIVATED)
    assert totals["parameters"] == DIGITS_PARAMETERS == 102_570
    assert totals["weight_bytes"] == 4 * DIGITS_PARAMETERS
    assert [layer["macs"] for layer in found["layers"] if layer["macs"]] == DIGITS_MACS
    assert totals["depth"] == totals["layers"] == len(found["layers"])
    # The two largest neighbours, 32 × 32 × 32 and, in TFLite, that with its border of one; ONNX pads inside.
    padded = 34 * 34 * 32 if name.endswith("tflite") else 32 * 32 * 32
    assert totals["activation_peak_bytes"] == 4 * (32 * 32 * 32 + padded)


def test_the_document_has_its_fields(document):
    found = document(DIGITS / "digits_cnn.tflite")
    assert found["schema"] == 1
    assert {"model", "totals", "layers", "memory_plan", "support"} <= set(found)
    model = found["model"]
    assert {"name", "format", "sha256", "size_bytes", "precision", "inputs", "outputs"} <= set(model)
    assert (model["name"], model["format"], model["precision"]) == ("digits_cnn.tflite", "tflite", "float32")
    assert model["size_bytes"] == (DIGITS / "digits_cnn.tflite").stat().st_size
    assert len(model["sha256"]) == 64
    assert [(each["shape"], each["dtype"]) for each in model["inputs"]] == [([1, 1, 32, 32], "float32")]
    assert {"macs", "ops", "parameters", "depth", "weight_bytes", "activation_peak_bytes"} <= set(found["totals"])
    for at, layer in enumerate(found["layers"]):
        assert layer["index"] == at
        assert {"name", "op", "macs", "ops", "parameters", "inputs", "outputs", "attributes", "supported_by"} <= set(
            layer
        )
        for target in found["support"]:
            assert (target["name"] in layer["supported_by"]) != (target["name"] in layer["unsupported_by"])
    plan = found["memory_plan"]
    assert plan["arena_bytes"] >= plan["lower_bound_bytes"] == max(plan["live_bytes"])
    assert plan["live_bytes"][plan["peak_operator"]] == plan["lower_bound_bytes"]
    assert all(each["offset"] + each["size_bytes"] <= plan["arena_bytes"] for each in plan["tensors"])


# -- what is shown


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize("name", ["digits_cnn.tflite", "digits_cnn.onnx"])
def test_the_text_fits_the_terminal(call, monkeypatch, columns, name):
    monkeypatch.setenv("COLUMNS", str(columns))
    code, out, err = call(DIGITS / name)
    assert (code, err) == (0, "")
    assert max(map(cell_len, out.splitlines())) <= columns
    for words in ("19,169,920", "102,570", "Memory of activations", "Operator support of the engines", "Precision"):
        assert words in out, words


def test_top_folds_the_rest(call):
    out = call(DIGITS / "digits_cnn.onnx", "--top", "2")[1]
    assert "11 more layers" in out and "9.44 M" in out and "2.36 M" not in out
    assert "more layers" not in call(DIGITS / "digits_cnn.onnx", "--top", "0")[1]


def test_hostile_names_can_not_speak_to_the_terminal(call, tmp_path):
    code, out, _ = call(write_named(tmp_path / "m.onnx", HOSTILE))
    assert code == 0
    assert "\x1b" not in out and "<script>" in out
    assert max(map(cell_len, out.splitlines())) <= 80


LONG = pytest.mark.long


@pytest.mark.parametrize(
    "opset",
    [pytest.param(2**31, marks=LONG), 2**63 - 1, pytest.param(-1, marks=LONG), pytest.param(-(2**63), marks=LONG)],
)
def test_an_opset_that_is_none_is_no_internal_error(call, tmp_path, opset):
    import onnx

    model = onnx.load(DIGITS / "digits_cnn.onnx")
    model.opset_import[0].version = opset
    onnx.save(model, tmp_path / "m.onnx")
    code, out, err = call(tmp_path / "m.onnx")
    assert code == 0 and "Conv" in out and err == ""


@pytest.mark.parametrize("name", ["m.md", "m.csv", "m.json"])
def test_files(call, document, tmp_path, name):
    path = write_named(tmp_path / "m.onnx", HOSTILE)
    code, _, err = call(path, "-o", name)
    assert (code, err) == (0, f"wrote {name}\n")
    text = (tmp_path / name).read_text()
    assert "\x1b" not in text and "script" in text
    if name == "m.json":
        whole = document(path)
        assert json.loads(text) == whole | {"model": whole["model"] | {"path": path.name}}  # no folders of this machine
    assert call(path, "-o", name)[0] == 2
    assert (tmp_path / name).read_text() == text
    assert call(path, "-o", name, "--force")[0] == 0


@pytest.mark.parametrize("name", [FORMULA, "+1+1", "-2", "@SUM(A1)", "\t=1", "\r=1"])
def test_spreadsheets_get_no_formulas(call, tmp_path, name):
    call(write_named(tmp_path / "m.onnx", name), "-o", "m.csv")
    header, *rows = csv.reader(io.StringIO((tmp_path / "m.csv").read_text()))
    assert {"Layer", "MACs", "Kind", "Inputs"} <= set(header)
    assert all(len(row) == len(header) for row in rows)
    row = dict(zip(header, rows[0], strict=True))
    assert name.strip() in row["Layer"]
    assert not row["Layer"].startswith(("=", "+", "-", "@", "\t", "\r"))
    assert row["MACs"] == "8"


@pytest.mark.parametrize("name", ["m.docx", "m", "nowhere/m.md"])
def test_an_output_that_can_not_be_written_is_refused(call, tmp_path, name):
    code, out, err = call(write_tiny_onnx(tmp_path / "m.onnx"), "-o", name)
    assert (code, out) == (2, "") and "try: " in err


# -- shapes, hashes, weights


def test_shapes_of_open_inputs(document, tmp_path):
    path = write_tiny_onnx(tmp_path / "m.onnx", batch="height")
    assumed = document(path)
    # What it takes heights for is assumed, and said to be.
    assert assumed["totals"]["macs"] == 224 * 2 * 4
    (note,) = assumed["model"]["assumed"]
    assert note.startswith("x: ") and "224" in note
    given = document(path, "--shape", "x=5x4")
    assert given["totals"]["macs"] == 5 * 2 * 4
    assert given["model"]["assumed"] == []
    assert given["layers"][1]["outputs"][0]["shape"] == [5, 2]
    assert document(path, "--shape", "5x4") == given


def test_assumed_shapes_are_shown(call, tmp_path):
    path = write_tiny_onnx(tmp_path / "m.onnx", batch="height")
    assert "Assumed" in call(path)[1]
    assert "Assumed" not in call(path, "--shape", "x=2x4")[1]


@pytest.mark.parametrize("shape", ["x=5x5", "x=5x4x1", "z=5x4", "nonsense", "x=-1x4", "x=0x4"])
def test_shapes_that_do_not_fit(call, tmp_path, shape):
    code, out, err = call(write_tiny_onnx(tmp_path / "m.onnx", batch="n"), "--shape", shape)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and len(err.strip().splitlines()) <= 2


def test_the_hash_of_a_model_with_weights_beside_it(document, tmp_path):
    path = write_tiny_onnx(tmp_path / "m.onnx", external=True)
    model = document(path)["model"]
    assert model["sha256"] is None and "--hash" in model["sha256_absent_because"]
    hashed = document(path, "--hash")["model"]
    assert len(hashed["sha256"]) == 64
    assert hashed["size_bytes"] == model["size_bytes"] == path.stat().st_size + 32
    (tmp_path / "weights.bin").write_bytes(np.zeros(8, np.float32).tobytes())
    assert document(path, "--hash")["model"]["sha256"] != hashed["sha256"]


PROBE = """
import sys
from pathlib import Path
from edgewise.cli.main import run
def read():
    return int(next(line for line in Path("/proc/self/io").read_text().splitlines() if line.startswith("rchar")).split()[1])
assert run(["inspect", sys.argv[1], "--json"]) == 0
begin = read()
assert run(["inspect", sys.argv[2], "--json"]) == 0
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print("PROBE", read() - begin, int(peak.split()[1]) * 1024)
"""


def test_external_weights_of_a_gigabyte_are_not_read(tmp_path):
    """Counted by the kernel: bytes that the process asked for, and the most memory it ever had."""
    from onnx import TensorProto, helper, save

    side = 2**14
    weights = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[side, side], data_location=TensorProto.EXTERNAL)
    weights.external_data.add(key="location", value="w.bin")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "big",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, side])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, side])],
        [weights],
    )
    path = tmp_path / "big.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    with (tmp_path / "w.bin").open("wb") as file:
        file.truncate(4 * side * side)  # a sparse file: it takes no room on the disk
    warm = write_tiny_onnx(tmp_path / "warm.onnx")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, warm, path], capture_output=True, text=True, check=True, timeout=LIMIT_S
    )
    read, memory = map(int, done.stdout.rpartition("PROBE")[2].split())
    assert f'"macs": {side * side}' in done.stdout
    assert f'"weight_bytes": {4 * side * side}' in done.stdout
    assert read < 2**20
    assert memory < 400 * 2**20


# -- what is not known, or wrong


def test_an_unknown_operator_has_an_unknown_cost(document, call, tmp_path):
    path = write_named(tmp_path / "m.onnx", "whirl", op="Whirl", domain="com.example")
    found = document(path)
    assert (found["totals"]["macs"], found["totals"]["ops"]) == (None, None)
    assert found["totals"]["unknown"] == ["whirl"]
    layer = found["layers"][0]
    assert (layer["kind"], layer["macs"], layer["ops"]) == (None, None, None)
    assert layer["cost_unknown_because"]
    assert found["totals"]["macs_known"] == 0
    code, out, _ = call(path)
    assert code == 0
    assert "Not known" in out and "n/a" in out and "whirl" in out


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, says("no-such-file-in-identity")),
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"\x93random bytes\x00" * 100), "m.onnx"),
        (lambda path: path.write_bytes((DIGITS / "digits_cnn.onnx").read_bytes()[:5000]), "m.onnx"),
        (lambda path: path.write_bytes((DIGITS / "digits_cnn.tflite").read_bytes()[:5000]), "m.onnx"),
    ],
)
@pytest.mark.parametrize("words_after", [[], ["--json"]])
def test_bad_models_are_exit_code_2(call, tmp_path, make, words, words_after):
    path = tmp_path / "m.onnx"
    make(path)
    code, out, err = call(path, *words_after)
    assert (code, out) == (2, "")
    assert re.search(words, err) and err.startswith("error: ") and len(err.strip().splitlines()) <= 2


def test_a_missing_weight_file(call, tmp_path):
    path = write_tiny_onnx(tmp_path / "m.onnx", external=True)
    (tmp_path / "weights.bin").unlink()
    code, out, err = call(path)
    assert (code, out) == (2, "")
    assert "weights.bin" in err


# -- models that are built


FACTORY = """
    import onnx
    from onnx import TensorProto, helper

    def make(width: int = 2, name: str = "plain"):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Relu", ["p"], ["y"])]
        weights = helper.make_tensor("w", TensorProto.FLOAT, [4, width], [0.0] * 4 * width)
        value = helper.make_tensor_value_info
        graph = helper.make_graph(nodes, name, [value("x", TensorProto.FLOAT, [1, 4])],
                                  [value("y", TensorProto.FLOAT, [1, width])], [weights])
        print("the factory talks")
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def fail():
        raise ZeroDivisionError("as always")

    def nothing():
        return 7
"""


@pytest.fixture
def factory(tmp_path):
    """A file of functions that make models, in the folder one works in."""
    path = tmp_path / "networks.py"
    path.write_text(textwrap.dedent(FACTORY))
    return "networks.py"


def test_a_built_model(document, factory):
    found = document("--build", f"{factory}:make", "--what-if", "width=10")
    assert found["totals"]["macs"] == 4 * 10
    assert found["model"]["sha256"] is None and found["model"]["sha256_absent_because"]
    assert document(f"{factory}:make", "--what-if", "width=10") == found
    assert document(f"{factory}:make")["totals"]["macs"] == 4 * 2


def test_a_sweep_of_designs(call, document, factory):
    words = [f"{factory}:make", "--what-if", "width=1,2,3", "--what-if", "name=a,b"]
    found = document(*words)
    assert set(found) == {"schema", "inspections"}
    assert [each["totals"]["macs"] for each in found["inspections"]] == [4, 4, 8, 8, 12, 12]
    code, out, _ = call(*words)
    assert code == 0
    assert max(map(cell_len, out.splitlines())) <= 80
    table = [line.split() for line in out.splitlines()]
    assert next(line for line in table if "MACs" in line)[:3] == ["width", "name", "MACs"]
    assert [line[:3] for line in table if line[:1] == ["3"]] == [["3", "a", "12"], ["3", "b", "12"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], wording("give-model-files-factory-build")),
        (["m.onnx", "--build", "networks.py:make"], wording("give-model-files-factory-build")),
        (["m.onnx", "--what-if", "width=1"], "--what-if"),
        (["--build", "networks.py:make", "--what-if", "width"], "NAME=VALUE"),
        (["--build", "networks.py:make", "--what-if", "depth=1"], "depth"),
        (["--build", "networks.py:missing"], "networks.py:missing"),
        (["--build", "missing.py:make"], "missing.py"),
        (["--build", "no_such_module_at_all:make"], "no_such_module_at_all"),
        (["--build", "networks.py:fail"], "as always"),
        (["--build", "networks.py:nothing"], says("returned-which-not-supported-model")),
        (["--build", "networks.py:make", "--what-if", "width=1,2", "-o", "m.md"], wording("o-takes-one-model-what")),
        (["--build", "networks.py:make", "--what-if", "width=" + ",".join(["1"] * 1001)], "1001"),
        (["--nonsense"], "--nonsense"),
        (["m.onnx", "more.onnx"], "more.onnx"),
    ],
)
def test_bad_settings_are_one_line_with_advice(call, factory, tmp_path, words, said):
    write_tiny_onnx(tmp_path / "m.onnx")
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert is_in(said, err)
    assert err.splitlines()[-2 if "try: " in err else -1].startswith("error: "), err


# -- sparsity


def write_sparse(path):
    """``y = relu(x @ w)`` whose weight has 8 × 8 elements, 2 of every 4 along the input dimension zero."""
    import onnx

    model = onnx.load(write_tiny_onnx(path))
    (tensor,) = model.graph.initializer
    for info in (*model.graph.input, *model.graph.output):
        info.type.tensor_type.shape.dim[1].dim_value = 8
    array = np.arange(1, 65, dtype=np.float32).reshape(8, 8)
    array[0::4] = array[1::4] = 0
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, path)
    return path


def test_sparsity_in_the_document_and_in_files(document, call, tmp_path):
    path = write_sparse(tmp_path / "m.onnx")
    assert "sparsity" not in document(path)
    found = document(path, "--sparsity")["sparsity"]
    assert found["totals"]["zeros"] == 32
    (layer,) = found["layers"]
    assert (layer["at_most"], layer["patterns"]) == ({"4": 2, "8": 4}, ["2:4", "4 of 8 channels"])
    assert set(found) == {"totals", "layers"}
    code, out, _ = call(path, "--sparsity", "-o", "m.md", "-o", "m.csv")
    assert code == 0
    assert "32 of 64 weights are zero (50.0 %)" in out
    assert max(map(cell_len, out.splitlines())) <= 80
    assert "2:4, 4 of 8 channels" in Path("m.md").read_text()
    product, relu = csv.DictReader(io.StringIO(Path("m.csv").read_text()))
    assert (product["Zeros"], product["Patterns of zeros"]) == ("32", "2:4, 4 of 8 channels")
    assert (relu["Zeros"], relu["Patterns of zeros"]) == ("", "")


def test_sparsity_needs_a_file(call):
    code, _, err = call("--build", "net:make", "--sparsity")
    assert code == 2
    assert re.search(says("sparsity-needs-model-file-not", named_sparsity=has("--sparsity")), err)
