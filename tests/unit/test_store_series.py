import csv
import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_prometheus

from edgewise.store.exchange import export_runs
from edgewise.store.series import SETTING, newest_of_each_setting, openmetrics, same_setting, series_csv
from edgewise.store.tables import row_of
from made_runs import HOSTILE, made_run
from sample_runs import failed_run, run_id

LABELS = {
    "model": "kws.onnx", "format": "onnx", "runtime": "onnxruntime", "provider": "cpu", "threads": "1", "batch": "1",
    "scenario": "single-stream", "device": "local",
}  # fmt: skip


def text_of(*runs):
    return openmetrics(newest_of_each_setting(row_of(run) for run in runs))


def samples(text):
    """Each sample of a text, by its name, as Prometheus' own reader has them."""
    found = {}
    for family in read_openmetrics(text):
        for one in family.samples:
            found.setdefault(one.name, []).append((one.labels, one.value))
    return found


def test_the_newest_value_of_each_setting_has_its_interval_and_its_time():
    old, new, other = made_run(0, latency=2e-3), made_run(5), made_run(3, runtime="litert", latency=4e-3)
    found = samples(text_of(new, other, old))
    ((ours, value), (theirs, other_value)) = found["edgewise_latency_seconds"]
    assert (value, other_value) == (1e-3, 4e-3)
    assert {name: ours[name] for name in LABELS} == LABELS
    assert theirs["runtime"] == "litert"
    assert [value for _, value in found["edgewise_latency_low_seconds"]] == [1e-3 * 0.98, 4e-3 * 0.98]
    assert [value for _, value in found["edgewise_latency_high_seconds"]] == [1e-3 * 1.02, 4e-3 * 1.02]
    assert [value for _, value in found["edgewise_run_timestamp_seconds"]] == [1767243600.0, 1767236400.0]
    ((details, one), _) = found["edgewise_run_details"]
    assert (details["id"], details["grade"], details["basis"], one) == (run_id(5), new.trust.grade, "measured", 1.0)


def test_without_runs_it_is_still_a_document():
    assert openmetrics([]) == "# EOF\n"
    assert text_of(failed_run()) == "# EOF\n"


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6, unique=True))
def test_no_name_of_a_model_breaks_the_text(names):
    rows = [row_of(made_run(number, model=f"m{name}")) for number, name in enumerate([*names, HOSTILE])]
    rows = [replace(row, model=f"m{name}") for row, name in zip(rows, [*names, HOSTILE], strict=True)]
    text = openmetrics(rows)
    assert [labels["model"] for labels, _ in samples(text)["edgewise_latency_seconds"]] == [row.model for row in rows]
    assert len(list(read_prometheus(text))) == 5


def test_a_trend_has_the_runs_of_the_newest_setting_alone(tmp_path):
    runs = [made_run(0), made_run(1, version="1.1"), made_run(2, runtime="litert"), failed_run(3), made_run(4)]
    path = tmp_path / "kws.trend.csv"
    assert export_runs(runs, path) == 3
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert [(row["id"], row["created_at"], row["value"], row["version"]) for row in rows] == [
        (run_id(0), "2026-01-01T00:00:00.000+00:00", "0.001", "1.0"),
        (run_id(1), "2026-01-01T01:00:00.000+00:00", "0.001", "1.1"),
        (run_id(4), "2026-01-01T04:00:00.000+00:00", "0.001", "1.0"),
    ]
    assert all(row_of(run).runtime == "onnxruntime" for run in (runs[0], runs[1], runs[4]))


def test_a_metric_takes_the_place_of_the_headline(tmp_path):
    path = tmp_path / "memory.prom"
    export_runs([made_run(0)], path, metric="memory_peak")
    found = samples(path.read_text())
    assert [value for _, value in found["edgewise_memory_peak_bytes"]] == [48e6]
    assert row_of(made_run(0), "energy").value is None


def test_a_failed_run_has_no_value():
    row = row_of(failed_run())
    assert (row.status, row.value, row.low, row.high) == ("failed", None, None, None)


@pytest.mark.parametrize("name", ["threads", "device", "shapes", "precision"])
def test_what_the_runs_of_a_series_share(name):
    row = row_of(made_run(0))
    assert name in SETTING
    assert same_setting([row, replace(row, **{name: "other"})]) == [replace(row, **{name: "other"})]
    assert same_setting([row, replace(row, sha256="f" * 64, version="2")]) == [
        row,
        replace(row, sha256="f" * 64, version="2"),
    ]


def test_no_cell_is_a_formula():
    text = series_csv([replace(row_of(made_run(0)), model="=1+1")])
    assert next(csv.DictReader(io.StringIO(text)))["model"] == "'=1+1"
