"""What the studio costs: its start, its first page, an idle server, many tabs, and whether watching disturbs a run.

    python benchmarks/studio.py [--pairs 8] [--skip-watching]

Needs Playwright and Chromium. Everything is measured on a server of its own with an empty store in a temporary folder.

*Watching* is an A/A comparison: the same benchmark of the bundled network, as a job of the studio, with the job's page
open and with an empty page open, in turns; the first of a pair changes. The table has the ratio of medians (open over
closed) with a bootstrap interval over pairs. The browser runs on the measured machine, so this is the worst case.
"""

from __future__ import annotations

import argparse
import gzip
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import httpx2
import psutil
from playwright.sync_api import Browser, BrowserContext, sync_playwright

CHROMIUM = "/usr/bin/chromium"
STARTS, PAINTS, STEPS, TABS, IDLE_S = 5, 10, 12, 20, 20


@contextmanager
def serving(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """Yield a studio: its process, its link, and when the process was started (monotonic, s)."""
    root = str(files("edgewise").joinpath("data"))
    command = [sys.executable, "-m", "edgewise", "serve", "--port", "0", "--root", root]
    began = time.monotonic()
    environment = {**os.environ, "EDGEWISE_STORE": str(folder / "runs.db")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        link = re.search(r"http\S+", process.stdout.readline())
        assert link is not None
        threading.Thread(target=process.stdout.read, daemon=True).start()
        try:
            yield process, link[0], began
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def row(name: str, value: str, target: str) -> None:
    """Print a row of the table."""
    print(f"| {name} | {value} | {target} |", flush=True)


def measure_starts() -> None:
    """From the start of the process to the first byte of its first answer."""
    times, used = [], []
    for _ in range(STARTS):
        with tempfile.TemporaryDirectory() as folder, serving(Path(folder)) as (process, link, began):
            with urllib.request.urlopen(link) as answer:
                answer.read(1)
            times.append(time.monotonic() - began)
            spent = psutil.Process(process.pid).cpu_times()
            used.append(spent.user + spent.system)
    row("start to first byte", f"{statistics.median(times) * 1e3:.0f} ms ({max(times) * 1e3:.0f})", "700 ms")
    row("its processor time", f"{statistics.median(used) * 1e3:.0f} ms ({max(used) * 1e3:.0f})", "")


def measure_end(folder: Path, browser: Browser) -> None:
    """From Ctrl-C to the end of the process, with a page and its stream open."""
    context = browser.new_context()
    with serving(folder) as (process, link, _):
        page = context.new_page()
        page.goto(link)
        page.wait_for_url(re.compile(r"/$"))
        page.wait_for_timeout(500)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.wait()
        row("Ctrl-C to the end, a page open", f"{(time.monotonic() - began) * 1e3:.0f} ms", "2,000 ms")
    context.close()


def measure_page(context: BrowserContext, base: str) -> None:
    """Bytes of the first page with all that it loads, and its first contentful paint with an empty cache."""
    bodies: list[bytes] = []
    page = context.new_page()
    page.on("requestfinished", lambda one: bodies.append(one.response().body()) if one.url.startswith("http") else None)
    page.goto(base)
    page.wait_for_timeout(300)
    page.close()
    packed = sum(len(gzip.compress(body, 6)) for body in bodies)
    whole = sum(map(len, bodies))
    row("first page, all files", f"{whole / 1e3:.1f} kB as sent; {packed / 1e3:.1f} kB gzipped", "60 kB")
    paints = []
    for _ in range(PAINTS):
        page = context.new_page()
        page.context.new_cdp_session(page).send("Network.setCacheDisabled", {"cacheDisabled": True})
        page.goto(base)
        paints.append(
            page.evaluate(
                """() => new Promise((done) => new PerformanceObserver((list) => {
                     const found = list.getEntriesByName("first-contentful-paint")[0];
                     if (found) done(found.startTime);
                   }).observe({ type: "paint", buffered: true }))"""
            )
        )
        page.close()
    row("first contentful paint", f"{statistics.median(paints):.0f} ms ({max(paints):.0f})", "300 ms")


def measure_idle(process: psutil.Process) -> None:
    """Processor time and memory of an idle server."""
    before = process.cpu_times()
    time.sleep(IDLE_S)
    after = process.cpu_times()
    used = after.user - before.user + after.system - before.system
    row("idle: processor", f"{used / IDLE_S:.2%} of one core", "0 %")
    row("idle: memory", f"{process.memory_info().rss / 1e6:.0f} MB", "80 MB")


def measure_tabs(context: BrowserContext, base: str, client: httpx2.Client) -> None:
    """How long answers take while many tabs are open."""
    pages = [context.new_page() for _ in range(TABS)]
    for page in pages:
        page.goto(f"{base}/jobs")
    times = []
    for _ in range(50):
        began = time.monotonic()
        assert client.get(f"{base}/runs").status_code == 200
        times.append(time.monotonic() - began)
    seen = pages[-1].evaluate(
        "async () => { const began = performance.now(); await fetch('/runs'); return performance.now() - began; }"
    )
    row(f"/runs with {TABS} tabs open", f"{statistics.median(times) * 1e3:.0f} ms; in a tab {seen:.0f} ms", "answers")
    for page in pages:
        page.close()


def measure_progress(folder: Path, browser: Browser) -> None:
    """From a message of a job's process to the words on the job's page; the server is a thread of this process."""
    from edgewise.studio.app import make_app
    from edgewise.studio.jobs.messages import JobState
    from edgewise.studio.server import listen, make_server
    from edgewise.studio.settings import Settings

    listener, settings = listen(Settings(port=0, store=str(folder / "p.db"), folder=folder / "p"), next_port=False)
    app = make_app(settings)
    server = make_server(app, settings)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    studio = app.state.studio
    job_id = studio.store.jobs.add({"verb": "bench"}, title="job", queue="without a dispatcher", device="local")
    studio.store.jobs.claim("without a dispatcher", "benchmark")
    studio.jobs.live.begin(JobState(id=job_id, title="job", verb="bench"))
    context = browser.new_context()
    page = context.new_page()
    page.goto(studio.sessions.new_link(settings.own_origin))
    page.goto(f"{settings.own_origin}/jobs/{job_id}")
    page.evaluate(
        """() => { window.seen = []; new MutationObserver(() => {
             window.seen.push([document.querySelector("[data-field=stage]").textContent, Date.now()]);
           }).observe(document.querySelector("[data-field=stage]"), { childList: true, subtree: true }); }"""
    )
    told = {}
    for number in range(STEPS):
        page.wait_for_timeout(1100)
        told[f"step {number}"] = time.time() * 1e3
        studio.jobs.live.tell(job_id, {"kind": "stage", "title": f"step {number}"})
    page.wait_for_timeout(1100)
    seen = dict(page.evaluate("seen"))
    delays = [seen[text] - at for text, at in told.items()]
    row("progress seen", f"{statistics.median(delays):.0f} ms ({max(delays):.0f})", "250 ms")
    context.close()
    server.should_exit = True
    thread.join()
    listener.close()


def measure_watching(context: BrowserContext, base: str, client: httpx2.Client, pairs: int) -> None:
    """Print the A/A comparison."""
    page = context.new_page()
    (model,) = re.findall(r'/models/(data/digits_cnn\.onnx)"', client.get(base).text)[:1]
    form = {"model": model, "runtime": "onnxruntime", "sessions": "2", "duration": "1s", "threads": "1"}

    def bench(watched: bool) -> float:
        answer = client.post(f"{base}/new/bench", data=form)
        assert answer.status_code == 303, answer.text
        job = answer.headers["location"]
        page.goto(base + job if watched else "about:blank")
        while (state := client.get(base + job + "/state").json())["status"] in ("queued", "running"):
            page.wait_for_timeout(1000)
        assert state["status"] == "done", state
        run = re.search(r"/runs/([0-9a-f-]{36})", client.get(base + job).text)
        assert run is not None
        document: Any = client.get(f"{base}/runs/download?run={run[1]}&format=.json").json()
        found = document[0] if isinstance(document, list) else document
        found = found.get("runs", [found])[0]
        return float(next(one["value"] for one in found["measurements"] if one["metric"] == "latency"))

    bench(False)
    ratios = []
    for number in range(pairs):
        order = (True, False) if number % 2 else (False, True)
        values = {watched: bench(watched) for watched in order}
        ratios.append(values[True] / values[False])
        print(f"pair {number + 1}: {ratios[-1]:.4f}", file=sys.stderr)
    source = random.Random(0)
    medians = sorted(statistics.median(source.choices(ratios, k=pairs)) for _ in range(5000))
    text = f"{statistics.median(ratios):.3f} ({medians[125]:.3f} to {medians[4875]:.3f}), {pairs} pairs"
    row("latency, page open / closed", text, "1")


def main() -> None:
    """Measure all of it and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--skip-watching", action="store_true")
    arguments = parser.parse_args()
    print(f"load of this machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors\n")
    print("| What | Median (largest) | Target |\n|---|---|---|")
    measure_starts()
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        measure_end(folder, browser)
        with serving(folder) as (process, link, _):
            base = link.partition("/enter")[0]
            context = browser.new_context()
            page = context.new_page()
            page.goto(link)
            page.wait_for_url(f"{base}/")
            page.close()
            cookies = {cookie["name"]: cookie["value"] for cookie in context.cookies()}
            with httpx2.Client(cookies=cookies, headers={"origin": base}, timeout=60, trust_env=False) as client:
                measure_page(context, base)
                measure_idle(psutil.Process(process.pid))
                measure_tabs(context, base, client)
                if not arguments.skip_watching:
                    measure_watching(context, base, client, arguments.pairs)
            context.close()
        measure_progress(folder, browser)
        browser.close()
    print(f"\nload of this machine after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
