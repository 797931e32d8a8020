"""Functions that give data: everything they may return, and what goes wrong in them."""

from __future__ import annotations

import textwrap
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, open_data
from edgewise.evaluating.formats.loader import Loader
from messages import has, says


def write(tmp_path: Path, body: str, name: str = "load.py") -> str:
    file = tmp_path / name
    file.write_text("import numpy as np\n" + textwrap.dedent(body))
    return f"{file}:data"


def open_one(target: str, **options: str):
    (split,) = open_data(target, options=options).values()
    return split


def test_x_and_y(tmp_path: Path):
    data = open_one(write(tmp_path, "def data():\n    return np.arange(6.0).reshape(3, 2), np.array([2, 0, 1])"))
    assert (data.format, data.split, data.kind, data.labelled, len(data)) == ("loader", "all", "array", True, 3)
    sample = data.read(2)
    assert (sample.data.tolist(), sample.label) == ([4, 5], 1)
    assert sample.name.endswith("load.py:data[2]")


@pytest.mark.parametrize(
    ("given", "kind", "datum", "label"),
    [
        ("np.ones((2, 3))", "array", [1, 1, 1], None),
        ("(np.zeros((2, 1, 1, 3), np.uint8), ['dog', 'cat'])", "image", [[[0, 0, 0]]], 1),
        ("(['a', 'b'], [0.5, 1.5])", "text", "a", 0.5),
        ("([[1, 2], [3, 4]], [7, 8])", "array", [1, 2], 7),
        ("[(np.ones(2), 3), (np.ones(2), 4)]", "array", [1, 1], 3),
        ("[('hello', 'hallo')]", "text", "hello", "hallo"),
        ("[('hello', ('a', 'b'))]", "text", "hello", ("a", "b")),
        ("[({'p': np.ones(1), 'q': np.zeros(1)}, 1)]", "array", {"p": [1], "q": [0]}, 1),
        ("[np.ones(2), np.ones(2)]", "array", [1, 1], None),
        ("[(np.ones(2), np.float32(0.5))]", "array", [1, 1], 0.5),
        ("(np.zeros((1, 2)), np.eye(4)[[3]])", "array", [0, 0], 3),
    ],
)
def test_everything_that_may_be_given(tmp_path: Path, given, kind, datum, label):
    data = open_one(write(tmp_path, f"def data():\n    return {given}"))
    sample = data.read(0)
    found = sample.data
    if isinstance(found, dict):
        found = {name: array.tolist() for name, array in found.items()}
    elif not isinstance(found, str):
        found = found.tolist()
    assert (data.kind, found, sample.label) == (kind, datum, label)
    assert data.labelled is (label is not None)


def test_splits_and_arguments(tmp_path: Path):
    target = write(
        tmp_path,
        "def data(size='2'):\n    return {'train': np.zeros((int(size), 1)), 'test': (np.ones((1, 1)), [1])}",
    )
    assert {name: len(split) for name, split in open_data(target).items()} == {"train": 2, "test": 1}
    assert len(open_data(target, options={"size": "5"})["train"]) == 5
    with pytest.raises(BadInput, match=says("no-parameter", name="sise")):
        open_data(target, options={"sise": "5"})


def test_a_needed_argument_is_asked_for_by_its_own_flag(tmp_path: Path):
    with pytest.raises(BadInput, match=says("needs-value", name="size")) as caught:
        open_data(write(tmp_path, "def data(size):\n    return np.zeros((int(size), 1))"))
    assert "--data-option size=VALUE" in caught.value.advice


def test_a_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path, "def data():\n    return np.zeros((2, 1))", "loader_of_this_test.py")
    monkeypatch.chdir(tmp_path)
    assert len(open_one("loader_of_this_test:data")) == 2
    with pytest.raises(BadInput, match=says("there-no-module", name="nowhere_at_all")):
        open_data("nowhere_at_all:data")
    with pytest.raises(BadInput, match=says("does-not-exist-in-callable-loader", target=has("other"))):
        open_data("loader_of_this_test:other")


OWN = """
    from edgewise.evaluating.dataset import CorruptSample, Sample

    class Own:
        name, path, format, split, kind, classes, labelled = "own", None, "mine", "all", "array", ("u", "v"), True

        def __len__(self):
            return 4

        def read(self, index):
            if index == 1:
                raise CorruptSample("one", "bad luck")
            if index == 2:
                raise ZeroDivisionError("oops")
            if index == 3:
                return 3
            return Sample(index=index, name="zero", data=np.zeros(2), label=1)

        def stamp(self):
            return "s"

    def data():
        return Own()
"""


