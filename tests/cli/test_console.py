"""Where results are printed: a terminal, a file, and a reader that goes away."""

from __future__ import annotations

import io
import os
import sys

import pytest
from rich.table import Table

from edgewise.cli.console import out


def folded() -> Table:
    """Two lines of text, which Rich fills up to the same width."""
    grid = Table.grid()
    grid.add_column(width=12)
    grid.add_row("a first line, a second")
    return grid


def test_what_goes_into_a_file_has_no_blanks_at_the_end_of_lines(capsys):
    out().print(folded())
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 1 and [line.rstrip() for line in lines] == lines
    out().print("  indented  \n\n  end ")
    assert capsys.readouterr().out == "  indented\n\n  end\n"


def test_a_terminal_is_written_to_as_it_is(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert out().file is sys.stdout


def test_a_reader_that_goes_away_is_told_to_the_command(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with pytest.raises(BrokenPipeError), os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        out().print("x" * 200_000)
