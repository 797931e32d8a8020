"""Containers for tests: the runtimes that really work here, and an image made of this machine's own programs."""

from __future__ import annotations

import io
import os
import re
import resource
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from edgewise.constraints.base import CONTAINER_NAMES
from patience import wait_until

IMAGE = "localhost/edgewise-test"
PROGRAMS = ("sh", "sleep", "dd", "cat", "touch")
FOLDERS = ("tmp", "proc", "sys", "dev", "etc", "usr", "root", "opt")
LINKS = ("bin", "sbin", "lib", "lib64")


def image_archive() -> bytes:
    """A file system with `PROGRAMS`, the libraries that they load, and otherwise empty folders."""
    files = {Path(shutil.which(name) or "") for name in PROGRAMS}
    for program in tuple(files):
        told = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        files |= {Path(word) for word in re.findall(r"(/\S+)(?= \(0x)", told)}
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", dereference=True) as archive:
        for name in (*FOLDERS, *(f"usr/{link}" for link in LINKS)):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            archive.addfile(folder)
        for name in LINKS:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
            archive.addfile(link)
        for file in sorted(files):
            place = file if file.is_relative_to("/usr") else Path("/usr") / file.relative_to("/")
            archive.add(file, str(place))
    return content.getvalue()


def podman_settings(folder: Path) -> dict[str, str]:
    """Environment variables for a Podman with a store of its own, without a network, that needs few privileges."""
    # crun refuses a machine whose controllers are divided between the two versions of control groups.
    is_hybrid = Path("/sys/fs/cgroup/unified").is_dir() and shutil.which("runc")
    files, processes = (
        min(1024, resource.getrlimit(kind)[1]) for kind in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC)
    )
    (folder / "containers.conf").write_text(
        "[containers]\n"
        f'default_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'
        'netns = "none"\n'
        "[engine]\n"
        'cgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
        # Podman's locks are shared by all stores of a machine otherwise: tests beside this one would block it.
        f'lock_type = "file"\ntmp_dir = "{folder}/tmp"\n' + ('runtime = "runc"\n' if is_hybrid else "")
    )
    (folder / "storage.conf").write_text(
        f'[storage]\ndriver = "vfs"\ngraphroot = "{folder}/store"\nrunroot = "{folder}/run"\n'
    )
    return {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
    }


def prepare(runtime: str, folder: Path) -> dict[str, str] | str:
    """Environment variables with which `runtime` has the image and runs it, or why it can't."""
    if shutil.which(runtime) is None:
        return f"{runtime} is not installed"
    settings = podman_settings(folder) if runtime == "podman" else {}
    environment = {**os.environ, **settings}
    for words, given in (
        (("ps",), b""),
        (("import", "-", IMAGE), image_archive()),
        (("run", "--rm", "--network", "none", "--memory", "64m", IMAGE, "sh", "-c", "exit 0"), b""),
    ):
        done = subprocess.run([runtime, *words], input=given, capture_output=True, env=environment, check=False)
        if done.returncode:
            told = done.stderr.decode(errors="replace").strip().splitlines()
            return f"{runtime} {words[0]} fails here: {told[-1] if told else done.returncode}"
    return settings


@pytest.fixture(scope="module", params=[pytest.param(each, marks=pytest.mark.long) for each in CONTAINER_NAMES])
def container_runtime(request, tmp_path_factory):
    """The name of a runtime that has the image, for tests marked ``long``; skipped where it runs no container."""
    settings = prepare(request.param, tmp_path_factory.mktemp(request.param))
    if isinstance(settings, str):
        pytest.skip(settings)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        yield request.param
        if settings:
            # A container that a failed test left would keep its mounts in pytest's folder.
            subprocess.run([request.param, "rm", "--all", "--force"], capture_output=True, check=False)


def containers(runtime: str, pid: int) -> list[str]:
    """Names of the containers of the edgewise with this process number, running or not."""
    line = [runtime, "ps", "--all", "--format", "{{.Names}}"]
    told = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    return [each for each in told.split() if each.startswith(f"edgewise-{pid}-")]


def eventually(condition: Callable[[], object]) -> bool:
    """Whether `condition` comes true; containers take a moment to start and to end."""
    return bool(wait_until(condition))
