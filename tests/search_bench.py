"""Whole searches on fake models below one folder, and what holds of every one of them."""

from __future__ import annotations

import json
from pathlib import Path

import fake_passes as scripted
from edgewise.evaluating.instructions import Instructions
from edgewise.evaluating.task import tasks
from edgewise.optimizing.choice import check_bounds
from edgewise.optimizing.pipeline import find_best_variant
from edgewise.optimizing.search_settings import Limits, SearchSettings, make_bounds
from edgewise.progress import StageStarted, VariantTested, reporting_to
from edgewise.testing import write_fake_model
from small_selections import NET, Rows, rows, selection

MS = 1_000_000
CLASSES = 3
COUNT = 60
BUDGET_S = 120.0


def original(folder: Path, **script) -> Path:
    """Its best class is always the last one."""
    return write_fake_model(
        folder / "net.fake",
        **{
            "graph": NET,
            "outputs": [{"name": "y", "shape": [1, CLASSES], "dtype": "float32"}],
            "latency_ns": [4 * MS],
            **script,
        },
    )


def labelled(**settings) -> Rows:
    """The last class but for a few."""
    return Rows(rows(COUNT), [CLASSES - 1 if index % 10 else 0 for index in range(COUNT)], **settings)


class Watching:
    """Notes the events of a search; a stage may press Ctrl-C."""

    def __init__(self, *, interrupt=""):
        self.stages, self.tested_ids, self.interrupt = [], [], interrupt

    def __call__(self, event):
        match event:
            case StageStarted():
                self.stages.append(event.title)
                if self.interrupt and event.title.startswith(self.interrupt):
                    raise KeyboardInterrupt
            case VariantTested():
                self.tested_ids.append(event.id)


class Bench:
    """Searches below one folder."""

    def __init__(self, folder: Path, monkeypatch) -> None:
        self.folder, self.monkeypatch, self.saved = folder, monkeypatch, []

    def install(self, *classes):
        scripted.install(self.monkeypatch, self.folder, *classes)
        self.names = tuple(one.name for one in classes)

    def search(self, *classes, data=None, limits=None, progress=None, model=None, labels=True, **settings):
        if classes:
            self.install(*classes)
        data = labelled() if data is None else data
        judged = selection(data) if data is not False else None
        task = tasks().get("classification") if judged is not None and labels else None
        headline = "" if judged is None else "accuracy_top1" if labels else "agreement_top1"
        settings = SearchSettings(
            **{
                "model": str(model or original(self.folder)),
                "format": "fake",
                "folder": self.folder / "out",
                "instructions": Instructions(),
                "limits": limits or Limits(),
                "bounds": make_bounds(limits or Limits(), headline=headline),
                "judged": judged,
                "task": task,
                "runtimes": ("fake",),
                "passes": self.names,
                "budget_s": BUDGET_S,
                "words": (str(model or self.folder / "net.fake"), "--data", "d.npz"),
                **settings,
            }
        )
        with reporting_to(progress):
            result = find_best_variant(settings, save=self.saved.append)
        assert_proven(result)
        return result


def assert_proven(result):
    """What holds of every search, however it ended."""
    json.dumps(result.to_document())
    everyone = {one.id: one for one in (result.baseline, *result.candidates)}
    assert len(everyone) == len(result.candidates) + 1 and not result.baseline.accepted
    for one in result.candidates:
        assert one.why and one.why.isprintable(), one
        if one.accepted:
            assert one.stage == "raced" and one.metrics["speedup"].low > 1.0 and one.why.startswith("faster: "), one
            assert check_bounds(one.metrics, result.bounds, result.baseline.metrics) == []
    if result.chosen is None:
        assert result.command == "" and result.files == {}
    else:
        assert everyone[result.chosen].accepted and result.unmet == "" and result.closest is None
        assert all(Path(path).is_file() for path in result.files.values())
