"""What outputs are taken to be where no labels say it, and how boxes are compared."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from edgewise.errors import BadInput
from edgewise.evaluating.agreement import BoxTable, compare_boxes, compare_sample
from edgewise.evaluating.output_format import find_output_format
from edgewise.evaluating.task import TaskContext
from edgewise.evaluating.tasks.boxes import Detections
from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.signature import Signature, TensorSpec
from messages import says, wording
from small_selections import Rows

RNG = np.random.default_rng(0)
LANDMARKS = 42
YOLO_BOXES = 64 * 64 // 64 + 64 * 64 // 256 + 64 * 64 // 1024
"""Of an input of 64 by 64 pixels."""


def network(*ends):
    """A graph with one output for each of `ends`: the operators before it, the last one last."""
    operators, outputs, names = [], [], ["x"]
    for end in ends:
        name = "x"
        for op in end:
            made = f"t{len(operators)}"
            operators.append(Operator(index=len(operators), name=made, op=op, inputs=(name,), outputs=(made,)))
            names.append(made)
            name = made
        outputs.append(name)
    tensors = {name: Tensor(name=name, shape=None, dtype="float32") for name in names}
    return Graph(name="", format="onnx", tensors=tensors, operators=tuple(operators), inputs=("x",),
                 outputs=tuple(outputs))  # fmt: skip


def form(samples, *, ends=(("Conv",),), image=None, task=None, classes=(), options=None):
    samples = [[np.asarray(each, np.float32) for each in outputs] for outputs in samples]
    specs = tuple(TensorSpec(name=f"y{at}", shape=each.shape, dtype="float32") for at, each in enumerate(samples[0]))
    context = TaskContext(
        signature=Signature(inputs=(), outputs=specs), data=Rows([]), classes=classes, options=options or {}
    )
    return find_output_format(network(*ends), samples, context, image=image, task=task)


def softmax(rows):
    raised = np.exp(rows - rows.max(axis=-1, keepdims=True))
    return raised / raised.sum(axis=-1, keepdims=True)


def yolo(count, *, poses=False):
    """Outputs of a detector that finds so many boxes in every picture: [1, 4 + classes, boxes], pixels and scores."""
    output = np.zeros((1, 4 + 3 + (4 if poses else 0), YOLO_BOXES))
    output[0, :2] = RNG.uniform(0, 64, (2, YOLO_BOXES))
    output[0, 2:4] = RNG.uniform(7.9, 8.1, (2, YOLO_BOXES))
    output[0, 4:7] = RNG.uniform(0.02, 0.03, (3, YOLO_BOXES))
    output[0, 4, :count] = 0.9
    output[0, 0, :count] = 8.0 + 16.0 * np.arange(count)
    output[0, 1, :count] = 32.0
    if poses:
        output[0, 7:] = RNG.uniform(-5, 64, (4, YOLO_BOXES))
    return output


@pytest.mark.parametrize("shape", [(1, 10), (1, 10, 1, 1), (1, 7, 10)])
def test_rows_of_probabilities_are_class_scores(shape):
    samples = [[softmax(RNG.normal(size=shape, scale=3.0).reshape(1, -1, 10)).reshape(shape)] for _ in range(16)]
    found = form(samples, ends=(("Conv", "Softmax"),))
    assert (found.kind, found.headline) == ("classes", "agreement_top1") and "probabilities" in found.because


def test_logits_are_class_scores_where_their_order_changes_and_landmarks_are_not():
    logits = [[RNG.normal(size=(1, 10))] for _ in range(16)]
    assert form(logits).kind == "classes"
    # Coordinates stay near where such a point usually is.
    places = RNG.uniform(0, 192, LANDMARKS)
    landmarks = [[(places + RNG.normal(size=LANDMARKS, scale=8.0))[None]] for _ in range(16)]
    found = form(landmarks)
    assert (found.kind, found.headline) == ("values", "output_snr_worst")
    assert form(landmarks, task="classification").kind == "classes"
    assert form(logits, task="regression").kind == "values"
    names = [str(number) for number in range(LANDMARKS)]
    assert form(landmarks, classes=names).kind == "classes"


def test_anchors_masks_states_and_single_numbers_are_values():
    anchors = [[RNG.normal(size=(1, 896, 16)), RNG.normal(size=(1, 896, 1))] for _ in range(16)]
    mask = [[1 / (1 + np.exp(-RNG.normal(size=(1, 32, 32, 1))))] for _ in range(16)]
    speech = [[RNG.uniform(size=(1, 1)), RNG.normal(size=(2, 1, 128))] for _ in range(16)]
    assert form(anchors, ends=(("Conv",), ("Conv",)), image=(128, 128)).kind == "values"
    found = form(mask, ends=(("Conv", "Sigmoid", "Identity"),))
    # Against 1, a mask that is 0 almost everywhere would lose nothing by being 0 everywhere.
    assert (found.kind, found.probabilities) == ("values", (False,))
    found = form(speech, ends=(("Gemm", "Sigmoid", "ReduceMean", "Reshape"), ("LSTM",)))
    assert (found.kind, found.probabilities) == ("values", (True, False))
    assert found.to_document()["probabilities"] == [True, False]
    with pytest.raises(BadInput, match=says("no-output-score-each-class")):
        form([[RNG.uniform(size=(1, 1))]], task="classification")


@pytest.mark.parametrize("poses", [False, True])
def test_a_yolo_is_known_by_the_number_of_its_boxes(poses):
    found = form([[yolo(3, poses=poses)] for _ in range(16)], image=(64, 64))
    assert (found.kind, found.headline) == ("boxes", "agreement_boxes")
    assert (
        found.boxes.classes == 3
        and wording("there-boxes-input-pixels-yolo", count=YOLO_BOXES, image=64, image_2=64) in found.because
    )
    assert len(found.boxes.find([yolo(3, poses=poses)]).scores) == 3
    # Of another input such a shape may be anything.
    assert form([[yolo(3)] for _ in range(16)], image=(80, 64)).kind == "values"


def test_a_detector_that_finds_nothing_in_the_samples_is_judged_by_its_values():
    found = form([[yolo(0)] for _ in range(16)], image=(64, 64))
    assert found.kind == "values" and re.search(
        says("original-finds-boxes-samples-too", count=0, samples_count=16), found.because
    )


def test_boxes_that_were_asked_for_and_cannot_be_read_are_refused():
    with pytest.raises(BadInput, match=says("not-clear-how-read-boxes")):
        form([[RNG.normal(size=(1, 896, 16)), RNG.normal(size=(1, 896, 1))]], ends=(("Conv",), ("Conv",)),
             task="detection")  # fmt: skip


def boxes(*rows):
    table = np.array(rows, np.float64).reshape(-1, 6)
    return Detections(boxes=table[:, :4], scores=table[:, 4], classes=table[:, 5].astype(np.int64))


def test_boxes_match_by_overlap_and_class_once():
    reference = boxes((0, 0, 10, 10, 0.9, 0), (20, 0, 30, 10, 0.8, 0), (40, 0, 50, 10, 0.7, 1))
    own = boxes((0, 1, 10, 11, 0.9, 0), (0, 0, 10, 10, 0.5, 0), (20, 0, 30, 10, 0.8, 1), (40, 0, 50, 10, 0.7, 1))
    assert compare_boxes(own, reference) == [2, 4, 3]
    assert compare_boxes(boxes(), reference) == [0, 0, 3]
    assert BoxTable([[2, 4, 3], [0, 0, 3]]).values() == {"agreement_boxes": pytest.approx(0.4)}
    assert BoxTable([[2, 4, 3], [0, 0, 3]]).values(np.array([1.0, 0.0]))["agreement_boxes"] == pytest.approx(4 / 7)
    nothing = BoxTable([[0, 0, 0]])
    assert math.isnan(nothing.values()["agreement_boxes"]) and nothing.explain("agreement_boxes")


def test_top1_of_raw_boxes_says_nothing_and_their_boxes_do():
    """The issue's case: noise of int8 changes which anchor is the largest, and no box."""
    reference = yolo(3)
    own = reference + RNG.normal(size=reference.shape, scale=0.005) * np.array([64.0] * 4 + [1.0] * 3)[:, None]
    rows, same, *_ = compare_sample([own], [reference])
    assert same < 0.7 * rows
    found = form([[reference]] * 16, image=(64, 64)).boxes
    assert compare_boxes(found.find([own]), found.find([reference])) == [3, 3, 3]
