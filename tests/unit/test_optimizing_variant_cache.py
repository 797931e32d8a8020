"""Pieces are found again only where everything that made them is the same and the file is as it was left."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import fake_passes
from edgewise.optimizing.base import Capabilities, Recipe
from edgewise.optimizing.planning import PlannedTask, Source
from edgewise.optimizing.variant_cache import VariantCache, applied_pass, keep_variants_alone
from edgewise.testing import write_fake_model
from messages import says, wording

DIGEST = "a" * 64


class Looks(fake_passes.Deeds):
    name = "looks"
    capabilities = Capabilities(kind="quantisation", reads=("fake",), writes="fake", calibrates=True)


@pytest.fixture(autouse=True)
def plugins(monkeypatch, tmp_path):
    fake_passes.install(monkeypatch, tmp_path, fake_passes.Deeds, Looks)
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parent}:{Path(fake_passes.__file__).parent}")


@pytest.fixture
def made(tmp_path):
    """How often passes worked, and orders and makeries that share a folder."""
    return Made(tmp_path)


class Made:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "out"
        self.count = folder / "count"
        self.source = write_fake_model(folder / "m.fake")

    def task(self, do="copy", *, label="", one=None, digest=DIGEST, keep_float=(), only=(), **settings) -> PlannedTask:
        recipe = Recipe(label=label, settings=fake_passes.Deed(do=do, count=str(self.count), **settings))
        source = Source(variant="original", facts=None, model=str(self.source), format="fake", digest=digest)
        return PlannedTask(
            one=one or fake_passes.Deeds(), recipe=recipe, source=source, keep_float=keep_float, only=only
        )

    def cache(self, **settings) -> VariantCache:
        fields = {"seed": 0, "threads": 1, "pass_s": 30.0, **settings}
        return VariantCache(folder=self.folder, **fields)

    def make(self, *tasks, **settings):
        return list(self.cache(**settings).make(tasks))

    @property
    def runs(self) -> int:
        return len(self.count.read_text().split()) if self.count.exists() else 0

    @property
    def journal(self) -> Path:
        return self.folder / "made.jsonl"


def test_a_piece_is_made_once_and_found_again(made):
    (first,) = made.make(made.task())
    (second,) = made.make(made.task())
    assert made.runs == 1 and Path(first.ref.path).is_file()
    assert second == first
    applied = applied_pass(made.task(), first)
    assert applied.versions == {"scripted": "1.0"} and applied.notes == ("one two [31m",)
    assert applied.settings["do"] == "copy" and applied.seconds == first.seconds


def test_a_piece_is_found_in_a_folder_that_was_moved_with_variants_alone(made, tmp_path):
    made.make(made.task())
    (made.folder / "samples.npz").touch()
    (made.folder / "answers").mkdir()
    keep_variants_alone(made.folder)
    assert sorted(one.name for one in made.folder.iterdir()) == ["made.jsonl", "variants"]
    made.folder = made.folder.rename(tmp_path / "moved")
    (again,) = made.make(made.task())
    assert made.runs == 1 and Path(again.ref.path).is_relative_to(tmp_path / "moved")


def test_a_piece_outside_of_the_folder_is_made_anew(made, tmp_path):
    (piece,) = made.make(made.task())
    shutil.copy(piece.ref.path, tmp_path / "outside.fake")
    line = json.loads(made.journal.read_text())
    for path in ("../outside.fake", str(tmp_path / "outside.fake")):
        made.journal.write_text(json.dumps({**line, "path": path}) + "\n")
        (again,) = made.make(made.task())
        assert Path(again.ref.path).is_relative_to(made.folder)
    assert made.runs == 3


CHANGES = ({"digest": "b" * 64}, {"keep_float": ("conv",)}, {"only": ("conv",)}, {"level": 3}, {"do": "make"})


def test_other_orders_are_made_anew(made):
    made.make(made.task())
    pieces = made.make(*(made.task(**change) for change in CHANGES))
    assert len(pieces) == len(CHANGES) and made.runs == 1 + len(CHANGES)


def test_the_order_of_spared_layers_does_not_matter(made):
    made.make(made.task(keep_float=("a", "b")))
    made.make(made.task(keep_float=("b", "a")))
    assert made.runs == 1


def test_another_seed_or_version_is_made_anew(made, monkeypatch):
    made.make(made.task())
    made.make(made.task(), seed=1)
    monkeypatch.setenv("SCRIPTED_VERSION", "2")
    made.make(made.task())
    assert made.runs == 3


def test_other_samples_matter_to_passes_that_look_at_them_only(made, tmp_path):
    file = tmp_path / "calibration.npz"
    file.write_bytes(b"")
    looks = made.task(one=Looks())
    made.make(made.task(), looks, calibration={"": (file, "x")})
    made.make(made.task(), looks, calibration={"": (file, "y")})
    assert made.runs == 3


def test_fresh_forgets(made):
    made.make(made.task())
    made.make(made.task(), fresh=True)
    assert made.runs == 2


def test_a_file_that_was_changed_behind_our_back_is_made_anew(made):
    (piece,) = made.make(made.task())
    path = Path(piece.ref.path)
    path.write_bytes(path.read_bytes() + b" ")
    (again,) = made.make(made.task())
    assert made.runs == 2 and again.ref.sha256 == piece.ref.sha256


@pytest.mark.parametrize("spoil", ["remove", "empty", "folder", "rubbish"])
def test_a_file_that_is_gone_or_broken_is_made_anew(made, spoil):
    (piece,) = made.make(made.task())
    path = Path(piece.ref.path)
    path.unlink()
    if spoil == "folder":
        path.mkdir()
    elif spoil != "remove":
        path.write_bytes(b"" if spoil == "empty" else b"\x00rubbish")
    (again,) = made.make(made.task())
    assert made.runs == 2 and again.ref is not None


GARBAGE = [
    b"",
    b"\n\n",
    b"no json\n",
    b"[1, 2]\n",
    b'"text"\n3\nnull\n',
    b'{"key": 3}\n',
    b"[" * 100_000 + b"\n",
    b"\xff\xfe\x00\n",
]


def test_rubbish_in_the_journal_costs_nothing_else(made):
    made.make(made.task())
    line = made.journal.read_bytes()
    for garbage in GARBAGE:
        for text in (garbage + line, line + garbage):
            made.journal.write_bytes(text)
            made.make(made.task())
            assert made.runs == 1, text[:80]


WRONG = (
    {"path": None}, {"path": 7}, {"path": "\0"}, {"path": "x" * 5000}, {"path": "/"}, {"path": "/etc/passwd"},
    {"sha256": None}, {"versions": None}, {"versions": [1]}, {"notes": None}, {"notes": 5}, {"seconds": "long"},
    {"seconds": None},
)  # fmt: skip


def test_a_wrong_line_in_the_journal_is_made_anew(made):
    tasks = [made.task(level=level) for level in range(len(WRONG))]
    made.make(*tasks)
    lines = [json.loads(line) for line in made.journal.read_text().splitlines()]
    made.journal.write_text("".join(json.dumps(line | wrong) + "\n" for line, wrong in zip(lines, WRONG, strict=True)))
    pieces = made.make(*tasks)
    assert made.runs == 2 * len(WRONG) and all(piece.ref for piece in pieces)
    # And the lines that are written now are those that count.
    made.make(*tasks)
    assert made.runs == 2 * len(WRONG)


def test_a_line_that_was_cut_off_spoils_no_later_one(made):
    made.make(made.task())
    made.journal.write_bytes(made.journal.read_bytes()[:-20])
    made.make(made.task())
    made.make(made.task())
    assert made.runs == 2


def test_known_and_new_orders_come_in_order(made):
    made.make(made.task(level=2))
    pieces = made.make(*(made.task(level=level) for level in (1, 2, 3)))
    assert made.runs == 3
    assert len({piece.ref.path for piece in pieces}) == 3


FAILURES = (
    ("cannot", "unsuitable", "not possible: not this"),
    ("full", "disk", "the disk is full: No space left on device"),
    ("memory", "memory", "out of memory: there was not enough memory"),
    ("abort", "crashed", "the pass failed: the pass crashed (SIGABRT)"),
    ("odd", "failed", "the pass failed: OddError: first"),
    ("broken", "failed", "the pass failed: its result can't be read: "),
    ("empty", "failed", "the pass failed: its result can't be read: "),
    ("nothing", "failed", "the pass failed: AttributeError"),
)


def test_what_went_wrong_is_told_and_not_remembered(made):
    tasks = [*(made.task(do) for do, _, _ in FAILURES), made.task()]
    pieces = made.make(*tasks)
    for piece, (_, cause, words) in zip(pieces, FAILURES, strict=False):
        assert (piece.ref, piece.cause) == (None, cause) and piece.why.startswith(words), piece
        assert piece.why.isprintable()
    assert pieces[-1].ref is not None
    runs = made.runs
    made.make(*tasks)
    assert made.runs == runs + len(FAILURES)


def test_a_late_pass_is_told(made):
    (piece,) = made.cache().make([made.task("hang")], seconds=0.5)
    assert (piece.cause, piece.why) == ("late", "gave up: it took longer than 0.5 s")


def test_half_a_file_is_not_left_on_the_disk(made):
    made.make(made.task("full"))
    assert list((made.folder / "variants").iterdir()) == []


def test_an_unchanged_model_is_no_piece(made):
    (piece,) = made.make(made.task("unchanged"))
    assert piece.unchanged and piece.ref is None and piece.why == wording("found-nothing-change")


def test_a_full_disk_is_told_before_a_pass_is_started(made, monkeypatch):
    usage = shutil.disk_usage(made.source.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=2**20))
    pieces = made.make(made.task(), made.task(level=2))
    assert [piece.cause for piece in pieces] == ["disk", "disk"] and re.search(says("no-space-left"), pieces[0].why)
    assert made.runs == 0


def test_a_journal_that_can_t_be_written_costs_only_the_finding_again(made):
    made.folder.mkdir()
    made.journal.mkdir()
    (piece,) = made.make(made.task())
    assert piece.ref is not None


def test_a_piece_keeps_its_old_file_until_the_new_one_is_there_under_another_name(made):
    """Two recipes with labels that look alike have files of their own."""
    first, second = made.make(made.task(label="a b"), made.task(label="a-b", level=2))
    assert first.ref.path != second.ref.path


def test_samples_are_given_to_passes_that_look_at_them_only(made, tmp_path):
    file = tmp_path / "calibration.npz"
    cache = made.cache(calibration={"": (file, "x")})
    assert cache.complete(made.task(one=Looks()), tmp_path, seconds=1.0).calibration == file
    assert cache.complete(made.task(), tmp_path, seconds=1.0).calibration is None
