"""Child processes of tests without the start of an interpreter, which takes longer than what most of them do.

One process per pytest process, the *nursery*, has imported numpy and edgewise. Where edgewise starts ``python -P -m
edgewise.…``, the nursery forks a child that runs the module as ``-m`` does: a process of its own, in a session of its
own, with the pipes, folder and environment it was given, which may crash, hang and be killed. It is the child of
whoever asked for it. It imports its engine itself: engines start threads, which no fork takes along. The start itself
(options of the interpreter, a fresh import) is tested where the nursery is not used: in ``tests/docs``,
``tests/conformance`` and what is marked ``cold``.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil

from patience import LIMIT_S

MODULES = frozenset({
    "edgewise.converting.worker", "edgewise.estimating.mcu.reference", "edgewise.model.readers.shape_worker",
    "edgewise.optimizing.microbenchmark_worker",
    "edgewise.optimizing.pass_worker", "edgewise.run.observation_worker", "edgewise.run.peak_worker",
    "edgewise.run.worker", "edgewise.runtime.describing", "edgewise.studio.catalogue", "edgewise.studio.draw",
    "edgewise.studio.model_worker", "edgewise.verbs.diff.tensor_worker", "edgewise.verbs.lab.child",
    "edgewise.verbs.lab.gauge",
})  # fmt: skip
"""What the nursery starts."""
IMPORTED = (
    *sorted(MODULES), "numpy", "numpy.random", "edgewise.metrics", "edgewise.record", "edgewise.run.layer_mode",
    "edgewise.run.metering", "edgewise.run.reference", "edgewise.run.sample_mode", "edgewise.run.timing",
    "edgewise.run.turn_mode", "edgewise.runtime.fake", "edgewise.runtime.litert_profile",
    "edgewise.runtime.onnxruntime_profile", "edgewise.runtime.openvino_profile", "edgewise.workload.inputs",
    "edgewise.terminal.progress", "edgewise.report.files", "edgewise.report.inspection.document",
    "edgewise.verbs.context", "edgewise.verbs.reading", "edgewise.store", "inspect",
    "json", "runpy", "email.message",
    "argparse", "numpy.ma", "packaging.version", "xml.dom.minidom",  # what OpenVINO imports of others
    *os.environ.get("EDGEWISE_TEST_WARM", "").split(),
)  # fmt: skip
"""What the nursery has imported. .ci/run adds PyTorch where most workers import it, which takes 3 s: by itself it starts no
threads (Keras does)."""
READ_AT_IMPORT = ("OMP_", "KMP_", "MKL_", "KERAS_")
"""Variables that such additions read when they are imported."""
_MESSAGE = 2**17
_SET_SUBREAPER = 36
_execute = subprocess.Popen._execute_child  # type: ignore[attr-defined]


def children() -> list[psutil.Process]:
    """Every process below this one that this test started: nothing of the nursery and of the browser that tests share.

    A browser starts processes whenever it likes, so what counts is when the child of this process began that they are
    below.
    """
    started = [
        one for one in psutil.Process().children() if one.pid != _nursery_pid and _start_of(one.pid) >= test_began
    ]
    found = list(started)
    for one in started:
        with contextlib.suppress(psutil.NoSuchProcess):
            found += one.children(recursive=True)
    return found


def _start_of(pid: int) -> float:
    """When a process began, s since the machine's start (proc_pid_stat(5), field 22); 0 where it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return int(fields[19]) / os.sysconf("SC_CLK_TCK")


# --- the side of the tests ---

_nursery_pid: int | None = None
test_began = 0.0
"""When the current test began, s since the machine's start."""


