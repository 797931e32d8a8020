"""Forms make the requests that the command line makes, and nothing that names a path, an address or code."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgewise.cli.main import run
from edgewise.estimating.base import device_names, estimators
from edgewise.registry import availability_of
from edgewise.runtime.base import runtimes
from edgewise.studio import work
from edgewise.studio.catalogue import catalogue
from edgewise.studio.forms import PICKED
from edgewise.studio.jobs.messages import End
from edgewise.studio.models import Models
from edgewise.units import parse_duration, parse_size
from edgewise.verbs import words
from edgewise.verbs.fits.request import FitsRequest
from edgewise.verbs.shared_options import OUTPUT
from edgewise.verbs.verb import command_of
from messages import has, is_in, says, wording
from verb_forms import FORMS

DATA = Path(str(files("edgewise"))) / "data"
MODEL, OTHER, NUMBERS = "data/digits_cnn.onnx", "data/digits_cnn.tflite", "data/digits_test.npz"
RUN = "0190a0a0-1111-7222-8333-444455556666"
LEAST = {
    "evaluate": {"data": [NUMBERS]},
    "estimate": {"device": ["cortex-m4"]},
    "convert": {"to": ["onnx"]},
    "diff": {"other": [MODEL]},
}
"""Verb → what its form needs besides a model."""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return Models(folder=tmp_path_factory.mktemp("studio"), roots=(DATA,))


@pytest.fixture(scope="module", autouse=True)
def one_device(tmp_path_factory):
    file = tmp_path_factory.mktemp("settings") / "devices.toml"
    file.write_text('[pi4]\nurl = "ssh://pi@192.0.2.7"\n')
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEWISE_DEVICES", str(file))
        yield


def typed(arguments):
    """Exit code, and the request as JSON, of a command line."""
    output = io.StringIO()
    with redirect_stdout(output), redirect_stderr(io.StringIO()):
        code = run([arguments[0], "--dry-run", "--json", *arguments[1:]])
    return code, json.loads(output.getvalue()) if code == 0 else None


@pytest.mark.parametrize("verb", FORMS)
def test_every_option_is_in_the_form_or_left_out_with_a_reason(verb):
    form = FORMS[verb]
    there = {one.option.name for one in form.fields()}
    siblings = [each for each in FORMS.values() if each.verb.all_options() == form.verb.all_options()]
    elsewhere = {one.option.name for each in siblings for one in each.fields()}
    for option in form.verb.all_options():
        about_output = option.panel == OUTPUT and option.name not in form.verb.form.kept
        assert [option.name in there, bool(option.not_asked), about_output].count(True) <= 1, option.name
        assert option.name in there | elsewhere or bool(option.not_asked) or about_output, option.name
    assert set(form.own.top) <= there


def test_the_help_of_a_field_is_about_the_form():
    helps = {verb: {one.option.name: one.help for one in form.fields()} for verb, form in FORMS.items()}
    assert helps["optimize"]["also"] == "The same network in another format, for engines that don't read the model"
    assert helps["optimize"]["keep_float"].endswith("; one per line")
    assert not [text for texts in helps.values() for text in texts.values() if "repeatable" in text]


def test_each_reason_says_something():
    reasons = {one.name: one.not_asked for form in FORMS.values() for one in form.verb.all_options() if one.not_asked}
    assert len(reasons) >= 8 and all(len(reason) > 10 for reason in reasons.values())
    assert {"build", "what_if", "metric", "env"} <= set(reasons)  # they run code


VALUES = {
    words.words: ["onnxruntime", "litert,openvino", "f32"],
    words.numbers: ["1", "1,2", "0", "x"],
    words.pairs: ["a=b", "label=class\nother=2", "nothing"],
    words.shapes: ["1x1x8x8", "image=1x1x8x8", "1xx2"],
    words.limits: ["latency=30ms", "energy=2mJ", "power=1"],
    words.floors: ["latency=1us", "memory_peak=2MiB", "latency"],
    words.share: ["20%", "0.5", "-1"],
    words.decibels: ["20dB", "x"],
    words.time_with_unit: ["5ms", "5"],
    words.size_with_unit: ["1MB", "64KiB", "3"],
    parse_duration: ["5s", "250ms", "1h", "soon"],
    parse_size: ["2GiB", "4096", "1.5MB", "2 elephants"],
}
"""Reader of an option → texts, some of them wrong."""
PLAIN = {
    "classes": ["zero,one", "cat, dog,ü 'x'"],
    "scenario": ["paced", "offline", "cold-start"],
    "max_accuracy_drop": ["1pt", "2%"],
    "capacity": ["10Wh"],
    "idle_power": ["5mW±1mW"],
    "metrics": ["latency", "latency,throughput", "colour"],
    "pareto": ["latency"],
    "prepare": ["resize=8\nscale=1/255"],
    "passes": ["ort-static", "ort-static:percentile,onnx-fp16"],
    "keep_float": ["/conv1/Conv", "a\n-b c"],
    "shape": ["1x1x8x8", "/in put=1x1x8x8", "1xx2"],
}


def values_of(field):
    """Texts for a field."""
    if field.kind == "models":
        return st.lists(st.sampled_from([MODEL, OTHER]), min_size=1, max_size=2, unique=True)
    if field.kind in PICKED:
        return st.just([NUMBERS if field.kind == "data" else OTHER])
    if field.kind in ("choice", "device"):
        return st.sampled_from([[choice.value] for choice in field.choices if choice.usable])
    if field.option.kind is bool:
        return st.sampled_from([["yes"], ["no"], ["no", "yes"]])
    if field.kind in ("whole", "number"):
        return st.sampled_from([["0"], ["1"], ["3"], ["0.5"], ["nan"], ["1e400"], ["-2"], ["many"], ["9" * 30]])
    texts = PLAIN.get(field.option.name) or VALUES.get(field.option.read) or ["test", "two words", "-x", "ü'\"$(ls)"]
    return st.sampled_from([[text] for text in texts])


def arguments_of(form, texts, models):
    """What a person types for these texts: flag by flag, in the form's order."""
    things, flags = [], []
    for field in form.fields():
        given = [text for text in texts.get(field.name, []) if text]
        option = field.option
        if not given:
            continue
        if field.kind in PICKED:
            given = [str(models.get(key, "data" if field.kind == "data" else "models").path) for key in given]
        if not option.flag.startswith("-"):
            things += given
        elif option.kind is bool:
            flags += [option.flag if given[-1] == "yes" else option.flag.replace("--", "--no-", 1)]
        elif option.kind == list[str]:
            flags += [word for text in given for line in text.splitlines() for word in (option.flag, line)]
        else:
            flags += [option.flag, given[-1]]
    return [*(form.verb.asked_by or (form.verb.name,)), *flags, "--", *things]


