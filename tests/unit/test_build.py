"""Functions that make networks: found, called, explained where they fail. PyTorch and Keras: see tests/engine."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgewise.converting.conversion import export_runnable
from edgewise.errors import BadInput, BadModel
from edgewise.model.build import build_graph, give_shapes, is_factory
from edgewise.model.cost import total_of
from messages import says, wording
from tiny_models import write_tiny_onnx

FACTORY = """
import pathlib
import sys

import onnx
from onnx import TensorProto, helper

HERE = pathlib.Path(__file__).parent


def make(width=2, *, batch="n"):
    print("chatter")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 4])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, width])
    w = helper.make_tensor("w", TensorProto.FLOAT, [4, width], [1.0] * 4 * width)
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y], [w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def as_bytes(width=2):
    return make(width).SerializeToString()


def as_path():
    return HERE / "kept.onnx"


def as_text():
    return str(HERE / "kept.onnx")


def lost():
    return HERE / "gone.onnx"


def rubbish():
    return b"rubbish"


def anything(**options):
    return make(**options)


def needs(classes):
    return make(classes)


def fails():
    raise ValueError("no such width" + chr(10) + "second line")


def deep():
    return fails()


def leaves():
    sys.exit(3)


def nothing():
    return None


def number(x):
    return 3


class Maker:
    @staticmethod
    def build(width=3):
        return make(width)


ready = make(1)
CONSTANT = 7
"""


LINE = FACTORY[: FACTORY.index("raise ValueError")].count("\n") + 1


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "nets_for_tests.py").write_text(FACTORY)
    write_tiny_onnx(tmp_path / "kept.onnx")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("nets_for_tests", None)


def macs(target: str, **options: Any) -> int | None:
    return total_of(build_graph(target, **options).graph).macs


@pytest.mark.parametrize("target", ["nets_for_tests:make", "nets_for_tests.py:make", "{}/nets_for_tests.py:make"])
def test_a_function_is_found_by_module_and_by_file(folder: Path, target: str):
    built = build_graph(target.format(folder), shapes={"x": (3, 4)})
    assert total_of(built.graph).macs == 3 * 2 * 4
    assert built.thing == "an ONNX model"
    assert built.path is None
    assert str(folder) not in sys.path


@pytest.mark.parametrize(
    ("name", "what_if", "expected"),
    [
        ("make", {"width": 5}, 20),
        ("make", {"width": 5, "batch": 2}, 40),
        ("as_bytes", {"width": 3}, 12),
        ("anything", {"width": 6}, 24),
        ("needs", {"classes": 7}, 28),
        ("Maker.build", {}, 12),
        ("as_path", {}, 8),
        ("as_text", {}, 8),
        ("ready", {}, 4),
    ],
)
def test_parameters_reach_the_function(folder: Path, name: str, what_if: dict[str, Any], expected: int):
    shapes = {} if "batch" in what_if else {"x": (1, 4)}
    assert macs(f"nets_for_tests:{name}", what_if=what_if, shapes=shapes) == expected


def test_a_shape_without_a_name_is_the_only_inputs(folder: Path):
    assert macs("nets_for_tests:make", shapes={"": (2, 4)}) == 16
    built = build_graph("nets_for_tests:make")
    assert total_of(built.graph).macs is None
    assert total_of(give_shapes(built, {"x": (5, 4)}).graph).macs == 40


def test_what_the_function_prints_stays_off_stdout(folder: Path, capsys: pytest.CaptureFixture[str]):
    build_graph("nets_for_tests:make")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "chatter" in captured.err


@pytest.mark.parametrize(
    ("target", "what_if", "words", "advice"),
    [
        ("nets_for_tests:make", {"wdith": 1}, says("no-parameter", name="wdith"), "it takes width, batch"),
        ("nets_for_tests:needs", {}, says("needs-value", name="classes"), "--what-if classes=VALUE"),
        ("nets_for_tests:mkae", {}, says("does-not-exist-in-callable-loader"), "make"),
        ("nets_for_tests:CONSTANT", {}, says("cant-called", found="an int"), "module:function"),
        ("nets_for_tests:ready", {"width": 2}, says("model-not-function-so-no"), "module:function"),
        (
            "nets_for_tests:number",
            {"x": 1},
            says("returned-which-not-supported-model", made="an int"),
            "torch.nn.Module",
        ),
        (
            "nets_for_tests:nothing",
            {},
            says("returned-which-not-supported-model", made="a NoneType"),
            "torch.nn.Module",
        ),
        (
            "nets_for_tests:fails",
            {},
            r"failed: ValueError: no such width\n",
            f"nets_for_tests.py, line {LINE}: raise ValueError",
        ),
        ("nets_for_tests:deep", {}, says("target-failed-name-message", name="ValueError"), f"line {LINE}"),
        ("nets_for_tests:leaves", {}, says("target-failed-name-message", name="SystemExit", message=3), "sys.exit"),
        ("nets_for_tests:lost", {}, says("returned-path-where-there-no"), wording("return-path-model-file")),
        ("no_such_module_here:make", {}, says("there-no-module", name="no_such_module_here"), "module:function"),
        ("gone.py:make", {}, says("no-such-file-in-callable-loader"), "module:function"),
        ("nonsense", {}, says("does-not-name-function"), "module:function"),
    ],
)
def test_mistakes_are_explained(folder: Path, target: str, what_if: dict[str, Any], words: str, advice: str):
    with pytest.raises(BadInput, match=words) as caught:
        build_graph(target, what_if=what_if)
    assert advice in caught.value.advice
    assert "\n" not in caught.value.message


def test_a_file_that_is_no_python_is_explained(folder: Path):
    (folder / "broken.py").write_text("def make(:\n    pass\n")
    with pytest.raises(BadInput, match="SyntaxError") as caught:
        build_graph("broken.py:make")
    assert "broken.py, line 1" in caught.value.advice
    (folder / "broken.py").write_text("import no_such_library_here\n")
    with pytest.raises(BadInput, match=says("needs-module-which-not-installed", name_2="no_such_library_here")):
        build_graph("broken.py:make")
    (folder / "broken.py").write_text("def make():\n    return 1 / 0\n")
    with pytest.raises(BadInput, match="ZeroDivisionError"):
        build_graph("broken.py:make")


def test_bytes_that_are_no_model_are_refused(folder: Path):
    with pytest.raises(BadModel, match=says("unknown-format")):
        build_graph("nets_for_tests:rubbish")


def test_two_files_of_one_name_are_two_modules(folder: Path):
    other = folder / "other"
    other.mkdir()
    (other / "nets_for_tests.py").write_text(FACTORY.replace("width=2", "width=9"))
    assert macs("nets_for_tests.py:make", shapes={"": (1, 4)}) == 8
    assert macs("other/nets_for_tests.py:make", shapes={"": (1, 4)}) == 36


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("package.module:make", True),
        ("module:Class.method", True),
        ("path/to/file.py:make", True),
        ("model.onnx", False),
        ("module:", False),
        (":make", False),
        ("https://example.com/m.onnx", False),
        ("a b:make", False),
    ],
)
def test_functions_are_told_from_files(text: str, expected: bool):
    assert is_factory(text) is expected


def test_a_file_of_that_name_is_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "module:make").write_text("a model")
    assert not is_factory("module:make")


@pytest.mark.parametrize(
    ("name", "file"), [("make", "model.onnx"), ("as_bytes", "model.onnx"), ("as_path", "kept.onnx")]
)
def test_what_was_built_is_written_for_runtimes(folder: Path, tmp_path: Path, name: str, file: str):
    import onnx

    built = build_graph(f"nets_for_tests:{name}")
    path = export_runnable(built, tmp_path)
    assert path.name == file
    onnx.checker.check_model(onnx.load(path))


def test_the_source_of_a_built_network(folder: Path):
    source = build_graph("nets_for_tests:make", what_if={"width": 3}).source
    assert source == {
        "name": "nets_for_tests:make", "path": None, "format": "onnx", "size_bytes": None, "sha256": None,
        "sha256_absent_because": "built by a function, with the weights that it set",
        "built": {"thing": "an ONNX model", "parameters": {"width": 3}},
    }  # fmt: skip
    kept = build_graph("nets_for_tests:as_path").source
    assert kept["path"] == str(folder / "kept.onnx")
    assert kept["size_bytes"] == (folder / "kept.onnx").stat().st_size


def test_each_folder_has_its_own_modules(tmp_path, monkeypatch):
    """Two versions of a project, side by side: each imports its own blocks.py and its own package."""
    from edgewise.model.callable_loader import call, find, import_module, own_code

    monkeypatch.chdir(tmp_path)
    for name in ("old", "new"):
        (tmp_path / name / "parts").mkdir(parents=True)
        (tmp_path / name / "blocks.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "parts" / "__init__.py").write_text("")
        (tmp_path / name / "parts" / "head.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "net.py").write_text(
            "from blocks import NAME\n\ndef make():\n    from parts.head import NAME as head\n    return NAME, head\n"
        )
    for name in ("old", "new", "old", "new"):
        target = f"{name}/net.py"
        with own_code(target):
            module = import_module(target, target)
            assert call(find(module, "make", target), {}, target) == (name, name)
            assert name == sys.modules["blocks"].NAME and sys.modules["net"] is module


def test_a_folders_own_modules_go_before_those_that_the_callers_code_imported(tmp_path, monkeypatch):
    """A notebook's `blocks` is not that of the model's folder, and is the notebook's again afterwards."""
    from edgewise.model.callable_loader import import_module, own_code

    for name in ("notebook", "model"):
        (tmp_path / name / "nb_parts").mkdir(parents=True)
        (tmp_path / name / "nb_parts" / "__init__.py").write_text("")
        (tmp_path / name / "nb_blocks.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "nb_parts" / "head.py").write_text(f"NAME = {name!r}\n")
        (tmp_path / name / "nb_net.py").write_text(
            f"import nb_blocks, nb_parts.head\nNAMES = nb_blocks.NAME, {name!r}\n"
        )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "notebook")
    names = ("nb_blocks", "nb_parts", "nb_parts.head", "nb_net")
    own = {name: importlib.import_module(name) for name in names}
    try:
        for _ in range(2):
            with own_code("model/nb_net.py"):
                module = import_module("model/nb_net.py", "model/nb_net.py:NAMES")
                assert module.NAMES == ("model", "model")
                assert sys.modules["nb_parts.head"].NAME == "model"
            assert {name: sys.modules[name] for name in names} == own
    finally:
        for name in names:
            sys.modules.pop(name, None)


@pytest.mark.parametrize("package", [True, False])
def test_a_module_has_one_name_as_a_module_and_as_a_file(tmp_path, package):
    """Exporters write the names of classes into layers: one network, one file."""
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "blocks.py").write_text("class Block: pass\n")
    (tmp_path / "pkg" / "net.py").write_text(
        "class Net: pass\ndef block():\n    from .blocks import Block\n    return Block\n"
    )
    if package:
        (tmp_path / "pkg" / "__init__.py").write_text("")
    program = (
        "import sys\nfrom edgewise.model.callable_loader import import_module, own_code\nname = sys.argv[1]\n"
        "with own_code(name):\n    module = import_module(name, name)\n    told = [module.Net.__module__]\n"
        "    if sys.argv[2:]:\n        told += [module.block().__module__]\n        from pkg import net\n"
        "        assert net is module\nprint(*told)\n"
    )

    def tell(folder: Path, *arguments: str) -> list[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.split()

    name = "pkg.net" if package else "net"
    assert tell(tmp_path, "pkg.net", "relative") == [name, "pkg.blocks"]
    assert tell(tmp_path, "pkg/net.py", *["relative"] * package) == [name, "pkg.blocks"][: 1 + package]
    assert tell(tmp_path / "pkg", "net.py") == [name]
