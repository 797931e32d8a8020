"""What `calibrate` learns a device from: tables, runs and outputs of other tools, and the files of their models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgewise.comparing.fairness import limits_text
from edgewise.comparing.jobs import runs_among
from edgewise.errors import BadInput, EdgewiseError
from edgewise.importing import read_any
from edgewise.metrics import METRICS
from edgewise.model.identity import describe_file, is_model_folder
from edgewise.record import Run
from edgewise.record.job import UNKNOWN_DEVICE, Job
from edgewise.store import Store, open_store
from edgewise.store.preference import grade_of, preference, preference_of
from edgewise.text import enumerate_few, listing
from edgewise.units import format_si
from edgewise.verbs.subjects import read_subjects

if TYPE_CHECKING:
    from edgewise.verbs.context import Context

TABLE = ".csv"
MODELS = (".onnx", ".ort", ".tflite", ".xml", ".bin", ".pt2", ".pte", ".keras", ".h5", ".param", ".data", ".npz")
"""Endings of files in a folder of measurements that are none."""
MOST_FILES = 1000
MOST_NAMED, SHOWN = 3, 2
"""Models that a caution names; of more, their number and the first few."""


class Notes:
    """Cautions about models: the same one of several models is one sentence."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def add(self, what: str, name: str) -> None:
        """Note that `what` holds for the model `name`."""
        self._names.setdefault(what, []).append(name)

    @property
    def sentences(self) -> list[str]:
        """A sentence for each `what`, with the names; of many, their number and the first."""
        return [f"{what}: {_named(list(dict.fromkeys(names)))}." for what, names in self._names.items()]


def _named(names: list[str]) -> str:
    if len(names) <= MOST_NAMED:
        return listing(names)
    return f"{len(names)} models ({enumerate_few(names, SHOWN)})"


def engine_text(job: Job) -> str:
    """Return an engine with its threads and limits, such as ``litert/cpu, 1 thread, within 2 CPUs``."""
    # Stored calibrations are found by these words, whose sizes are decimal.
    runtime, limits = job.runtime, limits_text(job, unit="CPU", size=lambda size: format_si(size, "B"))
    words = [f"{runtime.name}{f'/{runtime.provider}' if runtime.provider else ''}"]
    if runtime.threads is not None:
        words.append(f"{runtime.threads} thread{'' if runtime.threads == 1 else 's'}")
    words += [runtime.precision] if runtime.precision else []
    words += [f"within {limits}"] if limits != "none" else []
    return ", ".join(words)


@contextmanager
def reading(context: Context) -> Iterator[Store | None]:
    """Yield the store of `context`; None where this user has none yet."""
    store = context.store
    if store is not None and not isinstance(store, str):
        yield store
        return
    try:
        opened = open_store(store, create=False)
    except EdgewiseError:
        if store is not None:
            raise
        yield None
    else:
        with opened:
            yield opened


@dataclass(kw_only=True)
class Measured:
    """What was given as measurements.

    Attributes:
        folders: in which files of models may lie beside the measurements.
        sources: in words.
    """

    tables: list[Path] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)


def read_measurements(words: Sequence[str], device: str, context: Context, notes: Notes) -> Measured:
    """Return the tables and runs that `words` name; without words, the runs of `device` in the store.

    Raises `BadInput` for what holds no measurements.
    """
    found = Measured(sources=list(words))
    for word in words:
        path = Path(word)
        if word.lower().endswith(TABLE):
            found.tables.append(path)
        elif path.is_dir() and not is_model_folder(path) and not (path / "report.json").is_file():
            _read_folder(path, found, notes)
        elif path.exists():
            found.runs += _read_file(path)
            found.folders.append(path.parent)
        else:
            found.runs += runs_among(read_subjects([word], store=context.store, runs=context.runs))
    if not words:
        with reading(context) as store:
            found.runs = [] if store is None else _of_device(store, device)
            where = "the store" if store is None else store.name
        if not found.runs:
            raise BadInput(
                f"no measurements given, and {where} has no finished runs of the device {device}",
                advice=f"⟦measurements⟧ F.csv, 'edgewise runs import F --device {device}', or 'edgewise calibrate "
                f"{device} --suggest 5' for models to measure",
            )
        found.sources = [f"runs of {device} in {where}"]
    return found


def _read_folder(folder: Path, found: Measured, notes: Notes) -> None:
    """Add what the files in `folder`, and below it, hold."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    if len(files) > MOST_FILES:
        raise BadInput(f"{folder} has {len(files)} files", advice=f"give a folder with {MOST_FILES} at most")
    before = len(found.tables), len(found.runs)
    why = ""
    for path in files:
        if path.suffix.lower() == TABLE and _is_table(path):
            found.tables.append(path)
        elif path.suffix.lower() not in MODELS:
            try:
                found.runs += read_any(path)
            except BadInput as error:
                why = why or f": {error.marked.message}"
                notes.add(f"Files of {folder} left out, as they hold no measurements", path.name)
    if (len(found.tables), len(found.runs)) == before:
        raise BadInput(
            f"{folder} holds no measurements{why}",
            advice="it needs tables, exported runs or outputs of tools",
        )
    found.folders += dict.fromkeys(path.parent for path in files)


def _is_table(path: Path) -> bool:
    """Whether a CSV file is a table of models."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return "model" in [cell.strip() for cell in file.readline().split(",")]


