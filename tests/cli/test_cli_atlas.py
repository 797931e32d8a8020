"""``edgewise atlas``, and devices whose models other devices of the atlas ran too, as a user runs them."""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from edgewise.cli.main import run
from edgewise.predicting import atlas
from edgewise.predicting.atlas import load
from edgewise.predicting.tables import SOURCES, read_source
from edgewise.record.run import Trust
from edgewise.store.exchange import export_runs
from messages import has, is_in, says, wording
from sample_runs import all_runs

NCNN = """benchncnn measures ncnn.

Usage
```shell
./benchncnn [loop count] [num threads] [powersave] [gpu device]
```
### Board A (Cortex-A76 2.4 GHz x 4)
```
pi@a:~ $ ./benchncnn 8 4 0 -1 1
[0 V3D]  queueC=0[1]
loop_count = 8
num_threads = 4
powersave = 0
gpu_device = -1
          squeezenet  min =   11.73  max =   11.88  avg =   11.78
     squeezenet_int8  min =   21.63  max =   21.73  avg =   21.68

pi@a:~ $ ./benchncnn 8 1 2 0
loop_count = 8
num_threads = 1
powersave = 2
gpu_device = 0
          squeezenet  min =    1.00  max =    1.10  avg =    1.05
```
Older board (no heading)
```
loop_count = 8
num_threads = 2
           vgg16  min = 1245.07  max = 1453.01  avg = 1377.76
```
"""
TIMM = """model,infer_samples_per_sec,infer_step_time,infer_batch_size,infer_img_size,infer_gmacs
tinynet_e,50000,20.48,1024,106,0.03
failed,,,,224,
resnet18,8000.0,128.0,1024,224,1.82
"""
PERF = """supported_devices:
- Phone 1
precisions:
  float:
    components:
      ACT:
        universal_assets:
          tflite: {model_id: m1}
        performance_metrics:
          Phone 1:
            tflite:
              job_id: j1
              job_status: Passed
              inference_time_milliseconds: 16.5
              primary_compute_unit: NPU
            onnx:
              job_id: j2
              job_status: Failed
          Phone 1 (Proxy):
            tflite:
              job_id: j1
              inference_time_milliseconds: 16.5
              primary_compute_unit: NPU
"""
HOSTED = """The values are measured on
Pixel-3 (Android 10).

Model name | Paper and model | Top-1 accuracy | CPU, 4 threads | GPU | NNAPI
--- | :---: | ---: | ---: | ---: | ---:
Net_quant | [paper](https://a.b/c.pdf), [tflite&pb](https://a.b/net.tgz) | 39.5% | 0.8 ms | --- | 2 ms
Net | [paper](https://a.b/c.pdf) | 39.5% | 13 ms | 4.5 ms | ---
"""
STM32 = """| Model | Format | Board | RAM (KiB) |
|-------|--------|-------|-----------|
| [net](a/net_int8.tflite) | Int8 | BOARD 1 | 20 |

| Model | Format | Resolution | Board | Execution Engine | Frequency | Inference time (ms) | STM32Cube.AI version |
|-------|:------:|-----------:|-------|------------------|-----------|---------------------|----------------------|
| [net v2 ](a/net_v2_int8.tflite) | Int8 | 64x50x1 | BOARD 1 | 1 CPU | 160 | 188.36 | 10.0.0 |
| [net v2 ](a/net_v2_int8.tflite) | Int8 | 64x50x1 | BOARD 2 | NPU/GPU | 800 | 2.5 ms | 10.0.0 |
| [net v3 ](a/net_v3_int8.tflite) | Int8 | 64x50x1 | BOARD 2 | NPU | 800 | NA | 10.0.0 |
"""
ARM = """---
license: apache-2.0
---

# A network for Arm-based systems

## Key results

| Area | Result |
| --- | --- |
| Model format | ExecuTorch (.pte) |
| **Reference device** | Raspberry Pi 5 (16GB) (Cortex-A76, 4 cores) |
| Primary performance result | p50 latency 8.751 ms (3.61x faster) |

## Original model

| Field | Value |
|---|---|
| Original model | [timm/net_18.tv_in1k](https://example.com/timm/net_18.tv_in1k) |
"""
RKNN = """| demo | model_name | inputs_shape&nbsp;&nbsp; | dtype | RK3566<br />RK3568 | RK3588<br />@single_core | RV1109 |
| --- | --- | --- | --- | --- | --- | --- |
| net | net-12 | [1, 3, 224, 224] | INT8 | 200.0 | 400 | / |
|  | plates | [1, 3, 24, 94] | FP16 | 100 | RTF <br/>0.861 | 50(INT8) |
"""
BOARD = [
    {
        "file": "net_v2.tflite", "device": "Phone 9", "runtime": "litert", "accelerator": "cpu", "delegate": "XNNPACK",
        "nodes_delegated": 70, "nodes_total": 70, "latency_ms": {"median": 9.847, "avg": 9.979}, "status": "measured",
    },
    {
        "file": "net_v3.tflite", "device": "Phone 9", "runtime": "litert", "accelerator": "gpu", "delegate": "LITERT_CL",
        "nodes_delegated": 53, "nodes_total": 70, "latency_ms": {"median": 5.0}, "status": "measured",
    },
    {
        "file": "net_v2.tflite", "device": "Phone 17", "runtime": "litert", "accelerator": "gpu", "delegate": "Metal",
        "nodes_delegated": None, "nodes_total": None, "latency_ms": {"median": 0.82}, "status": "measured",
    },
    {
        "file": "talk.litertlm", "device": "Phone 9", "runtime": "litert-lm", "accelerator": "cpu", "delegate": None,
        "metrics": {"decode_tok_s": 3.3}, "status": "measured",
    },
]  # fmt: skip
HAILO = """.. list-table::
   :widths: 31 9
   :header-rows: 1

   * - Network Name
     - FPS (Batch Size=1)
     - Links
     - Input Resolution (HxWxC)
   * - net_18  |rocket|
     - 2000
     - `S <https://a.b/c>`_ `PT <https://a.b/d.zip>`_
     - 224x224x3
   * - other
     -
     - `S <https://a.b/c>`_
     - 224x224x3

Next
----
"""
TINY = """00664.631 ulp-mlperf:   Throughput   :      131.949 inf./sec.
00664.644 ulp-mlperf: Median throughput is 125.000 inf./sec.
"""


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(atlas, "atlas_folder", lambda: tmp_path / "data" / "atlas")
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.chdir(tmp_path)


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_ncnn_results_have_their_device_settings_and_unit(tmp_path):
    first, integers, gpu, older = read_source("ncnn", write(tmp_path / "README.md", NCNN), source="ncnn@1", licence="B")
    assert (first.model, first.device, first.setting, first.unit) == (
        "squeezenet", "Board A (Cortex-A76 2.4 GHz x 4)", "4 threads", "CPU",
    )  # fmt: skip
    assert first.latency_s == pytest.approx(0.01178) and first.group == "Board A (Cortex-A76 2.4 GHz x "
    assert (first.source, first.licence, first.precision, integers.precision) == ("ncnn@1", "B", "float", "int8")
    assert (gpu.unit, gpu.setting) == ("GPU", "1 threads, powersave 2")
    assert older.device == "Older board (no heading)" and older.latency_s == pytest.approx(1.37776)