class Nursery:
    """The process that forks: it is started with the first worker."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._environment = dict(os.environ)
        self._settings = _settings(os.environ)

    def _open(self) -> socket.socket:
        global _nursery_pid
        if self._socket is None:
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            code = (
                f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import warm_start; warm_start.serve()"
            )
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", code], stdin=theirs, env=self._environment, start_new_session=True
                )
            _nursery_pid = self._process.pid
            assert ours.recv(1) == b"r", "the nursery did not start"
            self._socket = ours
        return self._socket

    def close(self) -> None:
        """End it."""
        global _nursery_pid
        if self._socket is not None and self._process is not None:
            self._socket.close()
            self._process.wait(LIMIT_S)
            _nursery_pid = self._socket = None

    def fits(self, args: Any, environment: Any) -> bool:
        """Whether it may start this: a module of `MODULES`, and an interpreter with the nursery's own settings."""
        return (
            isinstance(args, (list, tuple))
            and list(args[:3]) == [sys.executable, "-P", "-m"]
            and args[3] in MODULES
            and _settings(os.environ if environment is None else environment) == self._settings
        )

    def start(self, args: Any, *, folder: Any, environment: Any, streams: list[int], session: bool) -> int:
        """Fork a child of this process and return its number."""
        request = {
            "module": args[3], "arguments": list(map(str, args[4:])), "folder": os.fspath(folder or Path.cwd()),
            "environment": dict(os.environ if environment is None else environment), "session": session,
        }  # fmt: skip
        # The child's parent ends at once; while it does, this process is the one that inherits orphans.
        with self._lock:
            channel, prctl = self._open(), ctypes.CDLL(None).prctl
            prctl(_SET_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(channel, [json.dumps(request).encode()], streams)
                return int(channel.recv(_MESSAGE))
            finally:
                prctl(_SET_SUBREAPER, 0, 0, 0, 0)


@contextlib.contextmanager
def installed(nursery: Nursery) -> Iterator[None]:
    """Inside, edgewise's own workers come from `nursery`."""

    def execute(self: Any, args: Any, executable: Any, preexec_fn: Any, close_fds: Any, pass_fds: Any, cwd: Any,
                env: Any, *rest: Any) -> None:  # fmt: skip
        pipes, session = rest[3:9], rest[14]
        streams = [pipes[0], pipes[3], pipes[5]]
        if not nursery.fits(args, env) or pass_fds or preexec_fn or rest[15] not in (-1, None) or -1 in streams:
            return _execute(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest)
        self.pid = nursery.start(args, folder=cwd, environment=env, streams=streams, session=session)
        self._child_created = True
        self._close_pipe_fds(*pipes)

    subprocess.Popen._execute_child = execute  # type: ignore[attr-defined]
    try:
        yield
    finally:
        subprocess.Popen._execute_child = _execute  # type: ignore[attr-defined]


def _settings(environment: Any) -> dict[str, str]:
    """What an interpreter reads at its start, without what `_live` sets."""
    return {
        name: value
        for name, value in environment.items()
        if ((name.startswith(("PYTHON", "LC_")) or name == "LANG") and name not in ("PYTHONPATH", "PYTHONWARNINGS"))
        or ("EDGEWISE_TEST_WARM" in os.environ and name.startswith(READ_AT_IMPORT))
    }


# --- the nursery ---


def serve() -> None:
    """Answer requests until the other end is closed. In a child: run its module, then return."""
    channel = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [each for each in sys.path[1:] if each not in given]
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    channel.send(b"r")
    while True:
        message, streams, _, _ = socket.recv_fds(channel, _MESSAGE, 3)
        if not message:
            return
        run = _fork(json.loads(message), streams, channel, paths)
        if run is not None:
            run()
            return
        for stream in streams:
            os.close(stream)


def _fork(
    request: dict[str, Any], streams: list[int], channel: socket.socket, paths: list[str]
) -> Callable[[], object] | None:
    """None in the nursery; in the child, which belongs to the nursery's parent, what it is to do."""
    between = os.fork()
    if between:
        os.waitpid(between, 0)
        return None
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        os.sched_yield()
    if request["session"]:
        os.setsid()  # before anybody knows the number: who kills at once kills the group
    channel.send(str(os.getpid()).encode())
    return lambda: _live(request, streams, paths)


def _live(request: dict[str, Any], streams: list[int], paths: list[str]) -> None:
    """Become what was asked for, and run it."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 1024)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    tempfile.tempdir = None  # PyTorch asks for it when it is imported, and then it is the nursery's
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_IGN)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    own = [each for each in request["environment"].get("PYTHONPATH", "").split(os.pathsep) if each]
    sys.path[:] = [*own, *paths]
    importlib.invalidate_caches()
    sys.warnoptions[:] = [each for each in request["environment"].get("PYTHONWARNINGS", "").split(",") if each]
    warnings._processoptions(sys.warnoptions)  # type: ignore[attr-defined]
    sys.argv = ["", *request["arguments"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)
