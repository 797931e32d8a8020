"""The snapshot of all messages, the keys by which tests name them, and how a renewal keeps these."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import messages
from message_flow import find_messages
from messages import has, is_in, says, wording
from renew_messages import Message, read_snapshot, renewed

OLD = [
    Message(key="no-model", text="{path} is no model", sites=("model/a.py:read",)),
    Message(key="too-many", text="{count} threads are too many", sites=("run/b.py:plan",)),
]


def keys(*found: tuple[str, str]) -> dict[str, str]:
    """Text → key after a renewal in which these texts stand at these sites."""
    return {one.text: one.key for one in renewed(OLD, {text: {site} for text, site in found})}


def test_the_snapshot_holds_what_the_sources_say():
    now = {one.line() for one in read_snapshot()}
    renewal = {one.line() for one in renewed(read_snapshot(), find_messages())}
    changes = [f"- {line}" for line in sorted(now - renewal)] + [f"+ {line}" for line in sorted(renewal - now)]
    assert not changes, "run v/bin/python tools/renew_messages.py and read the differences:\n" + "\n".join(changes)


def test_keys_are_plain_words_and_each_stands_once():
    known = [one.key for one in read_snapshot()]
    assert len(known) == len(set(known))
    assert [key for key in known if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", key)] == []


def test_reworded_and_moved_messages_keep_their_keys():
    assert keys(("{path} can't be read", "model/a.py:read")) == {"{path} can't be read": "no-model"}
    assert keys(("{path} is no model", "model/other.py:load")) == {"{path} is no model": "no-model"}
    moved = "{count} threads are too many here"
    assert keys((moved, "run/b.py:another"), ("new words", "run/b.py:third")) == {
        moved: "too-many",
        "new words": "new-words",
    }


def test_a_field_keeps_its_name_while_the_words_are_the_same():
    assert keys(("{file} is no model", "model/a.py:read")) == {"{path} is no model": "no-model"}
    assert keys(("{file!r} is no model", "model/a.py:read")) == {"{file!r} is no model": "no-model"}


def test_after_a_merge_the_line_that_is_true_stays():
    both = [*OLD, Message(key="no-model", text="{path} is not a model", sites=("model/a.py:read",))]
    found = {"{path} is not a model": {"model/a.py:read"}}
    assert [(one.key, one.text) for one in renewed(both, found)] == [("no-model", "{path} is not a model")]


def test_texts_are_found_where_they_are_written(tmp_path: Path):
    (tmp_path / "one.py").write_text(
        "class Bad(ValueError): pass\n"
        "def check(path, size):\n"
        "    why = 'it is empty' if not size else f'it has {len(size)} bytes'\n"
        "    raise Bad(f'{path!r}: {why}', advice=help_with(path))\n"
        "def help_with(path):\n"
        "    return 'give ' + show(path) + ' again'\n"
        "def refuse(reason): ...\n"
        "refuse('not on this machine')\n"
        "print('no message at all')\n"
    )
    assert dict(find_messages(tmp_path)) == {
        "it is empty": {"one.py:check"},
        "it has {size_count} bytes": {"one.py:check"},
        "give {path} again": {"one.py:help_with"},
        "not on this machine": {"one.py:"},
    }


@pytest.fixture
def several(monkeypatch):
    monkeypatch.setattr(
        messages, "_texts", lambda: {"matches-several-runs": "{reference!r} matches several runs: {listed}"}
    )


def test_messages_are_named_by_key_and_fields(several):
    pattern = says("matches-several-runs", reference="x.y")
    assert re.search(pattern, "'x.y' matches several runs: a, b") and not re.search(
        pattern, "'x-y' matches several runs: a"
    )
    assert re.search(says("matches-several-runs", listed=has("b")), "'x' matches several runs: a, b")
    assert wording("matches-several-runs", reference="x", listed="a, b") == "'x' matches several runs: a, b"
    assert (
        is_in(says("matches-several-runs"), "'x' matches several runs: a")
        and is_in("a.b", "a.b")
        and not is_in("a.b", "a-b")
    )


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda: says("matches-several-run"), "near: matches-several-runs"),
        (lambda: says("matches-several-runs", run=1), "has the fields listed, reference"),
        (lambda: wording("matches-several-runs", reference="x"), "not every field"),
    ],
)
def test_a_wrong_key_or_field_is_an_error(several, wrong, why: str):
    with pytest.raises(AssertionError, match=why):
        wrong()
