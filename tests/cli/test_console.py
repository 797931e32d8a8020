"""Where results are printed: a terminal, a file, and a reader that goes away."""

from __future__ import annotations

import io
import os
import sys
import threading

from rich.table import Table

from edgewise.terminal.console import SteadyStreams, err, out


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


def test_names_with_colons_are_no_pictures(capsys):
    for console in (out(), err()):
        console.print("codec.tflite:two: star:star:")
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("codec.tflite:two: star:star:\n",) * 2


def test_a_terminal_is_written_to_as_it_is(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdout", Terminal())
    assert out().file is sys.stdout


def test_a_reader_that_goes_away_is_nothing_to_a_command(monkeypatch):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        with SteadyStreams() as streams:
            out().print("x" * 200_000)
            assert streams.loss() is None
        assert sys.stdout is pipe


def test_a_full_pipe_that_does_not_block_is_waited_for(monkeypatch):
    read, write = os.pipe()
    os.set_blocking(write, False)
    text = "x" * 1_000_000
    with os.fdopen(read) as reader, os.fdopen(write, "w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        found = []
        thread = threading.Thread(target=lambda: found.append(reader.read(len(text))))
        thread.start()
        with SteadyStreams() as streams:
            sys.stdout.write(text)
            assert streams.loss() is None
        thread.join()
    assert found == [text]
