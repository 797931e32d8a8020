"""Data sets of Hugging Face on disk: columns of every kind, labels, and folders that lie."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, open_data
from edgewise.evaluating.formats.huggingface import HuggingFace

datasets = pytest.importorskip("datasets", reason="data sets of Hugging Face need the library datasets")
datasets.disable_progress_bars()


def save(folder: Path, columns: dict[str, Any], features: dict[str, Any] | None = None) -> Path:
    datasets.Dataset.from_dict(columns, features=datasets.Features(features) if features else None).save_to_disk(folder)
    return folder


def open_one(folder: Path, **options: str):
    (split,) = HuggingFace().open(folder, options).values()
    return split


def png(value: int) -> bytes:
    image = pytest.importorskip("PIL.Image", reason="images need Pillow")
    stream = io.BytesIO()
    image.new("L", (3, 2), value).save(stream, "png")
    return stream.getvalue()


def test_texts_with_classes(tmp_path: Path):
    features = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=["neg", "pos"])}
    data = open_one(save(tmp_path / "d", {"text": ["good", "bad"], "label": [1, 0]}, features))
    assert (data.format, data.split, data.kind, data.labelled, len(data)) == ("huggingface", "all", "text", True, 2)
    assert list(data.classes) == ["neg", "pos"]
    assert [(data.read(i).data, data.read(i).label, data.read(i).name) for i in range(2)] == [
        ("good", 1, "all[0]"), ("bad", 0, "all[1]"),
    ]  # fmt: skip


def test_splits(tmp_path: Path):
    parts = {name: datasets.Dataset.from_dict({"text": [name] * n}) for name, n in (("train", 3), ("test", 2))}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "d")
    splits = open_data(str(tmp_path / "d"))
    assert {name: (len(split), split.labelled) for name, split in splits.items()} == {
        "train": (3, False),
        "test": (2, False),
    }
    assert (splits["test"].read(1).data, splits["test"].read(1).name) == ("test", "test[1]")


def test_images(tmp_path: Path):
    features = {"picture": datasets.Image(), "label": datasets.Value("int64"), "caption": datasets.Value("string")}
    columns = {
        "picture": [{"bytes": png(7), "path": None}, {"bytes": b"broken", "path": None}, None],
        "label": [4, 5, 6], "caption": ["a", "b", "c"],
    }  # fmt: skip
    folder = save(tmp_path / "d", columns, features)
    data = open_one(folder)
    sample = data.read(0)
    assert (data.kind, sample.data.tolist(), sample.label) == ("image", [[[7]] * 3] * 2, 4)
    with pytest.raises(CorruptSample, match=r"all\[1\]: not an image"):
        data.read(1)
    with pytest.raises(CorruptSample, match="nothing is stored"):
        data.read(2)
    assert open_one(folder, label="caption", label_kind="text").read(0).label == "a"
    assert open_one(folder, text="caption").read(1).data == "b"


def test_masks(tmp_path: Path):
    features = {"image": datasets.Image(), "mask": datasets.Image()}
    one = {"bytes": png(3), "path": None}
    sample = open_one(save(tmp_path / "d", {"image": [one], "mask": [one]}, features), label="mask").read(0)
    assert sample.label.tolist() == [[3] * 3] * 2
    assert sample.data.shape == (2, 3, 1)


def test_recordings_without_the_library_that_decodes_them(tmp_path: Path):
    soundfile = pytest.importorskip("soundfile", reason="recordings need soundfile")
    stream = io.BytesIO()
    soundfile.write(stream, np.full(50, 0.5), 8000, format="WAV")
    table = datasets.Dataset.from_dict({"clip": [{"bytes": stream.getvalue(), "path": None}], "label": [2]})
    table.cast_column("clip", datasets.Audio(decode=False)).save_to_disk(tmp_path / "d")
    data = open_one(tmp_path / "d")
    sample = data.read(0)
    assert (data.kind, sample.data.shape, sample.rate, sample.label) == ("audio", (50, 1), 8000, 2)
    assert np.allclose(sample.data, 0.5, atol=2**-15)


def test_arrays(tmp_path: Path):
    folder = save(tmp_path / "d", {"ids": [[1, 2], [3, 4]], "mask": [[1, 1], [1, 0]], "label": [0, 1]})
    data = open_one(folder)
    assert (data.kind, data.read(1).label) == ("array", 1)
    assert {name: array.tolist() for name, array in data.read(1).data.items()} == {"ids": [3, 4], "mask": [1, 0]}
    assert open_one(folder, columns="ids").read(0).data.tolist() == [1, 2]
    assert open_one(save(tmp_path / "e", {"m": [[[1.0, 2.0], [3.0, 4.0]]]})).read(0).data.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("labels", "options", "found", "classes"),
    [
        ([2, 0], {}, 2, []),
        ([2.5, 0.0], {}, 2.5, []),
        (["b", "a"], {}, 1, ["a", "b"]),
        (["b", "a"], {"label_kind": "text"}, "b", []),
        ([["b", "c"], ["a"]], {}, ("b", "c"), []),
        ([2, 0], {"label_kind": "float"}, 2.0, []),
        ([True, False], {}, 1, []),
        ([-1, -1], {}, None, []),
        ([None, None], {}, None, []),
    ],
)
def test_labels(tmp_path: Path, labels, options, found, classes):
    data = open_one(save(tmp_path / "d", {"text": ["x", "y"], "label": labels}), text="text", **options)
    assert (data.read(0).label, list(data.classes), data.labelled) == (found, classes, found is not None)


def test_a_selection_keeps_its_order(tmp_path: Path):
    table = datasets.Dataset.from_dict({"text": list("abcd"), "label": [0, 1, 2, 3]}).select([3, 1])
    table.save_to_disk(tmp_path / "d")
    data = open_one(tmp_path / "d")
    assert [(data.read(i).data, data.read(i).label) for i in range(2)] == [("d", 3), ("b", 1)]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"text": ["a", "b"], "label": [0, -1]}, {}, r"all\[1\] has the label -1"),
        ({"text": ["a", "b"], "label": [0, None]}, {}, r"all\[1\] has no label"),
        ({"text": ["a", "b"], "label": [0.5, float("nan")]}, {}, r"all\[1\] has a label that is not finite"),
        ({"q": ["a"], "p": ["b"]}, {}, "no column of images, recordings, one text or arrays; it has: q, p"),
        ({"text": ["a"]}, {"label": "lable"}, "has no column 'lable'"),
        ({"text": ["a"]}, {"image": "text"}, "holds no image"),
        ({"text": ["a"]}, {"image": "text", "text": "text"}, "both image= and text="),
        ({"text": ["a"]}, {"columns": "text"}, "holds no numbers"),
        ({"text": ["a"]}, {"script": "evil.py"}, "has no option 'script'"),
    ],
)
def test_what_is_refused(tmp_path: Path, columns, options, message):
    with pytest.raises(BadInput, match=message) as caught:
        HuggingFace().open(save(tmp_path / "d", columns), options)
    assert caught.value.advice


def test_two_columns_of_classes(tmp_path: Path):
    features = {"text": datasets.Value("string")} | {
        name: datasets.ClassLabel(names=["u", "v"]) for name in ("fine", "coarse")
    }
    folder = save(tmp_path / "d", {"text": ["a"], "fine": [0], "coarse": [1]}, features)
    with pytest.raises(BadInput, match="labels in fine, coarse"):
        open_one(folder)
    assert open_one(folder, label="coarse").read(0).label == 1


def test_files_outside_of_the_folder_are_not_opened(tmp_path: Path):
    folder = save(tmp_path / "d", {"text": ["a"]})
    state = json.loads((folder / "state.json").read_text())
    state["_data_files"] = [{"filename": "../other/data.arrow"}]
    (folder / "state.json").write_text(json.dumps(state))
    with pytest.raises(BadInput, match="outside of its folder"):
        open_one(folder)
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "dataset_dict.json").write_text('{"splits": ["../d"]}')
    with pytest.raises(BadInput, match=r"the split '../d'"):
        open_data(str(tmp_path / "e"))


def test_an_image_that_only_names_a_file_elsewhere(tmp_path: Path):
    (tmp_path / "secret.png").write_bytes(png(9))
    features = {"image": {"bytes": datasets.Value("binary"), "path": datasets.Value("string")}}
    folder = save(tmp_path / "d", {"image": [{"bytes": None, "path": str(tmp_path / "secret.png")}]}, features)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["features"] = {"image": {"_type": "Image"}}
    (folder / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(CorruptSample, match="leads out of the data's folder"):
        open_one(folder).read(0)


@pytest.mark.parametrize("broken", ["state.json", "dataset_info.json", "data-00000-of-00001.arrow"])
@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"{}", b"ARROW1\0\0" + bytes(100)])
def test_what_is_broken_is_said(tmp_path: Path, broken: str, content: bytes):
    folder = save(tmp_path / "d", {"text": ["a", "b"], "label": [0, 1]})
    assert (folder / broken).is_file()
    (folder / broken).write_bytes(content)
    if broken == "dataset_info.json" and content == b"{}":
        assert open_one(folder).read(1).data == "b"  # what is not described is taken from the data itself
        return
    with pytest.raises(BadInput) as caught:
        open_one(folder)
    assert "\n" not in caught.value.message
    assert str(folder) in caught.value.message


def test_the_stamp_and_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    folder = save(tmp_path / "d", {"text": ["a"], "label": [1]})
    before = open_one(folder).stamp()
    assert "HF_HUB_OFFLINE" not in os.environ
    assert open_one(folder).stamp() == before
    assert open_one(folder, label_kind="float").stamp() != before
    os.utime(folder / "data-00000-of-00001.arrow", (1, 1))
    assert open_one(folder).stamp() != before


def test_nothing_there(tmp_path: Path):
    with pytest.raises(BadInput, match="is not a folder"):
        HuggingFace().open(tmp_path / "none", {})
    with pytest.raises(BadInput, match="can't read"):
        HuggingFace().open(tmp_path, {})
