"""Tables: which column is what, labels, and names of files that lead elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, open_data
from edgewise.evaluating.formats.csv import Csv
from messages import has, says


def table(tmp_path: Path, text: str, name: str = "data.csv") -> Path:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    return file


def open_one(file: Path, **options: str):
    (split,) = Csv().open(file, options).values()
    return split


def samples(data) -> list[tuple[object, object]]:
    read = [data.read(index) for index in range(len(data))]
    return [(each.data if isinstance(each.data, str) else each.data.tolist(), each.label) for each in read]


def test_columns_of_numbers(tmp_path: Path):
    data = open_one(table(tmp_path, "a,b,y\n1,2.5,0\n\n-3e2, 4,1\n"))
    assert (data.kind, data.format, data.split, data.labelled) == ("array", "csv", "all", True)
    assert samples(data) == [([1, 2.5], 0), ([-300, 4], 1)]
    assert data.read(1).name == "data.csv, line 4"
    assert data.read(0).data.dtype == np.float64
    assert samples(open_one(table(tmp_path, "a,b,c,y\n1,x,3,0\n"), columns="c,a")) == [([3, 1], 0)]


def test_texts_and_names_of_classes(tmp_path: Path):
    data = open_one(table(tmp_path, 'text,label\n"good, really",pos\n"bad\nbad",neg\nfine,pos\n'))
    assert (data.kind, list(data.classes)) == ("text", ["neg", "pos"])
    assert samples(data) == [("good, really", 1), ("bad\nbad", 0), ("fine", 1)]
    assert open_one(table(tmp_path, "text,label\na,x\nb,y\n"), classes="y,x").read(0).label == 1


@pytest.mark.parametrize(
    ("column", "words", "options", "labels"),
    [
        ("label", ["1", "0"], {}, [1, 0]),
        ("label", ["1", "0.5"], {}, [1.0, 0.5]),
        ("label", ["1", "0"], {"label_kind": "float"}, [1.0, 0.0]),
        ("label", ["-1", "0"], {"label_kind": "float"}, [-1.0, 0.0]),
        ("label", ["1", "cat"], {}, [0, 1]),
        ("label", ["0.5", "cat"], {}, [0, 1]),
        ("target", ["1_0", "2"], {}, [0, 1]),
        ("reference", ["eins", "zwei"], {}, ["eins", "zwei"]),
        ("label", ["eins | one", "zwei"], {"label_kind": "text", "separator": "|"}, [("eins", "one"), ("zwei",)]),
        ("references", ["eins|one", "zwei"], {"separator": "|"}, [("eins", "one"), ("zwei",)]),
        ("label", ["", " "], {}, [None, None]),
    ],
)
def test_labels(tmp_path: Path, column, words, options, labels):
    rows = "\n".join(f"t,{word}" for word in words)
    found = [label for _, label in samples(open_one(table(tmp_path, f"text,{column}\n{rows}\n"), **options))]
    assert found == labels
    assert [type(each) for each in found] == [type(each) for each in labels]


def test_splits_by_a_column(tmp_path: Path):
    file = table(tmp_path, "text,label,split\na,x,train\nb,y,valid\nc,x,train\nd,z,\n")
    splits = Csv().open(file, {})
    assert {name: samples(split) for name, split in splits.items()} == {
        "train": [("a", 0), ("c", 0)], "validation": [("b", 1)], "all": [("d", 2)],
    }  # fmt: skip
    assert all(list(split.classes) == ["x", "y", "z"] for split in splits.values())
    assert splits["train"].read(1).name == "data.csv, line 4"
    assert splits["train"].stamp() != splits["all"].stamp()


@pytest.mark.parametrize(
    ("text", "name", "options"),
    [
        ("a\tb\n1\t2\n", "data.tsv", {}),
        ("a;b\n1;2\n", "data.csv", {}),
        ("a\tb\n1\t2\n", "data.csv", {}),
        ("a|b\n1|2\n", "data.csv", {"delimiter": "pipe"}),
        ("1,2\n", "data.csv", {"header": "no"}),
        ("\ufeffa,b\r\n1,2\r\n", "data.csv", {}),
    ],
)
def test_delimiters_and_headers(tmp_path: Path, text, name, options):
    assert samples(open_one(table(tmp_path, text, name), **options)) == [([1, 2], None)]


def test_files_of_arrays(tmp_path: Path):
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "sub" / "a.npy", np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "b.npy", np.array([object()]), allow_pickle=True)
    np.save(tmp_path / "c.npy", np.arange(100))
    (tmp_path / "c.npy").write_bytes((tmp_path / "c.npy").read_bytes()[:200])
    data = open_one(table(tmp_path, "path,label\nsub/a.npy,1\nb.npy,0\nc.npy,0\ngone.npy,0\n"))
    assert (data.kind, data.read(0).name) == ("array", "sub/a.npy")
    assert data.read(0).data.tolist() == [[0, 1, 2], [3, 4, 5]]
    for index, reason in enumerate(
        [says("python-objects-which-never-unpickled"), says("truncated-bytes-there"), says("no-such-file")], start=1
    ):
        with pytest.raises(CorruptSample, match=reason):
            data.read(index)
    before = data.stamp()
    os.utime(tmp_path / "sub" / "a.npy", (1, 1))
    assert data.stamp() != before


def test_files_of_images_and_sounds(tmp_path: Path):
    image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    sound = pytest.importorskip("soundfile", reason="recordings need soundfile")
    image.new("L", (3, 2), 9).save(tmp_path / "a.png")
    sound.write(tmp_path / "a.wav", np.zeros((10, 2)), 8000)
    pictures = open_one(table(tmp_path, "image,class\na.png,cat\n"))
    assert (pictures.kind, pictures.read(0).data.shape, list(pictures.classes)) == ("image", (2, 3, 1), ["cat"])
    sounds = open_one(table(tmp_path, "file\na.wav\n"))
    assert (sounds.kind, sounds.read(0).data.shape, sounds.read(0).rate, sounds.labelled) == (
        "audio",
        (10, 2),
        8000,
        False,
    )
    with pytest.raises(
        BadInput,
        match=says(
            "names-file-kind-one-kind", first=has("line 2"), one="image", second="data.csv, line 3", other="audio"
        ),
    ):
        open_one(table(tmp_path, "file\na.png\na.wav\n"))


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd.npy", "../secret.npy", "a/../../secret.npy", "..\\secret.npy", "C:/secret.npy", "~/x.npy", " "],
)
def test_names_that_lead_out_are_refused(tmp_path: Path, name: str):
    np.save(tmp_path / "secret.npy", np.zeros(1))
    (tmp_path / "data").mkdir()
    with pytest.raises(BadInput, match="line 2 names") as caught:
        open_one(table(tmp_path / "data", f'path,label\n"{name}",1\n'))
    assert "root=" in caught.value.advice


def test_links_that_lead_out_are_refused(tmp_path: Path):
    np.save(tmp_path / "secret.npy", np.zeros(1))
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.npy").symlink_to(tmp_path / "secret.npy")
    (tmp_path / "data" / "b.npy").symlink_to(tmp_path / "data" / "b.npy")
    file = table(tmp_path / "data", "path\na.npy\nb.npy\n")
    with pytest.raises(CorruptSample, match=says("link-leads-out-data-folder")):
        open_one(file).read(0)
    with pytest.raises(CorruptSample, match=r"b.npy"):
        open_one(file).read(1)
    # In the folder that the user names everything is inside.
    file = table(tmp_path / "data", "path\nsecret.npy\n")
    assert open_one(file, root=str(tmp_path)).read(0).data.tolist() == [0]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", {}, says("name-empty-in-tables")),
        ("a,b\n", {}, says("no-rows-below-names-columns")),
        ("1,2\n3,4\n", {}, says("first-row-numbers-not-names", name="data.csv")),
        ("a,b\n1,2,3\n", {}, says("line-columns-first-row", line_num=2, row_count=3, width=2)),
        ("a,b\n1,x\n", {}, says("line-column-not-number", line=2, row="x", names="b")),
        ("a,a\n1,2\n", {}, says("two-columns", twice="a")),
        ("text,path\na,b.png\n", {}, says("files-texts", names="path", names_2="text")),
        ("y\n1\n", {}, says("no-column-samples")),
        ("text,label\na,1\nb,\n", {}, says("no-label", place=has("line 3"))),
        ("text,label\na,1\nb,-1\n", {}, says("label-class-0-more-in-labels", place=has("line 3"), values=-1)),
        ("text,label\na,1\nb,nan\n", {}, says("label-which-not-number", place=has("line 3"), strip="nan")),
        ("text,label\na,x\n", {"label_kind": "float"}, says("label-which-not-number", place=has("line 2"), strip="x")),
        (
            "text,label\na,x\n",
            {"classes": "u,v"},
            says("label-which-not-class-in-labels-2", place=has("line 2"), strip="x"),
        ),
        ("text,label\na,x\n", {"separator": "|"}, says("separator-between-texts")),
        ("text,label\na,x\n", {"label": "z"}, says("no-column-in-tables", wanted="z")),
        (
            "text,label\na,x\n",
            {"text": "text", "path": "text"},
            says("samples-cant-both", sources="path", sources_2="text"),
        ),
        ("text,label\na,x\n", {"delimiter": "::"}, says("delimiter-not-single-character")),
        ("text,label\na,x\n", {"labels": "label"}, says("data-format-no-option", name="labels")),
        ("path,label\na.exe,x\n", {}, says("names-which-no-kind-can", place=has("line 2"), name="a.exe")),
        ("path,label\ngone.png,x\n", {}, says("none-first-files-such", names_count=1, names="gone.png")),
        ('text,label\n"a,x\n', {}, says("not-table")),
        ("text,label\n" + "a" * 200_000 + ",x\n", {}, says("not-table")),
    ],
)
def test_what_is_refused(tmp_path: Path, text, options, message):
    with pytest.raises(BadInput, match=message) as caught:
        Csv().open(table(tmp_path, text), options)
    assert caught.value.advice
    assert "\n" not in caught.value.message


def test_what_is_no_text_is_refused(tmp_path: Path):
    (tmp_path / "data.csv").write_bytes(b"text,label\n\xff\xfe,1\n")
    with pytest.raises(BadInput, match=says("not-text-utf-8-in-tables")):
        open_data(str(tmp_path / "data.csv"))
    (tmp_path / "data.csv").write_bytes(b"a,b\n\x00\x001,2\n")
    with pytest.raises(BadInput):
        open_data(str(tmp_path / "data.csv"))
    with pytest.raises(BadInput, match=says("not-file-in-csv")):
        Csv().open(tmp_path / "none.csv", {})
