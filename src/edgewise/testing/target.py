"""What every target must do: a plug-in's author calls `check_target` in a test of theirs."""

from __future__ import annotations

import json
from pathlib import Path

from edgewise.device.asking import ask
from edgewise.device.target import LocalTarget, RemoteTarget, Workspace
from edgewise.device.transport import Remote, Transport
from edgewise.testing.rules import requiring
from edgewise.testing.transport import check_transport

_require = requiring("target")

DEADLINE_S = 60.0
_CONTENT = bytes(range(256)) * 1000


def check_target(transport: Transport, *, folder: Path) -> None:
    """Check the target behind `transport`; raises AssertionError naming the breach.

    Args:
        folder: an empty folder for the check's own files.
    """
    remote = RemoteTarget(transport) if isinstance(transport, Remote) else None
    if remote is None:
        check_transport(transport, folder=folder)
    target = remote or LocalTarget(transport)
    model = folder / "model.bin"
    model.write_bytes(_CONTENT)
    try:
        for check in (_check_files, _check_process, _check_end, _check_killed):
            place = folder / check.__name__.strip("_")
            place.mkdir()
            check(target, place, model)
        if remote is not None:
            _check_cache(remote, folder, model)
            _check_clock(remote)
    finally:
        target.close()


def _check_files(target: LocalTarget | RemoteTarget, folder: Path, model: Path) -> None:
    with target.workspace(folder, {"model/m.bin": model}) as workspace:
        file = folder / "sent.bin"
        file.write_bytes(_CONTENT[::-1])
        workspace.send(file)
        if not target.is_here:
            file.unlink()
        workspace.pull(file.name)
        _require(file.read_bytes() == _CONTENT[::-1], "a file does not come back as it was sent")
        _require(bool(target.locate(workspace, "model/m.bin", model)), "a file of the workspace has no path")
        _require(_refuses(workspace, "missing"), "pulling a file that is not there raises no OSError")
        if not target.is_here:
            _require(_refuses(workspace, "../../cache"), "a file outside the workspace can be pulled")
    if not target.is_here:
        _require(_refuses(workspace, "sent.bin"), "the workspace is there after its end")


def _check_process(target: LocalTarget | RemoteTarget, folder: Path, model: Path) -> None:
    del model
    question: dict[str, dict[str, str]] = {"runtimes": {}, "meters": {}}
    told = ask(target, "edgewise.run.facts_worker", question, folder=folder, timeout_s=DEADLINE_S)
    _require(told["numpy"] is True, "there is no numpy")
    _require(set(told["environment"]) >= {"cpu", "memory", "os", "state"}, "it does not tell about its machine")


def _check_end(target: LocalTarget | RemoteTarget, folder: Path, model: Path) -> None:
    del model
    with target.workspace(folder) as workspace:
        process = workspace.start("edgewise.run.worker")
        try:
            process.stdin.close()
            _require(process.wait(DEADLINE_S) == 1, "the end of standard input does not end the worker")
        finally:
            process.kill()


def _check_killed(target: LocalTarget | RemoteTarget, folder: Path, model: Path) -> None:
    del model
    with target.workspace(folder) as workspace:
        process = workspace.start("edgewise.run.facts_worker")
        process.kill()
        _require(process.returncode == -9, f"a killed process has exit code {process.returncode}, not -9")
        process.kill()
        process = workspace.start("edgewise.run.facts_worker")
        try:
            process.stdin.write(json.dumps([]).encode())
            process.stdin.close()
            _require(process.wait(DEADLINE_S) == 1, "the exit code is lost")
        finally:
            process.kill()
        _require(b"list indices" in process.stderr.read_bytes(), "standard error is not in its file")


def _check_cache(target: RemoteTarget, folder: Path, model: Path) -> None:
    with target.workspace(folder, {"m.bin": model}) as workspace:
        assert workspace.use is not None
        _require(workspace.use.pushed_bytes == 0, "a content that is there is sent again")
        _require(workspace.use.kept_bytes > len(_CONTENT), "what the cache had is not counted")


def _check_clock(target: RemoteTarget) -> None:
    first, second = target.link.measure_clock(), target.link.measure_clock()
    off = abs(first.monotonic_ns - second.monotonic_ns) / 1e9
    allowed = first.error_s + second.error_s + 1e-3 * (second.at - first.at)
    _require(off <= allowed, f"two measurements of the clock differ by {off:g} s; their errors allow {allowed:g} s")


def _refuses(workspace: Workspace, name: str) -> bool:
    try:
        workspace.pull(name)
    except OSError:
        return True
    # On this machine nothing is moved, so that there is nothing to refuse.
    return workspace.use is None
