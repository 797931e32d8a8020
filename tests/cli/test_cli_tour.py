"""`edgewise tour`: what a new user runs first."""

import pytest

from edgewise.cli.main import run
from edgewise.runtime.base import runtimes


@pytest.mark.engine
@pytest.mark.slow
def test_the_tour_ends_in_tables_a_page_and_stored_runs(tmp_path, capsys, monkeypatch):
    if not all(runtimes().get(name).availability() for name in ("onnxruntime", "openvino", "litert")):
        pytest.skip("not all three engines are installed")
    monkeypatch.chdir(tmp_path)
    assert run(["tour", "-o", "here", "--store", str(tmp_path / "store.db"), "-q"]) == 0
    captured = capsys.readouterr()
    assert "Recommended for digits_cnn.onnx" in captured.out
    written = {path.name for path in (tmp_path / "here").iterdir()}
    assert written == {"zoo.md", "platform.md", "watch.md", "profile.html", "report.html"}
    zoo = (tmp_path / "here" / "zoo.md").read_text()
    assert "| Model | Task | Accuracy | Latency (ms) | Model Size (MB) | Platform | References |" in zoo
    assert zoo.count("digits_cnn") == 4 and "Image Classification" in zoo
    page = (tmp_path / "here" / "report.html").read_text()
    assert "<svg" in page and "litert" in page
    assert {path.name for path in tmp_path.iterdir()} - {"store.db-wal", "store.db-shm"} == {"here", "store.db"}
    assert run(["runs", "list", "--store", str(tmp_path / "store.db")]) == 0
    assert capsys.readouterr().out.count("digits_cnn") == 5  # four benchmarked, one profiled
    assert "Layers by time" in captured.out and "of the end-to-end latency" in captured.out


def test_a_file_in_the_folders_place_is_one_clear_error(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["tour", "-o", str(tmp_path / "file")]) == 2
    assert "is not a folder" in capsys.readouterr().err
