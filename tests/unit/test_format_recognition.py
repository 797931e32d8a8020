"""Every kind of data is claimed by exactly one format, and by none where it is nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgewise.evaluating.dataset import data_formats
from edgewise.evaluating.formats.listing import glance_media

BUILT_IN = ("coco", "csv", "folders", "huggingface", "idx", "jsonl", "loader", "npz", "text", "wav")


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def instances(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"images": [], "annotations": [], "categories": []}))
    return file


def archive(root: Path) -> Path:
    np.savez(root / "d.npz", x=np.zeros(1))
    return root / "d.npz"


def links(root: Path) -> Path:
    touch(root, "cat/a.png")
    (root / "a_loop").symlink_to(root)
    (root / "self").symlink_to(root / "self")
    return root


CASES: dict[str, tuple[str | None, Callable[[Path], Path]]] = {
    "npz": ("npz", archive),
    "csv": ("csv", lambda root: touch(root, "d.csv") / "d.csv"),
    "text": ("text", lambda root: touch(root, "d.TXT") / "d.TXT"),
    "lines": ("jsonl", lambda root: touch(root, "d.jsonl") / "d.jsonl"),
    "tsv": ("csv", lambda root: touch(root, "d.TSV") / "d.TSV"),
    "class folders": ("folders", lambda root: touch(root, "cat/a.png", "dog/b.jpeg")),
    "split class folders": ("folders", lambda root: touch(root, "train/cat/a.png", "val/cat/b.png", "readme.txt")),
    "flat images": ("folders", lambda root: touch(root, "a.PNG")),
    "images and masks": ("folders", lambda root: touch(root, "images/a.jpg", "masks/a.png")),
    "links that lead back": ("folders", links),
    "an annotations folder that is no COCO": (
        "folders",
        lambda root: touch(root, "annotations/a.json", "images/a.png"),
    ),
    "sounds": ("wav", lambda root: touch(root, "yes/a.wav", "no/b.flac", "testing_list.txt")),
    "sounds with one cover picture": ("wav", lambda root: touch(root, "yes/a.wav", "yes/b.wav", "yes/cover.jpg")),
    "split sounds": ("wav", lambda root: touch(root, "train/yes/a.ogg")),
    "coco file": ("coco", lambda root: instances(root / "x.json")),
    "coco folder": (
        "coco",
        lambda root: instances(touch(root, "val2017/a.jpg") / "annotations/instances_val2017.json").parents[1],
    ),
    "coco beside its images": ("coco", lambda root: instances(touch(root, "a.jpg") / "a.json").parent),
    "coco in splits": (
        "coco",
        lambda root: instances(touch(root, "train/a.jpg") / "train/_annotations.coco.json").parents[1],
    ),
    "idx folder": ("idx", lambda root: touch(root, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")),
    "idx file": ("idx", lambda root: touch(root, "t10k-images.idx3-ubyte") / "t10k-images.idx3-ubyte"),
    "huggingface split": ("huggingface", lambda root: touch(root, "state.json", "dataset_info.json", "data.arrow")),
    "huggingface splits": ("huggingface", lambda root: touch(root, "dataset_dict.json", "train/state.json")),
    "huggingface with pictures beside it": ("huggingface", lambda root: touch(root, "dataset_dict.json", "img/a.png")),
    "function in a file": ("loader", lambda root: root / "load.py:data"),
    "function in a module": ("loader", lambda root: Path("package.module:data")),
    "empty folder": (None, lambda root: root),
    "folder of text": (None, lambda root: touch(root, "a.txt", "b/c.md")),
    "other JSON": (None, lambda root: touch(root, "a.json") / "a.json"),
    "other file": (None, lambda root: touch(root, "model.onnx") / "model.onnx"),
    "nothing": (None, lambda root: root / "gone"),
    "a name too long": (None, lambda root: root / ("x" * 5000)),
    "a name with a zero": (None, lambda root: Path(f"{root}/a\0b")),
    "hidden pictures only": (None, lambda root: touch(root, ".cache/a.png", ".b.png")),
}


@pytest.mark.parametrize("case", CASES)
def test_one_format_claims_it(tmp_path: Path, case: str):
    expected, make = CASES[case]
    path = make(tmp_path)
    registry = data_formats()
    assert set(BUILT_IN) <= set(registry.names())
    assert [name for name in BUILT_IN if registry.get(name).matches(path)] == ([expected] if expected else [])


@pytest.mark.parametrize("name", BUILT_IN)
def test_formats_say_what_they_are(name: str):
    form = data_formats().get(name)
    assert form.name == name
    assert form.title


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_nothing(tmp_path: Path):
    touch(tmp_path, "cat/a.png")
    tmp_path.chmod(0)
    try:
        assert not any(data_formats().get(name).matches(tmp_path) for name in BUILT_IN)
    finally:
        tmp_path.chmod(0o700)


def test_a_glance_is_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(3000):
        (tmp_path / f"{number}.txt").touch()
    touch(tmp_path, "z/a.png")
    scanned = []
    scandir = os.scandir

    def scan(folder):
        scanned.append(str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", scan)
    assert glance_media(tmp_path) is None
    assert scanned == [str(tmp_path)]
