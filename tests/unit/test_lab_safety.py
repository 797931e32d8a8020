"""What a worker of a lab refuses of the requests in its queue, and the paths that stand in them."""

from __future__ import annotations

import subprocess
import sys
import tarfile

import pytest

from edgewise.device.devices import find_device, open_transport
from edgewise.errors import BadInput, Unavailable
from edgewise.run.environment import fingerprint
from edgewise.testing import write_fake_model
from edgewise.verbs.lab.engine import queue_of
from edgewise.verbs.lab.files import is_lab_path, write_archive
from edgewise.verbs.lab.safety import check_request
from edgewise.verbs.lab.worker import devices_of
from edgewise.verbs.reading import read_request, request_for

HASH = "0123456789abcdef" * 4
MODEL = f"{HASH}/model.onnx"


def test_a_request_with_files_of_the_lab_is_carried_out():
    check_request(request_for("bench", models=(MODEL, f"{HASH}.tar/net/saved_model.pb"), runtimes=("fake",)), None)
    check_request(request_for("evaluate", models=(MODEL,), data=f"{HASH}.tar/data"), None)
    check_request(request_for("estimate", model=MODEL, device="cortex-m4"), None)
    words = {"prepare": (f"tokenize={HASH}/t.json",), "task_options": {"tokenizer": f"{HASH}/t.json", "eos": "</s>"}}
    check_request(request_for("evaluate", models=(MODEL,), data=f"{HASH}/d.csv", **words), None)
    folder = {"data_options": {"root": f"{HASH}.tar/pictures", "label": "class"}}
    check_request(request_for("optimize", model=MODEL, data=f"{HASH}/d.csv", **folder), None)


@pytest.mark.parametrize(
    ("verb", "fields"),
    [
        ("bench", {"models": ("/etc/passwd",)}),
        ("bench", {"models": ("model.onnx",)}),
        ("bench", {"models": (f"{HASH}/../../secret.onnx",)}),
        ("bench", {"models": (f"{HASH[1:]}/model.onnx",)}),
        ("bench", {"models": ("net.py:make",)}),
        ("bench", {"models": ("package.module:make",)}),
        ("bench", {"models": (MODEL,), "input_data": "/root/data.npz"}),
        ("bench", {"models": (MODEL,), "variables": ("LD_PRELOAD=x.so",)}),
        ("bench", {"models": (MODEL,), "environments": ("onnxruntime==1.20.0",)}),
        ("bench", {"models": (MODEL,), "set": {"library": "/tmp/x.so"}}),
        ("bench", {"models": (MODEL,), "set": {"library": "../x.so"}}),
        ("evaluate", {"models": (MODEL,), "data": "load.py:samples"}),
        ("evaluate", {"models": (MODEL,), "data": f"{HASH}/d.npz", "own_metrics": ("metrics:mine",)}),
        ("evaluate", {"models": (MODEL,), "data": f"{HASH}/d.csv", "prepare": ("tokenize=/etc/passwd",)}),
        (
            "evaluate",
            {"models": (MODEL,), "data": f"{HASH}/d.csv", "prepare": ("x:tokenize={file: t.json, length: 2}",)},
        ),
        ("evaluate", {"models": (MODEL,), "data": f"{HASH}/d.csv", "task_options": {"tokenizer": "t.json"}}),
        ("evaluate", {"models": (MODEL,), "data": f"{HASH}/d.csv", "data_options": {"root": "pictures"}}),
        ("optimize", {"model": MODEL, "folder": "/home/me"}),
        ("estimate", {"model": "/etc/passwd", "device": "cortex-m4"}),
        ("estimate", {"model": "net.py:make", "device": "cortex-m4"}),
        ("estimate", {"model": MODEL, "device": "cortex-m4", "set": {"cpu": "/tmp/x"}}),
        ("predict", {"models": (MODEL,), "device": "phone"}),
    ],
)
def test_what_runs_code_or_reaches_for_the_host_is_refused(verb, fields):
    with pytest.raises(BadInput, match=r"refuses this request|a lab carries out|a lab does not"):
        check_request(request_for(verb, **fields), None)


