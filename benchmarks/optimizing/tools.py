"""Other tools at their own defaults, each in a process of its own, on the samples that edgewise's passes were given.

    python benchmarks/optimizing/tools.py TOOL MODEL SAMPLES FOLDER [OLIVE_PYTHON]

makes one file, as the tool's own documentation shows it; `make` starts that and tells how it went.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgewise.optimizing.calibration import Calibration, read_calibration

MAX_DROP = 0.01
QUIET = {"OLIVE_DISABLE_TELEMETRY": "1", "CI": "1", "HF_HUB_OFFLINE": "1"}
"""Olive sends a first message before it looks at the switch that turns messages off, but none where builds are run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What a tool made.

    Attributes:
        path: None where there is nothing, and `why` says why not.
    """

    path: Path | None
    seconds: float
    why: str = ""


def ort_static(model: Path, samples: Calibration, folder: Path) -> Path:
    """As onnxruntime's documentation shows it: pre-processing, then `quantize_static` without further words."""
    from onnxruntime.quantization import quantize_static

    prepared = _preprocess(model, folder)
    quantize_static(str(prepared), str(folder / "model.onnx"), _reader(model, samples))
    return folder / "model.onnx"


def ort_dynamic(model: Path, samples: Calibration, folder: Path) -> Path:
    """Return the same for dynamic quantisation."""
    from onnxruntime.quantization import quantize_dynamic

    prepared = _preprocess(model, folder)
    quantize_dynamic(str(prepared), str(folder / "model.onnx"))
    return folder / "model.onnx"


def nncf_onnx(model: Path, samples: Calibration, folder: Path) -> Path:
    """`nncf.quantize` of an ONNX model."""
    import onnx

    nncf = _import_nncf()
    names = _input_names(model)
    dataset = nncf.Dataset([dict(zip(names, feed, strict=True)) for feed in samples.feeds()])
    onnx.save(nncf.quantize(onnx.load(model), dataset), folder / "model.onnx")
    return folder / "model.onnx"


def nncf_openvino(model: Path, samples: Calibration, folder: Path) -> Path:
    """`nncf.quantize` of the model converted by OpenVINO."""
    nncf = _import_nncf()
    import openvino

    quantized = nncf.quantize(openvino.convert_model(str(model)), nncf.Dataset(list(samples.feeds())))
    openvino.save_model(quantized, str(folder / "model.xml"))
    return folder / "model.xml"


def nncf_controlled(model: Path, samples: Calibration, folder: Path) -> Path:
    """`nncf.quantize_with_accuracy_control` of the same; the samples are what it validates on, too."""
    nncf = _import_nncf()
    import numpy as np
    import openvino

    if samples.labels is None:
        raise SystemExit("accuracy control needs labels, and this data has none")
    pairs = list(zip(samples.feeds(), samples.labels.tolist(), strict=True))
    labelled = nncf.Dataset(pairs, lambda pair: pair[0])

    def validate(compiled: Any, items: Any) -> tuple[float, list[float]]:
        hits = [float(int(np.argmax(compiled(feed)[0])) == label) for feed, label in items]
        return sum(hits) / len(hits), hits

    quantized = nncf.quantize_with_accuracy_control(
        openvino.convert_model(str(model)),
        nncf.Dataset(list(samples.feeds())),
        labelled,
        validate,
        max_drop=MAX_DROP,
    )
    openvino.save_model(quantized, str(folder / "model.xml"))
    return folder / "model.xml"


def litert_static(model: Path, samples: Calibration, folder: Path) -> Path:
    """ai-edge-quantizer's recipe for 8-bit weights and activations."""
    from ai_edge_quantizer import quantizer, recipe

    one = quantizer.Quantizer(str(model))
    one.load_quantization_recipe(recipe.static_wi8_ai8())
    key, names = _signature(model)
    feeds = [dict(zip(names, feed, strict=True)) for feed in samples.feeds()]
    one.quantize(one.calibrate({key: feeds})).export_model(str(folder / "model.tflite"))
    return folder / "model.tflite"


