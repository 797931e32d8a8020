"""Objects in images as COCO describes them: one JSON file of images, annotations and categories."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from edgewise.cancellation import check
from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Box, Dataset, Sample
from edgewise.evaluating.formats.images import decode_image, require_pillow
from edgewise.evaluating.formats.inside import check_name, check_some_there, find_inside
from edgewise.evaluating.formats.recognition import BuiltInFormat, find_instances
from edgewise.evaluating.formats.split import ALL, Split, check_options, find_split, stamp_files
from edgewise.evaluating.formats.strings import Strings

MAX_JSON_BYTES = 2**30
"""Of one file; that of the 118,000 images that COCO trains on has 448 MB."""
_FILES_TO_TRY = 20
_ADVICE = "is it an instances file of COCO? See https://cocodataset.org/#format-data"


@dataclass(kw_only=True)
class BoxedImages(Split):
    """Images of one annotation file.

    Attributes:
        root: folder of the images.
        file: the annotations.
        category_ids: COCO's own number of every class, in the order of `classes`.
        image_ids: COCO's own number of every image.
        sizes: width and height of every image one after the other, 0 where the file does not say.
        boxes: left, top, width, height, area of every object, grouped by image.
        marks: category and crowd of every object, grouped by image.
        ends: after how many objects those of an image end.
    """

    root: Path
    file: Path
    files: Strings = field(default_factory=Strings)
    category_ids: Sequence[int] = ()
    image_ids: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))
    boxes: array[float] = field(default_factory=lambda: array("d"))
    marks: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("Q"))

    def __len__(self) -> int:
        return len(self.files)

    def read(self, index: int) -> Sample:
        """The sample, decoded now. Raises `CorruptSample`."""
        name = self.files[index]
        width, height = self.sizes[2 * index : 2 * index + 2]
        size = (width, height) if width and height else None
        data = decode_image(find_inside(self.root, name), name, stored_size=size)
        return Sample(index=index, name=name, data=data, label=self._boxes_of(index) if self.labelled else None)

    def _boxes_of(self, index: int) -> tuple[Box, ...]:
        found = []
        for number in range(self.ends[index - 1] if index else 0, self.ends[index]):
            left, top, width, height, area = self.boxes[5 * number : 5 * number + 5]
            category, crowd = self.marks[2 * number : 2 * number + 2]
            found.append(
                Box(
                    left=left, top=top, right=left + width, bottom=top + height, category=category, crowd=bool(crowd),
                    area=None if math.isnan(area) else area,
                )
            )  # fmt: skip
        return tuple(found)

    def stamp(self) -> str:
        """From names, sizes and times of the annotations and of the images."""
        about = (self.split, stamp_files(self.file.parent, [self.file.name]))
        return stamp_files(self.root, self.files, extra=about)


class Coco(BuiltInFormat):
    """An annotation file of COCO (``instances_val2017.json``), or a folder with such in ``annotations/`` or beside its
    images. Images are looked for beside the file, in ``images/``, and in the folder that the file's name names.

    Options: ``images``, their folder.
    """

    name = "coco"
    title = "COCO: images, and one JSON file of the objects in them"

    def open(self, path: Path, options: Mapping[str, str]) -> Mapping[str, Dataset]:
        """Its splits. Raises `BadInput`, `Unavailable`."""
        check_options(options, known=("images",), form=self.name)
        files = find_instances(path) if path.is_dir() else [path]
        if not files or not files[0].is_file():
            raise BadInput(
                f"{path} holds no annotations of COCO", advice="a JSON file, or annotations/ with such files"
            )
        require_pillow()
        images = Path(options["images"]) if "images" in options else None
        splits: dict[str, Dataset] = {}
        for file, split in zip(files, _name_files(files), strict=True):
            splits[split] = _open_file(path, file, split, images)
        return splits


def _name_files(files: Sequence[Path]) -> list[str]:
    """A split for every file: the one that its name, or its folder's, contains."""
    found = []
    for file in files:
        words = [*file.stem.replace("-", "_").replace(".", "_").split("_"), file.parent.name]
        found.append(next(filter(None, map(find_split, words)), ALL))
    clear = len(set(found)) == len(found)
    return found if clear else [file.stem for file in files]


def _open_file(path: Path, file: Path, split: str, images: Path | None) -> BoxedImages:
    document = _load(file)
    entries = _list_of(document, "images", file)
    if not entries:
        raise BadInput(f"{file.name} names no images", advice=_ADVICE)
    categories = _read_categories(document, file)
    labelled = "annotations" in document and bool(categories)
    found = BoxedImages(
        name=path.name, path=path, format="coco", split=split, kind="image", labelled=labelled,
        classes=tuple(categories.values()), category_ids=tuple(categories), file=file, root=file.parent,
    )  # fmt: skip
    _read_images(entries, found)
    if labelled:
        _read_boxes(_list_of(document, "annotations", file), found)
    first = [found.files[number] for number in range(min(_FILES_TO_TRY, len(found)))]
    found.root = _find_images(file, first, images)
    return found