def _read_file(path: Path) -> list[Run]:
    try:
        return list(read_any(path))
    except BadInput as error:
        raise BadInput(
            f"{path} holds no measurements: {error.marked.message.removeprefix(f'{path}, ')}",
            advice="give a CSV file, stored or exported runs, or what a tool printed that 'edgewise runs import' reads",
        ) from None


def _of_device(store: Store, device: str) -> list[Run]:
    """Return the runs of `device`, one at a time; of the same model and settings the newest of the best grade."""
    best: dict[tuple[object, ...], tuple[tuple[int, float], str]] = {}
    for row in store.rows(device=device, status="done"):
        if row.batch == 1 and row.scenario == "single-stream" and row.value:
            key = row.sha256, row.model, row.runtime, row.version, row.provider, row.threads, row.precision
            place = preference(row, row.grade), row.id
            best[key] = min(best.get(key, place), place)
    return [store.get(run) for _, run in best.values()]


def of_one_engine(runs: Sequence[Run], notes: Notes, *, wanted: str | None) -> list[Run]:
    """One run for each model, of one device with one engine, one input at a time; notes say what is left out.

    Raises:
        BadInput: runs of several devices, or of several engines where `wanted` does not decide.
    """
    kept = []
    for run in runs:
        job = run.job
        why = ""
        if run.status == "failed":
            why = "failed"
        elif job.workload.batch != 1 or job.workload.scenario.kind != "single-stream":
            why = f"scenario {job.workload.scenario.kind}, batch {job.workload.batch}"
        if why:
            notes.add(f"Runs left out ({why})", job.model.name)
        else:
            kept.append(run)
    if runs and not kept:
        raise BadInput(
            notes.sentences[-1].removesuffix("."), advice="measure in the scenario single-stream with batch 1"
        )
    devices = sorted({run.job.target.device for run in kept} - {UNKNOWN_DEVICE})
    if len(devices) > 1:
        raise BadInput(
            f"the runs are of several devices: {', '.join(devices)}", advice="calibrate one device at a time"
        )
    engines = {engine_text(run.job) for run in kept}
    if wanted is not None and kept:
        chosen = {wanted} if wanted in engines else {engine for engine in engines if engine.startswith(wanted)}
        if not chosen:
            raise BadInput(f"no run is of {wanted}", advice=f"the runs are of: {'; '.join(sorted(engines))}")
        engines = chosen
    if len(engines) > 1:
        listed = sorted(engines)
        raise BadInput(f"the runs are of several engines: {'; '.join(listed)}", advice=f"add ⟦runtime⟧ '{listed[0]}'")
    return _best_of_each([run for run in kept if engine_text(run.job) in engines], notes)


def _best_of_each(runs: Sequence[Run], notes: Notes) -> list[Run]:
    """Return the newest run of the best grade of each model."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.job.model.sha256, run.job.model.name), []).append(run)
    best = [min(each, key=preference_of) for each in groups.values()]
    for run, each in zip(best, groups.values(), strict=True):
        if len(each) > 1:
            notes.add("Of several runs, the newest of the best grade is taken", run.job.model.name)
        if grade_of(run) == "D":
            notes.add("Runs on the device of grade D alone, so that their values are doubtful", run.job.model.name)
    return best


def note_tool(run: Run, metric: str, notes: Notes) -> None:
    """Note which tool measured an imported run, and what was."""
    if run.source is not None:
        batch = ", which does not tell the batch (1 is assumed)" if "batch" in run.source.unknown else ""
        notes.add(f"{METRICS[metric].label} measured by {run.source.tool}{batch}", run.job.model.name)


class ModelFiles:
    """Files of models in folders, found by their names or hashes.

    Args:
        folders: the files in them, not below them, are looked at.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._files = [
            path
            for folder in dict.fromkeys(folders)
            for path in sorted(folder.iterdir())
            if path.suffix.lower() in MODELS or is_model_folder(path)
        ]
        self._hashes: dict[str, Path] | None = None

    def named(self, name: str) -> list[Path]:
        """Return the files of this name; without any, the only one of this name without its ending."""
        same = [path for path in self._files if path.name == name]
        stems = [path for path in self._files if path.stem == name]
        return same or (stems if len(stems) == 1 else [])

    def hashed(self, sha256: str) -> Path | None:
        """Return the file with this hash; None where there is none."""
        if self._hashes is None:
            self._hashes = {}
            for path in self._files:
                try:
                    self._hashes.setdefault(str(describe_file(path, read_all=True)["sha256"]), path)
                except EdgewiseError:
                    continue  # no model, such as the weights of one
        return self._hashes.get(sha256)
