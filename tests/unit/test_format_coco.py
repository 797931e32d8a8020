"""COCO's annotations: boxes, splits, where images are, and documents that are broken."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Box, CorruptSample, open_data
from edgewise.evaluating.formats.coco import Coco
from messages import says

Image = pytest.importorskip("PIL.Image", reason="images need Pillow")


def document() -> dict[str, Any]:
    return {
        "info": {},
        "images": [
            {"id": 42, "file_name": "b.png", "width": 8, "height": 6},
            {"id": 7, "file_name": "a.png", "width": 8, "height": 6},
            {"id": 9, "file_name": "none.png", "width": 8, "height": 6},
        ],
        "annotations": [
            {"id": 1, "image_id": 7, "category_id": 90, "bbox": [1, 2, 3.5, 2], "area": 5.5, "iscrowd": 0,
             "segmentation": [[1, 2, 3, 4]]},
            {"id": 2, "image_id": 42, "category_id": 3, "bbox": [0, 0, 8, 6], "iscrowd": 1},
            {"id": 3, "image_id": 7, "category_id": 3, "bbox": [0, 0, 1, 1]},
        ],
        "categories": [{"id": 90, "name": "brush"}, {"id": 3, "name": "car"}],
    }  # fmt: skip


def write(folder: Path, content: Any = None, *, annotations: str = "a.json", images: str = ".") -> Path:
    for name in ("a.png", "b.png", "none.png"):
        (folder / images).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (8, 6)).save(folder / images / name)
    file = folder / annotations
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document() if content is None else content))
    return file


def open_one(path: Path, **options: str) -> Any:
    (split,) = Coco().open(path, options).values()
    return split


def test_boxes_of_images(tmp_path: Path):
    data = open_one(write(tmp_path))
    assert (data.format, data.split, data.kind, data.labelled, len(data)) == ("coco", "all", "image", True, 3)
    assert list(data.classes) == ["car", "brush"]
    assert data.read(0).label == (Box(left=0, top=0, right=8, bottom=6, category=0, crowd=True),)
    sample = data.read(1)
    assert (sample.name, sample.data.shape) == ("a.png", (6, 8, 3))
    assert sample.label == (
        Box(left=1, top=2, right=4.5, bottom=4, category=1, area=5.5),
        Box(left=0, top=0, right=1, bottom=1, category=0),
    )
    assert data.read(2).label == ()


def test_boxes_are_those_of_pycocotools(tmp_path: Path):
    coco = pytest.importorskip("pycocotools.coco", reason="the oracle is not installed")
    file = write(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()):
        oracle = coco.COCO(str(file))
    data = open_one(file)
    for index, image in enumerate(document()["images"]):
        theirs = oracle.loadAnns(oracle.getAnnIds(imgIds=[image["id"]]))
        ours = data.read(index).label
        assert [(box.left, box.top, box.right - box.left, box.bottom - box.top) for box in ours] == [
            tuple(each["bbox"]) for each in theirs
        ]
        assert [[3, 90][box.category] for box in ours] == [each["category_id"] for each in theirs]
    assert list(data.classes) == [each["name"] for each in oracle.loadCats(sorted(oracle.getCatIds()))]


@pytest.mark.parametrize(
    ("annotations", "images"),
    [
        ("annotations/instances_val2017.json", "val2017"),
        ("annotations/instances_val2017.json", "images/val2017"),
        ("annotations/instances_val.json", "images"),
        ("annotations/instances_val.json", "."),
        ("val/_annotations.coco.json", "val"),
        ("instances_val.json", "images"),
    ],
)
def test_images_are_found_in_the_usual_places(tmp_path: Path, annotations: str, images: str):
    write(tmp_path, annotations=annotations, images=images)
    splits = open_data(str(tmp_path))
    assert list(splits) == ["val"]
    assert splits["val"].read(1).name == "a.png"
    assert splits["val"].name == tmp_path.name


def test_several_files_are_splits_and_captions_are_left_out(tmp_path: Path):
    for split in ("train2017", "val2017"):
        write(tmp_path, annotations=f"annotations/instances_{split}.json", images=split)
    (tmp_path / "annotations" / "captions_val2017.json").write_text('{"images": [], "annotations": []}')
    splits = open_data(str(tmp_path))
    assert sorted(splits) == ["train", "val"]
    assert splits["train"].root.name == "train2017"


def test_a_folder_of_images_can_be_named(tmp_path: Path):
    file = write(tmp_path / "here", images="../there")
    with pytest.raises(BadInput, match=says("images-such-not-found", name="a.json", first="b.png")) as caught:
        open_one(file)
    assert "images=" in caught.value.advice
    assert open_one(file, images=str(tmp_path / "there")).read(1).name == "a.png"
    with pytest.raises(BadInput, match=says("not-folder")):
        open_one(file, images=str(tmp_path / "nowhere"))
    with pytest.raises(BadInput, match=says("none-first-files-such", names_count=3)):
        open_one(file, images=str(tmp_path))


def test_images_without_annotations_have_no_labels(tmp_path: Path):
    content = document()
    del content["annotations"]
    data = open_one(write(tmp_path, content))
    assert (data.labelled, data.read(0).label, list(data.classes)) == (False, None, ["car", "brush"])


def test_one_damaged_image_is_named(tmp_path: Path):
    file = write(tmp_path)
    (tmp_path / "a.png").write_bytes(b"nothing")
    (tmp_path / "none.png").unlink()
    Image.new("RGB", (9, 9)).save(tmp_path / "b.png")
    data = open_one(file)
    for index, reason in enumerate(
        ["the image is 9x9, its label 8x6", says("not-image-can-read"), says("no-such-file")]
    ):
        with pytest.raises(CorruptSample, match=reason):
            data.read(index)


def test_links_out_of_the_folder_are_refused(tmp_path: Path):
    file = write(tmp_path / "data")
    (tmp_path / "data" / "a.png").rename(tmp_path / "a.png")
    (tmp_path / "data" / "a.png").symlink_to(tmp_path / "a.png")
    with pytest.raises(CorruptSample, match=says("link-leads-out-data-folder")):
        open_one(file).read(1)


def change(path: str, value: Any) -> dict[str, Any]:
    """The document with something else at `path`, such as ``annotations.0.bbox``."""
    content: Any = document()
    *above, last = path.split(".")
    inner = content
    for key in above:
        inner = inner[int(key)] if isinstance(inner, list) else inner[key]
    if isinstance(inner, list):
        inner[int(last)] = value
    else:
        inner[last] = value
    return content


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("images", [], says("names-no-images")),
        ("images", {}, says("no-list", key="images")),
        ("images.0", "a.png", says("no-list", key="images")),
        ("images.0.id", 7, says("two-images-id", number=7)),
        ("images.0.id", "42", says("what-name-no-key", what="an image", name="a.json", key="id")),
        ("images.0.file_name", "../b.png", says("names-which-outside-data-folder")),
        ("images.0.file_name", "/b.png", says("names-which-outside-data-folder")),
        ("images.0.file_name", None, says("names-no-file")),
        ("annotations", 3, says("no-list", key="annotations")),
        (
            "annotations.0.image_id",
            8,
            says("which-file-does-not", what="annotation 1", name="a.json", removesuffix="image", entry=8),
        ),
        ("annotations.0.image_id", None, says("what-name-no-key", what="annotation 1", name="a.json", key="image_id")),
        ("annotations.0.category_id", 8, says("which-file-does-not", removesuffix="category", entry=8)),
        ("annotations.0.bbox", [1, 2, 3], says("no-bbox-four-numbers")),
        ("annotations.0.bbox", [1, 2, 3, "4"], says("no-bbox-four-numbers")),
        ("annotations.0.bbox", [1, 2, 3, 1e300], says("no-bbox-four-numbers")),
        ("annotations.0.bbox", [1, 2, -3, 4], says("bbox-negative-size")),
        ("annotations.0.area", float("nan"), says("broken-json", error=says("not-number-in-coco", word="NaN"))),
        ("categories.0.id", 3, says("two-categories-id", number=3)),
        ("categories.0.id", 2**70, says("what-name-no-key", what="a category", name="a.json", key="id")),
    ],
)
def test_what_is_refused(tmp_path: Path, path: str, value: Any, message: str):
    with pytest.raises(BadInput, match=message) as caught:
        open_one(write(tmp_path, change(path, value)))
    assert caught.value.advice


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"images": [', "[" * 200_000, '{"images": ' + "9" * 5000 + "}"])
def test_broken_json(tmp_path: Path, text: str):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput, match=r"a.json"):
        Coco().open(tmp_path / "a.json", {})


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("edgewise.evaluating.formats.coco.MAX_JSON_BYTES", 100)
    with pytest.raises(BadInput, match=says("more-than-bytes-in-safe-yaml", max_bytes=100)):
        open_one(write(tmp_path))


def test_nothing_there(tmp_path: Path):
    for path in (tmp_path, tmp_path / "none.json"):
        with pytest.raises(BadInput, match=says("holds-no-annotations-coco")):
            Coco().open(path, {})


def test_the_stamp_follows_annotations_and_images(tmp_path: Path):
    file = write(tmp_path)
    stamps = {open_one(file).stamp()}
    file.write_text(json.dumps(change("annotations.0.bbox", [0, 0, 2, 22])))
    stamps.add(open_one(file).stamp())
    Image.new("RGB", (8, 6), (9, 9, 9)).save(tmp_path / "a.png", compress_level=0)
    stamps.add(open_one(file).stamp())
    assert len(stamps) == 3
