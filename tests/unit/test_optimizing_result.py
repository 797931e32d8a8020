"""What is written of the chosen variant: files that load where they lie, names that tell variants apart, a line to type."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgewise.evaluating.instructions import Instructions
from edgewise.model.graph import Quantization, Tensor
from edgewise.model.identity import open_model
from edgewise.optimizing.base import Capabilities, EngineSettings, Recipe
from edgewise.optimizing.pipeline import _tell_conversions
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.result_builder import (
    _command,
    _copy,
    _find_changed,
    _find_not_tried,
    _find_prediction_with_data,
    _find_smaller_int8,
    _tell_integers,
    _with_summary,
)
from edgewise.optimizing.search import Search
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.optimizing.variant import ORIGINAL, AppliedPass, Candidate, MetricValue, Optimization, Prediction
from edgewise.record import ModelRef, RuntimeSpec
from tiny_models import write_tiny_onnx


def candidate(path, *passes, runtime="onnxruntime", name="v"):
    return Candidate(
        id=name,
        parent=ORIGINAL,
        runtime=RuntimeSpec(name=runtime),
        model=open_model(path).ref,
        passes=tuple(AppliedPass(name=one, label=label, keep_float=kept) for one, label, kept in passes),
    )


def settings(folder, model="net.onnx", **settings):
    return SearchSettings(model=str(model), format="onnx", folder=folder, instructions=Instructions(), **settings)


def test_a_search_names_the_engine_that_needs_another_format_and_how_it_comes_in(tmp_path, monkeypatch):
    installed = {"litert"}
    monkeypatch.setattr("edgewise.run.plan.availability_at", lambda target, name, runtime: name in installed)
    line = "no part taken: litert can't read .onnx: edgewise convert {} --to tflite makes a file that it measures, with --also {}"
    asked = settings(tmp_path)
    assert _tell_conversions(asked, "a/my net.onnx", ["onnx"]) == [line.format("'a/my net.onnx'", "'my net.tflite'")]
    # Reports are for others too: where the file lies on this machine is not in them.
    assert _tell_conversions(asked, str(tmp_path / "net.onnx"), ["onnx"]) == [line.format("net.onnx", "net.tflite")]
    assert _tell_conversions(asked, "net.onnx", ["onnx", "tflite"]) == []
    assert _tell_conversions(asked, "", ["onnx"]) == []
    assert _tell_conversions(replace(asked, runtimes=("onnxruntime",)), "net.onnx", ["onnx"]) == []
    installed.clear()
    assert _tell_conversions(asked, "net.onnx", ["onnx"]) == []


def external(path: Path, location: str) -> Path:
    """A tiny model with its weights in another file."""
    import onnx

    plain = onnx.load(write_tiny_onnx(path.with_name("plain.onnx")))
    (path.parent / location).parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(plain, path, save_as_external_data=True, location=location, size_threshold=0)
    return path


@pytest.mark.parametrize("location", ["weights.bin", "net.bin", "net.onnx.data", "deep/er/weights.bin"])
def test_weights_beside_a_model_are_found_beside_its_copy(tmp_path, location):
    source = tmp_path / "made"
    source.mkdir()
    path = external(source / "net.onnx", location)
    out = tmp_path / "out"
    out.mkdir()
    (out / location).parent.mkdir(parents=True, exist_ok=True)
    (out / location).write_bytes(b"somebody else's")
    (file, weights), _ = _copy(candidate(path, ("ort-static", "", ())), settings(out))
    assert weights == file.parent / location and weights.is_file()
    assert open_model(file).ref.sha256 == open_model(path).ref.sha256
    assert (out / location).read_bytes() == b"somebody else's"


def test_a_model_in_one_file_lies_in_the_folder_under_the_name_of_its_variant(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    passes = (("onnx-simplify", "", ()), ("ort-static", "percentile", ()), ("tune", "onnxruntime, 2 threads", ()))
    # Names of variants leave the simplification out.
    one = candidate(path, *passes, name="ort-static percentile @ onnxruntime, 2 threads")
    (file,), replaced = _copy(one, settings(tmp_path))
    assert file == tmp_path / "net.ort-static-percentile.onnx" and not replaced
    assert _copy(one, settings(tmp_path)) == ([file], False)  # the same content
    long = candidate(path, *passes, name=f"{'/folder' * 60}/net.onnx + ort-static @ onnxruntime")
    assert _copy(long, settings(tmp_path))[0][0].name.endswith("folder-net-onnx-ort-static.onnx")
    file.write_bytes(b"of an earlier search")
    assert _copy(one, settings(tmp_path)) == ([file], True)
    assert file.read_bytes() == path.read_bytes()


def test_the_line_to_type_has_every_pass_recipe_and_spared_layer(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    one = candidate(path, ("onnx-simplify", "", ()), ("ort-static", "per-tensor entropy", ("/a b/Conv", "/c")))
    asked = settings(tmp_path, words=("my net.onnx", "--data", "d"), also=("my net.tflite",))
    words = shlex.split(_command(asked, one, one.model, engine="onnxruntime"))
    assert words[:7] == ["edgewise", "optimize", "my net.onnx", "--data", "d", "--also", "my net.tflite"]
    assert words[words.index("--passes") + 1] == "onnx-simplify,ort-static:per-tensor entropy"
    assert [words[at + 1] for at, word in enumerate(words) if word == "--keep-float"] == ["/a b/Conv", "/c"]


def test_a_file_as_it_is_in_another_precision_is_measured_again_by_a_comparison(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    one = candidate(path, ("tune", "openvino, bf16", ()))
    document = EngineSettings(runtime="openvino", precision="bf16").to_document()
    passes = (replace(one.passes[0], settings=document),)
    one = replace(one, passes=passes, runtime=replace(one.runtime, name="openvino"))
    command = _command(settings(tmp_path, words=("net.onnx",)), one, one.model, engine="onnxruntime")
    assert command == "edgewise compare net.onnx,runtime=onnxruntime net.onnx,runtime=openvino,precision=bf16"


# --- names of variants ---


class Quantiser:
    name = "nncf-ptq"
    capabilities = Capabilities(kind="quantisation", reads=("onnx", "openvino"), writes="")


class Dynamic(Quantiser):
    name = "ort-dynamic"


def test_the_same_pass_on_two_files_has_two_names(tmp_path):
    path = write_tiny_onnx(tmp_path / "model.onnx")
    parents = {
        ORIGINAL: (),
        "onnx-simplify @ onnxruntime": (("onnx-simplify", "", ()),),
        "onnx-to-openvino @ openvino": (("onnx-to-openvino", "", ()),),
        "onnx-fp16 @ onnxruntime": (("onnx-simplify", "", ()), ("onnx-fp16", "", ())),
    }
    known = {name: candidate(path, *passes, name=name) for name, passes in parents.items()}
    known[ORIGINAL] = replace(known[ORIGINAL], parent=None)
    search = SimpleNamespace(
        _export=None, _everything=known, _settings=settings(tmp_path), _given=(), _facts_of=lambda model: None
    )

    def task(base, one=Quantiser, label=""):
        return PlannedTask(one=one(), recipe=Recipe(label=label), source=Search._source(search, base))

    # The search starts from one file of each format: the original or its simplified form, and the converted one.
    for first in (ORIGINAL, "onnx-simplify @ onnxruntime"):
        bases = (first, "onnx-to-openvino @ openvino", "onnx-fp16 @ onnxruntime")
        names = [
            task(base, one, label).result_name("openvino", suffix=suffix)
            for base in bases
            for one in (Quantiser, Dynamic)
            for label in ("", "thorough")
            for suffix in ("", " sparing 1")
        ]
        assert len(set(names)) == len(names) == 24
    assert task(ORIGINAL).result_name("openvino") == "nncf-ptq @ openvino"
    added = task("onnx-fp16 @ onnxruntime")
    assert added.result_name("openvino") == "onnx-fp16 + nncf-ptq @ openvino"


class Int8:
    name = "ort-static"
    capabilities = Capabilities(kind="quantisation", reads=("onnx",), writes="onnx", arithmetic="int8")


class Prune(Int8):
    name = "torch-prune"
    capabilities = Capabilities(kind="pruning", reads=("onnx",), writes="onnx")


def late(one, why, *, stage="planned"):
    source = Source(variant=ORIGINAL, facts=None, model="m", format="onnx", digest="")
    task = PlannedTask(one=one(), recipe=Recipe(), source=source)
    name, runtime = f"{one.name} {why} {stage}", RuntimeSpec(name="onnxruntime")
    return Candidate(id=name, parent=ORIGINAL, runtime=runtime, why=why, stage=stage, task=task)


def test_what_had_no_time_is_counted_with_its_families(tmp_path):
    budget = settings(tmp_path, budget_s=300.0)
    no_time = "not tried: the time budget left no room"
    entries = [
        late(Int8, no_time),
        late(Int8, "not judged: the time budget ended in phase 'samples'", stage="agreed"),
        late(Prune, no_time),
        late(Prune, "slower: 0.9×", stage="raced"),
    ]
    found = _find_not_tried(entries, budget)
    assert (len(found.variants), found.of, found.families, found.budget_s) == (3, 4, ("int8",), 600.0)
    assert _find_not_tried(entries[3:], budget).variants == ()
    assert found.budget_s == 2 * budget.budget_s


@pytest.mark.parametrize(
    ("engine", "name"), [("onnxruntime", "ort-static @ onnxruntime"), ("openvino", "nncf-ptq @ openvino")]
)
def test_the_promise_is_one_of_the_engine_that_was_chosen(engine, name):
    found = {
        "ort-static @ onnxruntime": Prediction(speedup=2.0, low=1.8, high=2.2),
        "nncf-ptq @ openvino": Prediction(speedup=2.4, low=2.0, high=2.9),
        "litert-static @ litert": Prediction(speedup=9.0, low=0.9, high=90.0),
        "nncf-ptq @ onnxruntime": Prediction(speedup=None, because="no time"),
    }
    assert _find_prediction_with_data(found, engine).variant == name
    assert _find_prediction_with_data({}, engine) is None


def test_of_equal_variants_the_fastest_shows_its_changed_answers_first():
    """Before and after are those of the fastest one, too, where nothing was chosen."""
    speeds = {"slow": 0.6, "fast": 1.5, "medium": 1.4, "off the front": 1.6, "not raced": None}
    candidates = [
        Candidate(
            id=name, parent=ORIGINAL, runtime=RuntimeSpec(name="onnxruntime"),
            metrics={} if speed is None else {"speedup": MetricValue(value=speed)},
            accuracy=SimpleNamespace(changes=f"changes of {name}"),
        )
        for name, speed in speeds.items()
    ]  # fmt: skip
    front = ["slow", "fast", "medium"]
    assert list(_find_changed(candidates, None, front)) == ["fast", "medium", "slow", "off the front", "not raced"]
    assert next(iter(_find_changed(candidates, "slow", front).items())) == ("slow", "changes of slow")


@pytest.mark.parametrize(("size", "there"), [(40, True), (97, False)])
def test_where_nothing_was_chosen_the_best_int8_file_is_named_if_it_is_smaller(size, there):
    """The user asked for an int8 file, and where none was faster no path of one was told."""
    int8 = SimpleNamespace(capabilities=SimpleNamespace(family="int8", kind="quantisation"))
    setting = SimpleNamespace(capabilities=SimpleNamespace(family="", kind="tuning"))

    def raced(name, speed, **facts):
        told = {"runtime": RuntimeSpec(name="x"), "parent": "original", "stage": "raced", **facts}
        model = ModelRef(name=name, path=f"/out/{name}", format="onnx", sha256="a" * 64, size_bytes=size)
        return Candidate(**{"id": name, "model": model, "metrics": {"speedup": MetricValue(value=speed)}, **told})

    best, other = raced("b", 0.9, task=int8), raced("float", 0.99)
    original = replace(raced("original", 1.0), parent=None, stage="judged")
    original = replace(original, model=replace(original.model, size_bytes=100))
    tuned = raced("b, 2 threads", 0.95, task=setting, parent="b")
    result = Optimization(baseline=original, candidates=(raced("a", 0.8, task=int8), best, other, tuned))
    assert result.best_int8 == tuned and result.made(tuned) == best
    found = _find_smaller_int8(result)
    assert (None if found is None else found.path) == ("/out/b, 2 threads" if there else None)
    chosen = replace(result, chosen="float")
    assert chosen.best_int8 is None and chosen.fastest_int8 == tuned
    assert _find_smaller_int8(chosen) == found
    assert _find_smaller_int8(replace(result, chosen=tuned.id)) is None
    slower = replace(best, accepted=True)  # within every bound
    assert replace(result, candidates=(slower, tuned)).fastest_int8 == slower


def test_of_int8_files_that_no_interval_tells_apart_the_smallest_and_most_accurate_is_the_best():
    """The fastest by 1 % lost the most accuracy, and was named the best."""
    int8 = SimpleNamespace(capabilities=SimpleNamespace(family="int8", kind="quantisation"))

    def raced(name, speed, low, high, size, drop):
        metrics = {"speedup": MetricValue(value=speed, low=low, high=high), "model_size": MetricValue(value=size),
                   "accuracy_drop": MetricValue(value=drop)}  # fmt: skip
        return Candidate(id=name, parent="original", runtime=RuntimeSpec(name="x"), stage="raced", task=int8,
                         accepted=True, metrics=metrics)  # fmt: skip

    original = Candidate(id="original", parent=None, runtime=RuntimeSpec(name="x"))
    candidates = (
        raced("fastest", 1.57, 1.32, 1.87, 229.0, 0.0023), raced("as small", 1.54, 1.31, 1.82, 226.0, 0.0),
        raced("larger", 1.55, 1.30, 1.86, 300.0, -0.1), raced("slower", 1.2, 1.1, 1.3, 100.0, -0.1),
    )  # fmt: skip
    assert Optimization(baseline=original, candidates=candidates).fastest_int8.id == "as small"
    (sure, *rest) = candidates
    sure = replace(sure, metrics={**sure.metrics, "speedup": MetricValue(value=2.0, low=1.9, high=2.1)})
    assert Optimization(baseline=original, candidates=(sure, *rest)).fastest_int8.id == "fastest"


def test_the_folder_says_which_file_is_chosen_and_which_is_of_an_earlier_search(tmp_path):
    """After a second search the folder had two chosen files, and nothing said which counted."""

    def write(name, **document):
        place = tmp_path / f"{name}.provenance.json"
        place.write_text(json.dumps(document))
        return {"chosen": str(tmp_path / name), "provenance": str(place)}

    write("net.tflite")  # of `convert`
    none = Optimization(baseline=Candidate(id=ORIGINAL, parent=None, runtime=RuntimeSpec(name="x")))
    assert _with_summary(none, tmp_path) == none and not (tmp_path / "chosen.md").exists()
    first = _with_summary(replace(none, chosen="a", files=write("net.a.onnx", variant="a")), tmp_path)
    summary = Path(first.files["summary"])
    assert summary == tmp_path / "chosen.md" and first.notes == ()
    assert summary.read_text().endswith(": `net.a.onnx` (a).\n")
    second = _with_summary(replace(none, chosen="b", files=write("net.b.onnx", variant="b")), tmp_path)
    assert second.notes == ("net.a.onnx is of an earlier search; chosen.md names the last one's",)
    text = summary.read_text()
    assert ": `net.b.onnx` (b).\n" in text and text.endswith("earlier searches, and kept:\n\n- `net.a.onnx`\n")
    third = _with_summary(none, tmp_path)
    assert third.notes == ("net.a.onnx and net.b.onnx are of an earlier search; chosen.md names the last one's",)
    assert ": nothing was chosen.\n" in summary.read_text()
    # A file that could not be written to the folder is none of it.
    lost = replace(none, chosen="b", files={"chosen": "/elsewhere/net.b.onnx"})
    assert _with_summary(lost, tmp_path) == lost


def graph_of(*tensors):
    """A graph of inputs, and of outputs that are called y…."""
    names = [one.name for one in tensors]
    return SimpleNamespace(
        tensors={one.name: one for one in tensors},
        inputs=[name for name in names if name[0] != "y"], outputs=[name for name in names if name[0] == "y"],
    )  # fmt: skip


def test_how_integers_are_fed_and_read_is_told():
    """The first line named an int8-in-and-out file, and nothing said what firmware has to write into its input."""
    graph = graph_of(
        Tensor(name="x", shape=(1, 4), dtype="int8", quantization=Quantization(scale=1 / 255, zero_point=-128)),
        Tensor(name="w", shape=(1, 4), dtype="float32"),
        Tensor(name="y", shape=(1, 2), dtype="int8", quantization=Quantization(scale=0.25, zero_point=3)),
    )
    assert _tell_integers(graph) == [
        "input x: int8 = round(x / 0.00392156863) − 128, of each prepared value x, within the type's range",
        "output y: value = 0.25 × (int8 − 3)",
    ]
