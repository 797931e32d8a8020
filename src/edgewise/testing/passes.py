"""What every pass must do: a plug-in's author calls `check_pass` in a test of theirs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from edgewise.errors import EdgewiseError
from edgewise.model.identity import open_model
from edgewise.optimizing.base import CannotApply, Facts, Pass, PassKind, PassResult, PassTask, Recipe
from edgewise.testing.rules import probe_import, requiring

_require = requiring("pass")

MODULES = ("torch", "onnxruntime", "openvino", "nncf", "onnxslim", "ai_edge_quantizer", "ai_edge_litert", "tensorflow")
"""Heavy libraries that may be imported by `Pass.apply` alone."""

# Run in a fresh interpreter: what the module and the questions that come before any work bring into the process.
_PROBE = """
import importlib, json, sys
module, _, name = sys.argv[1].partition(":")
one = getattr(importlib.import_module(module), name)()
availability = one.availability()
one.capabilities
print("PROBE" + json.dumps({"heavy": [each for each in sys.argv[2:] if each in sys.modules],
    "available": bool(availability), "reason": availability.reason, "hint": availability.install_hint}))
"""


def check_pass(
    one: Pass, facts: Facts, *, calibration: str | Path | None = None, recipe: Recipe | None = None
) -> tuple[str, ...]:
    """Check `one` against its contract on the model of `facts`; raises AssertionError naming the rule.

    Args:
        facts: of a float model that the pass reads and can change.
        calibration: samples for it, as `edgewise.optimizing.calibration.write_calibration` wrote them; needed where
            the pass calibrates.
        recipe: what to apply; None is the first that the pass offers.

    Returns:
        The rules that were checked; only the first few where the pass's packages are not installed.
    """
    rules = ["metadata", "import"]
    _check_metadata(one, facts)
    if not _check_import(one):
        return tuple(rules)
    recipes = _check_recipes(one, facts)
    rules.append("recipes")
    if one.capabilities.kind == "tuning":
        return tuple(rules)
    _require(bool(recipe or recipes), "recipes: it offers none for this model, so there is nothing to check")
    chosen = recipe or recipes[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        task = PassTask(
            model=str(facts.path),
            format=facts.format,
            settings=chosen.settings,
            folder=folder,
            calibration=None if calibration is None else Path(calibration),
        )
        _check_result(one, facts, task)
        rules.append("result")
        if one.capabilities.calibrates:
            _check_without_samples(one, task)
            rules.append("no samples")
        if one.capabilities.keeps_float:
            _check_nothing_left(one, facts, task)
            rules.append("keep_float")
    return tuple(rules)


def _check_metadata(one: Pass, facts: Facts) -> None:
    has = one.capabilities
    _require(bool(one.name) and one.name == one.name.lower() and " " not in one.name, f"metadata: name is {one.name!r}")
    _require(bool(one.title), "metadata: it has no title")
    _require(has.kind in get_args(PassKind), f"metadata: kind is {has.kind!r}")
    _require(bool(has.reads), "metadata: it reads no format")
    _require(facts.format in has.reads, f"metadata: it does not read {facts.format}, the format of the given model")
    _require(not has.labels or has.calibrates, "metadata: labels are looked at only together with samples")
    _require(has.kind != "tuning" or not has.writes, "metadata: tuning writes nothing")


def _check_import(one: Pass) -> bool:
    """Whether it is available; it must say so without importing what it works with."""
    told, tail = probe_import(one, _PROBE, *MODULES)
    if told is None:
        raise AssertionError(f"pass: import: {type(one).__module__}:{type(one).__qualname__} can't be imported: {tail}")
    _require(not told["heavy"], f"import: the module or availability() imports {', '.join(told['heavy'])}")
    if not told["available"]:
        _require(bool(told["reason"] and told["hint"]), "availability: it says not why it is missing or what to do")
    return bool(told["available"])


def _check_recipes(one: Pass, facts: Facts) -> Sequence[Recipe]:
    recipes = one.recipes(facts)
    labels = [recipe.label for recipe in recipes]
    _require(len(set(labels)) == len(labels), f"recipes: labels are not unique: {labels}")
    _require(all(recipe.rank in (0, 1, 2) for recipe in recipes), "recipes: a rank is not 0, 1 or 2")
    ranks = [recipe.rank for recipe in recipes]
    _require(ranks == sorted(ranks), f"recipes: the most promising must come first, their ranks are {ranks}")
    for recipe in recipes:
        try:
            same = (
                json.loads(json.dumps(recipe.settings.to_document(), allow_nan=False)) == recipe.settings.to_document()
            )
        except (TypeError, ValueError):
            same = False
        _require(same, f"recipes: the settings of {recipe.label!r} are not JSON-shaped")
    if one.capabilities.kind == "quantisation":
        _require(not one.recipes(replace(facts, quantized=True)), "recipes: it offers to quantise a quantised model")
    return recipes


def _check_result(one: Pass, facts: Facts, task: PassTask[Any]) -> PassResult:
    before = _digests(facts.path)
    result = _apply(one, task)
    _require(_digests(facts.path) == before, "result: apply() changed the model that it was given")
    _require(all(note and "\n" not in note for note in result.notes), f"result: notes are not lines: {result.notes}")
    _require(bool(result.versions), "result: it does not tell versions")
    if result.unchanged:
        return result
    if result.model is None:
        raise AssertionError("result: there is neither a model nor `unchanged`")
    _require(result.model.resolve().is_relative_to(task.folder.resolve()), "result: it is not in the given folder")
    model = open_model(result.model)
    wanted = one.capabilities.writes or facts.format
    _require(model.ref.format == wanted, f"result: it is {model.ref.format}, capabilities say {wanted}")
    if model.ref.format == "onnx":
        _check_onnx(result.model)
    _require(
        len(model.signature.inputs) == len(facts.signature.inputs)
        and len(model.signature.outputs) == len(facts.signature.outputs),
        "result: it has another number of inputs or outputs",
    )
    left = {path.resolve() for path in task.folder.rglob("*") if path.is_file()} - {
        file.resolve() for file in model.files
    }
    _require(not left, f"result: files are left over: {sorted(path.name for path in left)}")
    return result


def _check_onnx(path: Path) -> None:
    """Engines are laxer than the standard, and other tools are not."""
    import onnx

    try:
        onnx.checker.check_model(str(path))
    except onnx.checker.ValidationError as error:
        raise AssertionError(f"result: onnx.checker refuses it: {error}") from error


def _check_without_samples(one: Pass, task: PassTask[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            one.apply(replace(task, folder=Path(folder), calibration=None))
        except CannotApply as error:
            _require(bool(str(error)) and "\n" not in str(error), "no samples: CannotApply is not one line")
            return
        except Exception as error:
            _require(False, f"no samples: it raises {type(error).__name__}, not CannotApply")
    _require(False, "no samples: it makes something all the same")


def _check_nothing_left(one: Pass, facts: Facts, task: PassTask[Any]) -> None:
    """With every layer kept in float there is nothing to do, and it must say so."""
    everything = tuple(operator.name for operator in facts.graph.operators)
    with tempfile.TemporaryDirectory() as folder:
        try:
            result = one.apply(replace(task, folder=Path(folder), keep_float=everything))
        except CannotApply:
            return
        _require(result.unchanged, "keep_float: it changes a model of which every layer is to be kept")


def _apply(one: Pass, task: PassTask[Any]) -> PassResult:
    try:
        return one.apply(task)
    except CannotApply as error:
        raise AssertionError(f"pass: result: it can't change the given model: {error}") from error
    except EdgewiseError as error:
        raise AssertionError(f"pass: result: it refuses the given model: {error}") from error


def _digests(path: Path) -> dict[str, str]:
    """Hashes of the files of the model at `path`."""
    return {str(file): sha256(file.read_bytes()).hexdigest() for file in open_model(path).files}