def _load(file: Path) -> dict[str, Any]:
    """The document without outlines of objects, which take most of it. Raises `BadInput`."""

    def thin(entry: dict[str, Any]) -> dict[str, Any]:
        entry.pop("segmentation", None)
        entry.pop("keypoints", None)
        return entry

    def refuse(word: str) -> NoReturn:
        raise ValueError(f"{word} is not a number")

    try:
        if file.stat().st_size > MAX_JSON_BYTES:
            raise BadInput(f"{file.name} has more than {MAX_JSON_BYTES} bytes", advice="split it into several files")
        with file.open(encoding="utf-8") as stream:
            document = json.load(stream, object_hook=thin, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{file.name} is broken JSON: {str(error)[:200]}", advice=_ADVICE) from error
    except OSError as error:
        raise BadInput(f"can't read {file}: {error.strerror or error}", advice=_ADVICE) from error
    if not isinstance(document, dict):
        raise BadInput(f"{file.name} holds no images and annotations", advice=_ADVICE)
    return document


def _list_of(document: Mapping[str, Any], key: str, file: Path) -> list[dict[str, Any]]:
    entries = document.get(key)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise BadInput(f"{file.name} has no list of {key}", advice=_ADVICE)
    return entries


def _read_categories(document: Mapping[str, Any], file: Path) -> dict[int, str]:
    """Category → name, by number."""
    found: dict[int, str] = {}
    for entry in _list_of(document, "categories", file) if "categories" in document else []:
        number = _whole(entry, "id", file, "a category")
        if number in found:
            raise BadInput(f"{file.name} has two categories with the id {number}", advice=_ADVICE)
        found[number] = str(entry.get("name", number))[:200]
    return dict(sorted(found.items()))


def _read_images(entries: Sequence[Mapping[str, Any]], into: BoxedImages) -> None:
    seen = set()
    for entry in entries:
        number = _whole(entry, "id", into.file, "an image")
        if number in seen:
            raise BadInput(f"{into.file.name} has two images with the id {number}", advice=_ADVICE)
        seen.add(number)
        name = entry.get("file_name")
        check_name(name if isinstance(name, str) else "", f"image {number} of {into.file.name}", advice=_ADVICE)
        into.files.append(str(name))
        into.image_ids.append(number)
        for key in ("width", "height"):
            size = entry.get(key)
            into.sizes.append(size if isinstance(size, int) and 0 < size < 2**31 else 0)


def _read_boxes(entries: Sequence[Mapping[str, Any]], into: BoxedImages) -> None:
    """Put the objects of every image together, in the order of the file."""
    images = {number: index for index, number in enumerate(into.image_ids)}
    categories = {number: index for index, number in enumerate(into.category_ids)}
    by_image: list[list[int]] = [[] for _ in into.image_ids]
    for position, entry in enumerate(entries):
        check()
        what = f"annotation {entry.get('id', position)}"
        image = _whole(entry, "image_id", into.file, what)
        if image not in images:
            raise BadInput(
                f"{what} of {into.file.name} is of image {image}, which the file does not have", advice=_ADVICE
            )
        by_image[images[image]].append(position)
    for positions in by_image:
        check()
        for position in positions:
            entry = entries[position]
            what = f"annotation {entry.get('id', position)}"
            category = _whole(entry, "category_id", into.file, what)
            if category not in categories:
                raise BadInput(
                    f"{what} of {into.file.name} is of category {category}, which the file does not have",
                    advice=_ADVICE,
                )
            box = entry.get("bbox")
            if not (isinstance(box, list) and len(box) == 4 and all(_is_finite(value) for value in box)):
                raise BadInput(f"{what} of {into.file.name} has no bbox of four numbers", advice=_ADVICE)
            if box[2] < 0 or box[3] < 0:
                raise BadInput(f"{what} of {into.file.name} has a bbox of negative size", advice=_ADVICE)
            area: Any = entry.get("area")
            into.boxes.extend([*map(float, box), float(area) if _is_finite(area) else math.nan])
            into.marks.extend([categories[category], int(entry.get("iscrowd") in (1, True))])
        into.ends.append(len(into.marks) // 2)


def _find_images(file: Path, first: list[str], asked: Path | None) -> Path:
    """The folder that the names of images are relative to."""
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


def _whole(entry: Mapping[str, Any], key: str, file: Path, what: str) -> int:
    value = entry.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or not -(2**62) < value < 2**62:
        raise BadInput(f"{what} of {file.name} has no {key}", advice=_ADVICE)
    return value


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e12