def test_timm_results_have_the_conditions_of_their_file_name(tmp_path):
    write(tmp_path / "results" / "benchmark-infer-amp-nchw-pt240-cu124-rtx4090-dynamo.csv", TIMM)
    write(
        tmp_path / "results" / "benchmark-infer-fp32-nchw-pt240-cpu-i9_10940x.csv",
        "model,infer_samples_per_sec\nvgg11,4\n",
    )
    small, resnet, slow = read_source("timm", tmp_path / "results")
    assert (small.model, small.variant, small.batch, small.latency_s) == ("tinynet_e", "106", 1024, 2e-5)
    assert (resnet.device, resnet.runtime, resnet.precision, resnet.unit, resnet.setting) == (
        "rtx4090", "pytorch-nchw-dynamo", "amp", "GPU", "pt240 cu124",
    )  # fmt: skip
    assert (slow.device, slow.unit, slow.batch, slow.latency_s) == ("i9_10940x", "CPU", 1, 0.25)
    assert slow.source == "results"


def test_ai_hub_jobs_count_once_and_failed_ones_not_at_all(tmp_path):
    write(tmp_path / "models" / "act" / "perf.yaml", PERF)
    (row,) = read_source("ai-hub", tmp_path / "models")
    assert (row.model, row.variant, row.device, row.runtime, row.precision, row.unit) == (
        "act", "ACT", "Phone 1", "tflite", "float", "NPU",
    )  # fmt: skip
    assert row.latency_s == pytest.approx(0.0165)


