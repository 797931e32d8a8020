"""Python environments in which an engine has another version: what names one, how one is made, and what goes wrong."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import edgewise
from edgewise.child_process import Outcome
from edgewise.comparing.gate_execution import Gate, run_gate
from edgewise.comparing.jobs import JobSettings, Subject, make_job_like, refuse_unasked_environment
from edgewise.comparing.labels import label_jobs
from edgewise.comparing.requirement import parse_requirements
from edgewise.device import environment_maker, environments
from edgewise.errors import BadInput, Unavailable
from edgewise.record import Job, ModelRef, RuntimeSpec, TargetSpec
from edgewise.run import run_builder
from edgewise.run.executor import target_of
from edgewise.testing import write_fake_model
from edgewise.verbs.bench.request import BenchRequest
from edgewise.verbs.subjects import split_vary
from sample_runs import make_run


@pytest.fixture(autouse=True)
def nothing_known(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for each in (environments.python_of, environments.worker_file):
        each.cache_clear()
    yield
    for each in (environments.python_of, environments.worker_file):
        each.cache_clear()


@pytest.fixture
def steps(monkeypatch):
    """The commands that are run; pip and venv do what a list of outcomes says, and make an interpreter."""
    done: list[list[str]] = []
    failures: list[Outcome] = []
    monkeypatch.setattr("shutil.which", lambda name: None)

    def run_child(command, **more):
        if command[1:] == ["-I", "-c", ""]:
            works = Path(command[0]).exists()
            return Outcome(failure="" if works else "could not be started", cause="" if works else "start")
        done.append(list(command))
        if failures and "pip" in command:
            return failures.pop(0)
        if "venv" in command:
            python = Path(command[-1], "bin", "python")
            python.parent.mkdir(parents=True)
            python.symlink_to(sys.executable)
        return Outcome()

    monkeypatch.setattr(environment_maker, "run_child", run_child)
    run_child.done, run_child.failures = done, failures
    return run_child


def test_an_environment_is_made_once_with_its_packages_and_numpy(steps):
    python = environments.python_of("onnxruntime==1.30.0")
    assert Path(python).exists() and steps.done[-1][-2:] == ["onnxruntime==1.30.0", "numpy"]
    environments.python_of.cache_clear()
    assert environments.python_of("onnxruntime==1.30.0") == python and len(steps.done) == 3
    assert environments.python_of("onnxruntime==1.31.0") != python and len(steps.done) == 6
    same = environments.python_of("numpy==2.0.0 onnxruntime==1.30.0")
    assert environments.python_of("onnxruntime==1.30.0 numpy==2.0.0") == same and len(steps.done) == 9


def test_a_python_that_makes_none_says_what_to_install(steps):
    steps.failures.append(Outcome(tail="/x/bin/python: No module named ensurepip", failure="ended with 1"))
    with pytest.raises(Unavailable, match=r"its Python has no module venv .*python3-venv"):
        environments.python_of("onnxruntime==1.30.0")


def test_a_machine_that_answers_nothing_of_use_has_no_environment():
    with pytest.raises(Unavailable, match="can be made on pi4: no reason was told"):
        environments.ask_for_python("onnxruntime==1.30.0", lambda question: {}, where=" on pi4")


def test_uv_makes_it_where_it_is_installed(steps, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: "/bin/uv" if name == "uv" else None)
    environments.python_of("openvino==2026.3.0")
    first, second = steps.done
    assert first[:3] == ["/bin/uv", "venv", "--quiet"] and second[:3] == ["/bin/uv", "pip", "install"]


def test_packages_that_do_not_name_this_python_are_taken_where_that_is_asked_for_and_the_size_is_told(
    steps, monkeypatch
):
    monkeypatch.setattr("shutil.which", lambda name: "/bin/uv" if name == "uv" else None)
    titles = []
    monkeypatch.setattr(environments, "emit", lambda event: titles.append(event.title))
    environments.python_of("onnx2tf==2.6.9", any_python=True, size="170 MB")
    assert steps.done[-1][1:4] == ["-m", "pip", "install"] and steps.done[-1][-4:] == [
        "--ignore-requires-python", "--only-binary=:all:", "onnx2tf==2.6.9", "numpy",
    ]  # fmt: skip
    assert titles == [
        "Making a Python environment with onnx2tf==2.6.9: about 170 MB are downloaded; it is kept",
    ]


def test_the_versions_near_one_are_those_before_and_behind_it():
    known = ["1.9.0", "1.10.0", "1.19.0", "1.29.0", "1.32.0", "1.32.0rc1"]
    assert environments.nearest_versions("1.99.0", known) == ["1.32.0", "1.32.0rc1", "1.29.0"]
    assert environments.nearest_versions("1.11.0", known) == ["1.10.0", "1.19.0", "1.9.0"]
    assert environments.nearest_versions("0.1", known, most=1) == ["1.9.0"]
    assert environments.nearest_versions("1.19.0.post1", known, most=2) == ["1.19.0", "1.29.0"]
    assert environments.nearest_versions("nightly", ["old", *known], most=1) == ["1.32.0"]


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(Failed to establish a new)'",
        "error: Request failed after 3 retries\n  Caused by: error sending request for url (https://pypi.org/simple/x/)",
    ],
)
def test_an_index_that_is_down_is_not_a_version_that_does_not_exist(steps, line):
    tail = f"{line}\nERROR: Could not find a version that satisfies x (from versions: 1.30.0)"
    steps.failures.append(Outcome(tail=tail, failure="ended with exit code 1", cause="exit"))
    with pytest.raises(Unavailable, match="the package index can't be reached"):
        environments.python_of("onnxruntime==1.31.0")


def test_an_environment_that_lost_files_is_made_again_and_compiled_files_do_not_count(steps):
    python = environments.python_of("onnxruntime==1.30.0")
    folder = Path(python).parents[1]
    (folder / "lib" / "__pycache__").mkdir(parents=True)
    (folder / "lib" / "engine.so").write_bytes(b"")
    made = json.loads((folder / "made.json").read_text())
    assert made["files"] == 0
    (folder / "made.json").write_text(json.dumps({**made, "files": 1}))
    for damage, steps_made in ((False, 3), (True, 6)):
        if damage:
            (folder / "lib" / "engine.so").unlink()
            (folder / "lib" / "__pycache__" / "engine.pyc").write_bytes(b"")
        environments.python_of.cache_clear()
        assert environments.python_of("onnxruntime==1.30.0") == python and len(steps.done) == steps_made


def test_python_names_a_path_also_where_it_has_no_separator():
    assert environments.requirement("python", "env") == "./env"
    with pytest.raises(BadInput, match=r"there is no Python at \./env"):
        environments.python_of("./env")


def test_an_image_is_an_environment_and_so_is_a_registered_container(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    (tmp_path / "devices.toml").write_text('[box]\nurl = "container://engines"\n[pi]\nurl = "ssh://pi"\n')
    named = split_vary(["container=engines:1.30,container://engines:1.32,box,local"])
    assert named == {"environment": ["container://engines:1.30", "container://engines:1.32", "box", "local"]}
    targets = [TargetSpec(environment=one) for one in named["environment"][:3]]
    assert [target_of(one).transport._image for one in targets] == ["engines:1.30", "engines:1.32", "engines"]
    with pytest.raises(BadInput, match=r"ssh://pi is no container"):
        split_vary(["container=ssh://pi"])
    with pytest.raises(BadInput, match=r"container://-x names no image"):
        target_of(TargetSpec(environment="container://-x"))


@pytest.mark.parametrize("damage", ["bin/python", "made.json"])
def test_a_broken_environment_is_made_again(steps, damage):
    python = environments.python_of("onnxruntime==1.30.0")
    Path(python).parents[1].joinpath(damage).unlink()
    environments.python_of.cache_clear()
    assert environments.python_of("onnxruntime==1.30.0") == python and len(steps.done) == 6


def test_a_version_that_does_not_exist_names_those_near_it(steps):
    tail = "ERROR: Could not find a version that satisfies the requirement x (from versions: 1.28.0, 1.29.0, 1.30.0)"
    steps.failures.append(Outcome(tail=tail, failure="ended with exit code 1", cause="exit"))
    with pytest.raises(BadInput, match=r"onnxruntime==1\.30\.9 does not exist for this Python") as caught:
        environments.python_of("onnxruntime==1.30.9")
    assert caught.value.advice.startswith("versions near it: 1.30.0")
    assert not list((environments._cache()).glob("*/bin"))


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("ERROR: No matching distribution found (from versions: none)\n", "No matching distribution"),
        ("WARNING: Retrying\nERROR: Could not install packages\nnote", "Could not install packages"),
        ("", "ended with exit code 1"),
    ],
)
def test_what_keeps_one_from_being_made_is_told_and_leaves_nothing(steps, tail, reason):
    steps.failures.append(Outcome(tail=tail, failure="ended with exit code 1", cause="exit"))
    with pytest.raises(Unavailable) as caught:
        environments.python_of("onnxruntime==1.30.0")
    assert reason in caught.value.message and "package index" in caught.value.advice
    environments.python_of("onnxruntime==1.30.0")  # the next try begins anew


@pytest.mark.parametrize(
    "name", ["", "onnxruntime", "onnxruntime>=1", "--index-url==1", "a==1 ; rm", "x @ file==1", "nowhere/bin/python"]
)
def test_what_names_no_environment_is_refused_before_anything_runs(steps, name):
    with pytest.raises(BadInput):
        environments.python_of(name)
    assert not steps.done


def test_a_path_names_an_environment_by_its_folder_or_its_interpreter(tmp_path):
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    for name in ("env", "env/bin/python"):
        assert environments.python_of(str(tmp_path / name)) == str(tmp_path / "env" / "bin" / "python")


def test_the_archive_of_the_worker_is_made_again_where_a_source_changes(tmp_path, monkeypatch):
    made: list[bytes] = []
    monkeypatch.setattr(environments, "make_bundle", lambda: made.append(b"zip") or b"zip")
    monkeypatch.setattr(environments, "_PACKAGE", tmp_path / "package")
    (tmp_path / "package").mkdir()
    source = tmp_path / "package" / "worker.py"
    names = set()
    for text in ("1", "1", "22"):
        if not source.exists() or source.read_text() != text:
            source.write_text(text)
        environments.worker_file.cache_clear()
        names.add(environments.worker_file())
    assert len(made) == len(names) == 2 and all(Path(name).read_bytes() == b"zip" for name in names)


def test_devices_without_a_python_of_their_own_keep_no_environments(tmp_path, monkeypatch):
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    (tmp_path / "devices.toml").write_text('[box]\nurl = "container://engines"\n[phone]\nurl = "adb://1"\n')
    for device, transport in (("box", "container"), ("phone", "adb")):
        with pytest.raises(BadInput, match=f"{device} keeps no Python environments"):
            target_of(TargetSpec(device=device, transport=transport, environment="onnxruntime==1.30.0"))
    with pytest.raises(BadInput, match="containers run on this machine, not on phone"):
        target_of(TargetSpec(device="phone", transport="adb", environment="container://engines"))


def test_versions_of_packages_are_varied_by_their_names():
    assert split_vary(["onnxruntime=1.30.0,1.32.0", "python=/a", "threads=1,2"]) == {
        "environment": ["onnxruntime==1.30.0", "onnxruntime==1.32.0", "/a"],
        "threads": [1, 2],
    }
    assert environments.engine_in("numpy==2.0.0 ai-edge-litert==2.1.0") == "litert"
    assert environments.engine_in("/a") == environments.engine_in("numpy==1.26.0") == ""


def test_variables_are_varied_by_name_and_their_values_may_contain_equals_signs():
    assert split_vary(["env.A=1,2", "env.KMP_AFFINITY=granularity=fine,scatter"]) == {
        "variables": ["A=1", "A=2", "KMP_AFFINITY=granularity=fine", "KMP_AFFINITY=scatter"]
    }
    sets = environments.variable_sets(["A=1", "A=2", "B=x", "A=1"])
    assert sets == [("A=1", "B=x"), ("A=2", "B=x")] and environments.variable_sets([]) == [()]


@pytest.mark.parametrize(
    "text", ["=1", "A-B=1", "9=1", "A", "A=", "TMPDIR=/a", "EDGEWISE_STORE=/a", "A=\n", "A=\0", "Ä=1"]
)
def test_what_is_no_variable_for_a_worker_is_refused(text):
    with pytest.raises(BadInput):
        environments.check_variables([text])
    with pytest.raises(BadInput):
        BenchRequest(models=("m.onnx",), variables=(text,)).check()


def test_two_settings_in_one_vary_are_named():
    with pytest.raises(BadInput, match="varies two settings") as caught:
        split_vary(["env.A=1,threads=2"])
    assert caught.value.advice == "repeat the flag: --vary threads=2"


def test_variables_of_a_record_are_not_taken_from_it(tmp_path):
    model = Path(write_fake_model(tmp_path / "m.fake"))
    ref = ModelRef(name="m.fake", path=str(model), format="fake", sha256="0", size_bytes=1)
    spec = TargetSpec(variables=("LD_PRELOAD=/tmp/x.so",))
    other = Job(model=ref, runtime=RuntimeSpec(name="fake"), target=spec)
    with pytest.raises(BadInput, match="LD_PRELOAD"):
        make_job_like(model, other, JobSettings())
    made = make_job_like(model, other, JobSettings(variables=("LD_PRELOAD=/mine.so",)))
    assert made.job.target.variables == ("LD_PRELOAD=/mine.so",)


@pytest.mark.parametrize("environment", ["evil==1.0", "python=/tmp/python", "container://evil"])
def test_an_environment_of_a_record_is_not_made(tmp_path, environment):
    model = Path(write_fake_model(tmp_path / "m.fake"))
    run = make_run(1)
    target = replace(run.job.target, environment=environment)
    run = replace(run, job=replace(run.job, target=target))
    with pytest.raises(BadInput, match="not taken from records") as caught:
        refuse_unasked_environment(run.job, JobSettings())
    assert "give it with the model" in caught.value.advice
    refuse_unasked_environment(run.job, JobSettings(environment=environment))
    refuse_unasked_environment(run.job, JobSettings(target=TargetSpec()))  # the record's target is not used
    with pytest.raises(BadInput, match="not taken from records"):
        edgewise.compare([run, model])
    asked = Gate(requirements=parse_requirements(["3%"], []), policy="fail", save=print)
    with pytest.raises(BadInput, match="not taken from records"):
        run_gate(asked, Subject(thing=model), Subject(thing=run))


def test_jobs_are_told_apart_by_their_environments_and_others_keep_their_keys():
    def job(environment, *variables):
        model = ModelRef(name="m.onnx", path="/m.onnx", format="onnx", sha256="0", size_bytes=1)
        return Job(
            model=model,
            runtime=RuntimeSpec(name="onnxruntime"),
            target=TargetSpec(environment=environment, variables=variables),
        )

    jobs = [job(None), job("onnxruntime==1.30.0"), job("onnxruntime==1.32.0")]
    assert label_jobs(jobs, [None] * 3) == ["edgewise's own", "onnxruntime 1.30.0", "onnxruntime 1.32.0"]
    assert len({one.key for one in (*jobs, job(None, "A=1"), job(None, "A=2"))}) == 5
    assert label_jobs([job(None), job(None, "A=1")], [None] * 2) == ["no variables set", "A=1"]
    assert json.dumps(jobs[0].key) == '"' + jobs[0].key + '"' and "environment" not in jobs[0].label


def test_each_environment_is_asked_what_it_has(monkeypatch):
    monkeypatch.setattr(run_builder, "environment_at", lambda spec: {"packages": {"numpy": spec.environment}})
    builder = run_builder.RunBuilder(save=lambda run: None, sensors=run_builder.METERS_OFF, history=[].__iter__)
    asked = [builder.environment(TargetSpec(environment=one)) for one in ("numpy==1.26.4", "numpy==2.0.0")]
    assert [each["packages"]["numpy"] for each in asked] == ["numpy==1.26.4", "numpy==2.0.0"]
