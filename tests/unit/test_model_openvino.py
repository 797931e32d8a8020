"""OpenVINO IR: shapes, types, names, weights and XML that means harm."""

from __future__ import annotations

import hashlib
import re

import pytest

from edgewise.errors import BadModel
from edgewise.model.identity import open_model, read_graph
from edgewise.model.signature import TensorSpec
from messages import says, wording

RESULT = '<layer id="9" name="r" type="Result"><input><port id="0" precision="FP32"><dim>1</dim></port></input></layer>'


def parameter(shape, dtype="f32", *, name="x", id_="0", names=""):
    names = f' names="{names}"' if names else ""
    return (
        f'<layer id="{id_}" name="{name}" type="Parameter" version="opset1">'
        f'<data shape="{shape}" element_type="{dtype}"/><output><port id="0"{names}/></output></layer>'
    )


def write(path, *layers, edges="", root='<net name="m" version="11">', result=RESULT):
    path.write_text(
        f'<?xml version="1.0"?>{root}<layers>{"".join(layers)}{result}</layers><edges>{edges}</edges></net>'
    )
    return path


def inputs(path):
    return open_model(path).signature.inputs


def refuse(path):
    with pytest.raises(BadModel) as caught:
        open_model(path)
    assert "\n" not in caught.value.message
    assert caught.value.advice
    return caught.value.message


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("1,3,224,224", (1, 3, 224, 224)),
        ("1, 3", (1, 3)),
        ("?,-1,5", (None, None, 5)),
        ("1..8,..4,2..,6..6", (None, None, None, 6)),
        ("0", (0,)),
        ("", ()),
        ("...", None),
    ],
)
def test_shapes(tmp_path, text, shape):
    assert inputs(write(tmp_path / "m.xml", parameter(text)))[0].shape == shape


@pytest.mark.parametrize(
    "text", ["a", "1,,2", "1;2", "-2", "1..x", "..", "9" * 20, "9" * 19, "٣", "1.5", ",".join("1" * 65)]
)
def test_bad_shapes(tmp_path, text):
    refuse(write(tmp_path / "m.xml", parameter(text)))


@pytest.mark.parametrize(
    ("text", "dtype"),
    [("f32", "float32"), ("f16", "float16"), ("bf16", "bfloat16"), ("boolean", "bool"), ("i8", "int8"), ("u8", "uint8"),
     ("i64", "int64"), ("u4", "uint4"), ("string", "string"), ("f8e4m3", "float8_e4m3fn")],
)  # fmt: skip
def test_element_types(tmp_path, text, dtype):
    assert inputs(write(tmp_path / "m.xml", parameter("1", text)))[0].dtype == dtype


def test_names_and_order(tmp_path):
    layers = [parameter("1", name="b", id_="3"), parameter("2", name="a", id_="1", names="zz,b\\,c,da")]
    assert [spec.name for spec in inputs(write(tmp_path / "m.xml", *layers))] == ["b", "b,c"]


def test_an_output_is_called_by_its_own_names_then_its_producers_then_its_layer(tmp_path):
    port = '<input><port id="0" precision="I64"><dim>-1</dim><dim>2</dim></port></input>'
    producer = '<layer id="5" name="op" type="Relu"><output><port id="1" names="p"/></output></layer>'
    edge = '<edge from-layer="5" from-port="1" to-layer="7" to-port="0"/>'
    results = (
        f'<layer id="6" name="r1" type="Result" output_names="own">{port}</layer>'
        f'<layer id="7" name="r2" type="Result">{port}</layer><layer id="8" name="r3" type="Result">{port}</layer>'
    )
    signature = open_model(write(tmp_path / "m.xml", producer, edges=edge, result=results)).signature
    assert signature.outputs == tuple(TensorSpec(name=n, shape=(None, 2), dtype="int64") for n in ("own", "p", "r3"))


def test_an_output_without_dimensions_has_an_unknown_shape(tmp_path):
    result = '<layer id="9" name="r" type="Result"><input><port id="0" precision="BOOL"/></input></layer>'
    signature = open_model(write(tmp_path / "m.xml", result=result)).signature
    assert signature.outputs == (TensorSpec(name="r", shape=None, dtype="bool"),)


CONST = '<layer id="4" name="c" type="Const"><data offset="{}" size="{}" element_type="f32" shape="1"/></layer>'


def test_weights_count_in_hash_and_size(tmp_path):
    path = write(tmp_path / "m.xml", parameter("1"), CONST.format(4, 8))
    (tmp_path / "m.bin").write_bytes(b"w" * 12)
    model = open_model(path)
    assert model.files == (path, tmp_path / "m.bin")
    assert model.ref.sha256 == hashlib.sha256(path.read_bytes() + b"w" * 12).hexdigest()
    assert model.ref.size_bytes == path.stat().st_size + 12


