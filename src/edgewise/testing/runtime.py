"""What every runtime must do: a plug-in's author calls `check_runtime` in a test of theirs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgewise.model.signature import shapes_fit
from edgewise.runtime.base import InvalidModel, LoadOptions, Runtime, Session, UnsupportedModel
from edgewise.runtime.fake_script import MARK
from edgewise.testing.profile import check_profile, infer
from edgewise.testing.rules import probe_import, requiring

_require = requiring("runtime")

TOLERANCE = 1e-6
"""Largest difference between outputs of the same inputs, relative to the largest one: engines sum in any order."""

# Run in a fresh interpreter: what the module, then the engine, brings into the process.
_PROBE = """
import importlib, json, sys
import numpy, edgewise.runtime.base
def packages():
    return {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
module, _, name = sys.argv[1].partition(":")
before = packages()
runtime = getattr(importlib.import_module(module), name)()
availability = runtime.availability()
list(runtime.formats), list(runtime.providers)
early = sorted(packages() - before - {module.partition(".")[0]})
version = runtime.import_engine() if availability else None
print("PROBE" + json.dumps({"early": early, "available": bool(availability), "reason": availability.reason,
    "hint": availability.install_hint, "found": availability.version, "version": version}))
"""


def write_fake_model(path: str | Path, **script: Any) -> Path:
    """Write a model for the fake engine and return its path; keys as in `edgewise.runtime.fake`."""
    path = Path(path)
    path.write_text(f"{MARK}\n{json.dumps(script)}\n")
    return path


def check_runtime(
    runtime: Runtime,
    model_path: str | Path,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    dtypes: Mapping[str, str] | None = None,
    provider: str | None = None,
) -> tuple[str, ...]:
    """Check `runtime` against its contract with the model at `model_path`; raises AssertionError naming the rule.

    Args:
        model_path: a model whose outputs depend on its inputs and on nothing else.
        shapes, dtypes: of every input, in the model's order; needed where the model leaves a dimension open.
        provider: None takes the runtime's first.

    Returns:
        The rules that were checked; only the first few where the engine is not installed, and without ``"layers"``
        where it does not time any.
    """
    path = Path(model_path)
    rules = list(_check_metadata(runtime))
    if not _check_import(runtime):
        return (*rules, "import")
    names = [known.name for known in runtime.providers]
    options = LoadOptions(
        provider=provider or names[0], shapes=dict(shapes or {}), dtypes=dict(dtypes or {}), threads=1
    )
    session = runtime.load(path, options)
    try:
        _check_effective(session, options)
        inputs = _make_inputs(session, options)
        _check_outputs(session, inputs)
        _check_wrong_inputs(session, inputs)
    finally:
        session.close()
    session.close()  # a second time must do nothing
    _check_threads(runtime, path, options)
    _check_bad_files(runtime, path, options)
    layers = check_profile(runtime, path, options, inputs)
    return (*rules, "import", "effective", "outputs", "wrong inputs", "close", "threads", "bad files", *layers)


def _check_metadata(runtime: Runtime) -> Sequence[str]:
    name = runtime.name
    _require(bool(name) and name == name.lower() and " " not in name, f"name: {name!r} is not one lower-case word")
    _require(bool(runtime.title), "title: it is empty")
    _require(len(runtime.formats) > 0, "formats: there are none")
    _require(len(runtime.providers) > 0, "providers: there are none")
    names = [provider.name for provider in runtime.providers]
    _require(len(set(names)) == len(names), f"providers: a name stands twice in {names}")
    _require(isinstance(runtime.in_default, bool), "in_default: it is not a bool")
    return ("name", "title", "formats", "providers", "in_default")


def _check_import(runtime: Runtime) -> bool:
    """Whether the engine is there; in a fresh process, because this one may have imported it long ago."""
    told, tail = probe_import(runtime, _PROBE)
    if told is None:
        name = f"{type(runtime).__module__}:{type(runtime).__qualname__}"
        raise AssertionError(
            f"runtime: import: {name} can't be imported, or says it is available and its engine is not: {tail}"
        )
    _require(not told["early"], f"import: the module or availability() imports {', '.join(told['early'])}")
    if not told["available"]:
        _require(
            bool(told["reason"] and told["hint"]), "availability: it is not available and says not why or what to do"
        )
        return False
    _require(isinstance(told["version"], str), "import: import_engine() does not return a version")
    _require(
        told["found"] in (None, told["version"]),
        f"import: the engine is version {told['version']}, availability() says {told['found']}",
    )
    _require(runtime.import_engine() == told["version"], "import: import_engine() returns another version here")
    return True


def _check_effective(session: Session, options: LoadOptions) -> None:
    effective = session.effective
    for key in ("provider", "precision", "threads"):
        _require(key in effective, f"effective: it lacks {key!r}")
    _require(effective["provider"] == options.provider, f"effective: provider is {effective['provider']!r}")
    try:
        json.dumps(dict(effective), allow_nan=False)
    except (TypeError, ValueError) as error:
        _require(False, f"effective: it is not JSON: {error}")


def _make_inputs(session: Session, options: LoadOptions) -> list[Any]:
    """Small numbers, none negative, other ones for each input."""
    import numpy as np

    shapes, dtypes = list(options.shapes.values()), list(options.dtypes.values())
    for what, given in (("shapes", shapes), ("dtypes", dtypes)):
        _require(
            len(given) in (0, len(session.inputs)),
            f"inputs: {len(given)} {what} were given for {len(session.inputs)} inputs",
        )
    arrays = []
    for index, spec in enumerate(session.inputs):
        _require(bool(shapes) or not spec.dynamic, f"inputs: {spec.name!r} has open dimensions; call with shapes=")
        shape = shapes[index] if shapes else tuple(size for size in spec.shape or () if isinstance(size, int))
        dtype = np.dtype(dtypes[index] if dtypes else spec.dtype)
        _require(np.dtype(spec.dtype) == dtype, f"inputs: {spec.name!r} is {spec.dtype}, the model has {dtype}")
        values = (np.arange(int(np.prod(shape, dtype=np.int64))) * (index + 1) + index) % 13
        arrays.append((values / 4 if dtype.kind == "f" else values % 2 if dtype.kind == "b" else values)
                      .astype(dtype).reshape(shape))  # fmt: skip
    return arrays


def _check_outputs(session: Session, inputs: Sequence[Any]) -> None:
    import numpy as np

    given = [array.copy() for array in inputs]
    first = infer(session, given)
    _require(len(first) == len(session.outputs), f"outputs: {len(first)} arrays for {len(session.outputs)} outputs")
    for array, spec in zip(first, session.outputs, strict=True):
        _require(isinstance(array, np.ndarray), f"outputs: {spec.name!r} is a {type(array).__name__}, not an array")
        _require(str(array.dtype) == spec.dtype, f"outputs: {spec.name!r} is {array.dtype}, not {spec.dtype}")
        _require(
            shapes_fit(spec.shape, array.shape), f"outputs: {spec.name!r} has shape {array.shape}, not {spec.shape}"
        )
    kept = [array.copy() for array in first]
    for array in given:
        array[...] = 0
    session.invoke()
    again = list(session.read_outputs())
    _require(_same(kept, again), "outputs: a second inference on the same inputs differs (or bind keeps no copy)")
    others = [_other(array, step=3 * index + 3) for index, array in enumerate(inputs)]
    other = infer(session, others)
    _require(not _same(kept, other), "outputs: other inputs give the same outputs")
    _require(_same(kept, first, tolerance=0.0), "outputs: they are no copies, a later inference changed them")
    _require(_same(kept, infer(session, inputs)), "outputs: binding the first inputs again gives other outputs")


def _other(array: Any, *, step: int) -> Any:
    """Return an array of the same shape and type: turned round, so that a shift-invariant model sees it, and
    shifted.
    """
    import numpy as np

    if array.dtype.kind == "b":
        return ~array
    return (array[..., ::-1] if array.ndim else array) + np.array(step, array.dtype)


def _same(left: Sequence[Any], right: Sequence[Any], tolerance: float = TOLERANCE) -> bool:
    import numpy as np

    if [array.shape for array in left] != [array.shape for array in right]:
        return False
    for one, two in zip(left, right, strict=True):
        a, b = np.asarray(one, dtype=np.float64), np.asarray(two, dtype=np.float64)
        limit = tolerance * float(np.max(np.abs(a), initial=0.0))
        if not np.allclose(a, b, rtol=0.0, atol=limit, equal_nan=True):
            return False
    return True


def _check_wrong_inputs(session: Session, inputs: Sequence[Any]) -> None:
    import numpy as np

    longer = np.zeros((*inputs[0].shape, 2), inputs[0].dtype)
    other = np.zeros(inputs[0].shape, np.float32 if inputs[0].dtype != np.float32 else np.int32)
    for what, wrong in (
        ("too few arrays", list(inputs[:-1])),
        ("too many arrays", [*inputs, inputs[0]]),
        ("an array of another rank", [longer, *inputs[1:]]),
        ("an array of another type", [other, *inputs[1:]]),
    ):
        try:
            session.bind(wrong)
        except ValueError:
            continue
        except Exception as error:
            _require(False, f"wrong inputs: {what} raises {type(error).__name__}, not ValueError")
        _require(False, f"wrong inputs: bind takes {what}")


def _check_threads(runtime: Runtime, path: Path, options: LoadOptions) -> None:
    """Check that the engine's own number of threads does as well."""
    session = runtime.load(path, LoadOptions(provider=options.provider, shapes=options.shapes, dtypes=options.dtypes))
    try:
        session.bind(_make_inputs(session, options))
        session.invoke()
    finally:
        session.close()


def _check_bad_files(runtime: Runtime, path: Path, options: LoadOptions) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for what, content in (("an empty file", b""), ("a file of junk", b"this is no model\n" * 9), ("no file", None)):
            bad = Path(folder) / f"bad{path.suffix}"
            bad.unlink(missing_ok=True)
            if content is not None:
                bad.write_bytes(content)
            try:
                runtime.load(bad, options)
            except (InvalidModel, UnsupportedModel) as error:
                _require(bool(str(error)), f"bad files: {what} raises {type(error).__name__} without a message")
                continue
            except Exception as error:
                _require(
                    False, f"bad files: {what} raises {type(error).__name__}, not InvalidModel or UnsupportedModel"
                )
            _require(False, f"bad files: {what} is loaded")
