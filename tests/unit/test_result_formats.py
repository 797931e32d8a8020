"""What holds of the text, the page and the files of every kind of result."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from rich.cells import cell_len

from edgewise.errors import BadInput
from edgewise.report.files import ResultFormat
from edgewise.store.redaction import redact_paths
from edgewise.verbs.compare.presentation import FORMAT as COMPARISON
from edgewise.verbs.evaluate.presentation import FORMAT as EVALUATION
from edgewise.verbs.optimize.presentation import FORMAT as OPTIMIZATION
from messages import says
from report_pages import Outline
from sample_comparisons import comparison_text, four_variants, hostile, one_failed, stored_runs, two_variants
from sample_optimizations import (
    bounds_unmet,
    changed_search,
    evaluation_text,
    found,
    hostile_evaluation,
    hostile_search,
    nothing_found,
    one_model,
    optimization_text,
    two_models,
    with_failure,
    without_data,
)


class Kind(NamedTuple):
    """A kind of result: its format, what prints it, and results, of which the last has hostile names."""

    format: ResultFormat[Any]
    print: Callable[..., str]
    makes: tuple[Callable[[], Any], ...]


KINDS = (
    Kind(COMPARISON, comparison_text, (two_variants, four_variants, stored_runs, one_failed, hostile)),
    Kind(EVALUATION, evaluation_text, (two_models, one_model, with_failure, hostile_evaluation)),
    Kind(
        OPTIMIZATION,
        optimization_text,
        (found, nothing_found, bounds_unmet, without_data, changed_search, hostile_search),
    ),
)
of_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.format.noun)
of_every_result = pytest.mark.parametrize(
    ("kind", "make"), [pytest.param(kind, make, id=make.__name__) for kind in KINDS for make in kind.makes]
)


@of_every_result
@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_terminal(kind, make, width):
    assert max(map(cell_len, kind.print(make(), width=width).splitlines())) <= width


@of_every_result
def test_what_is_absent_has_a_footnote_and_is_neither_none_nor_nan(kind, make):
    text = kind.print(make())
    assert set(re.findall(r"n/a \[(\d+)\]", text)) <= set(re.findall(r"^\[(\d+)\] \S", text, re.MULTILINE))
    assert not re.search(r"\bNone\b|\bnan\b|\x1b", text)


@of_every_result
def test_a_page_asks_for_nothing_and_has_one_script(kind, make, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)  # drawing charts takes seconds
    page = Outline(kind.format.render(make(), ".html"))
    assert page.tags.count("script") == 1
    links = [value for _, name, value in page.attributes if name in ("src", "href") and value]
    assert all(link.startswith(("#", "data:image/")) for link in links)


@of_every_kind
def test_markdown_escapes_what_is_hostile(kind):
    text = kind.format.render(kind.makes[-1](), ".md")
    assert "<script>" not in text and "\x1b" not in text and not re.search(r"(?<!\\)\]\(", text)


@of_every_kind
def test_a_page_does_without_charts(kind, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = Outline(kind.format.render(kind.makes[0](), ".html"))
    assert "charts need the package vl-convert-python" in page.text
    assert "pip install 'edgewise[charts]'" in page.text
    assert "svg" not in page.tags


@of_every_kind
def test_files_are_written_by_their_extension_and_not_replaced_unasked(kind, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    first, other, *_ = kind.makes
    for extension in kind.format.extensions:
        path = tmp_path / f"result{extension}"
        kind.format.write(first(), path)
        rendered = redact_paths(kind.format.render(first(), extension), kind.format.model_paths(first()))
        assert path.read_text("utf-8") == rendered.replace("\r\n", "\n")
        with pytest.raises(BadInput, match=says("exists-already-in-folders")):
            kind.format.write(first(), path)
        kind.format.write(other(), path, overwrite=True)
        assert path.read_text("utf-8") != rendered.replace("\r\n", "\n")
    assert len(list(tmp_path.iterdir())) == len(kind.format.extensions)


@of_every_kind
def test_other_files_are_refused_with_the_endings_that_work(kind, tmp_path):
    problem = says("valuethe-noun-problem", noun=kind.format.noun, problem=says("cant-written", extension=".pdf"))
    with pytest.raises(BadInput, match=problem) as caught:
        kind.format.check(tmp_path / "a.pdf", overwrite=False)
    assert ".md, .html, .csv, .json" in caught.value.advice
    with pytest.raises(BadInput, match=says("needs-file-name-extension")):
        kind.format.check(tmp_path / "a", overwrite=False)
    with pytest.raises(BadInput, match=says("there-no-folder")):
        kind.format.check(tmp_path / "none" / "a.html", overwrite=False)
    with pytest.raises(BadInput, match=says("cant-written")):
        kind.format.render(kind.makes[0](), ".pdf")
