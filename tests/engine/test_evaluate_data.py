"""`edgewise evaluate` on data that needs care: pictures of mixed modes, sound of other rates, names with colons."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise.cli.main import run
from edgewise.errors import ExitCode
from edgewise.store import open_store
from messages import has, says
from preparations import prepare_flags

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime", reason="the models are run by ONNX Runtime")

RATE = 16000
TONES = {"high": 880.0, "low": 440.0}
PICTURE = ["--prepare", "resize=8,8", "--prepare", "scale=1/255", "--prepare", "layout=nchw"]


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    return tmp_path


def save(name, nodes, inputs, classes, weights, **properties):
    values = {key: helper.make_tensor_value_info(key, TensorProto.FLOAT, shape) for key, shape in inputs.items()}
    graph = helper.make_graph(
        [helper.make_node(operator, taken, [made], **settings) for operator, taken, made, settings in nodes],
        "g", list(values.values()), [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, classes])],
        [numpy_helper.from_array(np.asarray(value), key) for key, value in weights.items()],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, properties)
    onnx.save(model, name)


def judge(capsys, model, data, *words, task="classification", code=ExitCode.DONE):
    """The document on standard output, and what stands on standard error."""
    line = ["evaluate", model, "--data", data, "--task", task, "-r", "onnxruntime", "--no-latency", "--json", *words]
    assert run(line) == code
    captured = capsys.readouterr()
    return json.loads(captured.out) if captured.out else None, captured.err


def write_brightness_model(channels, **properties):
    """Class 1 where the mean over all pixels and channels is above 0.5, else class 0."""
    size = channels * 64
    weights = {"w": np.stack([np.full(size, -1.0), np.full(size, 1.0)], 1).astype(np.float32) / size,
               "b": np.array([0.5, -0.5], np.float32), "s": np.array([1, size], np.int64)}  # fmt: skip
    nodes = [("Reshape", ["image", "s"], "f", {}), ("MatMul", ["f", "w"], "m", {}), ("Add", ["m", "b"], "y", {})]
    save("net.onnx", nodes, {"image": [1, channels, 8, 8]}, 2, weights, **properties)


def write_pictures():
    """Two of each mode, one dark and one light; the transparent ones hide a dark colour below."""
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    for name, value in (("0_dark", 40), ("1_light", 220)):
        folder = Path("pictures", name)
        folder.mkdir(parents=True)
        plain = image.new("RGB", (10, 9), (value, value, value))
        for mode in ("RGB", "L", "LA", "1", "P", "CMYK"):
            plain.convert(mode).save(folder / f"{mode}.{'tif' if mode == 'CMYK' else 'png'}")
        hidden = image.new("RGBA", (10, 9), (40, 40, 40, 0))
        hidden.save(folder / "RGBA.png")
        plain.save(folder / "film.gif", save_all=True, append_images=[image.new("RGB", (10, 9), (0, 255, 0))])
        image.fromarray(np.full((9, 10), value * 257, np.uint16)).save(folder / "deep.png")


@pytest.mark.parametrize("channels", [1, 3])
def test_pictures_of_every_mode_are_used_and_what_was_changed_is_said(capsys, place, channels):
    write_brightness_model(channels)
    write_pictures()
    document, _ = judge(capsys, "net.onnx", "pictures", *PICTURE)
    samples = document["samples"]
    # The transparent picture of the light ones shows the dark colour below: 17 of 18.
    assert document["metrics"][0]["value"] == pytest.approx(17 / 18)
    assert (samples["n"], samples["of"], samples["left_out"]) == (18, 18, 0)
    assert samples["changes"]["with transparency dropped"] == 2
    assert samples["changes"]["reduced to the first of several frames"] == 2
    colours = {1: "grey", 3: "RGB"}[channels]
    converted = {name: count for name, count in samples["changes"].items() if name.startswith("converted")}
    kinds = {"grey with alpha", "1-bit", "palette", "CMYK", "RGB with alpha", "16-bit grey"}
    kinds.add("RGB" if channels == 1 else "grey")
    assert set(converted) == {f"converted from {kind} to {colours}" for kind in kinds}
    assert re.search(
        says("count-converted-word", count=has(str(sum(converted.values()))), word=has(str(colours))), samples["words"]
    )
    with open_store(str(place / "runs.db")) as store:
        (kept,) = store.resolve(["all"])
    assert kept.evaluation.changes == samples["changes"]
    assert "samples-changed" in {each.code for each in kept.cautions}


def test_a_score_on_less_than_all_samples_says_so_first(capsys):
    write_brightness_model(3)
    write_pictures()
    Path("pictures/0_dark/L.png").write_bytes(b"no picture")
    words = ["evaluate", "net.onnx", "--data", "pictures", "--task", "classification", "--no-latency", *PICTURE]
    assert run([*words, "--no-store"]) == ExitCode.DONE
    first = " ".join(capsys.readouterr().out.split("\n\n")[0].split())
    assert "on 17 of 18 samples, 1 could not be used (0_dark/L.png: not an image that can be read)" in first
    document, _ = judge(capsys, "net.onnx", "pictures", *PICTURE)
    assert (document["metrics"][0]["n"], document["samples"]["left_out"]) == (17, 1)
    assert document["samples"]["why"] == [{"name": "0_dark/L.png", "reason": "not an image that can be read"}]
    (caution,) = [each for each in document["run"]["cautions"] if each["code"] == "samples-left-out"]
    assert "1 of 18 samples" in caution["message"] and "0_dark/L.png" in caution["message"]
    document, _ = judge(capsys, "net.onnx", "pictures", *PICTURE, "--limit", "5")
    assert "5 of 18 samples" in document["samples"]["words"] and "limited by --limit 5" in document["samples"]["words"]


def write_tone_model():
    """Which of two tones is louder, at 16 kHz."""
    time = np.arange(RATE) / RATE
    basis = [wave(2 * np.pi * tone * time) for tone in TONES.values() for wave in (np.sin, np.cos)]
    weights = {"basis": np.array(basis, np.float32).T.copy(), "s": np.array([1, 2, 2], np.int64),
               "axis": np.array([2], np.int64)}  # fmt: skip
    nodes = [("MatMul", ["audio", "basis"], "p", {}), ("Mul", ["p", "p"], "q", {}), ("Reshape", ["q", "s"], "r", {}),
             ("ReduceSum", ["r", "axis"], "y", {"keepdims": 0})]  # fmt: skip
    save("tone.onnx", nodes, {"audio": [1, RATE]}, 2, weights)


def write_sounds(name, rates, *, channels=1, subtype="PCM_16", seconds=1.0):
    soundfile = pytest.importorskip("soundfile", reason="recordings need soundfile")
    for tone, frequency in TONES.items():
        folder = Path(name, tone)
        folder.mkdir(parents=True)
        for number, rate in enumerate(rates):
            wave = 0.4 * np.sin(2 * np.pi * frequency * np.arange(int(rate * seconds)) / rate + number)
            soundfile.write(folder / f"{number}.wav", np.stack([wave] * channels, 1), rate, subtype=subtype)


@pytest.mark.parametrize(
    ("rates", "channels", "subtype"),
    [([44100, 44100], 2, "PCM_24"), ([48000, 48000], 1, "PCM_16"), ([8000, 8000], 1, "FLOAT"), ([16000] * 2, 2, "PCM_U8"),
     ([22050, 22050], 1, "PCM_16")],
)  # fmt: skip
def test_sound_of_another_rate_is_refused_with_steps_that_work_as_typed(capsys, rates, channels, subtype):
    write_tone_model()
    write_sounds("data", rates, channels=channels, subtype=subtype)
    _, said = judge(capsys, "tone.onnx", "data", "--prepare", f"length={RATE}", task="audio-classification",
                    code=ExitCode.BAD_INPUT)  # fmt: skip
    assert "high/0.wav" in said and (rates[0] == RATE or str(rates[0]) in said)
    advice = next(line for line in said.splitlines() if line.startswith("try: "))
    words = [word for step in prepare_flags(advice) for word in ("--prepare", step)]
    document, _ = judge(capsys, "tone.onnx", "data", *words, task="audio-classification")
    assert (document["metrics"][0]["value"], document["metrics"][0]["n"]) == (1.0, 4)


def test_mixed_rates_are_refused_with_the_name_of_the_file(capsys):
    write_tone_model()
    write_sounds("data", [RATE, 22050])
    _, said = judge(capsys, "tone.onnx", "data", "--prepare", f"length={RATE}", task="audio-classification",
                    code=ExitCode.BAD_INPUT)  # fmt: skip
    assert "high/1.wav has 22050 frames per second, high/0.wav has 16000" in said
    advice = next(line for line in said.splitlines() if line.startswith("try: "))
    words = [word for step in prepare_flags(advice) for word in ("--prepare", step)]
    document, _ = judge(capsys, "tone.onnx", "data", *words, task="audio-classification")
    assert (document["metrics"][0]["value"], document["metrics"][0]["n"]) == (1.0, 4)


def test_sound_of_the_right_rate_needs_no_rate_step(capsys):
    write_tone_model()
    write_sounds("whole", [RATE, RATE])
    document, _ = judge(capsys, "tone.onnx", "whole", task="audio-classification")
    assert document["metrics"][0]["value"] == 1.0 and document["samples"]["changes"] == {}
    write_sounds("short", [RATE, RATE], seconds=0.9)
    document, _ = judge(capsys, "tone.onnx", "short", "--prepare", f"length={RATE}", task="audio-classification")
    assert document["metrics"][0]["value"] == 1.0
    assert document["samples"]["changes"] == {"fed at their own 16000 Hz, as no step sets a rate": 4}


def test_names_of_inputs_with_colons_slashes_spaces_and_equals_signs(capsys):
    names = ["serving_default_x:0", "tête/α=1:0", "a b:scale"]
    generator = np.random.default_rng(5)
    weights = {f"w{place}": generator.standard_normal((4, 5)).astype(np.float32) for place in range(3)}
    nodes = [("MatMul", [name, f"w{place}"], f"m{place}", {}) for place, name in enumerate(names)]
    nodes += [("Add", ["m0", "m1"], "m", {}), ("Add", ["m", "m2"], "y", {})]
    save("n.onnx", nodes, {name: ["N", 4] for name in names}, 5, weights)
    data = {name: generator.integers(0, 256, (20, 4)).astype(np.uint8) for name in names}
    divisors = dict(zip(names, (255, 51, 17), strict=True))
    answers = sum(data[name] / divisors[name] @ weights[f"w{place}"] for place, name in enumerate(names)).argmax(1)
    answers[:3] = (answers[:3] + 1) % 5
    np.savez("data.npz", **data, y=answers)
    words = [word for name in names for word in ("--prepare", f"{name}:scale=1/{divisors[name]}")]
    document, _ = judge(capsys, "n.onnx", "data.npz", *words)
    assert document["metrics"][0]["value"] == 17 / 20
    shapes = [word for name in names for word in ("--shape", f"{name}=2x4")]
    assert run(["inspect", "n.onnx", "--json", *shapes]) == ExitCode.DONE
    inputs = json.loads(capsys.readouterr().out)["model"]["inputs"]
    assert {each["name"]: each["shape"] for each in inputs} == {name: [2, 4] for name in names}


def write_detector(categories, **properties):
    """A detector that finds an object of each class in its own quarter of any picture, by rows of x, y, x, y, score,
    class; and data in which category i is in quarter i.
    """
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    pytest.importorskip("pycocotools", reason="the mean average precision is pycocotools'")
    corners = [(0, 0), (16, 0), (0, 16), (16, 16)]
    rows = np.array([[[x, y, x + 10, y + 10, 0.9, number] for number, (x, y) in enumerate(corners)]], np.float32)
    graph = helper.make_graph(
        [helper.make_node("ReduceMean", ["image"], ["m"], keepdims=0), helper.make_node("Mul", ["m", "zero"], ["n"]),
         helper.make_node("Add", ["rows", "n"], ["boxes"])],
        "g", [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 32, 32])],
        [helper.make_tensor_value_info("boxes", TensorProto.FLOAT, [1, 4, 6])],
        [numpy_helper.from_array(rows, "rows"), numpy_helper.from_array(np.float32(0), "zero")],
    )  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, properties)
    onnx.save(model, "det.onnx")
    Path("boxes").mkdir()
    image.new("RGB", (32, 32)).save("boxes/0.png")
    places = {"a": 0, "b": 1, "c": 2, "d": 3}
    boxes = [
        {"id": number, "image_id": 0, "category_id": number + 5, "bbox": [*corners[places[name]], 10, 10], "area": 100}
        for number, name in enumerate(categories)
    ]
    named = [{"id": number + 5, "name": name} for number, name in enumerate(categories)]
    document = {"images": [{"id": 0, "file_name": "0.png"}], "annotations": boxes, "categories": named}
    Path("boxes/instances.json").write_text(json.dumps(document))


FOUND = ["--task-option", "decode=rows", "--task-option", "normalised=no", "--prepare", "scale=1/255", "--prepare",
         "layout=nchw"]  # fmt: skip


@pytest.mark.parametrize(
    ("order", "names", "right", "said"),
    [
        ("acbd", "{0: 'a', 1: 'b', 2: 'c', 3: 'd'}", 1.0, "in another order than the data's: matched by name"),
        ("acbd", "['a', 'b', 'c', 'd']", 1.0, "metadata of det.onnx"),
        ("acbd", "", 0.5, "does not name its classes: they are taken in the data's order, a, c, b, d"),
        ("acbd", "['w', 'x', 'y', 'z']", 0.5, "the names in metadata of det.onnx, such as w, are none of the data's"),
        ("abcd", "['a', 'b', 'c', 'd']", 1.0, ""),
        ("abcd", "['A', 'b', 'c', 'q']", 0.75, "1 of the data's 4 classes are not the model's: d"),
    ],
)
def test_a_detectors_classes_are_matched_by_the_names_in_its_file(capsys, order, names, right, said):
    write_detector(order, **({"names": names} if names else {}))
    document, _ = judge(capsys, "det.onnx", "boxes", *FOUND, task="detection")
    scores = {each["id"]: each["value"] for each in document["metrics"]}
    assert scores["map_50"] == pytest.approx(right, abs=1e-6)
    found = [each["message"] for each in document["run"]["cautions"] if each["code"] == "class-order"]
    assert (said in found[0]) if said else not found
    assert (document["run"]["evaluation"]["settings"].get("class_order") == found[0]) if said else True


def test_the_users_own_mapping_counts_more_than_the_file(capsys):
    write_detector("acbd", names="['d', 'c', 'b', 'a']")
    Path("names.txt").write_text("a\nb\nc\nd\n")
    document, _ = judge(capsys, "det.onnx", "boxes", *FOUND, "--classes", "names.txt", task="detection")
    assert document["metrics"][0]["value"] == pytest.approx(1.0, abs=1e-6)
    assert "class-order" not in [each["code"] for each in document["run"]["cautions"]]


@pytest.mark.parametrize("given", ["1_light,0_darks,dusk", "names.txt"])
def test_a_typo_in_the_names_is_told_with_where_it_is(capsys, given):
    write_brightness_model(3)
    write_pictures()
    Path("names.txt").write_text("1_light\n0_darks\ndusk\n")
    words = ["evaluate", "net.onnx", "--data", "pictures", "--task", "classification", "--classes", given, *PICTURE]
    assert run([*words, "--no-store", "--no-latency"]) == ExitCode.BAD_INPUT
    where = "--classes names.txt" if given == "names.txt" else "--classes"
    assert f"classes that {where} does not have: 0_dark (similar: 0_darks)" in " ".join(capsys.readouterr().err.split())


def test_a_classifiers_classes_are_matched_by_the_names_in_its_file(capsys):
    write_brightness_model(3, names="{0: '1 light', 1: '0_dark'}")
    write_pictures()
    document, _ = judge(capsys, "net.onnx", "pictures", *PICTURE)
    assert document["metrics"][0]["value"] == pytest.approx(1 / 18)
    assert document["run"]["evaluation"]["settings"]["labels"] == "matched with the model's classes by name"
    words = ["evaluate", "net.onnx", "--data", "pictures", "--task", "classification", "--no-latency", *PICTURE]
    assert run([*words, "--no-store"]) == ExitCode.DONE
    assert "are in another order than the data's: matched by name" in " ".join(capsys.readouterr().out.split())


def test_the_runs_in_what_evaluate_writes_are_imported(capsys):
    write_brightness_model(3, names="{0: '1 light', 1: '0_dark'}")
    write_pictures()
    words = ["evaluate", "net.onnx", "--data", "pictures", "--task", "classification", "--no-latency", *PICTURE]
    assert run([*words, "--no-store", "-o", "judged.json"]) == ExitCode.DONE
    assert run(["runs", "import", "judged.json", "--store", "other.db"]) == ExitCode.DONE
    capsys.readouterr()
    assert run(["runs", "list", "--json", "--store", "other.db"]) == ExitCode.DONE
    (listed,) = json.loads(capsys.readouterr().out)["rows"]
    assert listed["id"] == json.loads(Path("judged.json").read_text())["run"]["id"]


def class_folders(root: Path, size: int) -> None:
    """Ten dark pictures and ten bright ones of `size` pixels, grey, in a folder per class."""
    image = pytest.importorskip("PIL.Image")
    for name, value in (("bright", 250), ("dark", 5)):
        (root / name).mkdir(parents=True)
        for number in range(10):
            image.fromarray(np.full((size, size), value, np.uint8)).save(root / name / f"{number}.png")


def test_folders_of_pictures_are_a_classification_and_everything_that_is_missing_is_told_at_once(capsys):
    """The command of the error, as it stands there, evaluates."""
    write_brightness_model(3)
    class_folders(Path("photos"), 6)
    for verb, more in (("evaluate", ["--no-latency"]), ("gate", ["--budget", "accuracy_top1=0%"]), ("optimize", [])):
        assert run([verb, "net.onnx", "--data", "photos", *more]) == ExitCode.BAD_INPUT
        told = capsys.readouterr().err
        assert "task: classification, as photos has a folder per class" in told
        assert "bright/0.png has shape [6, 6, 3], input 'image' takes float32 [1, 3, 8, 8], and no step conv" in told
        line = told.partition("try: '")[2].partition("'")[0]
        assert line.startswith(f"edgewise {verb} net.onnx ") and "resize=8,8 (stretched)" in told
        assert "--prepare pad=8,8 --prepare scale=1/255" in line and "layout" not in line
        if verb == "evaluate":
            assert run([*shlex.split(line)[1:], "--json"]) == ExitCode.DONE
            (found,) = json.loads(capsys.readouterr().out)["evaluations"]
            assert found["notes"][0] == "task: classification, as photos has a folder per class"
            assert found["run"]["evaluation"]["task"] == "classification"


def test_pictures_that_lack_only_their_numbers_and_other_tasks_are_told_as_before(capsys):
    write_brightness_model(3)
    class_folders(Path("photos"), 8)
    words = ["--prepare", "layout=nchw"]
    assert "error: input 'image' takes float32, and no step converts" in judge(
        capsys, "net.onnx", "photos", *words, code=ExitCode.BAD_INPUT)[1]  # fmt: skip
    assert run(["evaluate", "net.onnx", "--data", "photos", "--data-option", "label=none"]) == ExitCode.BAD_INPUT
    assert "no task given" in capsys.readouterr().err
