"""A lab whose device is behind a real sshd: models and data reach it by way of the database."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from edgewise import data
from edgewise.cli.main import run
from edgewise.store import open_store
from labs import working
from patience import wait_until
from ssh_devices import far_python, ssh_device, ssh_server  # noqa: F401

pytestmark = pytest.mark.engine


def test_models_and_data_reach_a_device_and_its_runs_return(ssh_device, url, tmp_path, monkeypatch):  # noqa: F811
    pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
    folder = tmp_path / "client"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv("EDGEWISE_STORE", url)
    for name in ("digits_cnn.onnx", "digits_test.npz"):
        Path(name).write_bytes(data.path(name).read_bytes())
    suite = {"models": ["digits_cnn.onnx"], "devices": ["board"], "runtimes": ["onnxruntime"], "threads": [1, 2]}
    Path("bench.yaml").write_text(yaml.safe_dump({**suite, "options": {"iterations": 9, "sessions": 1}}))
    options = {"data": "digits_test.npz", "task": "classification", "prepare": "scale=1/255", "latency": False}
    Path("evaluate.yaml").write_text(
        yaml.safe_dump({"verb": "evaluate", "models": ["digits_cnn.onnx"], "devices": ["quick"], "options": options})
    )
    assert run(["lab", "init"]) == 0
    with working("--host", "bench", "--devices", "board", "--tags", "quick") as process:
        with open_store(url) as store:
            wait_until(store.lab.devices, process)
        assert run(["sweep", "bench.yaml", "--lab", "--wait"]) == 0
        assert run(["sweep", "evaluate.yaml", "--lab", "--wait"]) == 0
        assert run(["lab", "drain", "bench"]) == 0
        assert process.wait(600) == 0, process.stdout.read()
    with open_store(url) as store:
        kept = [store.get(row.id) for row in store.list()]
    assert {one.job.target.device for one in kept} == {"board"}
    assert sorted(bool(one.evaluation) for one in kept) == [False, False, True]
    assert not list(Path("evaluate-results").rglob("*.npz"))
