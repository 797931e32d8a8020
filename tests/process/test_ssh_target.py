"""Commands on a device behind a real sshd: another interpreter, a home folder of its own, and a link that drops."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
from contextlib import suppress
from pathlib import Path

import pytest

from edgewise import data
from edgewise.cli.main import run as edgewise_command
from edgewise.device import target
from edgewise.device.bundle import make_bundle
from edgewise.device.devices import find_device, open_transport
from edgewise.device.link import LinkLost, TargetError
from edgewise.device.transports.ssh import line_for_shell
from edgewise.progress import SessionStarted, reporting_to
from edgewise.record import Scenario, Stopping, TargetSpec
from edgewise.run.dispatch import Dispatcher
from edgewise.run.plan import Axes, make_plan
from edgewise.run.run_builder import METERS_OFF
from edgewise.testing import check_target, write_fake_model
from patience import wait_until
from ssh_devices import SSHD, SshServer, far_python, register, ssh_device, ssh_server  # noqa: F401

pytestmark = pytest.mark.engine
pytest.importorskip("onnxruntime", reason="needs ONNX Runtime")

MODEL = data.path("digits_cnn.onnx")
SIZE = MODEL.stat().st_size


def command(capsys, *words, code=0):
    """The JSON document that a command prints."""
    assert edgewise_command([*map(str, words), "--json", "--no-store", "--quiet"]) == code
    return json.loads(capsys.readouterr().out)


def refused(capsys, device="board"):
    """What a bench prints that can't use the device; exit code 3."""
    assert edgewise_command(["bench", str(MODEL), "-d", device, "--no-store"]) == 3
    return capsys.readouterr().err


def plan_of(path=MODEL, **stopping):
    return make_plan(
        [path],
        axes=Axes(runtimes=() if path != MODEL else ("onnxruntime",)),
        scenario=Scenario(),
        stopping=Stopping(**{"iterations": 10, "warmup": 1, "sessions": 1, **stopping}),
        target=TargetSpec(device="board", transport="ssh"),
    )


def measure(plan):
    (run,) = Dispatcher(save=lambda run: None, sensors=METERS_OFF).execute(plan)
    return run


def hanging(tmp_path, **settings):
    """A plan with a worker that hangs in its first inference."""
    path = tmp_path / "m.fake"
    behaviour = {"at": "invoke", "after": 0, "do": "hang", **settings}
    write_fake_model(path, latency_ns=[1_000_000], behaviour=behaviour)
    return plan_of(path)


@pytest.fixture
def board(ssh_device):  # noqa: F811
    return ssh_device


# --- the commands ---


def test_the_conformance_suite_passes(board, tmp_path):
    folder = tmp_path / "check"
    folder.mkdir()
    transport = open_transport(find_device("board"))
    check_target(transport, folder=folder)
    transport.close()


def test_bench_runs_there_and_leaves_nothing_but_its_cache(board, capsys):
    words = ("bench", MODEL, "-r", "onnxruntime", "-d", "board", "--iterations", "20", "--sessions", "2")
    (run,) = command(capsys, *words)["runs"]
    assert run["status"] == "done" and run["job"]["target"]["device"] == "board"
    assert run["job"]["target"]["transport"] == "ssh"
    rows = {row["metric"]: row for row in run["measurements"]}
    assert rows["latency"]["value"] > 0 and rows["deployment_time"]["basis"] == "measured"
    first, second = (session["facts"]["link"] for session in run["sessions"])
    assert first["pushed_bytes"] == SIZE and second["pushed_bytes"] == 0
    assert SIZE < rows["network_bytes"]["value"] < 1.3 * SIZE
    assert not list((board.home / "edgewise" / "work").iterdir())
    assert [each.name for each in board.home.iterdir()] == ["edgewise"]


