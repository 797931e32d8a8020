"""What stands beside a model: YAML files, flags, and how they win over one another."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from edgewise.data import path as bundled
from edgewise.errors import BadInput
from edgewise.evaluating.instructions import (
    Instructions,
    change_flags,
    change_options,
    files_of,
    find_instructions,
    read_document,
    read_flags,
    write_instructions,
)
from edgewise.evaluating.steps import parse_step
from messages import has, is_in, says, wording


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    file.write_bytes(b"whatever")
    return file


def beside(model: Path, text: str, name: str = "net.yaml") -> Path:
    file = model.with_name(name)
    file.write_text(text, encoding="utf-8")
    return file


def steps(found: Instructions, name: str = "") -> list[tuple[str, dict]]:
    return [(step.name, {k: v for k, v in step.to_document().items() if v is not None}) for step in found.steps[name]]


WHOLE = """\
edgewise: 1
task: detection
task_options: {decode: yolov8, confidence: 0.250}
classes: [no, 010, "two words", 3]
inputs:
  - resize: 256
  - resize: {size: [224, 320], filter: bicubic}
  - crop: 224
  - scale: 1/255
  - mean: [0.485, 0.456, 0.406]
  - std: 0.229,0.224,0.225
  - layout: nchw
  - flatten
"""


def test_a_whole_file(model):
    beside(model, WHOLE)
    found = find_instructions(model, form="onnx")
    assert found.task == "detection"
    assert found.task_options == {"decode": "yolov8", "confidence": "0.250"}
    assert found.classes == ("no", "010", "two words", "3")  # as they are written, whatever YAML makes of them
    assert found.origins == ("net.yaml",)
    assert steps(found) == [
        ("resize", {"size": 256, "filter": "bilinear"}),
        ("resize", {"size": [224, 320], "filter": "bicubic"}),
        ("crop", {"size": [224, 224]}),
        ("scale", {"by": ["1/255"]}),
        ("mean", {"values": [0.485, 0.456, 0.406]}),
        ("std", {"values": [0.229, 0.224, 0.225]}),
        ("layout", {"to": "nchw", "from": "nhwc"}),
        ("flatten", {}),
    ]


def test_the_file_of_the_whole_name_comes_first_and_only_ours_count(model):
    assert find_instructions(model, form="onnx") == Instructions()
    beside(model, "data: coco.yaml\nnames: [a, b]\n")
    assert find_instructions(model, form="onnx") == Instructions()
    beside(model, "{ broken: [", "net.onnx.yaml")
    assert find_instructions(model, form="onnx") == Instructions()
    beside(model, "edgewise: 1\ntask: regression\n")
    assert find_instructions(model, form="onnx").origins == ("net.yaml",)
    beside(model, "edgewise: 1\ntask: anomaly\n", "net.onnx.yaml")
    assert find_instructions(model, form="onnx").task == "anomaly"


def test_a_file_that_is_named_replaces_the_one_beside(model, tmp_path):
    beside(model, "edgewise: 1\ntask: regression\n")
    other = tmp_path / "other" / "mine.yaml"
    other.parent.mkdir()
    other.write_text("edgewise: 1\ntask: anomaly\n")
    assert find_instructions(model, form="onnx", file=other).task == "anomaly"
    other.write_text("task: anomaly\n")
    with pytest.raises(BadInput, match=says("no-key-edgewise")):
        find_instructions(model, form="onnx", file=other)
    with pytest.raises(BadInput, match=says("cant-read-in-safe-yaml")):
        find_instructions(model, form="onnx", file=tmp_path / "absent.yaml")


def test_flags_replace_all_steps_and_nothing_else(model):
    beside(model, "edgewise: 1\ntask: classification\nclasses: [a, b]\ninputs: [{scale: 2}, flatten]\n")
    found = find_instructions(model, form="onnx", flags=["resize=8,9", "mean=0.5"])
    assert steps(found) == [("resize", {"size": [8, 9], "filter": "bilinear"}), ("mean", {"values": [0.5]})]
    assert (found.task, found.classes) == ("classification", ("a", "b"))
    assert found.origins == ("net.yaml", "flags")
    assert find_instructions(model, form="onnx", flags=["none"]).steps == {"": ()}


def test_flags_for_inputs_settings_and_bare_words():
    found = read_flags(["serving_default_x:0:scale=1/2", "b:mono", "b:resize={size: 5, filter: lanczos}"])
    assert found["serving_default_x:0"] == (parse_step("scale", "1/2", where="test"),)
    assert [step.name for step in found["b"]] == ["mono", "resize"]
    assert found["b"][1].to_document() == {"size": 5, "filter": "lanczos"}


@pytest.mark.parametrize(
    ("flag", "name", "step", "settings"),
    [
        ("tête/α=1:0:scale=1/255", "tête/α=1:0", "scale", {"by": ["1/255"], "axis": None}),
        ("a b=c:mono", "a b=c", "mono", {}),
        ("scale:scale=2", "scale", "scale", {"by": [2], "axis": None}),
        (" x : resize = 4 ", "x", "resize", {"size": 4, "filter": "bilinear"}),
        ("rescale:0:layout=nchw", "rescale:0", "layout", {"to": "nchw", "from": "nhwc"}),
        ("x=1:resize={size: 5, filter: lanczos}", "x=1", "resize", {"size": 5, "filter": "lanczos"}),
    ],
)
def test_names_of_inputs_may_have_colons_equals_signs_and_spaces(flag, name, step, settings):
    ((found,),) = read_flags([flag]).values()
    assert list(read_flags([flag])) == [name]
    assert (found.name, found.to_document()) == (step, settings)


def test_the_name_of_a_file_may_look_like_a_step():
    ((step,),) = read_flags(["tokenize=dir:crop=1/mono"]).values()
    assert step.file.endswith("dir:crop=1/mono")


@pytest.mark.parametrize(
    ("flag", "message", "advice"),
    [
        ("tête/α=1:0:scal=1/255", says("there-no-step", name="'scal'"), says("did-you-mean-in-registry", near="scale")),
        ("rezise=4", says("there-no-step", name="'rezise'"), says("did-you-mean-in-registry", near="resize")),
        ("resize=", says("no-value-in-cells"), "resize=256"),
        ("resize", "needs 'size'", "resize takes size, [filter]"),
        ("resize=0", "size is '0'", "from 1 to 16384"),
        ("resize=1,2,3", "size is", "height,width"),
        ("resize=1e9", "size is", wording("whole-number")),
        (
            "resize={size: 4, filtre: nearest}",
            says("no-setting", name_2="filtre"),
            says("did-you-mean-in-registry", near="filter"),
        ),
        ("resize={size: 4, filter: bilinar}", "filter is 'bilinar'", wording("did-you-mean", near="bilinear")),
        ("scale=1/0", "by is", "fraction"),
        ("scale=nan", "by is", "finite"),
        ("scale=1e400", "by is", "finite"),
        ("std=0", "values is", wording("number-other-than-0")),
        ("std=0/5", "values is", wording("number-other-than-0")),
        ("flatten=3", says("takes-no-bare-value"), says("no-settings-in-step-settings")),
        ("layout=chw", "to is 'chw'", "nchw or nhwc"),
        ("mfcc=10", says("takes-no-bare-value"), "window_ms"),
        ("scale={by: *x}", says("anchor-alias-line"), wording("write-value-out-each-time")),
        ("scale={by: &x 1}", "anchor", wording("write-value-out-each-time")),
        ("=3", says("there-no-step", name="''"), "possible: resize"),
        ("pad=32,scale=1/255", "--prepare 'pad=32,scale=1/255' has several steps", "each step by its own --prepare"),
        ("x:0:resize=32, mean=0.1,0.2", "has several steps", "give each step by its own --prepare"),
        ("invert,scale=1/255", "has several steps", "give each step by its own --prepare"),
        ("pad=32,scal=1/255", "size is '32,scal=1/255'", "whole number"),
    ],
)
def test_bad_flags_name_what_is_possible(flag, message, advice):
    with pytest.raises(BadInput) as caught:
        read_flags([flag])
    assert is_in(message, caught.value.message)
    assert is_in(advice, caught.value.advice)
    assert "\n" not in caught.value.message + caught.value.advice


def test_none_stands_alone():
    with pytest.raises(BadInput, match=says("contradicts-other-steps")):
        read_flags(["none", "scale=2"])


@pytest.mark.parametrize(
    ("text", "message", "advice"),
    [
        ("edgewise: 1\nclases: [a]\n", wording("unknown-key", name="net.yaml", key="'clases'"), says("did-you-mean-in-registry", near="classes")),
        ("edgewise: 2\n", says("says-edgewise-version-reads", edgewise="'2'"), "update"),
        ("edgewise: 1\ninputs: 5\n", "net.yaml: inputs is '5'", wording("give-list-steps-each-resize")),
        ("edgewise: 1\ninputs: [{resize: 4, crop: 4}]\n", "net.yaml: inputs, step 1 is", wording("each-step-entry-own-resize")),
        ("edgewise: 1\ninputs:\n- flatten\n- cropp: 4\n", says("there-no-step", where=has("inputs, step 2"), name="'cropp'"), "'crop'"),
        ("edgewise: 1\ninputs: {x: [{crop: []}]}\n", "net.yaml: input 'x', step 1, crop: size is []", "pixels"),
        ("edgewise: 1\ninputs: [{resize: [[]]}]\n", "resize: size is [[]]", "1 to 16384"),
        ("edgewise: 1\nclasses: {a: 1}\n", "classes is", "list of names"),
        ("edgewise: 1\nclasses: [[a]]\n", "classes is", "list of names"),
        ("edgewise: 1\ntask: [a]\n", "task is", "name of a task"),
        ("edgewise: 1\ntask_options: [a]\n", "task_options is", "mapping"),
        ("edgewise: 1\ntask: a\ntask: b\n", "in line 3: the key 'task' is given twice", "fix"),
        ("edgewise: 1\n? [a]\n: b\n", "a key is not a word", "fix"),
        ("edgewise: 1\nclasses: &a [x]\ntask: *a\n", says("anchor-alias-line", line=2), wording("write-value-out-each-time")),
        ("edgewise: 1\ntask: !!python/object/apply:os.system [id]\n", says("tag-line"), wording("leave-out-in-calibrate")),
        ("edgewise: 1\ntask: !thing x\n", says("tag-line"), wording("leave-out-in-calibrate")),
        ("edgewise: 1\ntask: {\n", "is not YAML in line", "fix"),
        ("edgewise: 1\ntask: \x07\n", "is not YAML", "fix"),
        ("edgewise: 1\n---\nedgewise: 1\n", "is not YAML", "fix"),
        ("edgewise: 1\ninputs: " + "[" * 50 + "]" * 50 + "\n", says("nested-too-deeply-too-many"), wording("right-file")),
        ("edgewise: 1\nclasses: [" + "a," * 60_000 + "]\n", says("nested-too-deeply-too-many"), wording("right-file")),
        ("edgewise: 1\ntask: " + "a" * 300_000 + "\n", "characters", wording("put-classes-file-their-own")),
        ("edgewise: 1\ninputs: [" + "flatten," * 65 + "]\n", says("steps-more-than", raw_count=65), wording("right-file")),
        ("edgewise: 1\nclasses: ../secret.txt\n", says("names-which-outside-folder"), "beside it"),
        ("edgewise: 1\nclasses: /etc/passwd\n", says("names-which-outside-folder"), "beside it"),
        ("edgewise: 1\nclasses: labels.txt\n", says("names-which-not-there"), "put it into"),
        ('edgewise: 1\nclasses: "a\\0b"\n', says("names-file"), "beside it"),
        ("edgewise: 1\ninputs: [{tokenize: ../tokenizer.json}]\n", says("names-which-outside-folder"), "beside it"),
    ],
)  # fmt: skip
def test_hostile_files(model, text, message, advice):
    beside(model, text)
    with pytest.raises(BadInput) as caught:
        find_instructions(model, form="onnx")
    assert is_in(message, caught.value.message)
    assert is_in(advice, caught.value.advice)
    assert len(caught.value.message) < 500
    assert "\n" not in caught.value.message


def test_bytes_that_are_no_text_and_files_that_are_too_large(model):
    file = beside(model, "")
    file.write_bytes(b"edgewise: 1\n\xff\xfe")
    with pytest.raises(BadInput, match=says("not-text-utf-8")):
        find_instructions(model, form="onnx", file=file)
    file.write_bytes(b"edgewise: 1\n#" + b"x" * 2**22)
    with pytest.raises(BadInput, match=says("more-than-bytes-in-safe-yaml")):
        find_instructions(model, form="onnx", file=file)


def test_classes_in_a_file_beside(model):
    beside(model, "edgewise: 1\nclasses: labels.txt\n")
    model.with_name("labels.txt").write_text("background\r\n tench \n\nCafé\n\n\n", encoding="utf-8")
    assert find_instructions(model, form="onnx").classes == ("background", "tench", "", "Café")


def test_a_link_out_of_the_folder_is_refused(model, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("x\n")
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "labels.txt").symlink_to(secret)
    with pytest.raises(BadInput, match=says("names-which-outside-folder")):
        read_document({"edgewise": 1, "classes": "labels.txt"}, folder=folder, name="a.yaml")


def test_writing_and_reading_back(model, tmp_path):
    beside(model, WHOLE)
    found = find_instructions(model, form="onnx")
    target = tmp_path / "variant" / "net.int8.onnx"
    target.parent.mkdir()
    target.write_bytes(b"x")
    write_instructions(found, target.with_name("net.int8.yaml"))
    again = find_instructions(target, form="onnx")
    assert (again.steps, again.task, again.task_options, again.classes) == (
        found.steps, found.task, found.task_options, found.classes,
    )  # fmt: skip
    assert read_document(found.to_document(), folder=tmp_path, name="net.yaml") == found


def test_documents_are_short_where_they_can_be():
    found = Instructions(steps=read_flags(["scale=1/255", "invert"]))
    assert found.to_document() == {"edgewise": 1, "inputs": [{"scale": "1/255"}, "invert"]}
    both = Instructions(steps=read_flags(["a:scale=2", "b:layout=nchw"]))
    assert both.to_document()["inputs"] == {"a": [{"scale": 2}], "b": [{"layout": {"to": "nchw", "from": "nhwc"}}]}
    assert Instructions().to_document() == {"edgewise": 1}


def test_an_empty_list_of_steps_says_that_nothing_is_done(tmp_path):
    assert read_document({"edgewise": 1, "inputs": []}, folder=tmp_path, name="a").steps == {"": ()}
    assert read_document({"edgewise": 1}, folder=tmp_path, name="a").steps == {}


def test_a_tokenizer_travels_with_the_instructions(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "tokenizer.json").write_text("{}")
    found = read_document({"edgewise": 1, "inputs": [{"tokenize": "tokenizer.json"}]}, folder=here, name="a")
    assert found.steps[""][0].to_document()["file"] == str(here / "tokenizer.json")
    write_instructions(found, there / "b.yaml")
    write_instructions(found, there / "b.yaml")  # the same file is no other file
    assert (there / "tokenizer.json").read_text() == "{}"
    assert yaml.safe_load((there / "b.yaml").read_text())["inputs"] == [
        {"tokenize": {"file": "tokenizer.json", "special": True}}
    ]
    (there / "tokenizer.json").write_text("another")
    with pytest.raises(BadInput, match=says("another-file-than")):
        write_instructions(found, there / "b.yaml")
    with pytest.raises(BadInput, match=says("cant-write-in-instructions")):
        write_instructions(found, tmp_path / "absent" / "b.yaml")


def test_files_that_words_name_are_changed_and_no_other_words(tmp_path):
    flags = ("ids:tokenize={file: a.json, length: 6}", "tokenize=b.json", "resize=8", "mean=0.5,0.5,0.5")
    changed = change_flags(flags, lambda name: f"/x/{name}")
    assert changed == ('ids:tokenize={"file": "/x/a.json", "length": 6}', "tokenize=/x/b.json", *flags[2:])
    assert [step.file for step in read_flags(changed[:1])["ids"]] == ["/x/a.json"]
    assert change_flags(["none"], str) == ("none",)
    options = {"tokenizer": "a.json", "class_map": "coco80", "eos": "a.json", "anchors": "b.npy"}
    changed = change_options(options, lambda name: f"/x/{name}")
    assert changed == {**options, "tokenizer": "/x/a.json", "anchors": "/x/b.npy"}


def test_the_files_that_a_document_names_are_known(tmp_path):
    for name in ("labels.txt", "tokenizer.json", "other.json", "map.txt"):
        (tmp_path / name).write_text("a\n")
    document = tmp_path / "net.yaml"
    document.write_text(
        "edgewise: 1\nclasses: labels.txt\ntask_options: {tokenizer: other.json, class_map: map.txt, eos: a}\n"
        "inputs: [{tokenize: tokenizer.json}]\n"
    )
    assert {one.name for one in files_of(document)} == {"labels.txt", "tokenizer.json", "other.json", "map.txt"}
    document.write_text("edgewise: 1\nclasses: [a, b]\ntask_options: {class_map: coco91}\n")
    assert files_of(document) == []
    document.write_text("edgewise: 1\nclasses: none.txt\n")
    assert files_of(document) == []


@pytest.mark.parametrize(("name", "form"), [("digits_cnn.onnx", "onnx"), ("digits_cnn.tflite", "tflite")])
def test_the_bundled_network_has_instructions(name, form):
    found = find_instructions(bundled(name), form=form)
    assert (found.task, found.classes) == ("classification", tuple("0123456789"))
    assert steps(found) == [("scale", {"by": ["1/255"]})]
    assert found.origins == ("digits_cnn.yaml",)
