"""Objects in images as COCO describes them: one JSON file of images, annotations and categories."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NoReturn

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Box, Dataset, Decoded
from edgewise.evaluating.formats.files import Files, check_name, check_some_there
from edgewise.evaluating.formats.images import decode_image, require_pillow
from edgewise.evaluating.formats.labels import Labels
from edgewise.evaluating.formats.recognition import BuiltInFormat, find_instances
from edgewise.evaluating.formats.split import ALL, find_split, stamp_files
from edgewise.safe_yaml import read_text

MAX_JSON_BYTES = 2**30
"""Of one file; that of the 118,000 images that COCO trains on has 448 MB."""
_FILES_TO_TRY = 20
_ADVICE = "is it an instances file of COCO? See https://cocodataset.org/#format-data"


@dataclass(kw_only=True)
class BoxedImages(Files):
    """Images of one annotation file; a label is a tuple of `Box`.

    Attributes:
        sizes: (width, height) of every image; 0 where the file does not have it.
    """

    sizes: Sequence[tuple[int, int]] = ()

    def _decode(self, file: Path, index: int) -> Decoded:
        size = self.sizes[index]
        return decode_image(file, self.files[index], stored_size=size if all(size) else None)


class Coco(BuiltInFormat):
    """An annotation file of COCO (``instances_val2017.json``), or a folder with such in ``annotations/`` or beside its
    images. Images are looked for beside the file, in ``images/``, and in the folder that the file's name names.

    Options: ``images``, their folder.
    """

    name = "coco"
    title = "COCO: images, and one JSON file of the objects in them"
    options: ClassVar = {"images": ()}

    def _open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        files = find_instances(path) if path.is_dir() else [path]
        if not files or not files[0].is_file():
            raise BadInput(
                f"{path} holds no annotations of COCO", advice="a JSON file, or annotations/ with such files"
            )
        require_pillow()
        images = Path(options["images"]) if "images" in options else None
        pairs = zip(files, _name_files(files), strict=True)
        return {split: _open_file(path, file, split, images) for file, split in pairs}


def _name_files(files: Sequence[Path]) -> list[str]:
    """Return a split for every file: the one that its name, or its folder's, contains."""
    found = []
    for file in files:
        words = [*file.stem.replace("-", "_").replace(".", "_").split("_"), file.parent.name]
        found.append(next(filter(None, map(find_split, words)), ALL))
    clear = len(set(found)) == len(found)
    return found if clear else [file.stem for file in files]


def _open_file(path: Path, file: Path, split: str, images: Path | None) -> BoxedImages:
    document = _load(file)
    entries = _read_list(document, "images", file)
    if not entries:
        raise BadInput(f"{file.name} names no images", advice=_ADVICE)
    categories = _read_categories(document, file)
    numbers, names, sizes = _read_images(entries, file)
    labels = None
    if "annotations" in document and categories:
        boxes = _read_boxes(_read_list(document, "annotations", file), file, numbers, list(categories))
        labels = Labels(values=boxes, classes=tuple(categories.values()))
    return BoxedImages(
        name=path.name, path=path, format="coco", split=split, kind="image", classes=tuple(categories.values()),
        labels=labels, sizes=sizes, files=names,
        root=_find_images(file, names[:_FILES_TO_TRY], images), confined=True,
        about=stamp_files(file.parent, [file.name]),
    )  # fmt: skip


def _load(file: Path) -> dict[str, Any]:
    """Return the document without the outlines of objects, which are most of its size. Raises `BadInput`."""

    def thin(entry: dict[str, Any]) -> dict[str, Any]:
        entry.pop("segmentation", None)
        entry.pop("keypoints", None)
        return entry

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a number")

    text = read_text(file, most=MAX_JSON_BYTES)
    try:
        document = json.loads(text, object_hook=thin, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file.name} is broken JSON: {str(error)[:200]}", advice=_ADVICE) from error
    if not isinstance(document, dict):
        raise BadInput(f"{file.name} holds no images and annotations", advice=_ADVICE)
    return document