def test_a_data_set_of_the_users_own(tmp_path: Path):
    target = write(tmp_path, OWN)
    data = open_one(target)
    assert (data.name, data.format, data.classes, data.labelled, data.kind) == (
        "own",
        "mine",
        ("u", "v"),
        True,
        "array",
    )
    assert data.read(0).label == 1
    with pytest.raises(CorruptSample, match="one: bad luck"):
        data.read(1)
    with pytest.raises(
        BadInput, match=says("target-failed-name-message", name="ZeroDivisionError", message="oops")
    ) as caught:
        data.read(2)
    assert "load.py, line 15" in caught.value.advice
    with pytest.raises(BadInput, match=says("read-gave-no-sample", index=3, name="int")):
        data.read(3)
    write(tmp_path / "..", OWN.replace("def stamp", "def stump"), f"{tmp_path.name}.py")
    with pytest.raises(BadInput, match=says("data-set-no", missing="stamp")):
        open_data(f"{tmp_path}.py:data")
    (tmp_path.parent / f"{tmp_path.name}.py").unlink()


def test_pictures_of_pillow(tmp_path: Path):
    pytest.importorskip("PIL.Image", reason="images need Pillow")
    target = write(
        tmp_path,
        "from PIL import Image\ndef data():\n    return [(Image.new('RGBA', (3, 2)), 0), (Image.new('L', (3, 2)), 1)]",
    )
    data = open_one(target)
    assert (data.kind, data.read(0).data.shape, data.read(1).data.shape) == ("image", (2, 3, 3), (2, 3, 1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("def data():\n    return 3", says("gave-which-not-data", name="int")),
        ("def data():\n    return 'text'", says("gave-which-not-data", name="str")),
        ("def data():\n    return None", says("gave-which-not-data", name="NoneType")),
        ("def data():\n    return {}", says("gave-mapping-without-names-splits")),
        ("def data():\n    return {'x': np.ones(2), 'y': np.ones(2)}", says("gave-mapping-x-which-not")),
        ("def data():\n    return []", says("gave-no-samples", common="all")),
        (
            "def data():\n    return np.ones(3), np.ones(4)",
            says("gave-samples-labels-shape", items_count=3, shape="[4]"),
        ),
        (
            "def data():\n    return np.ones(2), np.array([0, -1])",
            says("label-class-0-more-in-labels", place=has("[1]"), values=-1),
        ),
        (
            "def data():\n    return np.ones(2), np.array([0, np.nan])",
            says("label-not-finite-in-labels", place=has("[1]")),
        ),
        ("def data():\n    return [[1], [1, 2]], [0, 1]", says("target-failed-name-message", name="ValueError")),
        ("def data():\n    return np.array([object()])", says("gave-x", dtype="object")),
        (
            "def data():\n    raise KeyError('lost')",
            says("target-failed-name-message", name="KeyError", message="'lost'"),
        ),
        ("def data():\n    raise SystemExit(3)", says("target-failed-name-message", name="SystemExit", message=3)),
        (
            "def data():\n    import not_installed_at_all",
            says("needs-module-which-not-installed-in-callable-loader", name="not_installed_at_all"),
        ),
        ("data = 3", says("cant-called", found="an int")),
        ("def data(:", says("target-failed-name-message", name="SyntaxError")),
        ("def other():\n    pass", says("does-not-exist-in-callable-loader")),
    ],
)
def test_what_goes_wrong_is_one_error(tmp_path: Path, body: str, message: str):
    with pytest.raises(BadInput, match=message) as caught:
        open_data(write(tmp_path, body))
    assert caught.value.advice
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        ("(np.array([None]), 0)", says("not-array-numbers-in-loader")),
        ("(np.ones(2), -1)", says("label-holds-class-class-0", min=-1)),
        ("(np.ones(2), float('nan'))", says("label-holds-values-not-finite")),
        ("(np.ones(2), object())", "its label is object"),
    ],
)
def test_one_item_that_is_wrong_is_named(tmp_path: Path, item: str, reason: str):
    data = open_one(write(tmp_path, f"def data():\n    return [(np.ones(2), 0), {item}]"))
    assert data.read(0).label == 0
    with pytest.raises(CorruptSample, match=reason):
        data.read(1)


def test_what_the_function_prints_is_no_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    open_one(write(tmp_path, "def data():\n    print('hello')\n    return np.ones(2)"))
    assert capsys.readouterr() == ("", "hello\n")


def test_the_stamp_follows_the_file_the_options_and_the_arrays(tmp_path: Path):
    target = write(tmp_path, "def data(fill='1'):\n    return np.full(2, float(fill)), [0, 1]")
    stamps = [open_one(target).stamp(), open_one(target).stamp(), open_one(target, fill="2").stamp()]
    write(tmp_path, "def data(fill='1'):\n    return np.full(2, float(fill)), [0, 1] # changed")
    stamps.append(open_one(target).stamp())
    assert stamps[0] == stamps[1]
    assert len(set(stamps)) == 3


def test_no_function(tmp_path: Path):
    with pytest.raises(BadInput, match=says("names-no-function")):
        Loader().open(Path("nothing"), {})
    with pytest.raises(BadInput, match=says("no-data-found")):
        open_data(str(tmp_path / "nothing"))
    assert np.array_equal(open_one(write(tmp_path, "def data():\n    return np.ones(2)")).read(0).data, 1.0)