def test_ai_hub_jobs_that_failed_are_told(tmp_path, capsys):
    write(tmp_path / "models" / "act" / "perf.yaml", PERF)
    assert run(["atlas", "import", "ai-hub", str(tmp_path / "models")]) == 0
    assert "1 of 2 jobs have no time, as they failed, and are left out" in capsys.readouterr().err


def facts(row):
    return row.model, row.variant, row.device, row.runtime, row.precision, row.unit, row.setting


def test_tables_of_documents_are_read_by_their_columns(tmp_path):
    quantised, nnapi, cpu, gpu = read_source("tflite-hosted", write(tmp_path / "hosted_models.md", HOSTED))
    assert facts(quantised) == ("Net_quant", "", "Pixel 3", "tflite", "int8", "CPU", "4 threads")
    assert (nnapi.unit, nnapi.latency_s) == ("NNAPI", 0.002)
    assert (cpu.precision, cpu.latency_s, gpu.unit, gpu.latency_s) == ("float", 0.013, "GPU", 0.0045)

    first, second = read_source("stm32", write(tmp_path / "zoo" / "net" / "README.md", STM32).parents[1])
    assert facts(first) == ("net_v2_int8", "64x50x1", "BOARD 1", "stm32cube.ai", "int8", "CPU", "1 CPU")
    assert first.latency_s == pytest.approx(0.18836)
    assert (second.device, second.unit, second.latency_s) == ("BOARD 2", "NPU", 0.0025)

    card = write(tmp_path / "arm" / "net-int8-xnnpack-executorch" / "README.md", ARM)
    (row,) = read_source("arm", card.parents[1])
    assert facts(row) == ("net_18.tv_in1k", "", "Raspberry Pi 5", "executorch", "int8", "CPU", "")
    assert (row.latency_s, row.licence) == (0.008751, "apache-2.0")
    two = write(card, ARM.replace("p50 latency 8.751 ms", "2x lower p50 latency (1,024.5 ms to 512.25 ms)"))
    assert read_source("arm", two)[0].latency_s == 0.51225

    rows = read_source("rknn", write(tmp_path / "README.md", RKNN))
    assert facts(rows[0]) == ("net-12", "[1, 3, 224, 224]", "RK3566 RK3568", "rknn", "int8", "NPU", "")
    assert [(row.device, row.precision, row.latency_s) for row in rows[1:]] == [
        ("RK3588 @single_core", "int8", 0.0025), ("RK3566 RK3568", "fp16", 0.01), ("RV1109", "int8", 0.02),
    ]  # fmt: skip

    cpu, split, metal = read_source("litert-board", write(tmp_path / "m.jsonl", "\n".join(map(json.dumps, BOARD))))
    assert facts(cpu) == ("net_v2.tflite", "", "Phone 9", "litert", "", "CPU", "") and cpu.latency_s == 9.847e-3
    assert facts(split) == ("net_v3.tflite", "", "Phone 9", "litert", "", "", "53 of 70 nodes by LITERT_CL")
    assert facts(metal) == ("net_v2.tflite", "", "Phone 17", "litert", "", "GPU", "")

    (row,) = read_source("hailo", write(tmp_path / "HAILO15H_classification.rst", HAILO))
    assert facts(row) == ("net_18", "224x224x3", "HAILO15H", "hailort", "", "NPU", "")
    assert row.latency_s == 0.0005

    for name in ("performance", "accuracy"):
        write(tmp_path / "closed" / "Me" / "results" / "BOARD_3" / "kws" / name / "results.txt", TINY)
    (row,) = read_source("mlperf-tiny", tmp_path / "closed")
    assert facts(row) == ("kws", "", "BOARD_3", "mlperf-tiny", "", "", "Me") and row.latency_s == 0.008


