"""Does aimet-onnx or modelopt make better int8 files for onnxruntime than edgewise's own passes?

    python benchmarks/quantizers.py [--nets build/nets] [--unlabelled build/unlabelled] [--only digits,keyword]
                                    [--python PYTHON] [--seconds 120] [--work build/quantizers] [-o FILE.json]

For every network that ``benchmarks/nets/train.py`` and ``benchmarks/nets/unlabelled.py`` made, and that of digits: the
usual recipes of `ort-static` and `nncf-ptq`, and, where PYTHON has the packages ``aimet-onnx`` and
``nvidia-modelopt[onnx]``, their int8 files. All get the same samples and the same folded network (others would stumble
over old operator sets and unmerged normalisations). Every file then runs in this onnxruntime on one thread, on other
samples:

- SNR: of the worst output against the float file's, dB;
- same: share of samples with the float file's best class, where outputs are classes; accuracy where there are labels;
- time: of all files in turns in one process, over the float file's. ``edgewise compare`` has the last word on a winner.

Differences are paired: the same samples, resampled together, give the interval. A file *wins* if its SNR is higher than
that of each of edgewise's files that are at most 3 % slower, with the interval beyond 0. What was made is kept in the
work folder, and a second call goes on there.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from nets.data import FASHION
from optimizing.other_quantizers import TOOLS
from optimizing.subjects import Subject, find_subjects, find_unlabelled

from edgewise.errors import EdgewiseError
from edgewise.evaluating.data_options import DataOptions
from edgewise.evaluating.instructions import find_instructions
from edgewise.model.identity import open_model
from edgewise.optimizing.base import CannotApply, PassSettings, PassTask, Recipe, passes
from edgewise.optimizing.calibration import read_calibration, write_calibration
from edgewise.optimizing.pass_runner import apply_pass
from edgewise.optimizing.passes.ort_preparation import prepare
from edgewise.optimizing.plain_int8 import read_samples
from edgewise.optimizing.planning import facts_of
from edgewise.optimizing.search_settings import SearchSettings
from edgewise.packages import versions_of
from edgewise.stats.differences import decibels
from edgewise.stats.paired import paired_ratio

OURS = ("ort-static", "nncf-ptq")
SCRIPT = Path(__file__).parent / "optimizing" / "other_quantizers.py"
LOOKED_AT, JUDGED = 64, 1000
RESAMPLES = 400
ROUNDS, PART_S = 15, 0.02
SLOWER = 1.03
NO_CLASSES = ("anomaly", "speech", "iris")


class Network:
    """One network, its samples, and what is made of it.

    Attributes:
        feeds, labels: of the judged samples.
    """

    def __init__(self, subject: Subject, folder: Path) -> None:
        self.subject, self.folder = subject, folder
        folder.mkdir(parents=True, exist_ok=True)
        self.model, self.samples, judged = folder / "float.onnx", folder / "samples.npz", folder / "judged.npz"
        if not judged.is_file():
            self._prepare(judged)
        kept = read_calibration(judged)
        self.feeds, self.labels = list(kept.feeds()), kept.labels
        self.names = [each.name for each in open_model(self.model).signature.inputs]

    def _prepare(self, judged: Path) -> None:
        """Write the folded network, the samples for the ranges, and those to judge on."""
        subject, path = self.subject, self.subject.files["onnx"]
        instructions = find_instructions(path, form="onnx", file=subject.instructions)
        settings = SearchSettings(model=str(path), format="onnx", instructions=instructions)
        if subject.split is None:  # one part for all
            _, both, _ = read_samples(settings, self._options(None, LOOKED_AT + JUDGED))
            looked, feeds, labels = both.feeds[:LOOKED_AT], both.feeds[LOOKED_AT:], None
        else:
            _, first, _ = read_samples(settings, self._options("train", LOOKED_AT))
            _, second, _ = read_samples(settings, self._options("test", JUDGED))
            looked, feeds, labels = first.feeds, second.feeds, second.labels
        task: PassTask[Any] = PassTask(model=str(path), format="onnx", settings=PassSettings(), folder=self.folder)
        with prepare(task) as prepared:
            shutil.copyfile(prepared.path, self.model)
        write_calibration(self.samples, looked, None)
        write_calibration(judged, feeds, labels)

    def _options(self, split: str | None, limit: int) -> DataOptions:
        return DataOptions(source=str(self.subject.data), split=split, limit=limit, file=self.subject.instructions)

    def make_ours(self, *, seconds: float) -> Iterator[dict[str, Any]]:
        """Yield a row per usual recipe. What has none yet is made in one process per pass."""
        facts = facts_of(self.subject.files["onnx"])
        for name in OURS:
            recipes = {f"{name} {one.label}".strip(): one for one in passes().get(name).recipes(facts) if one.rank < 2}
            if not all((self._place(title) / "row.json").is_file() for title in recipes):
                self._apply(name, recipes, seconds)
            yield from map(self.read, recipes)

    def _apply(self, name: str, recipes: Mapping[str, Recipe], seconds: float) -> None:
        tasks = []
        for title, recipe in recipes.items():
            shutil.rmtree(self._place(title), ignore_errors=True)
            self._place(title).mkdir(parents=True)
            tasks.append(
                PassTask(model=str(self.subject.files["onnx"]), format="onnx", settings=recipe.settings,
                         folder=self._place(title), calibration=self.samples)
            )  # fmt: skip
        before = _children_s()
        found = list(apply_pass(passes().location(name), tasks, seconds=seconds))
        each_s = (_children_s() - before) / len(tasks)
        for title, made in zip(recipes, found, strict=True):
            row = {"name": title, "path": made.model and str(made.model), "why": made.why, "cpu_s": each_s,
                   "memory_bytes": None, "versions": dict(made.versions)}  # fmt: skip
            (self._place(title) / "row.json").write_text(json.dumps(row), encoding="utf-8")

    def missing_job(self, tool: str) -> Iterator[dict[str, str]]:
        """Yield the job of `other_quantizers` where it has not been done yet."""
        place = self._place(tool)
        if not (place / "row.json").is_file():
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir(parents=True)
            yield {"tool": tool, "model": str(self.model), "samples": str(self.samples), "folder": str(place)}

    def read(self, name: str) -> dict[str, Any]:
        """Return the row of a file that was made."""
        kept = self._place(name) / "row.json"
        if not kept.is_file():
            return {"name": name, "path": None, "why": "not made"}
        row: dict[str, Any] = json.loads(kept.read_text(encoding="utf-8"))
        return row

    def _place(self, name: str) -> Path:
        return self.folder / "files" / name.replace(" ", "_")

    def judge(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Put the numbers into the rows; return the network's document."""
        wanted = self._answers(self.model)
        classes = wanted[0].ndim == 2 and wanted[0].shape[1] > 1 and self.subject.name not in NO_CLASSES
        truth = None if self.labels is None else np.asarray(self.labels)
        parts: dict[str, list[Any]] = {}
        for row in rows:
            row["ours"] = row["name"].split()[0] in OURS
            if row["path"] is None:
                continue
            try:
                found = self._answers(Path(row["path"]))
            except Exception as error:  # an engine's own classes
                row["path"], row["why"] = None, f"does not run: {str(error)[:200]}"
                continue
            row["size_bytes"] = Path(row["path"]).stat().st_size
            parts[row["name"]] = [_powers(a, b) for a, b in zip(wanted, found, strict=True)]
            row["snr"] = _snr(parts[row["name"]], None)
            if classes:
                row["same"] = float(np.mean(wanted[0].argmax(1) == found[0].argmax(1)))
                if truth is not None:
                    row["accuracy"] = float(np.mean(found[0].argmax(1) == truth))
        alive = [row for row in rows if row["path"]]
        self._time(alive)
        for row in (each for each in alive if not each["ours"]):
            rivals = [each for each in alive if each["ours"] and each["time"] <= row["time"] * SLOWER]
            best = max(rivals, key=lambda each: each["snr"], default=None)
            row["rival"] = best and best["name"]
            row["gain"] = best and _gain(parts[row["name"]], parts[best["name"]])
            row["wins"] = row["time"] < 1 and (best is None or bool(row["gain"][1] > 0))
        return {
            "net": self.subject.name, "judged": len(self.feeds),
            "float": None if truth is None else float(np.mean(wanted[0].argmax(1) == truth)), "rows": rows,
        }  # fmt: skip

    def _answers(self, path: Path) -> list[Any]:
        """Return the outputs, each with the samples along a new first axis of what was one sample."""
        session = _open(path)
        answers = [session.run(None, dict(zip(self.names, feed, strict=True))) for feed in self.feeds]
        return [np.concatenate(each) if each[0].shape[:1] == (1,) else np.stack(each)
                for each in zip(*answers, strict=True)]  # fmt: skip

    def _time(self, rows: Sequence[dict[str, Any]]) -> None:
        """All in turns, float first in every round: the ratio of each to the float of its round, with its interval."""
        sessions = [_open(self.model), *(_open(Path(row["path"])) for row in rows)]
        feed = dict(zip(self.names, self.feeds[0], strict=True))
        counts = []
        for session in sessions:
            session.run(None, feed)
            begin = time.perf_counter()
            session.run(None, feed)
            counts.append(max(3, round(PART_S / (time.perf_counter() - begin))))
        times: list[list[float]] = [[] for _ in sessions]
        for _ in range(ROUNDS):
            for place, session in enumerate(sessions):
                found = []
                for _ in range(counts[place]):
                    begin = time.perf_counter()
                    session.run(None, feed)
                    found.append(time.perf_counter() - begin)
                # Other processes take the core now and then: the quickest call of a part was left alone.
                times[place].append(min(found))
        for row, own in zip(rows, times[1:], strict=True):
            row["time"], row["time_half"] = paired_ratio(list(zip(times[0], own, strict=True)))
            row["seconds"] = median(own)


