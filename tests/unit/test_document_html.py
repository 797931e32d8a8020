"""Any document as a page."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest

from edgewise.report.document import Cell, Column, Document, Section, Table, absent
from edgewise.report.document.markdown import render_markdown
from edgewise.report.document.page import as_part, render_document_page

NAME = '<script>alert("1")</script>\x00\u202e'
DOCUMENT = Document(
    title=f"Estimate of {NAME}",
    answer=("It fits.", "It is slow."),
    tables=(
        Table(
            title="Layers",
            columns=(Column(title="Layer"), Column(title="Cycles", numeric=True), Column(title="Raw", hidden=True)),
            rows=((Cell(text=NAME), Cell(text="1,000", value=1000), Cell(text="secret")),
                  (Cell(text="b"), absent("the delegate reports no cycles"), Cell(text="secret"))),
            notes=("whole inference",),
        ),
        Table(title="Empty", columns=(Column(title="a"),), rows=()),
    ),
    sections=(
        Section(title="Memory", lines=("arena 4 kB",), drawing=("▁▃█", "ops 0 to 2")),
        Section(title="Does not fit", lines=("RAM: 5 kB of 4 kB",), tone="poor"),
    ),
)  # fmt: skip


def test_page_has_answer_tables_and_sections_and_warnings_first() -> None:
    page = render_document_page(DOCUMENT, kind="estimate")
    assert page.startswith("<!doctype html>")
    assert '<p class="evidence">It fits.</p>\n<p class="evidence">It is slow.</p>' in page
    order = [page.index(f">{title}</h") for title in ("Does not fit", "Layers", "Memory")]
    assert order == sorted(order)
    assert 'data-value="1000"' in page and "secret" not in page
    assert '<caption class="sr">Layers</caption>' in page
    assert "the delegate reports no cycles</li>" in page and "<li>whole inference</li>" in page
    assert "▁▃█" in page and ">Empty<" not in page


def test_a_table_without_titles_has_no_head() -> None:
    table = Table(title="Totals", columns=(Column(title=""),) * 2, rows=((Cell(text="MACs"), Cell(text="7")),))
    page = render_document_page(Document(title="net", tables=(table,)), kind="inspection")
    assert "<thead>" not in page and ">MACs</th>" in page


def test_names_can_not_become_markup() -> None:
    page = render_document_page(DOCUMENT, kind="estimate")
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "\x00" not in page and "\u202e" not in page


def test_page_as_a_part_has_no_frame() -> None:
    with as_part():
        page = render_document_page(DOCUMENT, kind="estimate")
    assert page.lstrip().startswith('<div class="result">') and "<html" not in page


def test_what_decides_stands_behind_the_names_on_a_page_and_nowhere_else() -> None:
    columns = (Column(title="#", numeric=True), Column(title="Layer"), Column(title="Time", numeric=True),
               Column(title="Verdict", decides=True))  # fmt: skip
    row = (
        Cell(text="1"),
        Cell(text="conv"),
        Cell(text="2 ms", notes=("of one run",)),
        Cell(text="slower", notes=("proven",)),
    )
    document = Document(title="Two runs", tables=(Table(title="Layers", columns=columns, rows=(row,)),))
    page = render_document_page(document, kind="comparison")
    places = [page.index(f">{title}</th>") for title in ("#", "Layer", "Verdict", "Time")]
    assert places == sorted(places)
    assert page.index(">proven</li>") < page.index(">of one run</li>")  # numbered in the order of the page
    assert render_markdown(document).index("Verdict") > render_markdown(document).index("Time")


def test_a_long_name_of_a_row_has_the_width_of_other_long_texts() -> None:
    row = (Cell(text="3 layers with arithmetic are far below the roof"), Cell(text="599 µs"))
    table = Table(title="Findings", columns=(Column(title="Finding"), Column(title="Saves", numeric=True)), rows=(row,))
    page = render_document_page(Document(title="net", tables=(table,)), kind="profile")
    assert '<th scope="row" class="long">3 layers' in page


@pytest.mark.parametrize("package", ["edgewise.report", "edgewise.studio"])
def test_no_template_prints_a_text_that_begins_or_ends_in_a_space(package: str) -> None:
    """What is printed becomes one line, without blanks around it: two words would become one."""
    for template in (files(package) / "templates").iterdir():
        for printed in re.findall(r"\{\{(.*?)\}\}", template.read_text() if template.name.endswith(".jinja") else ""):
            assert re.findall(r'^ ?("[^"]* "|" [^"]*") if |else ("[^"]* "|" [^"]*") $', printed) == [], template.name