def test_code_and_files_are_allowed_in_the_folder_that_the_owner_names(tmp_path):
    (tmp_path / "within").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    for model in (MODEL, str(tmp_path / "within" / "net.onnx"), f"{tmp_path}/net.py:make"):
        check_request(request_for("bench", models=(model,)), tmp_path)
    for model in ("/etc/passwd", f"{tmp_path}/link/passwd", f"{tmp_path}/../net.py:make", "net.py:make", "net.onnx"):
        with pytest.raises(BadInput, match="is not in"):
            check_request(request_for("bench", models=(model,)), tmp_path)


def test_a_request_that_is_none_is_refused():
    for document in ({"verb": "bench"}, {"verb": "rm", "schema": 1}, {"schema": 1, "verb": "bench", "evil": 1}, []):
        with pytest.raises(BadInput):
            read_request(document)


def test_paths_of_the_lab_stay_in_their_folder():
    assert is_lab_path(MODEL)
    assert not any(map(is_lab_path, (f"{HASH}/..", f"{HASH}/a/../../b", f"{HASH}//etc", f"{HASH}.tar//x", "a/b", HASH)))


def test_an_archive_depends_on_names_and_contents_alone(tmp_path):
    texts = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name in ("b", "a")[:: 1 if number == 1 else -1]:
            write_fake_model(folder / name, latency_ns=[1])
            (folder / name).chmod(0o600 if number == 1 else 0o755)
        archive = tmp_path / f"{number}.tar"
        write_archive(archive, sorted(folder.iterdir()), folder)
        texts.append(archive.read_bytes())
    assert texts[0] == texts[1]
    with tarfile.open(tmp_path / "1.tar") as archive:
        assert archive.getnames() == ["a", "b"]


def test_a_host_offers_itself_and_its_registered_devices_with_their_tags(tmp_path, monkeypatch):
    (tmp_path / "devices.toml").write_text('[pi4]\nurl = "ssh://pi@10.0.0.7"\ntags = "arm, kitchen"\n')
    monkeypatch.setenv("EDGEWISE_DEVICES", str(tmp_path / "devices.toml"))
    here, board = devices_of("bench", [], ["night"])
    assert (here.name, here.identity, here.answers) == (
        "local",
        "local://bench",
        ("local", "bench", "night", "local:night"),
    )
    assert (board.identity, board.answers) == ("ssh://pi@10.0.0.7", ("pi4", "arm", "kitchen", "night"))
    assert (here.processor is None, board.processor) == (fingerprint()["cpu"]["model"] is None, None)
    assert [one.name for one in devices_of("bench", ["pi4"], [])] == ["pi4"]
    open_transport(find_device("pi4"))  # tags are no setting of the transport
    with pytest.raises(Unavailable, match="unknown device"):
        devices_of("bench", ["pi5"], [])


@pytest.mark.parametrize(
    ("device", "is_shared"),
    [
        ("ssh://pi@10.0.0.7", True),
        ("adb://1234", True),
        ("ssh://pi@localhost:2222", False),
        ("ssh://127.0.0.1:2222", False),
        ("ssh://pi@[::1]:2222", False),
        ("serial:///dev/ttyACM0?baud=115200", False),
        ("adb://", False),
        ("container://python:3.12", False),
    ],
)
def test_what_every_host_has_of_its_own_is_not_shared_between_hosts(device, is_shared):
    one, two = (devices_of(host, [device], [])[0].identity for host in ("a", "b"))
    assert (one == two) is is_shared


def test_a_sweep_without_a_lab_imports_none():
    code = "import sys, edgewise.verbs.sweep.work, edgewise.store; print([m for m in sys.modules if 'lab' in m.split('.') or m == 'procrastinate'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_of_queues_fit_into_a_channel_of_postgresql():
    names = ["pi4", "d" * 64, "Ü" * 40, "d" * 63 + "e"]
    queues = [queue_of(name) for name in names]
    assert queues[0] == "edgewise:pi4"
    assert len(set(queues)) == len(names)
    assert all(len(f"procrastinate_queue_v1#{queue}".encode()) <= 63 for queue in queues)
