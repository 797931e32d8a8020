"""What became of every sample, kept over a cut: whole lines count, everything else costs one sample at most."""

from __future__ import annotations

import gc
import math
import resource

import pytest

from edgewise.evaluating.checkpoint import Checkpoint, Entry, checkpoint_path


def entry(index, record=1.5, **facts):
    return Entry(index=index, name=f"x[{index}]", digest="d", record=record, **facts)


def write(path, *entries):
    with Checkpoint(path) as checkpoint:
        for each in entries:
            checkpoint.write(each)


def read(path):
    with Checkpoint(path) as checkpoint:
        return dict(checkpoint.entries)


RECORDS = [
    None, 0, -1, 0.1, 1e-308, 5e-324, 1 / 3, 1e300, math.inf, "text\n\u2028\x00é\ud800", [1, [2.5, None]], {"a": [True, False]},
]  # fmt: skip


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_records_come_back_to_the_last_digit(tmp_path, record):
    write(tmp_path / "n", entry(3, record))
    assert read(tmp_path / "n") == {3: entry(3, record)}


def test_what_is_not_a_number_comes_back(tmp_path):
    write(tmp_path / "n", entry(0, [math.nan]))
    assert math.isnan(read(tmp_path / "n")[0].record[0])


def test_entries_are_found_in_the_next_notebook(tmp_path):
    path = tmp_path / "deep" / "n"
    write(path, entry(1), Entry(index=2, name="two", reason="scratched"))
    with Checkpoint(path) as checkpoint:
        assert len(checkpoint.entries) == 2 and checkpoint.entries[1] == entry(1)
        assert [(each.name, each.reason) for each in checkpoint.entries.values() if each.reason] == [
            ("two", "scratched")
        ]
        checkpoint.write(entry(7))
    assert set(read(path)) == {1, 2, 7}


def test_the_last_line_of_a_sample_counts(tmp_path):
    write(tmp_path / "n", entry(1, 1.0), entry(1, 2.0))
    assert read(tmp_path / "n")[1].record == 2.0


GARBAGE = [
    b"", b"\n", b"\x00" * 512, b"\xff\xfe rubbish", b"[1, 2]", b"3", b'"i"', b'{"i": 1}', b"[" * 100_000,
    b'{"i":Infinity,"n":"a","d":"b","r":1,"s":""}', b'{"i":null,"n":"a","d":"b","r":1,"s":""}',
    b'{"i":"x","n":"a","d":"b","r":1,"s":""}', b'{"i":9,"n":"a","d":"b","r":1,"s":',
]  # fmt: skip


@pytest.mark.parametrize("garbage", GARBAGE, ids=range(len(GARBAGE)))
def test_rubbish_between_lines_is_left_out(tmp_path, garbage):
    path = tmp_path / "n"
    write(path, entry(0), entry(1), entry(2))
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + garbage + b"\n" + lines[1] + garbage + b"\n" + lines[2] + garbage)
    assert set(read(path)) == {0, 1, 2}
    write(path, entry(5))  # behind a last line without an end
    assert set(read(path)) == {0, 1, 2, 5}


def test_a_cut_at_any_byte_costs_the_last_line_only(tmp_path):
    path = tmp_path / "n"
    write(path, entry(0), entry(1, [0.25, "é"]))
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for end in range(first, len(whole)):
        path.write_bytes(whole[:end])
        with Checkpoint(path) as checkpoint:
            assert set(checkpoint.entries) in ({0}, {0, 1})
            assert checkpoint.entries.get(1, entry(1, [0.25, "é"])) == entry(1, [0.25, "é"])
            checkpoint.write(entry(2))
        assert {0, 2} <= set(read(path))


def test_a_folder_that_can_t_be_made_costs_only_the_resuming(tmp_path):
    (tmp_path / "file").write_text("")
    with Checkpoint(tmp_path / "file" / "n") as checkpoint:
        checkpoint.write(entry(0))
        assert set(checkpoint.entries) == {0}


@pytest.mark.filterwarnings("error")
def test_a_full_disk_costs_only_the_resuming(tmp_path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Checkpoint(tmp_path / "n") as checkpoint:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        try:
            for index in range(1000):
                checkpoint.write(entry(index, "x" * 1000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert len(checkpoint.entries) == 1000
    gc.collect()  # a file that nobody closed would warn
    assert 90 <= len(read(tmp_path / "n")) < 1000


def test_an_evaluation_that_still_runs_is_no_interrupted_one(tmp_path):
    path = tmp_path / "n"
    with Checkpoint(path) as first:
        for index in range(200):
            first.write(entry(index))
        with Checkpoint(path, fresh=True) as second:
            assert (second.path, second.entries) == (None, {})
            second.write(entry(7, "another"))
            second.discard()
        assert path.exists()
    assert read(path) == {index: entry(index) for index in range(200)}


def test_a_file_that_another_evaluation_removes_meanwhile_counts_for_nothing(tmp_path, monkeypatch):
    path = tmp_path / "n"
    write(path, entry(0))
    monkeypatch.setattr("fcntl.flock", lambda file, how: path.unlink())  # as if it had held the lock until then
    with Checkpoint(path) as checkpoint:
        assert (checkpoint.path, checkpoint.entries) == (None, {})
    assert not path.exists()


def test_a_fresh_one_begins_without_what_the_file_has(tmp_path):
    write(tmp_path / "n", entry(0))
    with Checkpoint(tmp_path / "n", fresh=True) as checkpoint:
        assert checkpoint.entries == {}
        checkpoint.write(entry(1))
    assert set(read(tmp_path / "n")) == {1}
    with Checkpoint(tmp_path / "n") as checkpoint:
        checkpoint.discard()
    assert not (tmp_path / "n").exists()


def test_without_a_path_nothing_is_kept(tmp_path):
    with Checkpoint() as checkpoint:
        checkpoint.write(entry(0))
        assert set(checkpoint.entries) == {0}


def test_the_place_follows_from_all_that_makes_a_pass_the_same(tmp_path):
    first = checkpoint_path({"a": 1, "b": [1, 2]}, folder=tmp_path)
    assert checkpoint_path({"b": [1, 2], "a": 1}, folder=tmp_path) == first
    for other in ({"a": 1, "b": [2, 1]}, {"a": "1", "b": [1, 2]}, {"a": 1, "b": [1, 2], "c": None}):
        assert checkpoint_path(other, folder=tmp_path) != first
    assert first.parent == tmp_path
