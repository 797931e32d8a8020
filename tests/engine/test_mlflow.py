"""`runs export --mlflow`, held against MLflow's own client and a store in a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgewise.errors import BadInput
from edgewise.record import SessionRecord
from edgewise.store.mlflow_runs import log_runs
from made_runs import made_run
from sample_runs import failed_run, run_id

mlflow = pytest.importorskip("mlflow", reason="MLflow's client is not installed: pip install 'edgewise[mlflow]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning:mlflow.*"),  # it will keep runs in databases only
    pytest.mark.filterwarnings("ignore::DeprecationWarning:mlflow.*"),
]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    return f"file://{tmp_path / 'mlruns'}"


def _logged(place):
    client = mlflow.MlflowClient(tracking_uri=place)
    experiment = client.get_experiment_by_name("edgewise")
    return {one.data.tags["edgewise.run"]: one for one in client.search_runs([experiment.experiment_id])}


def test_a_run_has_its_settings_its_values_and_their_intervals(place):
    run = made_run(0)
    assert log_runs([run, failed_run(3)], place) == (2, 0)
    found = _logged(place)
    done = found[run_id(0)]
    assert done.info.run_name == "kws.onnx on onnxruntime"
    assert (done.info.status, done.info.start_time) == ("FINISHED", 1767225600000)
    assert {name: done.data.params[name] for name in ("model", "runtime", "threads", "device")} == {
        "model": "kws.onnx", "runtime": "onnxruntime", "threads": "1", "device": "local",
    }  # fmt: skip
    latency = {name: value for name, value in done.data.metrics.items() if name in _names("latency")}
    assert latency == {"latency": 1e-3, "latency_low": 1e-3 * 0.98, "latency_high": 1e-3 * 1.02}
    assert "energy" not in done.data.metrics  # its value is absent
    assert done.data.tags["edgewise.basis.latency"] == "measured"
    failed = found[run_id(3)]
    assert (failed.info.status, failed.data.metrics) == ("FAILED", {})
    assert failed.data.tags["edgewise.failure"].startswith(failed_run(3).failure.cause)


def _names(metric):
    return (metric, f"{metric}_low", f"{metric}_high")


def test_a_run_ends_when_it_was_measured_and_the_clients_links_are_not_printed(place, capfd, monkeypatch):
    terminate = mlflow.MlflowClient.set_terminated

    def end(client, *words, **more):
        print("View run at: http://…")  # as it does for a server
        terminate(client, *words, **more)

    monkeypatch.setattr(mlflow.MlflowClient, "set_terminated", end)
    began = made_run(0).created_at
    timed = SessionRecord(index=0, started_at=began, pid=1, phases={"load": 1.5, "steady": 3.0})
    assert log_runs([replace(made_run(0), sessions=(timed,)), made_run(1)], place) == (2, 0)
    assert capfd.readouterr().out == ""
    found = {identity: (one.info.start_time, one.info.end_time) for identity, one in _logged(place).items()}
    assert found[run_id(0)] == (1767225600000, 1767225604500)
    assert found[run_id(1)][0] == found[run_id(1)][1]  # no process was timed


def test_a_run_is_logged_once(place):
    assert log_runs([made_run(0)], place) == (1, 0)
    assert log_runs([made_run(0), made_run(1)], place) == (1, 1)
    assert sorted(_logged(place)) == [run_id(0), run_id(1)]


def test_a_run_whose_logging_was_interrupted_is_logged_again(place, monkeypatch):
    def interrupt(*_args, **_more):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(mlflow.MlflowClient, "log_batch", interrupt)
        log_runs([made_run(0)], place)
    assert log_runs([made_run(0)], place) == (1, 0)
    client = mlflow.MlflowClient(tracking_uri=place)
    found = client.search_runs([client.get_experiment_by_name("edgewise").experiment_id])
    assert sorted("edgewise.run" in one.data.tags for one in found) == [False, True]


def test_a_server_that_does_not_answer_is_one_error(monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(BadInput, match="MLflow at http://127"):
        log_runs([made_run(0)], "http://127.0.0.1:9")