def _read_list(document: Mapping[str, Any], key: str, file: Path) -> list[dict[str, Any]]:
    entries = document.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadInput(f"{file.name} has no list of {key}", advice=_ADVICE)
    return entries


def _read_categories(document: Mapping[str, Any], file: Path) -> dict[int, str]:
    """Return category → name, ordered by number."""
    found: dict[int, str] = {}
    for entry in _read_list(document, "categories", file) if "categories" in document else []:
        number = _read_whole(entry, "id", file, "a category")
        if number in found:
            raise BadInput(f"{file.name} has two categories with the id {number}", advice=_ADVICE)
        found[number] = str(entry.get("name", number))[:200]
    return dict(sorted(found.items()))


def _read_images(
    entries: Sequence[Mapping[str, Any]], file: Path
) -> tuple[list[int], list[str], list[tuple[int, int]]]:
    """Return number, name and (width, height) of every image."""
    names: dict[int, str] = {}
    sizes = []
    for entry in entries:
        number = _read_whole(entry, "id", file, "an image")
        if number in names:
            raise BadInput(f"{file.name} has two images with the id {number}", advice=_ADVICE)
        name = entry.get("file_name")
        check_name(name if isinstance(name, str) else "", f"image {number} of {file.name}", advice=_ADVICE)
        names[number] = str(name)
        width, height = (
            size if isinstance(size, int) and 0 < size < 2**31 else 0 for size in map(entry.get, ("width", "height"))
        )
        sizes.append((width, height))
    return list(names), list(names.values()), sizes


def _read_boxes(
    entries: Sequence[Mapping[str, Any]], file: Path, image_ids: Sequence[int], category_ids: Sequence[int]
) -> list[tuple[Box, ...]]:
    """Return the objects of every image, in the order of the file."""
    images: dict[int, list[Box]] = {number: [] for number in image_ids}
    categories = {number: index for index, number in enumerate(category_ids)}
    for position, entry in enumerate(entries):
        check()
        what = f"annotation {entry.get('id', position)}"
        for key, known in (("image_id", images), ("category_id", categories)):
            if _read_whole(entry, key, file, what) not in known:
                raise BadInput(
                    f"{what} of {file.name} is of {key.removesuffix('_id')} {entry[key]}, which the file does not have",
                    advice=_ADVICE,
                )
        box = entry.get("bbox")
        if not (isinstance(box, list) and len(box) == 4 and all(_is_finite(value) for value in box)):
            raise BadInput(f"{what} of {file.name} has no bbox of four numbers", advice=_ADVICE)
        left, top, width, height = map(float, box)
        if width < 0 or height < 0:
            raise BadInput(f"{what} of {file.name} has a bbox of negative size", advice=_ADVICE)
        area: Any = entry.get("area")
        images[entry["image_id"]].append(
            Box(
                left=left, top=top, right=left + width, bottom=top + height, category=categories[entry["category_id"]],
                crowd=entry.get("iscrowd") in (1, True), area=float(area) if _is_finite(area) else None,
            )
        )  # fmt: skip
    return [tuple(boxes) for boxes in images.values()]


def _find_images(file: Path, first: list[str], asked: Path | None) -> Path:
    """Return the folder that the names of images are relative to."""
    advice = "set their folder: images=FOLDER"
    if asked is not None:
        if not asked.is_dir():
            raise BadInput(f"{asked} is not a folder", advice=advice)
        check_some_there(asked, first, advice=advice)
        return asked
    base = file.absolute().parent
    words = [word for word in file.stem.split("_") if find_split(word)]
    places = [base, base / "images"]
    for above in (base.parent, base.parent / "images"):
        places += [above, *(above / word for word in words)]
    for place in places:
        if any((place / name).is_file() for name in first):
            return place
    raise BadInput(f"the images of {file.name}, such as {first[0]}, are not found", advice=advice)


def _read_whole(entry: Mapping[str, Any], key: str, file: Path, what: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**62) < value < 2**62:
        raise BadInput(f"{what} of {file.name} has no {key}", advice=_ADVICE)
    return value


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