@st.composite
def filled(draw, verb):
    """Texts of some fields of a form."""
    fields = [one for one in FORMS[verb].fields() if one.name != "model"]
    chosen = draw(st.lists(st.sampled_from(fields), max_size=3, unique_by=lambda one: one.name))
    return {"model": [OTHER], **LEAST.get(verb, {}), **{one.name: draw(values_of(one)) for one in chosen}}


@pytest.mark.parametrize("verb", FORMS)
def test_a_form_makes_the_request_that_the_command_line_makes(verb, models):
    form = FORMS[verb]

    @settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(texts=filled(verb))
    def check(texts):
        # Of a box that stands alone only "yes" can be typed: --drop-cache has no --no-drop-cache.
        texts = {
            one.name: texts[one.name]
            for one in form.fields()
            if one.name in texts and not (one.option.kind is bool and texts[one.name] == ["no"] and not one.option.off)
        }
        made = form.fill(texts, models)
        code, document = typed(arguments_of(form, texts, models))
        assert (made.request is None) == (code == 2), (made.problems, code)
        if made.request is None:
            assert made.problems
            return
        assert made.request.to_document() == document
        again = shlex.split(command_of(made.request))
        assert again[0] == "edgewise" and typed(again[1:]) == (0, document)
        assert form.fill(form.texts_of(made.request, models), models).request == made.request

    check()


HOSTILE = [
    ("bench", "model", "/etc/passwd"),
    ("bench", "model", "../data/digits_cnn.onnx"),
    ("bench", "model", "data/../../secret.onnx"),
    ("bench", "model", "nets.py:make"),
    ("bench", "model", "os:system"),
    ("bench", "model", "\0"),
    ("bench", "model", RUN),
    ("compare", "model", f"new={RUN}"),
    ("compare", "model", "last"),
    ("bench", "device", "ssh://root@192.0.2.1"),
    ("bench", "device", "container://image"),
    ("bench", "device", "pi4@80MHz"),
    ("bench", "device", "local@80MHz"),
    ("bench", "device", "cortex-m4"),
    ("profile", "device", "cortex-m4@/etc/passwd"),
    ("profile", "device", "serial:///dev/ttyS0"),
    ("estimate", "device", "local"),
    ("bench", "input_data", "/etc/passwd"),
    ("evaluate", "data", "os:getcwd"),
    ("evaluate", "data", "/etc"),
    ("evaluate", "reference", "/etc/passwd"),
    ("evaluate", "data_format", "loader"),
    ("evaluate", "data_option", "images=/etc"),
    ("evaluate", "data_option", "root=../.."),
    ("evaluate", "data_option", "root=~"),
    ("evaluate", "task_option", "tokenizer=/etc/passwd"),
    ("evaluate", "task_option", "x=1\ntokenizer=/etc/passwd"),
    ("evaluate", "prepare", "tokenizer=/etc/passwd,length=5"),
    ("evaluate", "prepare", "tokenizer=hf:/tmp"),
    ("evaluate", "prepare", "tokenizer=vocab/../../x"),
    ("evaluate", "split", "..\\..\\x"),
    ("evaluate", "split", "test\u202edlrow"),
    ("bench", "set", "cache_dir=/tmp/x"),
    ("optimize", "also", "/etc/passwd"),
    ("optimize", "passes", "/tmp/pass.py"),
    ("bench", "mechanism", "docker"),
    ("bench", "scenario", "sideways"),
    ("bench", "threads", "1," * 5000),
    ("bench", "iterations", "9" * 5000),
    ("bench", "fps", "nan"),
    ("bench", "fps", "1e999"),
    ("bench", "meters", "perhaps"),
    ("bench", "timeout", "5s\x00"),
    ("bench", "shape", "x=" + "1x" * 1990),
    ("compare", "rounds", "91"),
    ("convert", "to", "exe"),
]