def _open(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _powers(wanted: Any, found: Any) -> Any:
    """Per sample the power of the signal and of the error, (n, 2)."""
    signal = np.asarray(wanted, np.float64).reshape(len(wanted), -1)
    noise = signal - np.asarray(found, np.float64).reshape(len(found), -1)
    return np.stack([(signal**2).sum(1), (noise**2).sum(1)], axis=1)


def _snr(parts: Sequence[Any], chosen: Any) -> float:
    """Of the worst output, dB."""
    sums = [(each if chosen is None else each[chosen]).sum(0) for each in parts]
    return min(decibels(float(signal), float(noise)) for signal, noise in sums)


def _gain(own: Sequence[Any], rival: Sequence[Any]) -> tuple[float, float, float]:
    """Return the difference of two SNRs and its 95 % interval, dB: the same resamples for both."""
    rng, count = np.random.default_rng(0), len(own[0])
    drawn = [rng.integers(0, count, count) for _ in range(RESAMPLES)]
    found = [_snr(own, chosen) - _snr(rival, chosen) for chosen in drawn]
    low, high = np.quantile(found, (0.025, 0.975))
    return _snr(own, None) - _snr(rival, None), float(low), float(high)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def format_net(net: dict[str, Any]) -> Iterator[str]:
    """Return one network as a table."""
    yield f"\n### {net['net']}: {net['judged']} samples" + (
        f", float {100 * net['float']:.1f} % right" if net["float"] is not None else ""
    )
    yield "\n| file | SNR, dB | same | right | time over float | KiB | s | MiB | over edgewise's best that is as fast |"
    yield "|---|--:|--:|--:|--:|--:|--:|--:|---|"
    for row in net["rows"]:
        if row["path"] is None:
            yield f"| {row['name']} | {row['why'].replace('|', '/')} | | | | | | | |"
            continue
        gain = row.get("gain")
        words = f"{gain[0]:+.1f} dB [{gain[1]:+.1f}, {gain[2]:+.1f}] over {row['rival']}" if gain else ""
        if not row["ours"] and not gain:
            words = "none of edgewise's is as fast"
        yield (f"| {row['name']} | {row['snr']:.1f} | {_percent(row.get('same'))} | {_percent(row.get('accuracy'))} | "
               f"{row['time']:.2f}× ± {row['time_half']:.2f} | {row['size_bytes'] / 1024:.0f} | {row['cpu_s']:.0f} | "
               f"{_mebibytes(row['memory_bytes'])} | {'**wins** ' if row.get('wins') else ''}{words} |")  # fmt: skip


def _mebibytes(value: int | None) -> str:
    return "" if value is None else f"{value / 2**20:.0f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f} %"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", type=Path, default=Path("build/nets"))
    parser.add_argument("--unlabelled", type=Path, default=Path("build/unlabelled"))
    parser.add_argument("--data", type=Path, default=FASHION, help="folder with Fashion-MNIST")
    parser.add_argument("--only", default="", help="names of networks, separated by commas")
    parser.add_argument("--python", default="", help="a Python that has aimet-onnx and nvidia-modelopt[onnx]")
    parser.add_argument("--seconds", type=int, default=120, help="processor time that a tool may take")
    parser.add_argument("--work", type=Path, default=Path("build/quantizers"))
    parser.add_argument("-o", "--output", type=Path, help="JSON of everything")
    words = parser.parse_args()
    only, work = [name for name in words.only.split(",") if name], words.work.resolve()
    subjects = [
        *find_subjects(words.nets.resolve(), fashion=words.data, work=work, only=[]),
        *(find_unlabelled(words.unlabelled.resolve(), only=[]) if words.unlabelled.is_dir() else []),
    ]
    networks = []
    for subject in sorted(subjects, key=lambda one: one.files["onnx"].stat().st_size if "onnx" in one.files else 0):
        if "onnx" in subject.files and (not only or subject.name in only):
            try:
                networks.append(Network(subject, work / subject.name))
            except (CannotApply, EdgewiseError) as error:
                print(f"{subject.name} is left out: {error}", flush=True)
    others = None
    # The slow tools last.
    jobs = [job for tool in TOOLS for network in networks for job in network.missing_job(tool)]
    if words.python and jobs:
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        others = subprocess.Popen([words.python, str(SCRIPT), str(words.seconds)], stdin=subprocess.PIPE, text=True,
                                  env=environment | {"OMP_NUM_THREADS": "1"})  # fmt: skip
        assert others.stdin is not None
        with others.stdin:
            json.dump(jobs, others.stdin)
    made = {network.subject.name: [*network.make_ours(seconds=60.0 * words.seconds)] for network in networks}
    if others is not None:
        others.wait()
    nets = []
    for network in networks:
        rows = made[network.subject.name] + ([*map(network.read, TOOLS)] if words.python else [])
        nets.append(network.judge(rows))
        print("\n".join(format_net(nets[-1])), flush=True)
    if words.output:
        found = {"schema": 1, "packages": versions_of("onnxruntime", "onnx", "nncf", "openvino"), "nets": nets}
        words.output.write_text(json.dumps(found, indent=1, ensure_ascii=False), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
