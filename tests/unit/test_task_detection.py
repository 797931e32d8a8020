"""Detection: what is read from outputs and options, what is refused, and the whole way to COCO's numbers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import Box, Sample
from edgewise.evaluating.task import Preparation, TaskContext
from edgewise.evaluating.tasks.detection import Detection
from edgewise.evaluating.tasks.detection_options import COCO80, COCO91
from edgewise.model.signature import Signature, TensorSpec
from messages import has, says, wording

pytest.importorskip("pycocotools", reason="detection is judged by pycocotools")

POSTPROCESS = (
    ("TFLite_Detection_PostProcess", (1, 10, 4)),
    ("TFLite_Detection_PostProcess:1", (1, 10)),
    ("TFLite_Detection_PostProcess:2", (1, 10)),
    ("TFLite_Detection_PostProcess:3", (1,)),
)
PLAIN = Preparation(scale=(1.0, 1.0), size=(100, 100), input_size=(100, 100))
LETTERBOX = Preparation(scale=(0.5, 0.5), offset=(0.0, 25.0), size=(200, 100), input_size=(100, 100))


@dataclass
class Data:
    name: str = "things"
    path: Path | None = None
    format: str = "coco"
    split: str = "all"
    kind: str = "image"
    classes: tuple[str, ...] = ("cat", "dog", "bird")
    labelled: bool = True
    samples: list[Sample] = field(default_factory=list)

    def __len__(self):
        return len(self.samples)

    def read(self, index):
        return self.samples[index]

    def stamp(self):
        return ""


def context(outputs, options=None, *, classes=(), data=None):
    specs = [TensorSpec(name=each[0], shape=each[1], dtype=each[2] if len(each) > 2 else "float32") for each in outputs]
    image = TensorSpec(name="image", shape=(1, 100, 100, 3), dtype="float32")
    return TaskContext(
        signature=Signature(inputs=(image,), outputs=tuple(specs)),
        data=Data() if data is None else data,
        options=options or {},
        classes=classes,
    )


def prepare(outputs, options=None, **others):
    return Detection().prepare(context(outputs, options, **others))


def sample(*boxes, name="cat.jpg"):
    return Sample(index=0, name=name, data=np.zeros((100, 100, 3), np.uint8), label=tuple(boxes))


CAT = Box(left=10, top=20, right=40, bottom=60, category=0)


def postprocess(*rows, size=10):
    """rows of (left, top, right, bottom normalised, class, score)"""
    boxes, classes, scores = np.zeros((1, size, 4)), np.zeros((1, size)), np.zeros((1, size))
    for at, (left, top, right, bottom, number, score) in enumerate(rows):
        boxes[0, at], classes[0, at], scores[0, at] = (top, left, bottom, right), number, score
    return [boxes, classes, scores, np.array([float(len(rows))])]


def test_postprocess_is_recognised_and_brought_back_through_a_letterbox():
    scorer = prepare(POSTPROCESS)
    assert scorer.settings["decode"] == "boxes"
    assert scorer.settings["outputs"] == ["boxes", "classes", "scores", "count"]
    assert scorer.settings["decode_from"] == wording("outputs-names-shapes")
    assert (scorer.settings["order"], scorer.settings["normalised"]) == ("yxyx", True)
    box = Box(left=20, top=10, right=60, bottom=30, category=1, crowd=True, area=5.0)
    record = scorer.record(postprocess((0.1, 0.3, 0.3, 0.4, 1, 0.75), (0, 0, 1, 1, 2, 0.5)), sample(box), LETTERBOX)
    assert json.loads(json.dumps(record)) == record
    assert record["gt"] == [[20, 10, 60, 30, 1, 1, 5.0]]
    assert record["dt"][0] == pytest.approx([20, 10, 60, 30, 1, 0.75])
    assert record["dt"][1] == pytest.approx([0, 0, 200, 100, 2, 0.5])
    assert len(record["dt"]) == 2


def test_the_whole_way_to_numbers():
    scorer = prepare(POSTPROCESS)
    assert scorer.headline == Detection.metrics[0]
    right = scorer.record(postprocess((0.1, 0.2, 0.4, 0.6, 0, 0.9)), sample(CAT), PLAIN)
    missed = scorer.record(postprocess(), sample(CAT), PLAIN)
    table = scorer.tabulate([right, missed])
    assert table.n == 2
    values = table.values()
    assert tuple(values) == Detection.metrics
    # half of all cats found: precision 1 up to a recall of 0.5, which 51 of 101 points reach
    assert values["map_50_95"] == pytest.approx(51 / 101, abs=1e-12)
    assert values["recall_100"] == 0.5
    assert table.values(np.array([3.0, 0.0]))["map_50"] == pytest.approx(1, abs=1e-12)


def test_roles_come_from_names_types_and_shapes_or_from_the_user():
    named = (("num_detections", (1,)), ("detection_boxes", (1, 9, 4)), ("detection_classes", (1, 9)),
             ("detection_scores", (1, 9)))  # fmt: skip
    scorer = prepare(named, {"order": "yxyx", "normalised": "yes"})
    assert scorer.settings["outputs"] == ["count", "boxes", "classes", "scores"]
    unnamed = (("a", (1, 9)), ("b", (1, 9, 4)), ("c", (1, 9)), ("d", (1,)))
    with pytest.raises(BadInput, match=says("not-clear-how-read-boxes")) as caught:
        prepare(unnamed, {"order": "yxyx", "normalised": "yes"})
    assert "yolov8" in caught.value.advice
    with pytest.raises(BadInput, match=says("not-clear-which-output-what")):
        prepare(unnamed, {"decode": "boxes", "order": "yxyx", "normalised": "yes"})
    scorer = prepare(unnamed, {"outputs": "scores,boxes,classes,-", "order": "ltrb", "normalised": "no"})
    outputs = [np.array([[0.9]]), np.array([[[10, 20, 40, 60.0]]]), np.array([[2.0]]), np.zeros(1)]
    assert scorer.record(outputs, sample(CAT), PLAIN)["dt"] == [[10, 20, 40, 60, 2, 0.9]]


@pytest.mark.parametrize("word", ["boxes", "boxes,scores,classes,classes", "boxes,a,b,c", "scores,classes,count,-"])
def test_roles_that_make_no_sense_are_refused(word):
    with pytest.raises(BadInput, match=says("outputs-does-not-name-role")):
        prepare(POSTPROCESS, {"outputs": word})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": "ltrb"}, says("boxes-may-pixels-input-relative")),
        ({"normalised": "no"}, says("order-box-four-numbers-not")),
        ({"normalised": "no", "order": "lrtb"}, says("there-no-order")),
        ({"normalised": "maybe", "order": "ltrb"}, "normalised must be yes or no, not maybe"),
    ],
)
def test_what_outputs_do_not_tell_must_be_said(options, words):
    with pytest.raises(BadInput, match=words):
        prepare((("boxes", (9, 4)), ("labels", (9,), "int64"), ("scores", (9,))), options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"decode": "yolo"}, "no decoder"),
        ({"colour": "red"}, "no option"),
        ({"conf": "2"}, "conf must be a number from 0 to 1, not 2"),
        ({"conf": "x"}, "conf must be a number from 0 to 1, not x"),
        ({"iou": "nan"}, "iou must be a number from 0 to 1, not nan"),
        ({"max": "0"}, "max must be a whole number of at least 1, not 0"),
        ({"max": "9" * 30}, "max must be a whole number of at least 1, not 9"),
        ({"agnostic": "1"}, "agnostic must be yes or no, not 1"),
        ({"background": "-1"}, "background must be a whole number of at least 0, not -1"),
        ({"class_map": "/nowhere/names.txt"}, "class_map="),
        ({"class_map": "coco80"}, None),
    ],
)
def test_options_are_checked(options, words):
    if words is None:
        assert "coco80" in prepare(POSTPROCESS, options).settings["class_map"]
        return
    with pytest.raises(BadInput, match=words) as caught:
        prepare(POSTPROCESS, options)
    assert caught.value.advice


def yolo_rows(size=64):
    rows = np.zeros((size, 7))
    rows[:, :4] = np.random.default_rng(0).uniform(5, 90, (size, 4))
    rows[3] = (25, 40, 30, 40, 0.9, 0.05, 0.02)  # box, then three classes
    return rows


@pytest.mark.parametrize(
    ("shape", "output"),
    [
        ((1, 64, 7), lambda rows: rows[None]),
        ((1, 7, 64), lambda rows: rows.T[None]),
        ((1, 7, "n"), lambda rows: rows.T[None]),
    ],
)
def test_yolov8_by_row_and_by_column(shape, output):
    scorer = prepare([("output0", shape)])
    assert scorer.settings["decode"] == "yolov8"
    assert scorer.settings["normalised"] == "no, assumed"
    record = scorer.record([output(yolo_rows())], sample(CAT), PLAIN)
    assert [row[4] for row in record["dt"]] == [0, 1, 2]  # one box for each class above 0.001
    assert record["dt"][0] == pytest.approx([10, 20, 40, 60, 0, 0.9])
    best = prepare([("output0", shape)], {"labels": "best"}).record([output(yolo_rows())], sample(CAT), PLAIN)
    assert len(best["dt"]) == 1


def test_yolov5_is_told_by_the_number_of_classes():
    scorer = prepare([("output", (1, 64, 8))])
    assert scorer.settings["decode"] == "yolov5"
    rows = np.zeros((1, 64, 8), np.float32)
    rows[0, :, :4] = 50
    rows[0, 5] = (25, 40, 30, 40, 0.5, 0, 0.5, 0)
    assert scorer.record([rows], sample(CAT), PLAIN)["dt"] == [[10, 20, 40, 60, 1, 0.25]]


def test_yolo_suppresses_what_overlaps():
    rows = yolo_rows()
    rows[4] = rows[3] * [1.01, 1, 1, 1, 0.5, 1, 1]
    kept = prepare([("o", (1, 64, 7))], {"conf": "0.2"}).record([rows[None]], sample(CAT), PLAIN)["dt"]
    assert len(kept) == 1
    assert (
        len(prepare([("o", (1, 64, 7))], {"conf": "0.2", "iou": "none"}).record([rows[None]], sample(CAT), PLAIN)["dt"])
        == 2
    )


def test_boxes_that_look_normalised_are_not_taken_for_pixels():
    rows = yolo_rows()
    rows[:, :4] /= 100
    with pytest.raises(BadInput, match=r"cat.jpg: all boxes are smaller than 2 pixels"):
        prepare([("o", (1, 64, 7))]).record([rows[None]], sample(CAT), PLAIN)
    record = prepare([("o", (1, 64, 7))], {"normalised": "yes"}).record([rows[None]], sample(CAT), PLAIN)
    assert record["dt"][0] == pytest.approx([10, 20, 40, 60, 0, 0.9])
    # said by the user, tiny boxes are tiny boxes
    assert prepare([("o", (1, 64, 7))], {"normalised": "no"}).record([rows[None]], sample(CAT), PLAIN)["dt"]


@pytest.mark.parametrize("shape", [(1, 100, 85), (1, 100, 100), (1, 6), (100, 84)])
def test_a_single_output_that_could_be_anything_is_refused(shape):
    with pytest.raises(BadInput, match=says("not-clear-how-read-boxes")):
        prepare([("o", shape)])


def test_a_model_of_other_classes_needs_a_map(tmp_path):
    scorer = prepare([("o", (1, 84, 100))])
    output = np.full((1, 84, 100), 50.0)
    output[0, 4:] = 0
    output[0, 4 + 15, 7] = 0.8  # COCO's cat
    output[0, 4 + 0, 9] = 0.9  # a person, whom the data does not know
    with pytest.raises(BadInput, match=says("model-scores-classes-known", name="cat.jpg", count=80, expected=3)):
        scorer.record([output], sample(CAT), PLAIN)
    mapped = prepare([("o", (1, 84, 100))], {"class_map": "coco80"})
    assert [row[4:] for row in mapped.record([output], sample(CAT), PLAIN)["dt"]] == [[0, 0.8]]
    assert re.search(says("data-classes-known-model", known=3, data_count=3), mapped.settings["class_map"])
    assert mapped.settings["categories_of_classes"][15] == 0
    names = tmp_path / "names.txt"
    names.write_text("\n".join(COCO80))
    assert prepare([("o", (1, 84, 100))], {"class_map": str(names)}).record([output], sample(CAT), PLAIN)["dt"]
    by_model = prepare([("o", (1, 84, 100))], classes=COCO80)
    assert [row[4] for row in by_model.record([output], sample(CAT), PLAIN)["dt"]] == [0]


def test_names_without_one_in_common_are_refused(tmp_path):
    with pytest.raises(BadInput, match=says("no-class-model-name-one")):
        prepare(POSTPROCESS, classes=("a", "b", "c"))
    with pytest.raises(BadInput, match=says("data-does-not-name-classes")):
        prepare(POSTPROCESS, {"class_map": "coco91"}, data=Data(classes=()))


def test_coco_classes_have_their_ids():
    assert (len(COCO80), len(COCO91)) == (80, 90)
    ids = {name: index + 1 for index, name in enumerate(COCO91) if name}
    assert [ids[name] for name in ("person", "stop sign", "cat", "backpack", "wine glass", "tv", "toothbrush")] == [
        1, 13, 17, 27, 46, 72, 90,
    ]  # fmt: skip


def test_a_background_class_shifts_those_behind_it():
    scorer = prepare(POSTPROCESS, {"background": "0"})
    rows = postprocess((0, 0, 1, 1, 0, 0.9), (0, 0, 1, 1, 1, 0.8), (0, 0, 1, 1, 3, 0.7))
    assert [row[4] for row in scorer.record(rows, sample(CAT), PLAIN)["dt"]] == [0, 2]


def test_classes_out_of_range_name_the_sample():
    with pytest.raises(BadInput, match=r"cat.jpg: the model found class 3, but 3 classes are known"):
        prepare(POSTPROCESS).record(postprocess((0, 0, 1, 1, 3, 0.7)), sample(CAT), PLAIN)
    with pytest.raises(BadInput, match=says("model-found-class", name="cat.jpg", number="", known=has("-1"))):
        prepare(POSTPROCESS).record(postprocess((0, 0, 1, 1, 0.5, 0.7)), sample(CAT), PLAIN)
    # what lies below the threshold is filling, whatever its class
    assert prepare(POSTPROCESS).record(postprocess((0, 0, 1, 1, 77, 0.0)), sample(CAT), PLAIN)["dt"] == []
    unknown = prepare(POSTPROCESS, data=Data(classes=()))
    assert unknown.record(postprocess((0, 0, 1, 1, 7, 0.5)), sample(CAT), PLAIN)["dt"][0][4] == 7


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (None, says("no-boxes-label")),
        (3, says("no-boxes-label")),
        ((1, 2), says("no-boxes-label")),
        (
            (Box(left=0, top=0, right=5, bottom=5, category=3),),
            says("box-labelled-there-classes", category=3, categories=3),
        ),
        ((Box(left=0, top=0, right=5, bottom=5, category=-1),), says("box-labelled-there-classes", category=-1)),
        ((Box(left=6, top=0, right=5, bottom=5, category=0),), says("box-none")),
        ((Box(left=0, top=0, right=float("nan"), bottom=5, category=0),), says("box-none")),
    ],
)
def test_bad_labels_name_the_sample(label, words):
    bad = Sample(index=4, name="x/4.jpg", data=np.zeros((9, 9, 3), np.uint8), label=label)
    with pytest.raises(BadInput, match=words) as caught:
        prepare(POSTPROCESS).record(postprocess(), bad, PLAIN)
    assert "x/4.jpg" in caught.value.message


def test_data_without_labels_is_refused():
    with pytest.raises(BadInput, match=says("no-labels")):
        prepare(POSTPROCESS, data=Data(labelled=False))


@pytest.mark.parametrize(
    "outputs",
    [
        postprocess()[:3],
        [np.zeros((1, 10, 5)), *postprocess()[1:]],
        [np.zeros((1, 9, 4)), *postprocess()[1:]],
        postprocess((0, 0, 1, 1, 0, np.nan)),
        postprocess((0, np.nan, 1, 1, 0, 0.5)),
    ],
)
def test_outputs_that_can_not_be_read_name_the_sample(outputs):
    with pytest.raises(BadInput, match=r"cat\.jpg: "):
        prepare(POSTPROCESS).record(outputs, sample(CAT), PLAIN)


def test_a_sample_that_is_no_image_has_no_boxes():
    with pytest.raises(BadInput, match=says("sample-not-image-so-no")):
        prepare(POSTPROCESS).record(postprocess(), sample(CAT), Preparation())


SSD = (("box_encodings", (1, 4, 4)), ("class_predictions", (1, 4, 4)))
ANCHORS = np.array([[0.5, 0.5, 1, 1], [0.25, 0.4, 0.3, 0.4], [0.5, 0.5, 0.2, 0.2], [0.1, 0.1, 0.2, 0.2]])


def ssd_options(path, **others):
    return {"anchors": str(path), "activation": "sigmoid", "order": "cxcywh", **others}


def write_anchors(path, form="npy", anchors=ANCHORS):
    if form == "npy":
        np.save(path, anchors)
    else:
        path.write_text("\n".join(",".join(map(str, row)) for row in anchors.tolist()))
    return path


@pytest.mark.parametrize("form", ["npy", "csv"])
@pytest.mark.parametrize("y_first", [False, True])
def test_ssd_against_anchors(tmp_path, form, y_first):
    anchors = ANCHORS[:, [1, 0, 3, 2]] if y_first else ANCHORS
    path = write_anchors(tmp_path / f"anchors.{form}", form, anchors)
    scorer = prepare(SSD, ssd_options(path, order="cycxhw" if y_first else "cxcywh"))
    assert scorer.settings["anchors"] == 4
    scores = np.full((1, 4, 4), -20.0)
    scores[0, 1] = (5, 3, -20, -20)  # background, cat, …
    encodings = np.zeros((1, 4, 4))
    encodings[0, 1, 1 if y_first else 0] = 1.0  # a tenth of the width to the right
    record = scorer.record([encodings, scores], sample(CAT), PLAIN)
    assert len(record["dt"]) == 1
    assert record["dt"][0] == pytest.approx([13, 20, 43, 60, 0, 1 / (1 + np.exp(-3))])


def test_ssd_softmax_and_what_must_be_said(tmp_path):
    path = write_anchors(tmp_path / "anchors.npy")
    for left_out in ("activation", "order", "anchors"):
        options = {key: value for key, value in ssd_options(path, decode="ssd").items() if key != left_out}
        with pytest.raises(BadInput):
            prepare(SSD, options)
    scorer = prepare(SSD, ssd_options(path, activation="softmax", conf="0.5"))
    scores = np.zeros((1, 4, 4))
    scores[0, 2, 3] = 10
    record = scorer.record([np.zeros((1, 4, 4)), scores], sample(CAT), PLAIN)
    assert record["dt"][0][:5] == pytest.approx([40, 40, 60, 60, 2])
    with pytest.raises(BadInput, match=says("not-clear-which-output-what")):
        prepare((("a", (1, 4, 4)), ("b", (1, 4, 4))), ssd_options(path))


def test_anchors_are_hostile_input(tmp_path):
    path = tmp_path / "a.npy"
    cases = {
        "pickle": lambda: np.save(path, np.array([{}], object), allow_pickle=True),
        "shape": lambda: np.save(path, np.zeros((3, 5))),
        "nan": lambda: np.save(path, np.full((3, 4), np.nan)),
        "empty": lambda: path.write_bytes(b""),
        "text": lambda: path.write_bytes(b"not numpy"),
    }
    for write in cases.values():
        write()
        with pytest.raises(BadInput, match="anchors"):
            prepare(SSD, ssd_options(path))
    # a header that claims far more than there is
    np.save(path, np.zeros((4, 4)))
    path.write_bytes(path.read_bytes().replace(b"(4, 4), ", b"(4, 4000000000),", 1)[:200])
    with pytest.raises(BadInput, match=says("anchors-cant-read")):
        prepare(SSD, ssd_options(path))
    ragged = tmp_path / "a.csv"
    ragged.write_text("1,2,3,4\n1,2,3\n")
    with pytest.raises(BadInput, match=says("anchors-cant-read")):
        prepare(SSD, ssd_options(ragged))
    for scales in ("1,2,3", "0,1,1,1", "a,b,c,d", "nan,1,1,1"):
        with pytest.raises(BadInput, match="scales must be four positive numbers"):
            prepare(SSD, ssd_options(write_anchors(path), scales=scales))


def test_other_anchors_than_the_model_s_name_the_sample(tmp_path):
    scorer = prepare(SSD, ssd_options(write_anchors(tmp_path / "a.npy", anchors=ANCHORS[:3])))
    with pytest.raises(BadInput, match=r"cat\.jpg: there are 3 anchors, but 4 boxes"):
        scorer.record([np.zeros((1, 4, 4)), np.zeros((1, 4, 4))], sample(CAT), PLAIN)


def test_rows_of_openvino_s_detection_output():
    scorer = prepare([("detection_out", (1, 1, 200, 7))])
    assert (scorer.settings["decode"], scorer.settings["normalised"]) == ("rows", True)
    rows = np.zeros((1, 1, 3, 7), np.float32)
    rows[0, 0, 0] = (0, 2, 0.5, 0.25, 0.5, 0.5, 0.75)
    rows[0, 0, 1, 0] = -1
    assert scorer.record([rows], sample(CAT), PLAIN)["dt"] == [[25, 50, 50, 75, 2, 0.5]]