@pytest.mark.parametrize(("verb", "name", "text"), HOSTILE)
def test_hostile_values_are_refused_beside_their_field(verb, name, text, models):
    made = FORMS[verb].fill({"model": [OTHER], **LEAST.get(verb, {}), name: [text]}, models)
    assert made.request is None and list(made.problems) == [name]


@pytest.mark.parametrize("name", ["output", "store", "build", "what_if", "instructions", "metric", "json", "x"])
@pytest.mark.parametrize("verb", FORMS)
def test_what_is_no_field_changes_nothing(verb, name, models):
    texts = {"model": [OTHER], **LEAST.get(verb, {})}
    plain = FORMS[verb].fill(texts, models).request
    assert plain is not None and FORMS[verb].fill({**texts, name: ["/tmp/x.py:f"]}, models).request == plain


@pytest.mark.parametrize(
    ("verb", "texts", "field", "message"),
    [
        (
            "bench",
            {"model": [MODEL], "fps": ["30"]},
            "fps",
            wording("fps-applies-only-scenario-paced", named_fps="FPS"),
        ),
        (
            "bench",
            {"model": [MODEL], "threads": ["0"]},
            "threads",
            wording("threads-must-1-not", named_threads="Threads", max_threads=1024, count=0),
        ),
        ("bench", {"model": [MODEL], "threads": ["two"]}, "threads", wording("not-whole-number-in-words", word="two")),
        ("bench", {}, "model", wording("must-chosen", label="Model")),
        ("evaluate", {"model": [MODEL]}, "data", wording("must-chosen", label="Data")),
        ("estimate", {"model": [OTHER]}, "device", wording("must-chosen", label="Device")),
        ("convert", {"model": [OTHER]}, "to", says("required-one", named_to="Format", words=has("onnx"))),
        ("estimate", {"model": [OTHER], "device": ["cortex-m4"], "target": ["latency=1ms"]}, "target", "calibrated"),
        ("fits", {"model": [OTHER], "capacity": ["1Wh"]}, "capacity", "needs Capacity, Idle power and Per hour"),
        (
            "profile",
            {"model": [OTHER], "device": ["cortex-m4"], "threads": ["2"]},
            "threads",
            says("can-only-estimated-estimate-does", listing="Threads"),
        ),
    ],
)
def test_errors_stand_beside_their_field(verb, texts, field, message, models):
    ((name, error),) = FORMS[verb].fill(texts, models).problems.items()
    assert name == field and is_in(message, error.message)


def test_a_profile_of_a_device_that_is_not_at_hand_is_an_estimate(models):
    made = FORMS["profile"].fill({"model": [OTHER], "device": ["cortex-m4"], "clock": ["80MHz"]}, models).request
    assert (made.verb, made.device) == ("estimate", "cortex-m4@80MHz")
    here = FORMS["profile"].fill({"model": [OTHER], "device": ["pi4"]}, models).request
    assert (here.verb, here.device) == ("profile", "pi4")


def test_a_file_that_the_device_does_not_take_is_refused_before_a_job_is_made(models):
    ((name, error),) = FORMS["estimate"].fill({"model": [MODEL], "device": ["ethos-u55-128"]}, models).problems.items()
    assert name == "device" and error.message == "digits_cnn.onnx: Device ethos-u55-128 takes .tflite files only"
    assert "edgewise convert FILE.onnx --to tflite" in error.advice and str(DATA) not in error.message + error.advice
    assert FORMS["estimate"].fill({"model": [OTHER], "device": ["ethos-u55-128"]}, models).request


