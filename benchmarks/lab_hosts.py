"""Whether a lab measures what one machine measures: the suite of docs/sweep.md on one, at two hosts, on one again.

python benchmarks/lab_hosts.py [SESSIONS]

Needs PostgreSQL, sshd, `ip` and root. The database and the client are in one network namespace, each host in one of
its own, and the board, a real sshd with another Python, in a fourth. All of them have the processor of this machine, so
they share its lock: one measures at a time. What the machine gives when it measures twice is what a lab can be held to.
The suite of the page has one session, whose intervals are too wide to tell anything; here it has more.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import yaml

from edgewise.device.devices import Device, add_device
from edgewise.store import open_store
from far_targets import make_python
from postgresql import Server
from ssh_devices import SshServer

OFFICE, BOARD = "10.77.0.1", "10.77.0.4"
HOSTS = {"one": "10.77.0.2", "two": "10.77.0.3"}
SUITE: dict[str, Any] = {
    "models": ["model.*", "zoo:ds-cnn@0.5"], "devices": ["local", "board"],
    "runtimes": ["onnxruntime", "openvino", "litert"], "threads": [1, 2],
    "exclude": [{"runtime": "openvino", "threads": 2}],
}  # fmt: skip


def make_network() -> None:
    """Make a bridge in this namespace, and one namespace with an address per host and for the board."""
    commands = ["mount -t tmpfs tmpfs /run/netns", "ip link set lo up", "ip link add lan type bridge",
                f"ip address add {OFFICE}/24 dev lan", "ip link set lan up"]  # fmt: skip
    for name, address in {**HOSTS, "board": BOARD}.items():
        inside = f"ip -n {name}"
        commands += [f"ip netns add {name}", f"ip link add {name} type veth peer name eth0 netns {name}",
                     f"ip link set {name} master lan up", f"{inside} address add {address}/24 dev eth0",
                     f"{inside} link set eth0 up", f"{inside} link set lo up"]  # fmt: skip
    Path("/run/netns").mkdir(exist_ok=True)
    for command in commands:
        subprocess.run(command.split(), check=True)


def edgewise(*words: object, store: str) -> None:
    """Run a command of the client."""
    command = [sys.executable, "-m", "edgewise", *map(str, words)]
    done = subprocess.run(command, env={**os.environ, "EDGEWISE_STORE": store}, check=False)
    assert done.returncode in (0, 4), done.returncode


def at_host(name: str, store: str) -> subprocess.Popen[bytes]:
    """Return a host's worker, in its namespace."""
    command = ["ip", "netns", "exec", name, sys.executable, "-m", "edgewise", "lab", "work", "--host", name]
    environment = {**os.environ, "EDGEWISE_STORE": store}
    return subprocess.Popen([*command, "--cache", f"cache-{name}"], env=environment)


def latencies(folder: str) -> dict[str, tuple[float, float, float]]:
    """Of each cell the latency and the ends of its interval, s."""
    cells = json.loads(Path(folder, "board.json").read_text())["cells"]
    rows = {cell["name"]: cell["rows"][0]["metrics"]["latency"] for cell in cells}
    return {name: (row["value"], row["low"], row["high"]) for name, row in rows.items()}


def compare(name: str, first: str, second: str) -> None:
    """Print how many cells of two sweeps agree."""
    one, two = latencies(first), latencies(second)
    assert one.keys() == two.keys(), one.keys() ^ two.keys()
    apart = [key for key in one if one[key][2] < two[key][1] or two[key][2] < one[key][1]]
    ratios = [two[key][0] / one[key][0] for key in one]
    widths = [(high - low) / value for sweep in (one, two) for value, low, high in sweep.values()]
    print(f"{name}: {len(one)} cells, of {len(one) - len(apart)} the intervals overlap; ratio of the latencies "
          f"{min(ratios):.3f} to {max(ratios):.3f}, median {statistics.median(ratios):.3f}; "
          f"width of the intervals, median {statistics.median(widths):.2f} of the value")  # fmt: skip
    for key in apart:
        print(f"  apart: {key}: {one[key]} {two[key]}")


def measure(sessions: int) -> None:
    """Sweep on one machine, in the lab, and on one machine again."""
    make_network()
    os.chdir(tempfile.mkdtemp())
    here = Path.cwd()
    (here / "locks").mkdir()
    os.environ |= {
        "EDGEWISE_LOCKS": str(here / "locks"),
        "EDGEWISE_DEVICES": str(here / "devices.toml"),
        "COLUMNS": "100",
    }
    packages = {path for path in sys.path if path.endswith("site-packages")}
    python = make_python(here / "far", packages=[Path(path) for path in packages])
    board = SshServer(here / "board", namespace="board", address=BOARD)
    board.restart(EDGEWISE_LOCKS=os.environ["EDGEWISE_LOCKS"])
    keys = {"key": str(board.root / "user_key"), "known_hosts": str(board.known_hosts), "python": str(python)}
    add_device(Device(name="board", url=board.url, settings=keys), here / "devices.toml")
    server = Server(address=OFFICE)
    edgewise("example", store="alone.db")
    Path("suite.yaml").write_text(yaml.safe_dump({**SUITE, "options": {"iterations": 20, "sessions": sessions}}))
    hosts = []
    try:
        edgewise("sweep", "suite.yaml", "--folder", "alone", "--quiet", store="alone.db")
        edgewise("lab", "init", store=server.url)
        hosts = [at_host(name, server.url) for name in HOSTS]
        with open_store(server.url) as store:
            while len(store.lab.devices()) < 2 * len(HOSTS):
                time.sleep(0.5)
        edgewise("sweep", "suite.yaml", "--folder", "lab", "--lab", "--wait", "--quiet", store=server.url)
        for name in HOSTS:
            edgewise("lab", "drain", name, store=server.url)
        for host in hosts:
            assert host.wait(120) == 0
        edgewise("sweep", "suite.yaml", "--folder", "again", "--quiet", store="again.db")
        compare("one machine, then the lab", "alone", "lab")
        compare("one machine, then it again", "alone", "again")
        with open_store(server.url) as store:
            runs = [store.get(row.id) for row in store.list()]
        print("measured at", dict(Counter(f"{run.lab.host}: {run.job.target.device}" for run in runs if run.lab)))
    finally:
        for host in hosts:
            host.kill()
        board.close()
        server.close()


if __name__ == "__main__":
    if sys.argv[1:2] != ["inside"]:  # all of it goes with its namespaces
        os.execvp("unshare", ["unshare", "--net", "--mount", sys.executable, __file__, "inside", *sys.argv[1:]])
    measure(int(sys.argv[2]) if len(sys.argv) > 2 else 5)
