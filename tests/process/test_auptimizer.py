"""Environment files of auptimizer's Profiler: read as they are, and run with the same summary, in a container or not."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from container_images import IMAGE, prepare
from edgewise.cli.main import run
from edgewise.constraints.base import CONTAINER_NAMES
from edgewise.errors import BadInput, ExitCode
from edgewise.shims.auptimizer import main
from edgewise.verbs.exec.env_file import read_env_file

pytestmark = pytest.mark.cold

BENCHMARK = """# a comment
IMAGEREPO=tensorflow/tensorflow:1.14.0-py3
APTREQUIREMENTS="wget"
# PIPREQUIREMENTS="ipython numpy"
PRERUN="wget https://example.org/engine.whl; pip install engine.whl"
DIR=bench
SCRIPT=test_perf.py
COMMAND=python
SAMPLETIME=3
OUTPUTFILE=out.txt
DOCFILE=Dockerfile
DOCKCPUS="4.0"
DOCKMEMORY="2.0g"
DOCKER_ARGS=
"""
DOCKERFILE = """FROM tensorflow/tensorflow:1.14.0-py3
RUN apt-get update && apt-get install -y wget
WORKDIR /app
COPY . .
RUN wget https://example.org/engine.whl; pip install engine.whl
"""
NO_IMAGE = BENCHMARK.replace("tensorflow/tensorflow:1.14.0-py3", "localhost/NONE")
"""The same on an image whose name no runtime accepts: nothing is downloaded where one works."""
SCRIPT = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter(sys.argv[1], num_threads=1)
interpreter.allocate_tensors()
given = interpreter.get_input_details()[0]
for _ in range(50):
    interpreter.set_tensor(given["index"], np.zeros(given["shape"], given["dtype"]))
    interpreter.invoke()
print("done", sys.argv[1])
"""
HEADINGS = (
    "NAME", "AVG CPU %", "PEAK CPU", "AVG MEM USAGE / LIMIT", "PEAK MEM", "NET I/O", "BLOCK I/O", "TOTAL TIME (ms)",
)  # fmt: skip


