"""Names of classes in model files, with everything that a file of somebody else's may hold in their place."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.evaluating.class_names import parse_names, read_class_names
from edgewise.evaluating.instructions import find_instructions
from protobuf_writer import message

IR = """<?xml version="1.0"?>
<net name="m" version="11"><layers/><edges/>
<rt_info><info name="OpenVINO Runtime" value="2026"/>
<model_info><iou_threshold value="0.7"/><labels value="{}"/><model_type value="YOLO"/></model_info></rt_info></net>
"""


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{0: 'person', 1: 'bicycle'}", ("person", "bicycle")),
        ('{"1": "b", "0": "a"}', ("a", "b")),
        ("['a', 'b c']", ("a", "b c")),
        ('{"task": "detect", "end2end": true, "names": {"0": "x"}}', ("x",)),
        ("{'description': 'YOLO', 'names': {0: 'x', 1: 'y'}, 'imgsz': [640, 640]}", ("x", "y")),
        ("{0: 'a', 2: 'b'}", ()),
        ("{0: 'a', 1: 2}", ()),
        ("{'a': 0}", ()),
        ("80", ()),
        ("person", ()),
        ("", ()),
        ("[" * 10_000, ()),
        ("__import__('os').getcwd()", ()),
    ],
)
def test_names_are_read_from_literals_alone(text, names):
    assert parse_names(text) == names


@given(st.text(max_size=60))
def test_any_text_is_names_or_nothing(text):
    assert all(isinstance(name, str) for name in parse_names(text))


def onnx_file(path: Path, **properties: str) -> Path:
    entries = [(14, message((1, key), (2, value))) for key, value in properties.items()]
    path.write_bytes(message((7, b"a graph, which is not read"), *entries))
    return path


def test_onnx_metadata(tmp_path):
    file = onnx_file(tmp_path / "m.onnx", stride="32", names="{0: 'a', 1: 'b'}")
    assert read_class_names(file, "onnx") == ("a", "b")
    assert find_instructions(file, form="onnx").classes_from == "metadata of m.onnx"
    assert read_class_names(onnx_file(tmp_path / "n.onnx", stride="32"), "onnx") == ()
    damaged = tmp_path / "d.onnx"
    for content in (b"", b"\x72\xff", b"\x72\x05\x0a\x09ab"):
        damaged.write_bytes(content)
        assert read_class_names(damaged, "onnx") == ()
    assert read_class_names(tmp_path / "none.onnx", "onnx") == ()


def test_openvino_rt_info(tmp_path):
    file = tmp_path / "m.xml"
    file.write_text(IR.format("cat traffic_light caf&#233;"))
    assert read_class_names(file, "openvino") == ("cat", "traffic_light", "café")
    file.write_text(IR.replace("labels", "other"))
    assert read_class_names(file, "openvino") == ()


def test_metadata_appended_to_tflite(tmp_path):
    file = tmp_path / "m.tflite"
    file.write_bytes(b"\x18\0\0\0TFL3" + bytes(64))
    assert read_class_names(file, "tflite") == ()
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("metadata.json", '{"names": {"0": "x", "1": "y"}, "half": false}')
    assert read_class_names(file, "tflite") == ("x", "y")


def test_the_file_beside_the_model_counts_more_than_its_metadata(tmp_path):
    file = onnx_file(tmp_path / "m.onnx", names="['a', 'b']")
    (tmp_path / "m.yaml").write_text("edgewise: 1\nclasses: [c, d]\n")
    found = find_instructions(file, form="onnx")
    assert (found.classes, found.classes_from) == (("c", "d"), "")
