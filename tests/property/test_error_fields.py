"""Texts of users in errors stay as they are, whatever a door calls the fields beside them."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgewise.errors import BadField, BadInput, EdgewiseError, as_argument, as_flag, error_of, name_fields, unmarked
from edgewise.studio.forms import form_of
from edgewise.verbs.verb import VERBS, flag_of

BENCH = VERBS.get("bench")
FORM = form_of("bench")
assert FORM is not None
DOORS = {"terminal": BENCH.flag_of, "no verb": flag_of, "python": BENCH.argument_of, "studio": FORM.name_field}
CALLED = {"terminal": "--batch", "no verb": "--batch", "python": "batches", "studio": "Batch"}
FIELDS = st.from_regex(r"[a-z][a-z_0-9]{0,12}", fullmatch=True)
TEXTS = st.text().filter(lambda text: "⟦" not in text and "⟧" not in text)


@pytest.mark.parametrize("door", DOORS)
@given(before=TEXTS, after=TEXTS)
@example("{model}", "{batch=8}")
@example("--batch [[batch]]", "'edgewise bench m.onnx --batch 8'")
def test_every_door_names_the_field_and_leaves_the_rest(door: str, before: str, after: str):
    error = BadInput(f"{before}⟦batch⟧{after}", advice=f"{after}⟦batch⟧{before}")
    name_fields(error, DOORS[door])
    assert error.message == str(error) == f"{before}{CALLED[door]}{after}"
    assert error.advice == error.__notes__[0] == f"{after}{CALLED[door]}{before}"
    assert error.field == "batch"


@pytest.mark.parametrize(
    "text", ["⟦Batch⟧", "⟦⟧", "⟦batch", "batch⟧", "⟦a b⟧", "⟦=1⟧", "⟦1⟧", "⟦batch=⟦⟧", "{batch}", "⟦ batch⟧"]
)
def test_what_is_no_mark_stays(text: str):
    assert unmarked(text, lambda field, value: "x") == text


@given(field=FIELDS, value=TEXTS)
def test_a_value_stands_behind_its_field(field: str, value: str):
    marked = f"⟦{field}={value}⟧"
    assert unmarked(marked) == as_flag(field, value) and unmarked(marked, as_argument) == as_argument(field, value)
    assert value in ("True", "False") or as_flag(field, value).endswith(f" {value}")


@given(kind=st.sampled_from((EdgewiseError, BadInput, BadField)), message=TEXTS, field=FIELDS)
def test_marks_cross_a_process_and_the_first_door_words_them(kind: type[EdgewiseError], message: str, field: str):
    sent = kind(f"⟦{field}⟧{message}", advice=f"⟦{field}=1⟧")
    got = error_of({"error": kind.__name__, **sent.marked._asdict()})
    for error in (got, pickle.loads(pickle.dumps(sent))):
        assert type(error) is kind and error.marked == sent.marked and error.message == sent.message
        name_fields(error, lambda field, value: f"{field}!")
        name_fields(error, lambda field, value: f"{field}?")
        assert (error.message, error.advice) == (f"{field}!{message}", f"{field}!")