def test_a_url_takes_the_rest_from_the_ssh_configuration(ssh_server, capsys, tmp_path, monkeypatch, far_python):  # noqa: F811
    folder = tmp_path / ".ssh"
    folder.mkdir()
    shutil.copy(ssh_server.root / "user_key", folder / "id_ed25519")
    shutil.copy(ssh_server.known_hosts, folder / "known_hosts")
    (folder / "config").write_text(f"Host board\n  HostName 127.0.0.1\n  Port {ssh_server.port}\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    (ssh_server.home / "edgewise").mkdir()
    # The interpreter that `devices check --bootstrap` makes is found without any setting.
    (ssh_server.home / "edgewise" / "venv").symlink_to(far_python.parents[1])
    words = ("bench", MODEL, "-r", "onnxruntime", "-d", "ssh://board", "--iterations", "5", "--sessions", "1")
    (run,) = command(capsys, *words)["runs"]
    assert run["status"] == "done" and run["job"]["target"]["device"] == "ssh://board"


def test_profile_evaluate_and_compare_run_there(board, capsys, monkeypatch):
    monkeypatch.setattr("edgewise.run.peaks.SIZES", (2**18,))
    monkeypatch.setattr("edgewise.run.peaks.SIDE", 64)
    words = ("profile", MODEL, "-r", "onnxruntime", "-d", "board", "--iterations", "10", "--sessions", "1")
    (run,) = command(capsys, *words)["runs"]
    assert run["profile_absent_because"] is None and len(run["layers"]) > 5
    words = (
        "evaluate", MODEL, "--data", data.path("digits_test.npz"), "--task", "classification", "--no-latency",
        "-d", "board", "-r", "onnxruntime", "--limit", "100",
    )  # fmt: skip
    accuracy = {row["id"]: row["value"] for row in command(capsys, *words)["metrics"]}
    assert accuracy["accuracy_top1"] > 0.9
    words = ("compare", MODEL, f"b={MODEL},threads=1", "-d", "board", "-r", "onnxruntime", "--rounds", "1")
    found = command(capsys, *words, "--no-meters", "--time-budget", "600s")
    (row,) = [each for each in found["comparisons"] if each["metric"] == "latency"]
    assert row["design"] == "interleaved" and 0.5 < row["ratio"] < 2.0


# --- a link that drops, a device that restarts, a disk that fills ---


def test_a_push_goes_on_where_the_link_dropped(board):
    worker = len(make_bundle())
    board.cable.drops = [worker + 380_000]  # when more than 300 kB of the model have passed
    board.cable.settle_s = 1.0
    run = measure(plan_of())
    assert run.status == "done", run.failure
    assert run.sessions[0].facts["link"]["pushed_bytes"] == SIZE and not board.cable.drops
    # Had it begun anew, all that would have passed again.
    assert board.cable.passed < worker + SIZE + 300_000


def test_a_slow_link_costs_deployment_time_and_no_latency(board):
    board.cable.bytes_per_s = 200_000.0
    run = measure(plan_of())
    assert run.status == "done", run.failure
    assert run.sessions[0].facts["link"]["push_s"] > SIZE / 200_000.0
    assert run.measurement("deployment_time").value > SIZE / 200_000.0
    assert 0 < min(run.measurement("latency").samples) < 0.05  # the least: the link would show in each


def cut_in_session(tmp_path, act):
    """A run whose worker hangs in its first inference; then `act` is done."""
    reached, threads = tmp_path / "reached", []
    reached.unlink(missing_ok=True)

    def act_then():
        wait_until(reached.exists)
        act()

    def start(event):
        if isinstance(event, SessionStarted):
            threads.append(threading.Thread(target=act_then))
            threads[-1].start()

    with reporting_to(start):
        run = measure(hanging(tmp_path, touch=str(reached)))
    for thread in threads:
        thread.join()
    return run


def test_a_link_that_drops_in_a_session_fails_that_run_ends_its_worker_and_the_next_one_works(board, tmp_path):
    run = cut_in_session(tmp_path, board.cable.cut)
    assert run.status == "failed" and run.failure.cause == "LinkLost", run.failure
    wait_until(lambda: not board.logins())
    assert measure(plan_of()).status == "done"


def test_a_link_that_drops_between_the_files_and_the_start_of_the_worker_is_lost(board, tmp_path):
    place = target.find_target("board")
    workspace = place.workspace(tmp_path)
    board.cable.cut()
    wait_until(lambda: not list((board.home / "edgewise" / "work").iterdir()))
    with pytest.raises(LinkLost), workspace:
        workspace.start("edgewise.run.worker")


def test_a_device_that_restarts_is_waited_for(board, tmp_path, monkeypatch):
    run = cut_in_session(tmp_path, board.stop)
    assert run.failure.cause == "LinkLost", run.failure
    # It comes back once it was tried in vain.
    connect, tried = target.Link, []

    def connect_later(transport):
        if len(tried) == 2:
            board.start()
        tried.append(transport)
        return connect(transport)

    monkeypatch.setattr(target, "Link", connect_later)
    assert measure(plan_of()).status == "done"
    assert len(tried) >= 3


def test_a_device_that_stays_away_is_a_failed_run(board, tmp_path, monkeypatch):
    monkeypatch.setattr(target, "RETURN_S", 2.0)  # real time: it has to end, on any machine
    assert measure(plan_of()).status == "done"
    board.stop()
    run = measure(plan_of())
    assert run.failure.cause == "LinkLost" and "did not come back within 2 s" in run.failure.message
    run = measure(plan_of())
    assert run.failure.cause == "Unavailable" and "no connection to 127.0.0.1" in run.failure.message
    board.start()
    assert measure(plan_of()).status == "done"


def test_a_silent_link_counts_as_lost(board, tmp_path, monkeypatch):
    def silence():
        board.cable.silent = True

    with monkeypatch.context() as patch:
        patch.setattr("edgewise.device.transports.ssh.KEEPALIVE_S", 5.0)  # real time: it has to end, on any machine
        run = cut_in_session(tmp_path, silence)
    assert run.failure.cause == "LinkLost", run.failure
    board.cable.silent = False
    board.cable.cut()
    assert measure(plan_of()).status == "done"


def test_a_killed_agent_is_replaced(board):
    assert measure(plan_of()).status == "done"
    for pid in board.logins():
        with suppress(ProcessLookupError):  # a login ends with the one before it, and others end by themselves
            os.kill(pid, signal.SIGKILL)
    assert measure(plan_of()).status == "done"


def test_a_full_disk_is_a_failed_run_that_says_so(board):
    board.restart(FAR_DISK="300000")
    run = measure(plan_of())
    assert run.failure.cause == "Unavailable" and "File too large" in run.failure.message


def test_a_device_whose_clock_is_wrong_gives_the_same_durations(board, capsys):
    clock = json.dumps([3600 * 10**9, 1e-4, time.monotonic_ns(), time.time_ns()], separators=(",", ":"))
    board.restart(FAR_CLOCK=clock)
    run = measure(plan_of())
    assert run.status == "done", run.failure
    link = run.sessions[0].facts["link"]
    assert abs(link["clock_offset_s"] - 3600.0) <= link["clock_error_s"] + 1e-4 * 3600.0
    assert all(0 <= seconds < 1800 for seconds in run.sessions[0].phases.values())


# --- devices that can't be used ---


def test_a_changed_host_key_is_one_clear_error(board, capsys):
    board.make_key("host_key")
    board.restart()
    told = refused(capsys)
    assert "the host key of [127.0.0.1]" in told and "has changed" in told and "ssh-keygen -R" in told


def test_an_unknown_host_key_is_not_accepted(board, capsys):
    board.known_hosts.write_text("")
    told = refused(capsys)
    assert "is not known" in told and "accept it: ssh -p " in told and "--set known_hosts=FILE" in told


def test_nobody_listens(board, capsys):
    board.cable.close()
    told = " ".join(refused(capsys).split())
    assert re.search(r"no connection to 127\.0\.0\.1, port \d+: connection refused", told)
    assert "Errno" not in told


def test_an_unknown_name_is_said_to_be_unknown(tmp_path, capsys, monkeypatch):
    def look_up(*args, **kwargs):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    file = tmp_path / "devices.toml"
    file.write_text('[elsewhere]\nurl = "ssh://me@no-such-board.invalid:2222"\n')
    monkeypatch.setenv("EDGEWISE_DEVICES", str(file))
    told = " ".join(refused(capsys, "elsewhere").split())
    assert "the name no-such-board.invalid is not known here" in told
    assert "sshd" not in told


def test_a_host_that_does_not_answer_is_given_up(board, capsys, monkeypatch):
    monkeypatch.setattr("edgewise.device.transports.ssh.CONNECT_S", 1.0)  # real time: it has to end, on any machine
    board.cable.silent = True
    assert "did not answer within 1 s" in refused(capsys)


def test_another_users_login_is_denied(ssh_server, capsys, tmp_path, monkeypatch):  # noqa: F811
    other = ssh_server.root / "other"
    ssh_server.make_key("other")
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, key=str(other))
    told = " ".join(refused(capsys).split())
    assert "denied the login" in told
    assert (
        f"edgewise devices add board {ssh_server.url} --set known_hosts={ssh_server.known_hosts} --set key=FILE" in told
    )
    assert f"ssh-copy-id -p {ssh_server.port} -i {other} " in told
    assert ssh_server.url.partition("//")[2].partition(":")[0] in told.partition("ssh-copy-id")[2]


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, "no process can be started"),
        ("echo 'edgewise-process {\"version\": \"3.9.2\", \"pid\": 1}'; sleep 100", "is Python 3.9.2; 3.11 or newer is needed"),
        ("yes garbage", "its shell prints more than"),
        ("cat /dev/zero", "its shell prints more than"),
        ("echo 'edgewise-process {'", "its answer is garbage"),
        ("exit 3", "exit code 3"),
        ("echo This account is not available.; exit 1", "This account is not available."),
        ("printf 'edgewise-process '; head -c 60000 /dev/zero | tr '\\0' '['; echo; sleep 100", "its answer is garbage"),
        ("echo 'edgewise-process [1]'; sleep 100", "its answer is garbage"),
        ("printf 'edgewise-process {\"version\": \"'; head -c 5000 /dev/zero | tr '\\0' 9; echo '\"}'; sleep 100", "garbage"),
        ("echo 'edgewise-process {\"version\": \"\u00b2.1\"}'; sleep 100", "3.11 or newer is needed"),
    ],
)  # fmt: skip
def test_a_python_that_can_not_be_used(ssh_server, capsys, tmp_path, monkeypatch, script, words):  # noqa: F811
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, python=str(python))
    told = " ".join(refused(capsys).split())
    assert words in told and ("edgewise devices check board" in told or "check the connection and its Python" in told)