def test_devices_of_the_atlas_are_listed(tmp_path, capsys):
    assert run(["atlas", "import", "rknn", str(write(tmp_path / "README.md", RKNN))]) == 0
    assert run(["atlas", "import", "ncnn", str(write(tmp_path / "ncnn.md", NCNN))]) == 0
    capsys.readouterr()
    assert run(["devices", "list", "--atlas", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)["atlas"]
    assert listed[0] == {
        "device": "Board A (Cortex-A76 2.4 GHz x 4)", "runtime": "ncnn", "unit": "CPU", "precisions": ["float", "int8"],
        "models": 2, "tables": ["ncnn"],
    }  # fmt: skip
    assert [(row["device"], row["models"]) for row in listed[-3:]] == [
        ("RK3566 RK3568", 2), ("RK3588 @single_core", 1), ("RV1109", 1),
    ]  # fmt: skip
    assert run(["devices", "list", "--atlas"]) == 0
    assert "RK3588 @single_core" in capsys.readouterr().out


def test_tidy_tables_keep_the_source_of_each_row(tmp_path):
    text = "model,device,threads,latency_ms,compute_unit,extra,source\na,d,4.0,2,CPU,{},repo@1\nb,d,,3,,,\n"
    one, two = read_source("table", write(tmp_path / "t.csv", text), source="mine")
    assert (one.setting, one.latency_s, one.unit, one.source) == ("4 threads", 0.002, "CPU", "repo@1")
    assert (two.setting, two.source) == ("", "mine")


@pytest.mark.parametrize(
    ("kind", "text", "words"),
    [
        (
            "ncnn",
            NCNN.replace("avg =   11.78", "avg =   nan"),
            says("not-number-above-0", what=has("line 15: avg"), text="nan"),
        ),
        ("ncnn", NCNN.replace("  avg =   11.78", ""), "line 15: 'squeezenet min = 11.73 max = 11.88' is not"),
        ("ncnn", NCNN.replace("num_threads = 4\n", ""), "line 14: a result before num_threads"),
        ("ncnn", "nothing", says("no-results")),
        (
            "table",
            "model,device,latency_ms\na,d,1\nb,d,-1\n",
            says("not-number-above-0", what=has("line 3: latency_ms"), text="-1"),
        ),
        ("table", "model,device,latency_ms\na,d\n", says("line-cells-columns", line=2, cells_count=2, header_count=3)),
        ("table", "model,device,latency_ms\n,d,3\n", "line 2: no model, device or latency"),
        ("table", "model,device,model\n", says("there-twice-in-safety", name=has("line 1: a column"))),
        (
            "table",
            "model,device,latency_ms,threads\na,d,1,many\n",
            says("not-number-above-0", what=has("line 2: threads"), text="many"),
        ),
        (
            "table",
            "model,device,latency_ms,batch\na,d,1,0.5\n",
            says("not-whole-number", what=has("line 2: batch"), text="0.5"),
        ),
        ("table", "", says("no-results")),
        ("table", 'model,device,latency_ms\n"' + "x" * 200_000, "line 2: field larger"),
        ("timm", TIMM, says("does-not-tell-conditions")),
        ("ai-hub", "precisions:\n  float: 3\n", says("no-perf-yaml-ai-hub")),
        ("ai-hub", "a: &x [1]\nb: *x\n", "anchor"),
        ("ai-hub", PERF.replace("16.5", "soon"), "float, ACT, Phone 1, tflite: the time is 'soon'"),
        ("tflite-hosted", HOSTED.replace("Pixel-3", "a phone"), says("does-not-name-phone")),
        (
            "tflite-hosted",
            HOSTED.replace("13 ms", "soon"),
            says("not-number-above-0", what=has("line 7: CPU, 4 threads"), text="soon"),
        ),
        ("stm32", STM32.replace("188.36", "x"), "line 7: inference time (ms) is 'x'"),
        ("arm", ARM.replace("8.751", "0"), "line 13: the median is '0'"),
        (
            "arm",
            ARM.replace("8.751 ms", "9 ms, 8 ms"),
            "line 13: 'p50 latency 9 ms, 8 ms (3.61x faster)' has no single",
        ),
        ("arm", ARM.replace("Reference device", "Device"), "line 13: no Reference device"),
        ("arm", ARM.replace("p50 latency 8.751 ms", "5 tokens/s"), "is no median latency, and is left out"),
        ("arm", "# a page", says("no-results")),
        (
            "rknn",
            RKNN.replace("400", "0"),
            says("not-number-above-0", what=has("line 3: RK3588 @single_core"), text="0"),
        ),
        ("litert-board", json.dumps(BOARD[0]) + '\n{"file": 3}', "line 2: not a job of the leaderboard"),
        ("litert-board", "[]", "line 1: not a job of the leaderboard"),
        ("litert-board", json.dumps(BOARD[3]), says("no-results")),
        ("litert-board", json.dumps(BOARD[0]).replace("9.847", "0"), "line 1: the median is '0'"),
        ("hailo", HAILO, says("does-not-name-chip")),
        ("mlperf-tiny", TINY, says("no-results")),
        ("runs", "{}", "file.txt"),
        ("onnx", "", "no source 'onnx'"),
    ],
)
def test_wrong_files_are_named_with_the_line_and_nothing_is_kept(tmp_path, capsys, kind, text, words):
    path = write(tmp_path / "file.txt", text)
    assert run(["atlas", "import", kind, str(path)]) == 2
    assert is_in(words, " ".join(capsys.readouterr().err.split()))
    assert not (tmp_path / "data").exists()


def test_runs_that_failed_or_have_the_worst_grade_are_no_part_of_a_table(tmp_path):
    base = next(one for one in all_runs() if one.status == "done" and one.value("latency"))
    runs = [replace(base, id=f"{at:026d}", trust=Trust(grade=grade)) for at, grade in enumerate("BD")]
    export_runs([*runs, replace(base, id="f" * 26, status="failed")], tmp_path / "runs.json")
    (row,) = read_source("runs", tmp_path / "runs.json")
    assert row.latency_s == base.value("latency") and row.source == f"run {runs[0].id}"


def test_every_source_refuses_a_file_that_is_not_there(tmp_path):
    for kind in SOURCES:
        assert run(["atlas", "import", kind, str(tmp_path / "absent")]) == 2


@pytest.mark.parametrize("kind", sorted(SOURCES))
def test_a_folder_without_results_is_refused_with_what_to_give(tmp_path, capsys, kind):
    """Kinds that are one file say so; the others look for theirs in the folder."""
    assert run(["atlas", "import", kind, str(tmp_path)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "Errno" not in told
    assert "is a folder, and results of the kind" in told or "has no results" in told
    assert "try:" in told


def test_the_file_in_a_folder_is_named(tmp_path, capsys):
    (tmp_path / "measured.csv").write_text("x")
    assert run(["atlas", "import", "table", str(tmp_path)]) == 2
    assert f"give the file: {tmp_path / 'measured.csv'}" in " ".join(capsys.readouterr().err.split())


def test_tables_are_listed_replaced_only_by_force_and_removed(tmp_path, capsys):
    write(tmp_path / "README.md", NCNN)
    importing = ["atlas", "import", "ncnn", "README.md", "--source", "Tencent/ncnn@1", "--licence", "BSD-3-Clause"]
    assert run(importing) == 0
    assert run(importing) == 2
    assert run([*importing, "--force"]) == 0
    capsys.readouterr()
    assert run(["atlas", "list", "--json"]) == 0
    (table,) = json.loads(capsys.readouterr().out)["tables"]
    assert (table["table"], table["measurements"], table["devices"]) == ("ncnn", 4, 2)
    assert (table["sources"], table["licences"]) == (["Tencent/ncnn@1"], ["BSD-3-Clause"])
    assert run(["atlas", "list"]) == 0
    assert "ncnn" in capsys.readouterr().out
    assert load("ncnn") == tuple(
        read_source("ncnn", tmp_path / "README.md", source="Tencent/ncnn@1", licence="BSD-3-Clause")
    )
    assert run(["atlas", "rm", "ncnn"]) == 0 and run(["atlas", "rm", "ncnn"]) == 2
    assert run(["atlas", "import", "ncnn", "README.md", "--name", "../x"]) == 2


@pytest.fixture
def fleet(tmp_path):
    """Six boards that differ in speed, and in how they take to two kinds of model."""
    random = np.random.default_rng(4)
    means, kinds = np.geomspace(0.004, 0.4, 12), np.where(np.arange(12) % 2, 0.3, -0.3)
    with (tmp_path / "boards.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "device", "runtime", "precision", "compute_unit", "latency_s", "source"])
        for board in range(6):
            values = means * np.exp(random.normal(0, 1) + random.normal(0, 1) * kinds + random.normal(0, 0.02, 12))
            writer.writerows(
                [f"net_{at}", f"board {board}", "ncnn", "float", "CPU", repr(float(value)), "a@1"]
                for at, value in enumerate(values)
            )
    new = means * np.exp(0.5 + 0.8 * kinds)
    rows = "".join(f"Net-{at},{new[at] * 1e3}\n" for at in (0, 1, 4, 7, 10))
    write(tmp_path / "measured.csv", "model,latency_ms\n" + rows)
    assert run(["atlas", "import", "table", "boards.csv"]) == 0
    return new


def test_models_of_the_atlas_are_predicted_by_name_alone(fleet, capsys):
    assert run(["calibrate", "mine", "--measurements", "measured.csv"]) == 0
    assert "catalogue" in capsys.readouterr().out
    assert run(["estimate", "net_3", "NET-8", "-d", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["models"]
    for row, model in zip(found, (3, 8), strict=True):
        assert row["value"] == pytest.approx(fleet[model], rel=0.1)
        assert row["low"] < fleet[model] < row["high"]
        assert row["method"] == "catalogue: as on 6 kinds of hardware with ncnn float CPU (atlas: boards)"
    assert run(["estimate", "net_3", "-d", "mine"]) == 0
    assert "atlas: boards" in " ".join(capsys.readouterr().out.split())


def test_a_device_that_the_atlas_has_with_another_runtime_is_predicted_with_it(fleet, capsys, tmp_path):
    with (tmp_path / "boards.csv").open() as file:
        rows = [{**row, "runtime": "x"} for row in csv.DictReader(file)]
    chip = [
        {**row, "device": "Chip", "latency_s": repr(3 * float(value))} for row, value in zip(rows, fleet, strict=False)
    ]
    with (tmp_path / "x.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows([*rows, *chip])
    assert run(["atlas", "import", "table", "x.csv"]) == 0
    assert run(["calibrate", "mine", "--measurements", "measured.csv", "--atlas-device", "chip"]) == 2
    assert "such as Chip" in " ".join(capsys.readouterr().err.split())
    assert run(["calibrate", "mine", "--measurements", "measured.csv", "--atlas-device", "Chip"]) == 0
    assert run(["estimate", "net_3", "-d", "mine", "--json"]) == 0
    capsys.readouterr()
    assert run(["estimate", "net_3", "-d", "mine", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["models"]
    assert row["method"].endswith("float CPU, and on Chip with other runtimes (atlas: boards)")


def test_what_is_in_no_table_is_refused_and_a_damaged_table_is_named(fleet, capsys, tmp_path):
    assert run(["calibrate", "mine", "--measurements", "measured.csv"]) == 0
    assert run(["estimate", "unheard-of", "-d", "mine"]) == 2
    assert "no such file: unheard-of" in capsys.readouterr().err
    write(tmp_path / "more.csv", "model\nunheard-of\n")
    assert run(["estimate", "more.csv", "-d", "mine"]) == 4
    assert "it is not in the atlas" in " ".join(capsys.readouterr().err.split())
    assert run(["atlas", "rm", "boards"]) == 0
    assert run(["estimate", "more.csv", "-d", "mine"]) == 2  # nothing relates the models to the device any more
    write(tmp_path / "data" / "atlas" / "bad.csv", "model,latency_s\na,-1\n")
    assert run(["calibrate", "mine", "--measurements", "measured.csv"]) == 2
    assert wording("edgewise-atlas-rm-import-table", name="bad") in " ".join(capsys.readouterr().err.split())
