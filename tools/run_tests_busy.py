"""Runs the README's tests beside busy processes, and says which of them ever failed.

    python tools/run_tests_busy.py            10 runs beside 2 busy processes
    python tools/run_tests_busy.py 3 --busy 4 tests/process

Tests that need a quiet machine show here first. It ends with 1 where a test failed.
"""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUSY = "while True: pass"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?::\w+(?:\[.*?\])?|\S+)(?= - |$)", re.MULTILINE)


def main() -> None:
    """Run them as often as asked, and print how often each test failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=10, help="how often; 10 unless given")
    parser.add_argument("--busy", type=int, default=2, help="processes that compute beside the tests; 2 unless given")
    given, others = parser.parse_known_args()
    told = Counter[str]()
    with busy(given.busy):
        for number in range(1, given.runs + 1):
            begin = time.monotonic()
            done = subprocess.run([*test_command(), *others], cwd=ROOT, capture_output=True, text=True, check=False)
            found = failures(done.stdout, done.returncode)
            told.update(found)
            last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
            print(f"run {number}: {last} ({(time.monotonic() - begin) / 60:.1f} min)", *found, sep="\n  ", flush=True)
    lines = [f"{count} × {name}" for name, count in told.most_common()]
    print(f"\nfailed in {given.runs} runs:", *lines or ["none"], sep="\n  ")
    raise SystemExit(1 if told else 0)


def test_command() -> list[str]:
    """The part of the README's test line that runs the tests."""
    readme = (ROOT / "README.md").read_text("utf-8")
    (line,) = re.findall(r"^<!-- ci: test -->\n```bash\n(.+)\n```$", readme, re.MULTILINE)
    return [sys.executable, *shlex.split(line.rpartition("&&")[2])[1:]]


def failures(output: str, code: int) -> list[str]:
    """Return the tests that failed, or what else went wrong."""
    found = FAILED.findall(output)
    return found or ([f"pytest ended with {code}"] if code else [])


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Inside, `count` processes compute without end."""
    running = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


if __name__ == "__main__":
    main()