def test_the_end_of_a_job_tells_no_folder_of_the_machine(tmp_path):
    request = FitsRequest(model="/srv/alice/nets/m.onnx")
    (tmp_path / "request.json").write_text(json.dumps(request.to_document()))
    told = "/srv/alice/nets/m.onnx: .tflite files only"
    end = End(status="failed", message=told, advice=f"edgewise convert {told}")
    found = work._without_folders(end, tmp_path)
    assert (found.message, found.advice) == (
        "m.onnx: .tflite files only",
        "edgewise convert m.onnx: .tflite files only",
    )
    assert work._without_folders(End(status="done"), tmp_path / "none") == End(status="done")


def test_a_calibrated_device_is_predicted(models, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("EDGEWISE_STORE", raising=False)  # calibrations belong to the store that it names
    (tmp_path / "edgewise" / "calibrations").mkdir(parents=True)
    (tmp_path / "edgewise" / "calibrations" / "phone.json").write_text("{}")
    form, texts = FORMS["estimate"], {"model": [MODEL, OTHER], "device": ["phone"], "target": ["latency=30ms"]}
    made = form.fill(texts, models).request
    assert (made.verb, made.device, dict(made.targets), len(made.models)) == ("predict", "phone", {"latency": 0.03}, 2)
    assert form.fill(form.texts_of(made, models), models).request == made
    ((name, error),) = form.fill({**texts, "set": ["arena=0"]}, models).problems.items()
    assert name == "set" and re.search(says("calibrated-device-which-does-not", values="phone"), error.message)
    (other,) = FORMS["bench"].fill({"model": [MODEL], "device": ["phone"]}, models).problems
    assert other == "device"


def test_stored_runs_and_models_are_compared_in_their_order(models):
    made = FORMS["compare"].fill({"model": [RUN, MODEL]}, models).request
    assert made.subjects == (RUN, str(DATA / "digits_cnn.onnx"))


def test_the_catalogue_has_what_is_installed():
    known = catalogue()
    found = {name: runtime for name, runtime in runtimes() if name != "fake"}
    assert {one.value: one.usable for one in known["runtime"]} == {
        name: bool(availability_of(runtime)) for name, runtime in found.items()
    }
    assert all(one.note for one in known["runtime"])
    assert [one.value for one in known["hardware"]] == device_names()
    lacking = {device.name for _, each in estimators() if not availability_of(each) for device in each.devices()}
    assert {one.value for one in known["hardware"] if not one.usable} == lacking


def test_the_server_makes_requests_without_numpy_and_without_an_engine(tmp_path):
    code = """
import sys
from pathlib import Path
from edgewise.studio.forms import form_of
from edgewise.studio.models import Models
from edgewise.verbs.verb import VERBS
models = Models(folder=Path(sys.argv[1]), roots=(Path(sys.argv[2]),))
least = {"data": ["data/digits_test.npz"], "other": ["data/digits_cnn.onnx"], "to": ["onnx"], "precision": ["int8"]}
for form in filter(None, map(form_of, VERBS.names())):
    texts = {"model": ["data/digits_cnn.tflite"], **least}
    for device in ["local"] if "measured" in form.verb.form.places else ["ethos-u55-128"]:
        made = form.fill({**texts, "device": [device]}, models)
        assert made.request is not None, (form.verb.name, made.problems)
        made.request.in_effect(), made.request.functions, form.texts_of(made.request, models)
print([name for name in ("numpy", "onnxruntime", "openvino", "ai_edge_litert", "torch", "onnx") if name in sys.modules])
"""
    arguments = [sys.executable, "-P", "-c", code, str(tmp_path), str(DATA)]
    done = subprocess.run(arguments, capture_output=True, text=True, env=dict(os.environ), check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("verb", ["evaluate", "optimize"])
def test_the_preparation_of_samples_is_among_the_first_fields(verb):
    assert "prepare" in FORMS[verb].own.top


def test_the_names_of_the_classes_are_typed_and_no_file_of_the_server_is_read(models):
    """The form had no field for them, so that the studio could only judge by the alphabetical order."""
    form, texts = FORMS["evaluate"], {"model": [MODEL], "data": [NUMBERS]}
    filled = form.fill({**texts, "classes": ["nine, eight,seven"]}, models)
    assert filled.request.classes == ("nine", "eight", "seven")
    assert form.texts_of(filled.request, models)["classes"] == ["nine,eight,seven"]
    assert "--classes nine,eight,seven" in command_of(filled.request)
    for text in ("classes.txt", "/etc/passwd", "a,/etc/passwd"):
        assert "classes" in form.fill({**texts, "classes": [text]}, models).problems, text
