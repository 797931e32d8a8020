"""What goes over to a target: everything that the worker imports, and nothing that a target need not have."""

import ast
import io
import subprocess
import sys
import zipfile
from pathlib import Path

import edgewise
from edgewise.device.bundle import make_bundle

ENGINES = {
    "onnxruntime", "onnxruntime_genai", "openvino", "openvino_genai", "ai_edge_litert", "torch", "executorch",
    "cloudpickle", "tensorflow", "keras", "jax", "google",
}  # fmt: skip


def names():
    return set(zipfile.ZipFile(io.BytesIO(make_bundle())).namelist())


def test_the_same_sources_give_the_same_bytes():
    first = make_bundle()
    make_bundle.cache_clear()
    assert make_bundle() == first


def test_it_has_the_worker_and_the_engine_adapters_and_stays_small():
    assert {"__main__.py", "edgewise/__init__.py", "edgewise/run/worker.py", "edgewise/runtime/litert.py"} <= names()
    assert not {name for name in names() if name.startswith(("edgewise/report", "edgewise/store", "edgewise/cli"))}
    assert len(make_bundle()) < 260_000  # it is sent once to each device and version


def without_docstrings(source: bytes) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            node.value.value = ""
    return ast.dump(tree)


def test_its_code_is_ours_line_by_line_without_docstrings_and_comments():
    archive = zipfile.ZipFile(io.BytesIO(make_bundle()))
    root = Path(edgewise.__file__).parents[1]
    sizes = [0, 0]
    for name in sorted(names() - {"__main__.py"}):
        ours, sent = (root / name).read_bytes(), archive.read(name)
        assert without_docstrings(sent) == without_docstrings(ours), name
        assert sent.count(b"\n") == ours.count(b"\n"), name
        sizes = [sizes[0] + len(ours), sizes[1] + len(sent)]
    assert sizes[1] < 0.75 * sizes[0]


def test_it_can_be_imported_where_nothing_is_installed(tmp_path):
    (tmp_path / "bundle.zip").write_bytes(make_bundle())
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import edgewise, edgewise.child_process; print(edgewise.__file__)"
    )
    words = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "bundle.zip")]
    assert "bundle.zip" in subprocess.run(words, capture_output=True, text=True, check=True).stdout


def test_it_needs_only_the_standard_library_numpy_and_an_engine(tmp_path):
    import ast

    with zipfile.ZipFile(io.BytesIO(make_bundle())) as archive:
        for name in archive.namelist():
            if name == "edgewise/__init__.py":  # what it offers is imported when it is asked for
                continue
            for node in ast.walk(ast.parse(archive.read(name))):
                words = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                words += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                found = {word.partition(".")[0] for word in words} - {"edgewise", "numpy"} - ENGINES
                # Where there is no /proc, psutil is asked if it is there.
                allowed = {"psutil"} if name == "edgewise/run/environment.py" else set()
                # Functions of ONNX files are inlined if the package is there.
                allowed |= {"onnx"} if name == "edgewise/runtime/onnx_functions.py" else set()
                assert found <= sys.stdlib_module_names | allowed, name