def test_a_home_folder_that_can_not_be_written_is_named(board, capsys):
    board.restart(HOME="/proc")
    assert "/proc/edgewise: No such file or directory" in " ".join(refused(capsys).split())


def test_a_key_that_can_not_be_read_is_named(ssh_server, capsys, tmp_path, monkeypatch):  # noqa: F811
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, key=str(tmp_path / "missing"))
    assert "can't be read" in refused(capsys)


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "ksh", "tcsh", "fish"])
def test_every_login_shell_runs_the_line(shell, tmp_path, monkeypatch):
    # csh and tcsh end a quoted text at the end of a line.
    line = line_for_shell(sys.executable, ["import sys\nprint(\n sys.argv[1:])", "a b", "it's !$HOME `x`", "", "é"])
    assert "\n" not in line
    if (program := shutil.which(shell)) is None:
        pytest.skip(f"needs {shell}")
    done = subprocess.run([program, "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "['a b', \"it's !$HOME `x`\", '', 'é']\n"
    (tmp_path / "my python").symlink_to(sys.executable)
    monkeypatch.setenv("HOME", str(tmp_path))
    done = subprocess.run([program, "-c", line_for_shell("~/my python", ["print(7)"])], capture_output=True, text=True)
    assert done.stdout == "7\n", done.stderr


@pytest.mark.parametrize("answer", ["yes {}", 'yes \'{"bytes": "many"}\'', "cat /dev/zero", "yes '[1]'"])
def test_an_agent_that_answers_with_garbage(ssh_server, capsys, tmp_path, monkeypatch, answer):  # noqa: F811
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\necho \'edgewise-process {{"version": "3.11.2", "pid": 1}}\'; exec {answer}\n')
    python.chmod(0o755)
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, python=str(python))
    assert "board can't be used" in refused(capsys)


def test_processes_there_end_with_their_descendants(board, tmp_path):
    transport = open_transport(find_device("board"))
    script = "setsid sleep 1000 & sh -c 'sleep 1000' & echo up; wait"
    process = transport.start(["sh", "-c", script], folder=board.home, environment={}, stderr=tmp_path / "stderr")
    assert os.read(process.stdout.fileno(), 3) == b"up\n"
    before = board.logins()
    process.kill()
    assert process.returncode == -9
    wait_until(lambda: not any(map(_is_sleep, before)))  # the kernel ends them soon after SIGKILL was sent
    transport.close()
    with pytest.raises(TargetError, match="no such command"):
        transport.start(["edgewise-no-such-command"], folder=board.home, environment={}, stderr=tmp_path / "stderr")
    transport.close()


def _is_sleep(pid):
    try:
        return b"sleep" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


# --- edgewise devices check ---


def test_a_check_lists_what_is_there_and_what_is_missing(board, capsys):
    assert edgewise_command(["devices", "check", "board", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["usable"] and found["engines"]["onnxruntime"]["available"]
    assert found["free_bytes"] > 0 and abs(found["clock"]["offset_s"]) < 1.0 and found["version"].startswith("3.")
    assert found["environment"]["cpu"]["usable_cores"] >= 1 and "thermal" in found["sensors"]
    missing = {each["what"].partition(":")[0]: each["advice"] for each in found["missing"]}
    for name, package in (("openvino", "openvino"), ("litert", "ai-edge-litert")):
        if not found["engines"][name]["available"]:
            assert missing[name] == f"on board: {found['python']} -m pip install {package}"
    assert edgewise_command(["devices", "check", "board"]) == 0
    assert "engine" in capsys.readouterr().out


def test_a_check_of_a_python_without_numpy_offers_to_install_it(ssh_server, capsys, tmp_path, monkeypatch):  # noqa: F811
    bare = tmp_path / "bare"
    venv.EnvBuilder(symlinks=True).create(bare)
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, python=f"{bare}/bin/python")
    assert edgewise_command(["devices", "check", "board", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert not found["usable"] and found["python"] == f"{bare}/bin/python"
    advice = f"on board: {bare}/bin/python -m pip install numpy"  # --bootstrap would make a Python that is not used
    assert [each["advice"] for each in found["missing"] if "numpy" in each["what"]] == [advice]


def test_a_bootstrap_without_a_package_index_says_so(ssh_server, capsys, tmp_path, monkeypatch):  # noqa: F811
    ssh_server.restart(PIP_NO_INDEX="1")
    register(ssh_server, tmp_path / "devices.toml", monkeypatch, python=sys.executable)
    assert edgewise_command(["devices", "check", "board", "--bootstrap"]) == 3
    told = capsys.readouterr().err
    assert "No matching distribution found for numpy" in told and "package index" in told
    assert (ssh_server.home / "edgewise" / "venv" / "bin" / "python3").exists()


def test_a_check_of_a_device_that_does_not_answer(board, capsys):
    board.cable.close()
    assert edgewise_command(["devices", "check", "board", "--json"]) == 3
    (missing,) = json.loads(capsys.readouterr().out)["missing"]
    assert "no connection to 127.0.0.1" in missing["what"] and missing["advice"]


# --- what takes long ---


def test_100_random_cuts_hang_no_command_and_lose_no_finished_run(board, tmp_path):
    path = tmp_path / "m.fake"
    write_fake_model(path, latency_ns=[1_000_000])
    chance = random.Random(17)
    plan, saved, runs, cuts = plan_of(path, iterations=5), [], [], 0
    while cuts < 100:
        # A job moves about 60 kB once its files are there: most cuts hit files, start, session or end of the first.
        board.cable.drops = [chance.randrange(1_000, 60_000)]
        runs += Dispatcher(save=saved.append, sensors=METERS_OFF).execute(plan)
        cuts += not board.cable.drops
    assert len(runs) >= 50 and {run.id for run in saved} == {run.id for run in runs}
    others = [run.failure for run in runs if run.failure is not None and run.failure.cause != "LinkLost"]
    assert not others, others
    assert all(run.status == "done" and run.measurement("latency").value > 0 for run in runs if run.failure is None)
    board.cable.drops = []
    target.close_targets()
    begin = time.time()
    assert measure(plan_of()).status == "done"  # over a new connection, which removes what is older than a minute
    target.close_targets()
    wait_until(lambda: not board.logins())
    left = [each for each in (board.home / "edgewise" / "work").iterdir() if begin - each.stat().st_mtime > 60]
    assert not left


@pytest.fixture
def namespace():
    """A network namespace with a link of its own to this machine; removed afterwards."""
    name, near, far = (f"edgewise{os.getpid()}{end}"[-15:] for end in "nab")
    subnet = f"10.{200 + os.getpid() % 50}.{os.getpid() % 250}"
    steps = (
        f"ip netns add {name}",
        f"ip link add {near} type veth peer name {far}",
        f"ip link set {far} netns {name}",
        f"ip addr add {subnet}.1/24 dev {near}",
        f"ip link set {near} up",
        f"ip -n {name} addr add {subnet}.2/24 dev {far}",
        f"ip -n {name} link set {far} up",
    )
    try:
        for step in steps:
            done = subprocess.run(step.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no network namespace with a link can be made here: {step}: {done.stderr.strip()}")
        yield name, near, f"{subnet}.2"
    finally:
        for step in (f"ip link del {near}", f"ip netns del {name}"):
            subprocess.run(step.split(), capture_output=True, check=False)


@pytest.mark.skipif(SSHD is None or shutil.which("ip") is None or os.getuid() != 0, reason="needs sshd, ip and root")
def test_a_device_in_a_network_namespace_whose_link_goes_down(namespace, far_python, tmp_path, monkeypatch):  # noqa: F811
    name, link, address = namespace
    monkeypatch.setattr("edgewise.device.transports.ssh.KEEPALIVE_S", 5.0)  # real time: it has to end, on any machine
    server = SshServer(tmp_path / "sshd", namespace=name, address=address)
    try:
        register(server, tmp_path / "devices.toml", monkeypatch, python=str(far_python))
        run = measure(plan_of())
        assert run.status == "done", run.failure

        def turn(state):
            subprocess.run(["ip", "link", "set", link, state], check=True)

        run = cut_in_session(tmp_path, lambda: turn("down"))
        assert run.failure.cause == "LinkLost", run.failure
        turn("up")
        assert measure(plan_of()).status == "done"
    finally:
        target.close_targets()
        server.close()


@pytest.mark.skipif(SSHD is None or shutil.which("ip") is None or os.getuid() != 0, reason="needs sshd, ip and root")
@pytest.mark.skipif(shutil.which("tc") is None, reason="needs tc of iproute2")
def test_a_slow_link_shows_in_the_error_of_the_clock(namespace, far_python, tmp_path, monkeypatch):  # noqa: F811
    name, link, address = namespace
    words = ["tc", "qdisc", "add", "dev", link, "root", "netem", "delay", "100ms"]
    slow = subprocess.run(words, capture_output=True, text=True, check=False)
    if slow.returncode:
        pytest.skip(f"the kernel delays no packets: {' '.join(words[-3:])}: {slow.stderr.strip()}")
    server = SshServer(tmp_path / "sshd", namespace=name, address=address)
    try:
        register(server, tmp_path / "devices.toml", monkeypatch, python=str(far_python))
        run = measure(plan_of())
        assert run.status == "done", run.failure
        assert run.sessions[0].facts["link"]["clock_error_s"] > 0.04
    finally:
        target.close_targets()
        server.close()
