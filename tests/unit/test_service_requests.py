"""Requests: checked once, written as JSON and read again, with fields in their errors."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import edgewise
from edgewise.cli.main import run
from edgewise.errors import BadField, BadInput, Unavailable, name_fields
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.checking import make_request
from edgewise.verbs.evaluate.request import EvaluateRequest
from edgewise.verbs.inspect.request import InspectRequest
from edgewise.verbs.profile.request import ProfileRequest
from edgewise.verbs.reading import read_request
from edgewise.verbs.request import SCHEMA, Request
from edgewise.verbs.verb import VERBS, command_of, named_for_python
from messages import says

REQUESTS = {name: verb.request_type() for name, verb in VERBS}
LEAST = {
    "bench": {"models": ["m.onnx"]},
    "profile": {"models": ["m.onnx"]},
    "inspect": {"model": "m.onnx"},
    "estimate": {"model": "m.tflite", "device": "ethos-u55-128"},
    "fits": {"model": "m.tflite", "max_ram": 2**18, "capacity": "10Wh", "idle_power": "5mW", "per_hour": 60.0},
    "calibrate": {"name": "phone", "measurements": ["m.csv", "last"], "method": "line"},
    "suggest": {"name": "phone", "suggest": 5, "folder": "networks"},
    "predict": {"models": ["m.onnx"], "device": "phone", "targets": {"latency": 0.03}},
    "hardware": {},
    "evaluate": {"models": ["m.onnx"], "data": "d.npz"},
    "optimize": {"model": "m.onnx"},
    "compare": {"subjects": ["a.onnx", "new=b.onnx,threads=2"]},
    "gate": {"candidate": "m.onnx", "budget": ["latency=5ms"]},
    "sweep": {"suite": "suite.yaml"},
    "diff": {"reference": "m.onnx", "other": "n.onnx"},
    "bisect": {"model": "m.onnx", "good": "1.28.0", "bad": "1.32.0"},
    "convert": {"model": "m.onnx", "to": "openvino"},
    "exec": {"command": ["python3", "infer.py", "{model}"], "model_names": ["a.onnx", "b.onnx"]},
}


def bench(**fields) -> BenchRequest:
    return make_request(BenchRequest, **{"models": ["m.onnx"], **fields})


@pytest.mark.parametrize("verb", sorted(REQUESTS))
def test_every_request_can_be_written_and_read_again(verb: str):
    request = make_request(REQUESTS[verb], **LEAST[verb])
    document = json.loads(json.dumps(request.to_document()))
    assert list(document)[:2] == ["schema", "verb"] and (document["schema"], document["verb"]) == (SCHEMA, verb)
    assert read_request(document) == request


@pytest.mark.parametrize("verb", sorted(REQUESTS))
def test_a_request_is_frozen_and_knows_its_fields_only(verb: str):
    request = make_request(REQUESTS[verb], **LEAST[verb])
    with pytest.raises(ValueError, match="frozen"):
        request.verb = "other"
    with pytest.raises(BadInput, match=says("not-field-request", place="colour")):
        make_request(REQUESTS[verb], **LEAST[verb], colour="red")


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"batches": [0]}, "batches", says("field-must-least-not", field="batches", least=1, value=0)),
        ({"threads": ["2"]}, "threads", r"threads\[0\] must be a number, not '2'"),
        ({"threads": [True]}, "threads", "not True"),
        ({"threads": {"a": 1}}, "threads", r"threads must be a list, not \{'a': 1\}"),
        ({"models": [3]}, "models", r"models\[0\] must be text, not 3"),
        ({"shapes": "x"}, "shapes", "shapes must be an object of names with values, not 'x'"),
        (
            {"iterations": 5, "duration": 1.0},
            "iterations",
            says("iterations-duration-exclude-each-other", named_iterations="iterations", named_duration="duration"),
        ),
        ({"fps": 30.0}, "fps", says("fps-applies-only-scenario-paced", named_fps="fps")),
        ({"timeout": float("nan")}, "timeout", "finite"),
        ({"scenario": "sideways"}, "scenario", "not 'sideways'"),
        ({"memory_limit": 0}, "memory_limit", says("field-must-least-not", least=1)),
        ({"models": []}, "models", "at least 1 item"),
        ({"shapes": {"x": [1, "a"]}}, "shapes", "not 'a'"),
        ({"spread": 60.0, "sessions": 1}, "spread", says("spread-needs-least-two-sessions")),
        ({"report_every": 5}, "report_every", says("report-every-needs-scenario-single")),
    ],
)
def test_errors_name_the_field(fields: dict, field: str, words: str):
    with pytest.raises(BadField, match=words) as caught:
        bench(**fields)
    assert caught.value.field == field and "--" not in caught.value.message + caught.value.advice


@pytest.mark.parametrize(
    ("field", "value", "read"),
    [
        ("threads", 2, (2,)), ("threads", np.int64(2), (2,)), ("threads", [1, 2], (1, 2)), ("batches", 4, (4,)),
        ("runtimes", "onnxruntime", ("onnxruntime",)), ("models", Path("n.onnx"), ("n.onnx",)),
    ],
)  # fmt: skip
def test_one_value_is_a_sequence_of_one(field, value, read):
    assert getattr(make_request(BenchRequest, **{"models": ["m.onnx"], field: value}), field) == read


@pytest.mark.parametrize("value", ["zwei", True, 2.5])
def test_one_value_of_a_wrong_kind_is_named(value):
    with pytest.raises(BadField, match="threads"):
        make_request(BenchRequest, models=["m.onnx"], threads=value)


def test_the_command_line_reads_flags_in_the_same_error():
    with pytest.raises(BadField) as caught:
        bench(fps=30.0)
    assert (caught.value.message, caught.value.advice) == (
        "fps applies only to the scenario paced",
        "add scenario='paced'",
    )
    name_fields(caught.value, VERBS.get("bench").flag_of)
    assert caught.value.message == "--fps applies only to the scenario paced"
    assert caught.value.advice == "add --scenario paced"


def test_errors_of_shared_parts_are_told_to_python_in_arguments_of_the_function():
    with pytest.raises(BadInput) as caught, named_for_python(VERBS.get("bench").argument_of):
        raise BadInput("no ⟦batch⟧ fits, see a--b", advice="'edgewise bench M --batch 1', or ⟦batch=1⟧ and ⟦set=a=1⟧")
    assert caught.value.message == str(caught.value) == "no batches fits, see a--b"
    assert caught.value.advice == "'edgewise bench M --batch 1', or batches=1 and settings={'a': '1'}"
    assert caught.value.__notes__ == [caught.value.advice]


def test_an_error_of_a_verb_that_lacks_the_field_keeps_its_name():
    with (
        pytest.raises(BadInput, match="no data_option fits") as caught,
        named_for_python(VERBS.get("bench").argument_of),
    ):
        raise BadInput("no ⟦data_option⟧ fits")
    name_fields(caught.value, VERBS.get("bench").flag_of)
    assert caught.value.message == "no data_option fits", "the first door words it"


def test_an_error_without_a_mark_is_about_no_option():
    assert BadInput("wrong").field == "" and VERBS.get("bench").option_of("") is None


def test_a_quoted_error_keeps_its_marks():
    inner = BadInput("⟦limit⟧ is 0", advice="leave ⟦latency=False⟧ out")
    assert (inner.message, inner.advice) == ("--limit is 0", "leave --no-latency out")
    with pytest.raises(BadInput) as caught, named_for_python():
        raise BadInput(f"line 3: {inner.marked.message}", advice=inner.marked.advice)
    assert (str(caught.value), caught.value.advice) == ("line 3: limit is 0", "leave latency=False out")


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], says("not-request-there-no-verb")),
        ({"schema": 1}, says("not-request-there-no-verb")),
        ({"schema": SCHEMA + 1, "verb": "bench", "models": ["m.onnx"]}, says("request-schema-edgewise-reads-up")),
        ({"schema": 1, "verb": "dance"}, says("not-verb", verb="dance")),
        ({"schema": 1, "verb": ["bench"]}, says("not-verb")),
        ({"verb": "bench", "models": ["m.onnx"]}, says("request-no-schema", named_schema="schema")),
        ({"schema": "1", "verb": "bench", "models": ["m.onnx"]}, "schema"),
        ({"schema": 1, "verb": "bench"}, "models is required"),
        ({"schema": 1, "verb": "bench", "models": "m.onnx"}, "models"),
        ({"schema": 1, "verb": "bench", "models": ["m.onnx"], "threads": [1.5]}, "threads"),
    ],
)
def test_a_document_that_is_no_request_is_one_clear_error(document, words: str):
    with pytest.raises(BadInput, match=words):
        read_request(document)


def test_relative_paths_are_made_absolute_from_a_folder_on_request():
    request = bench(models=["a.onnx", "/b/b.onnx", "nets.py:make", "package.nets:make"], input_data="x.npz")
    assert request.models[0] == "a.onnx"
    found = request.with_paths_from(Path("/r/q"))
    assert found.models == ("/r/q/a.onnx", "/b/b.onnx", "/r/q/nets.py:make", "package.nets:make")
    assert found.input_data == "/r/q/x.npz"
    assert request.functions == ("nets.py:make", "package.nets:make")


def test_files_that_words_name_are_made_absolute_and_names_of_classes_stay():
    words = {"prepare": ["tokenize=t.json", "scale=1/255"], "task_options": {"tokenizer": "../t.json", "eos": "a"}}
    request = make_request(EvaluateRequest, models=["m.onnx"], data="d.csv", classes=["cat", "dog"], **words)
    found = request.with_paths_from(Path("/r/q"))
    assert found.prepare == ("tokenize=/r/q/t.json", "scale=1/255")
    assert found.task_options == {"tokenizer": "/r/t.json", "eos": "a"}
    assert found.classes == ("cat", "dog")
    named = make_request(EvaluateRequest, models=["m.onnx"], data="d.csv", classes="names.txt")
    assert named.with_paths_from(Path("/r/q")).classes == "/r/q/names.txt"


def test_arguments_of_factories_keep_their_types_in_json():
    case = {"width": 0.5, "shape": (1, 2), "names": ["a"], "deep": {"python": "x"}}
    request = make_request(ProfileRequest, models=["nets.py:make"], cases=[case])
    read = read_request(json.loads(json.dumps(request.to_document())))
    assert isinstance(read, ProfileRequest) and read.cases == (case,)
    with pytest.raises(BadField, match=says("argument-cases-cant-written-request")):
        make_request(InspectRequest, model="nets.py:make", cases=[{"x": object()}]).to_document()


def test_several_devices_share_a_time_budget():
    # real time: nothing is run
    request = make_request(BenchRequest, models=["m.onnx"], device="a, b,,b", time_budget=30.0)
    assert [(each.device, each.time_budget) for each in request.on_each_device()] == [("a", 15.0), ("b", 15.0)]


def test_the_command_that_does_the_same():
    # real time: nothing is run
    request = bench(threads=[1, 2], timeout=5.0, shapes={"x": [1, 3]}, meters=False, input_data="my x.npz")
    words = "edgewise bench m.onnx --shape x=1x3 --threads 1,2 --input-data 'my x.npz' --timeout 5s --no-meters"
    assert command_of(request) == words


def test_paths_in_the_words_of_a_comparison_are_made_absolute_too(tmp_path: Path):
    for name in ("a.onnx", "b,c.onnx", "last"):
        (tmp_path / name).write_bytes(b"\x08\x07")
    (tmp_path / "nets.py").touch()
    words = ["a.onnx", "new=b,c.onnx,threads=2", "nets.py:make", "x=missing.onnx", "group:last", "main", "/abs/m.onnx"]
    request = make_request(REQUESTS["compare"], subjects=words).with_paths_from(tmp_path)
    assert request.subjects == (
        f"{tmp_path}/a.onnx",
        f"new={tmp_path}/b,c.onnx,threads=2",
        f"{tmp_path}/nets.py:make",
        f"x={tmp_path}/missing.onnx",
        "group:last",
        "main",
        "/abs/m.onnx",
    )
    gate = make_request(REQUESTS["gate"], candidate="a.onnx", baseline="main", max_regression=["3%"])
    found = gate.with_paths_from(tmp_path)
    assert (found.candidate, found.baseline) == (f"{tmp_path}/a.onnx", "main")


@pytest.mark.parametrize(
    ("verb", "fields", "words"),
    [
        ("bench", {"time_budget": 0.0}, says("field-must-above-0-s", field="time_budget")),
        ("bench", {"time_budget": 9.0, "spread": 60.0}, says("spread-says-when-each-session")),
        ("bench", {"time_budget": 9.0, "sustained": 60.0}, says("sustained-measures-one-process-given")),
        ("compare", {"metrics": ["latenzy"]}, says("unknown-metric")),
        ("compare", {"until": "depth"}, says("neither-better-high-nor-low-in-criteria")),
        ("compare", {"labels": ["a", "b", "c"]}, says("labels-must-most-one-per", named_labels="labels")),
        ("compare", {"rounds": 0}, says("field-must-least-not", field="rounds", least=1)),
        ("compare", {"time_budget": -1.0}, says("field-must-above-0-s", field="time_budget")),
        ("gate", {"budget": []}, says("no-requirement-given")),
        ("gate", {"on_inconclusive": "shrug"}, "not 'shrug'"),
        ("gate", {"time_budget": 1e6}, says("field-must-above-0-s", longest_s=24)),
        ("evaluate", {"latency": False, "meters": True}, says("meters-needs-latency-which-not", named_meters="meters")),
        ("evaluate", {"limit": 0}, says("field-must-least-not", field="limit", least=1)),
        ("evaluate", {"threads": 0}, says("threads-must-1-not", named_threads="threads")),
        ("optimize", {"aim": "beauty"}, "not 'beauty'"),
        ("optimize", {"max_size": 0}, says("field-must-least-not", field="max_size", least=1)),
        ("optimize", {"max_latency": 0.0}, says("field-must-above-0-s", field="max_latency")),
    ],
)
def test_every_verb_has_its_limits(verb: str, fields: dict, words: str):
    with pytest.raises(BadInput, match=words):
        make_request(REQUESTS[verb], **{**LEAST[verb], **fields})


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (["evaluate", "m.onnx", "--data", "d", "--data-option", "label=class"], {"data_options": {"label": "class"}}),
        (["evaluate", "m.onnx", "--data", "d", "--metric", "own.py:f=lower"], {"own_metrics": ["own.py:f=lower"]}),
        (["evaluate", "m.onnx", "--data", "d", "--classes", "c.txt", "--no-latency"], {"classes": "c.txt"}),
        (
            ["optimize", "m.onnx", "--max-latency", "5ms", "--max-size", "1MB"],
            {"max_latency": 0.005, "max_size": 1000000},
        ),
        (
            ["optimize", "m.onnx", "-o", "out", "--no-sensitivity", "--min-snr", "20dB"],
            {"folder": "out", "min_snr": 20.0},
        ),
        (["compare", "a", "b", "--vary", "threads=1,2", "--floor", "latency=1us"], {"floors": {"latency": 1e-6}}),
        (["gate", "m.onnx", "--budget", "latency=5ms", "--time-budget", "2min"], {"time_budget": 120.0}),
        (["profile", "n.py:make", "--what-if", "width=1,2"], {"cases": [{"width": 1}, {"width": 2}]}),
        (["convert", "m.onnx", "-o", "m.xml", "--precision", "f16"], {"folder": "m.xml", "precision": "f16"}),
        (["inspect", "m.onnx", "--shape", "x=1x3"], {"shapes": {"x": [1, 3]}}),
    ],
)
def test_what_is_typed_becomes_the_request_and_back(words: list[str], fields: dict, capsys):
    assert run([*words, "--dry-run", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert {name: first[name] for name in fields} == fields
    again = shlex.split(command_of(read_request(first)))[1:]
    assert run([*again, "--dry-run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == first


def test_schema_is_published_for_every_verb():
    for kind in REQUESTS.values():
        assert issubclass(kind, Request) and kind.model_json_schema()["properties"]["verb"]


def test_python_names_the_device_that_is_not_known():
    with pytest.raises(Unavailable, match=says("unknown-device", name="moon")):
        edgewise.bench("m.onnx", device="moon")
    with pytest.raises(BadField, match=says("field-must-least-not", field="batches", least=1)) as caught:
        edgewise.bench("m.onnx", batches=[0])
    assert caught.value.field == "batches"
