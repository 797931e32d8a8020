"""What a Jupyter notebook shows: one output per result, and progress while a cell runs."""

import sys
from types import SimpleNamespace

import pytest
import rich.console

import edgewise
from edgewise.progress import LogLine
from edgewise.terminal.notebook import progress
from edgewise.testing import write_fake_model


@pytest.fixture
def notebook(monkeypatch):
    """Python as it is in a kernel of Jupyter; gives the outputs that Rich would display by itself."""
    displayed = []
    monkeypatch.setattr(rich.console, "_is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *output: displayed.append(output))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object())))
    return displayed


@pytest.fixture
def model(tmp_path):
    return write_fake_model(tmp_path / "net.fake")


def test_a_result_is_shown_once(notebook, model, capsys):
    runs = edgewise.bench(model, runtimes=["fake"], iterations=20, sessions=1)
    text = repr(runs)
    assert "net.fake" in text and text.count("\n") > 5
    assert runs._repr_html_().startswith('<div class="edgewise-result">')
    assert notebook == []
    assert capsys.readouterr().out == ""


def test_a_cell_shows_progress_while_it_runs(notebook, model, capsys):
    edgewise.bench(model, runtimes=["fake"], iterations=20, sessions=1)
    assert "[1/1] net.fake · fake" in capsys.readouterr().err
    assert notebook == []
    events = []
    edgewise.bench(model, runtimes=["fake"], iterations=20, sessions=1, progress=events.append)
    assert events and capsys.readouterr().err == ""


@pytest.mark.usefixtures("notebook")
def test_a_cell_shows_for_whom_it_waits(capsys):
    progress()(LogLine(text="waiting for local: in use by anna"))
    assert capsys.readouterr().err == "waiting for local: in use by anna\n"


@pytest.mark.parametrize("shell", [None, SimpleNamespace(kernel=None), SimpleNamespace()])
def test_outside_a_notebook_python_prints_no_progress(monkeypatch, shell):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert progress() is None
    monkeypatch.delitem(sys.modules, "IPython")
    assert progress() is None