def test_a_model_without_constants_needs_no_weights(tmp_path):
    path = write(tmp_path / "m.xml", parameter("1"))
    assert open_model(path).files == (path,)


def test_weights_missing_or_short(tmp_path):
    path = write(tmp_path / "m.xml", CONST.format(0, 4))
    assert re.search(says("cant-used-weight-file-missing", name_2="m.bin"), refuse(path))
    (tmp_path / "m.bin").write_bytes(b"123")
    assert re.search(says("truncated-bytes-least-needed", size=3, weight_bytes=4), refuse(path))


def test_weights_behind_a_link_out_of_the_folder_are_refused(tmp_path):
    (tmp_path / "private").write_bytes(b"w" * 12)
    folder = tmp_path / "model"
    folder.mkdir()
    for name, layer in (("m", CONST.format(4, 8)), ("bare", "")):  # the engine opens the file in any case
        path = write(folder / f"{name}.xml", parameter("1"), layer)
        (folder / f"{name}.bin").symlink_to(tmp_path / "private")
        assert re.search(says("weights-outside-model-folder-through"), refuse(path))
        with pytest.raises(BadModel, match=says("weights-outside-model-folder-through")):
            read_graph(path)
    (folder / "loop.bin").symlink_to(folder / "loop.bin")
    refuse(write(folder / "loop.xml", CONST.format(4, 8)))


def test_links_within_the_folder_and_to_a_cache_that_holds_both_are_fine(tmp_path):
    cache, snapshot = tmp_path / "blobs", tmp_path / "snapshots"
    cache.mkdir()
    snapshot.mkdir()
    write(cache / "aaa", parameter("1"), CONST.format(4, 8))
    (cache / "bbb").write_bytes(b"w" * 12)
    (snapshot / "m.xml").symlink_to(cache / "aaa")
    (snapshot / "m.bin").symlink_to(cache / "bbb")
    assert len(open_model(snapshot / "m.xml").files) == 2
    path = write(tmp_path / "n.xml", parameter("1"), CONST.format(4, 8))
    (tmp_path / "n.bin").symlink_to(cache / "bbb")
    assert len(open_model(path).files) == 2


def test_constants_of_a_loop_body_count(tmp_path):
    body = f'<layer id="2" name="l" type="Loop"><body><layers>{parameter("7")}{CONST.format(90, 10)}</layers></body></layer>'
    path = write(tmp_path / "m.xml", parameter("1"), body)
    assert "missing" in refuse(path)
    (tmp_path / "m.bin").write_bytes(b"w" * 100)
    assert [spec.shape for spec in inputs(path)] == [(1,)]  # the body's parameter is not the model's


def test_every_truncation_is_noticed(tmp_path):
    data = write(tmp_path / "m.xml", parameter("1,2")).read_bytes()
    for length in range(1, len(data)):
        (tmp_path / "m.xml").write_bytes(data[:length])
        refuse(tmp_path / "m.xml")


def test_versions(tmp_path):
    assert re.search(
        says("openvino-ir-version-later-read", version=7),
        refuse(write(tmp_path / "m.xml", root='<net name="m" version="7">')),
    )
    assert re.search(says("not-size"), refuse(write(tmp_path / "m.xml", root='<net name="m" version="x">')))
    assert open_model(write(tmp_path / "m.xml", root='<net name="m" version="10">')).ref.format == "openvino"


@pytest.mark.parametrize(
    "text",
    [
        '<?xml version="1.0"?><!DOCTYPE n [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><net name="&b;" version="11"/>',
        '<?xml version="1.0"?><!DOCTYPE net SYSTEM "file:///etc/passwd"><net name="m" version="11"/>',
        '<?xml version="1.0" encoding="nonsense"?><net name="m" version="11"/>',
        '<?xml version="1.0"?><a><net name="m" version="11"/></a>',
        '<net name="m" version="11"/>',
        '<net name="m" version="11"><layers><layer type="Parameter"/></layers></net>',
        '<net name="m" version="11"><layers><layer type="Result" name="' + "a" * 70_000 + '"/></layers></net>',
    ],
)
def test_hostile_and_broken_xml(tmp_path, text):
    (tmp_path / "m.xml").write_text(text)
    refuse(tmp_path / "m.xml")


def test_absurd_sizes_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.model.readers.openvino_layers.MAX_MARKS", 20)
    assert wording("xml-tag-more-than-bytes", max_marks=20) in refuse(write(tmp_path / "m.xml", "<a/>" * 20))
    monkeypatch.setattr("edgewise.model.readers.openvino_layers.MAX_BYTES", 100)
    assert wording("xml-larger-than-bytes", max_bytes=100) in refuse(write(tmp_path / "m.xml", parameter("1")))
