"""A device whose disk is full: its home folder is a small file system, in a mount namespace of its own."""

from __future__ import annotations

import os
import shutil
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.device import target
from edgewise.device.link import FREE_SPACE
from edgewise.errors import Unavailable
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.dispatch import Dispatcher
from edgewise.run.executor import target_of
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from far_targets import far_python  # noqa: F401
from ssh_devices import SSHD, SshServer, register

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")
pytest.importorskip("asyncssh", reason="needs asyncssh")

MIB = 2**20
FULL = "No space left on device"
WORKER_BYTES = 4 * MIB
"""Room for the worker as it is sent, unpacked and compiled, and for little else."""


@pytest.fixture
def board(far_python, tmp_path, monkeypatch):  # noqa: F811
    """A function that starts a device with a disk of a size; skipped where nothing can be mounted."""
    if SSHD is None:
        pytest.skip("needs sshd (Debian: apt-get install openssh-server)")
    allowed = shutil.which("unshare") and not subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode
    if os.getuid() != 0 or not allowed:
        pytest.skip("needs the permission to mount a file system")
    servers = []

    def start(disk_bytes):
        servers.append(SshServer(tmp_path / "board", disk_bytes=disk_bytes))
        register(servers[-1], tmp_path / "devices.toml", monkeypatch, python=str(far_python))

    yield start
    target.close_targets()
    for server in servers:
        server.close()


def bench(model):
    plan = make_plan(
        [model],
        axes=Axes(runtimes=("onnxruntime",)),
        scenario=Scenario(),
        stopping=Stopping(iterations=5, warmup=1, sessions=1),
        target=TargetSpec(device="board", transport="ssh"),
    )
    (run,) = Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(plan)
    return run


def write_network(file, *, weights, outputs):
    """``y = expand(x · w[0])``: the bytes of the weights and of the output are free."""
    w = numpy_helper.from_array(np.ones(weights // 4, np.float32), "w")
    nodes = [
        helper.make_node("Gather", ["w", "first"], ["scale"]),
        helper.make_node("Mul", ["x", "scale"], ["product"]),
        helper.make_node("Expand", ["product", "shape"], ["y"]),
    ]
    constants = [
        w,
        numpy_helper.from_array(np.array(0), "first"),
        numpy_helper.from_array(np.array([1, outputs // 4]), "shape"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, outputs // 4])],
        constants,
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    return file


def test_a_model_that_does_not_fit_is_a_failed_run_and_leaves_the_disk_as_it_was(board, tmp_path):
    board(WORKER_BYTES)
    run = bench(write_network(tmp_path / "large.onnx", weights=8 * MIB, outputs=40))
    assert run.status == "failed" and run.failure.cause == "Unavailable"
    assert FULL in run.failure.message and run.failure.advice == FREE_SPACE
    free = target.find_target("board").link.request("space").number("free_bytes")
    assert free > MIB  # the part that arrived was deleted
    assert bench(data.path("digits_cnn.onnx")).status == "done"


def test_outputs_that_do_not_fit_are_a_failed_run(board, tmp_path):
    board(WORKER_BYTES)
    run = bench(write_network(tmp_path / "wide.onnx", weights=40, outputs=8 * MIB))
    assert run.status == "failed" and run.failure.cause == "Unavailable" and run.failure.phase == "outputs"
    assert FULL in run.failure.message and run.failure.advice == FREE_SPACE


@pytest.mark.parametrize("disk_bytes", [4096, MIB // 2, MIB], ids=["folders", "archive", "unpacked"])
def test_no_room_for_the_worker_is_an_error_with_advice(board, disk_bytes, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    board(disk_bytes)
    assert edgewise_command(["bench", str(data.path("digits_cnn.onnx")), "-d", "board", "--no-store"]) == 3
    told = capsys.readouterr().err
    assert FULL in told and FREE_SPACE in told


def test_an_environment_that_does_not_fit_is_told_and_removed(board):
    board(2 * WORKER_BYTES)
    with pytest.raises(Unavailable, match="can be made on board: the disk is full"):
        target_of(TargetSpec(device="board", transport="ssh", environment="onnxruntime==1.30.0"))
    assert bench(data.path("digits_cnn.onnx")).status == "done"  # its room is free again
