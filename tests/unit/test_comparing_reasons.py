"""Why a variant is faster, in a line: from the files of the two models."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import edgewise.data
from edgewise.comparing.comparison import Variant
from edgewise.comparing.reasons import explain_files, explain_verdicts
from edgewise.model.identity import open_model, read_graph
from edgewise.report.comparison.document import comparison_document
from edgewise.report.document.text import plain_text, print_titled
from edgewise.verbs.compare.work import with_changes
from sample_comparisons import two_variants

FOLDER = Path(edgewise.data.__file__).parent
FLOAT, INT8, ONNX = (open_model(FOLDER / f"digits_cnn{end}").ref for end in (".tflite", "_int8.tflite", ".onnx"))
INTO_INT8 = "heavy operators compute in int8 (all 6) in q, in float32 (all 6) in f"


def compared(a, b):
    """A and B of `two_variants` with these model files."""
    found = two_variants()
    runs = [
        replace(one.run, job=replace(one.run.job, model=ref)) for one, ref in zip(found.variants, (a, b), strict=True)
    ]
    return replace(found, variants=(Variant(label="A", run=runs[0]), Variant(label="B", run=runs[1])))


def test_files_of_one_format_differ_in_types_and_in_numbers_of_operators():
    assert explain_files(FLOAT, INT8, ("f", "q")) == INTO_INT8
    assert (
        explain_files(INT8, FLOAT, ("q", "f"))
        == "heavy operators compute in float32 (all 6) in f, in int8 (all 6) in q"
    )


def test_files_that_are_gone_changed_or_equal_say_nothing(tmp_path):
    labels = ("a", "b")
    assert explain_files(FLOAT, FLOAT, labels) == ""
    gone = replace(INT8, path=str(tmp_path / "gone.tflite"))
    other = replace(INT8, path=FLOAT.path)
    assert explain_files(FLOAT, gone, labels) == explain_files(FLOAT, other, labels) == ""


def test_the_reason_stands_on_the_line_after_the_verdict():
    found = compared(FLOAT, INT8)
    found = replace(found, reasons=explain_verdicts(found, {}))
    document = comparison_document(found)
    assert document.answer == ("heavy operators compute in int8 (all 6) in B, in float32 (all 6) in A",)
    assert found.to_document()["reasons"] == {"B": document.answer[0]}
    lines = plain_text(partial(print_titled, document), width=80).splitlines()
    at = lines.index("heavy operators compute in int8 (all 6) in B, in float32 (all 6) in A")
    assert lines[at - 1].startswith("larger in peak memory") and lines[at + 1 : at + 3] == ["", lines[at + 2]]


def test_one_file_in_two_engines_leads_to_its_profiles():
    found = compared(ONNX, ONNX)
    (line,) = explain_verdicts(found, {ONNX.path: "my model.onnx"}).values()
    assert "'edgewise profile 'my model.onnx' -r onnxruntime,openvino'" in line
    assert explain_verdicts(found, {}) == {"B": ""}  # stored runs: no file was typed


def test_one_file_in_one_engine_with_other_settings_needs_no_profiles():
    found = compared(ONNX, ONNX)
    first, second = found.variants
    one = replace(first.run.job.runtime, name="onnxruntime", provider="cpu", threads=1)
    typed = {ONNX.path: "m.onnx"}
    for other, has_reason in ((replace(one, threads=2), False), (replace(one, version="9"), True), (one, True)):
        runs = [
            replace(run, job=replace(run.job, runtime=spec, target=first.run.job.target))
            for run, spec in ((first.run, one), (second.run, other))
        ]
        variants = (replace(first, run=runs[0]), replace(second, run=runs[1]))
        (line,) = explain_verdicts(replace(found, variants=variants), typed).values()
        assert line.startswith("why is not known without profiles") == has_reason == bool(line)


def test_no_verdict_has_no_reason():
    found = compared(FLOAT, INT8)
    found = replace(found, comparisons=tuple(replace(row, verdict="inconclusive") for row in found.comparisons))
    assert explain_verdicts(found, {}) == {}


def test_what_differs_in_two_files_at_hand_stands_beside_the_model(tmp_path):
    graph = read_graph(ONNX)
    place = next(tensor.data for tensor in graph.tensors.values() if tensor.constant and len(tensor.shape or ()) > 1)
    changed = bytearray(Path(ONNX.path).read_bytes())
    changed[place.offset] ^= 1
    file = tmp_path / "other.onnx"
    file.write_bytes(changed)
    stated = ("model: A digits_cnn.onnx, B other.onnx", "threads: A 1, B 2")
    found = replace(compared(ONNX, open_model(file).ref), stated=stated)
    layers = sum(bool(each.weights) for each in graph.operators)
    told = f"model (same structure, other weights in 1 of {layers} layers)"
    assert with_changes(found).stated == (f"{told}: A digits_cnn.onnx, B other.onnx", stated[1])
    sections = {section.title: section for section in comparison_document(with_changes(found)).sections}
    assert sections["What differs"].brief == f"{told}, threads"
    assert with_changes(replace(compared(ONNX, FLOAT), stated=stated)).stated == stated  # of two formats
    file.unlink()
    assert with_changes(found).stated == stated