def litert_dynamic(model: Path, samples: Calibration, folder: Path) -> Path:
    """ai-edge-quantizer's recipe for 8-bit weights, activations quantised as they come."""
    from ai_edge_quantizer import quantizer, recipe

    one = quantizer.Quantizer(str(model))
    one.load_quantization_recipe(recipe.dynamic_wi8_afp32())
    one.quantize().export_model(str(folder / "model.tflite"))
    return folder / "model.tflite"


def olive_cli(model: Path, samples: Calibration, folder: Path) -> Path:
    """`olive quantize` by onnxruntime.

    Its default implementation, ``olive``, has none for ONNX in its default precision and says so; with ``ort`` it
    quantises dynamically, and static quantisation takes data sets of Hugging Face only.
    """
    _run_olive(["quantize", "-m", str(model), "-o", str(folder / "made"), "--implementation", "ort",
                "--disable_telemetry"])  # fmt: skip
    return _olive_result(folder / "made")


def olive_static(model: Path, samples: Calibration, folder: Path) -> Path:
    """Olive's pass OnnxStaticQuantization as it is, in a workflow with samples in raw files."""
    names, raw = _input_names(model), folder / "raw"
    for place, name in enumerate(names):
        (raw / name).mkdir(parents=True)
        for index, feed in enumerate(samples.feeds()):
            feed[place].tofile(raw / name / f"{index:04}.bin")
    first = next(samples.feeds())
    config = {
        "input_model": {"type": "ONNXModel", "model_path": str(model)},
        "systems": {"here": {"type": "LocalSystem", "accelerators": [
            {"device": "cpu", "execution_providers": ["CPUExecutionProvider"]}]}},
        "data_configs": [{"name": "samples", "type": "RawDataContainer", "load_dataset_config": {
            "data_dir": str(raw), "input_names": names, "input_dirs": names, "input_suffix": ".bin",
            "input_shapes": [list(each.shape) for each in first], "input_types": [str(each.dtype) for each in first]}}],
        "passes": {"quantization": {"type": "OnnxStaticQuantization", "data_config": "samples"}},
        "host": "here", "target": "here", "output_dir": str(folder / "made"), "cache_dir": str(folder / "cache"),
        "evaluate_input_model": False, "no_artifacts": True,
    }  # fmt: skip
    file = folder / "olive.json"
    file.write_text(json.dumps(config, indent=1), encoding="utf-8")
    _run_olive(["run", "--config", str(file), "--disable_telemetry"])
    return _olive_result(folder / "made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool with its default.

    Attributes:
        engine: whose format it makes.
        form: of the model it starts from.
        labels: whether it needs some.
    """

    title: str
    engine: str
    forms: tuple[str, ...]
    make: Callable[[Path, Calibration, Path], Path]
    packages: tuple[str, ...]
    labels: bool = False


TOOLS = {
    "ort-static": Tool(title="onnxruntime static", engine="onnxruntime", forms=("onnx",), make=ort_static,
                       packages=("onnxruntime",)),
    "ort-dynamic": Tool(title="onnxruntime dynamic", engine="onnxruntime", forms=("onnx",), make=ort_dynamic,
                        packages=("onnxruntime",)),
    "nncf-onnx": Tool(title="NNCF (ONNX)", engine="onnxruntime", forms=("onnx",), make=nncf_onnx, packages=("nncf",)),
    "olive": Tool(title="Olive quantize", engine="onnxruntime", forms=("onnx",), make=olive_cli,
                  packages=("olive-ai",)),
    "olive-static": Tool(title="Olive static", engine="onnxruntime", forms=("onnx",), make=olive_static,
                         packages=("olive-ai",)),
    "nncf-openvino": Tool(title="NNCF (OpenVINO)", engine="openvino", forms=("onnx", "tflite"), make=nncf_openvino,
                          packages=("nncf", "openvino")),
    "nncf-accuracy": Tool(title="NNCF accuracy control", engine="openvino", forms=("onnx", "tflite"),
                          make=nncf_controlled, packages=("nncf", "openvino"), labels=True),
    "litert-static": Tool(title="ai-edge-quantizer static", engine="litert", forms=("tflite",), make=litert_static,
                          packages=("ai-edge-quantizer",)),
    "litert-dynamic": Tool(title="ai-edge-quantizer dynamic", engine="litert", forms=("tflite",), make=litert_dynamic,
                           packages=("ai-edge-quantizer",)),
}  # fmt: skip


def make(name: str, model: Path, samples: Path, folder: Path, *, olive: str, seconds: float) -> Made:
    """Have the tool make its file, within `seconds`.

    Args:
        samples: as `edgewise.optimizing.calibration.write_calibration` keeps them.
        olive: the Python that has Olive; "" for none.
    """
    if name.startswith("olive") and not olive:
        return Made(path=None, seconds=0.0, why="n/a: no Python with Olive was named (--olive-python)")
    shutil.rmtree(folder, ignore_errors=True)  # what a run left that was cut off
    folder.mkdir(parents=True)
    begin = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, __file__, name, str(model), str(samples), str(folder), olive],
            capture_output=True, text=True, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Made(path=None, seconds=seconds, why=f"not done in {seconds:.0f} s")
    took = time.monotonic() - begin
    (folder / "log.txt").write_text(done.stdout + done.stderr, encoding="utf-8")
    result = folder / "result.json"
    if done.returncode or not result.is_file():
        return Made(path=None, seconds=took, why=f"failed: {_last_line(done.stderr or done.stdout)}")
    return Made(path=Path(json.loads(result.read_text(encoding="utf-8"))["path"]), seconds=took)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it said nothing"


def _preprocess(model: Path, folder: Path) -> Path:
    from onnxruntime.quantization.shape_inference import quant_pre_process

    quant_pre_process(str(model), str(folder / "prepared.onnx"))
    return folder / "prepared.onnx"


def _reader(model: Path, samples: Calibration) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    names = _input_names(model)

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self._feeds: Iterator[list[Any]] = samples.feeds()

        def get_next(self) -> dict[str, Any] | None:
            feed = next(self._feeds, None)
            return None if feed is None else dict(zip(names, feed, strict=True))

    return Reader()


def _input_names(model: Path) -> list[str]:
    import onnx

    graph = onnx.load(model, load_external_data=False).graph
    weights = {each.name for each in graph.initializer}
    return [each.name for each in graph.input if each.name not in weights]


def _signature(model: Path) -> tuple[str | None, list[str]]:
    """Return the name of the only signature and those of its inputs, in the order of the model's."""
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_path=str(model))
    signatures = interpreter.get_signature_list()
    if not signatures:
        return None, [each["name"] for each in interpreter.get_input_details()]
    key = next(iter(signatures))
    interpreter.allocate_tensors()
    runner = interpreter.get_signature_runner(key).get_input_details()
    places = {each["index"]: name for name, each in runner.items()}
    return key, [places[each["index"]] for each in interpreter.get_input_details()]


def _import_nncf() -> Any:
    """Without its telemetry: None in place of that package makes its import fail, and NNCF does without."""
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import nncf

    return nncf


def _run_olive(words: Sequence[str]) -> None:
    code = "from olive.cli.launcher import main; main(called_as_console_script=False)"
    olive = sys.argv[5]
    done = subprocess.run(
        [olive, "-c", code, *words], env={**os.environ, **QUIET}, capture_output=True, text=True, check=False
    )
    sys.stderr.write(done.stdout + done.stderr)
    if done.returncode:
        raise SystemExit(_last_line(done.stderr))


def _olive_result(folder: Path) -> Path:
    found = sorted(folder.rglob("*.onnx"))
    if not found:
        raise SystemExit("Olive left no model")
    return found[0]


def main() -> int:
    name, model, samples, folder = sys.argv[1], *map(Path, sys.argv[2:5])
    path = TOOLS[name].make(model, read_calibration(samples), folder)
    (folder / "result.json").write_text(json.dumps({"path": str(path)}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