@pytest.fixture
def example(tmp_path, monkeypatch):
    """The layout of Profiler's benchmark example; `python` is the interpreter of the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EDGEWISE_STORE", str(tmp_path / "runs.db"))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "env.template").write_text(NO_IMAGE)
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench/test_perf.py").write_text("import sys; print('script', sys.argv[1:])")
    return tmp_path


def test_an_environment_file_is_read_as_data(example):
    Path("env.template").write_text(BENCHMARK)
    found = read_env_file(Path("env.template"))
    assert found.fields(has_models=True) == {
        "command": ("python", "test_perf.py", "{model}"),
        "run_in": "bench",
        "cpus": 4.0,
        "memory": 2 * 2**30,
        "sample": 3.0,
        "not_applied": (
            "IMAGEREPO=tensorflow/tensorflow:1.14.0-py3",
            "APTREQUIREMENTS=wget",
            "PRERUN=wget https://example.org/engine.whl; pip install engine.whl",
        ),
        "dockerfile": DOCKERFILE,
        "container_options": (),
    }
    assert found.fields(has_models=False)["command"] == ("python", "test_perf.py")
    assert found.output == Path("out.txt")
    Path("env.template").write_bytes(b"\xef\xbb\xbf" + BENCHMARK.removeprefix("# a comment\n").encode())
    assert read_env_file(Path("env.template")).variables == found.variables
    own = 'PIPREQUIREMENTS="ipython numpy"\nDOCKER_ARGS="--privileged -v /data:/mnist data"\n'
    Path("env.template").write_text(BENCHMARK.replace("DOCKER_ARGS=\n", own))
    fields = read_env_file(Path("env.template")).fields(has_models=False)
    assert fields["dockerfile"] == f"{DOCKERFILE}RUN pip install ipython numpy\n"
    assert fields["container_options"] == ("--privileged", "-v", "/data:/mnist", "data")
    Path("Dockerfile").write_text("FROM scratch\n")
    fields = read_env_file(Path("env.template")).fields(has_models=False)
    assert (fields["dockerfile"], fields["build_context"]) == ("FROM scratch\n", ".")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SCRIPT=test_perf.py\n", "", "lacks SCRIPT"),
        ("DIR=bench", "DIR=nowhere", "there is no folder nowhere"),
        ("SCRIPT=test_perf.py", "SCRIPT=other.py", "there is no file other.py"),
        ('DOCKCPUS="4.0"', "DOCKCPUS=many", "DOCKCPUS in env.template: 'many' is not a number"),
        ('DOCKMEMORY="2.0g"', "DOCKMEMORY=big", "DOCKMEMORY in env.template: 'big' is not a size"),
        ('DOCKMEMORY="2.0g"', f"DOCKMEMORY={'9' * 400}g", "is not a size"),
        ("COMMAND=python", 'COMMAND="python', "no closing quotation"),
        ("# a comment", "touch /tmp/x", "line 1 of env.template is not NAME=value"),
        ("# a comment", "PATH=/evil", "unknown variable PATH"),
    ],
)
def test_a_wrong_environment_file_names_the_variable(example, old, new, message):
    Path("env.template").write_text(BENCHMARK.replace(old, new))
    with pytest.raises(BadInput, match=message):
        read_env_file(Path("env.template")).fields(has_models=False)


def test_exec_runs_an_environment_file(example, capfd):
    words = ["exec", "-e", "env.template", "--cpus", "0.5", "--sample", "0s", "-q", "--json"]
    assert run([*words, "-m", "a.tflite,b.tflite"]) == ExitCode.DONE
    told = capfd.readouterr()
    records = json.loads(told.out)["runs"]
    assert [one["job"]["command"] for one in records] == [["python", "test_perf.py", f"{n}.tflite"] for n in "ab"]
    assert records[0]["job"]["target"]["constraints"]["cpus"] == 0.5
    assert records[0]["job"]["target"]["constraints"]["memory_bytes"] == 2 * 2**30
    assert "native-environment" in [one["code"] for one in records[0]["cautions"]]
    assert "script ['b.tflite']" in told.err
    assert run(["report", "last", "--table", "usage"]) == ExitCode.DONE
    shown = capfd.readouterr().out
    assert all(heading in shown for heading in HEADINGS)
    assert run(["exec", "-e", "env.template", "--", "true"]) == ExitCode.BAD_INPUT
    assert "give either --env-file or a command" in capfd.readouterr().err


def test_the_old_command_line_prints_and_appends_the_same_summary(example, capfd):
    Path("models.txt").write_text("a.tflite\nb.tflite\n")
    assert main(["-e", "env.template", "-f", "models.txt"]) == ExitCode.DONE
    told = capfd.readouterr()
    assert "caution: not applied: IMAGEREPO=localhost/NONE" in told.err
    assert "the program runs on this machine itself, not in a container: " in told.err
    title, headings, dashes, *rows = told.out.splitlines()
    assert title == "Final Usage Stats"
    assert [word.strip() for word in headings.split("  ") if word.strip()] == list(HEADINGS)
    assert set(dashes) == {"-", " "}
    assert [row.split()[0] for row in rows] == ["a", "b"]
    assert all("/ 2.0 GiB" in row for row in rows)
    assert main(["-e", "env.template"]) == ExitCode.DONE
    written = Path("out.txt").read_text()
    assert written.count("Usage stats for Experiment ran on : ") == 2
    assert "\ntest_perf.py " in written
    assert main(["-e", "missing.template"]) == ExitCode.BAD_INPUT
    assert "can't read the env file" in capfd.readouterr().err


@pytest.mark.engine
def test_the_benchmark_example_runs_with_its_own_environment_file(example, capfd):
    pytest.importorskip("ai_edge_litert")
    Path("bench/test_perf.py").write_text(SCRIPT)
    assert run(["example", str(example / "made")]) == ExitCode.DONE
    for name in ("mobilenet_v1_0.75_224.tflite", "mobilenet_v1_1.0_224.tflite"):
        shutil.copy(example / "made/model.tflite", example / "bench" / name)
    capfd.readouterr()
    models = "mobilenet_v1_0.75_224.tflite,mobilenet_v1_1.0_224.tflite"
    assert main(["-e", "env.template", "-m", models]) == ExitCode.DONE
    told = capfd.readouterr()
    assert "done mobilenet_v1_1.0_224.tflite" in told.err
    assert [row.split()[0] for row in told.out.splitlines()[3:]] == ["mobilenet_v1_0.75_224", "mobilenet_v1_1.0_224"]


@pytest.mark.parametrize("runtime", CONTAINER_NAMES)
def test_the_program_runs_in_the_image_that_the_file_describes(example, capfd, monkeypatch, tmp_path_factory, runtime):
    settings = prepare(runtime, tmp_path_factory.mktemp(runtime))
    if isinstance(settings, str):
        pytest.skip(settings)
    for name, given in settings.items():
        monkeypatch.setenv(name, given)
    text = NO_IMAGE
    for old, new in (
        ("localhost/NONE", IMAGE),
        ('APTREQUIREMENTS="wget"\n', ""),
        ("wget https://example.org/engine.whl; pip install engine.whl", "echo of the image > built.txt"),
        ("COMMAND=python", "COMMAND=sh"),
        ("DOCKER_ARGS=", 'DOCKER_ARGS="--env GIVEN=variable"'),
    ):
        text = text.replace(old, new)
    Path("env.template").write_text(text)
    Path("bench/test_perf.py").write_text('cat built.txt; echo "$GIVEN" "$PWD" "$1"')
    words = ["exec", "-e", "env.template", "--mechanism", runtime, "--sample", "0s", "--json", "-m", "a.tflite"]
    assert run(words) == ExitCode.DONE
    told = capfd.readouterr()
    (record,) = json.loads(told.out)["runs"]
    assert "of the image\nvariable /app a.tflite\n" in told.err
    assert f"the program runs in a container of localhost/edgewise-bench ({runtime})" in told.err
    assert record["effective"]["mechanism"] == runtime
    assert "native-environment" not in [one["code"] for one in record["cautions"]]
    assert record["job"]["target"]["constraints"]["memory_bytes"] == 2 * 2**30
    Path("env.template").write_text(NO_IMAGE)
    assert run(words) == ExitCode.UNAVAILABLE
    assert "the image could not be built: " in capfd.readouterr().err
