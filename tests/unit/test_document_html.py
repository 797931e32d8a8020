"""Any document as a page."""

from __future__ import annotations

from edgewise.report.document import Cell, Column, Document, Section, Table, absent
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
