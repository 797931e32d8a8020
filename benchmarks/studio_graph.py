"""The studio's graph of a profile of 5,000 layers in Chromium: time until it can be used, and time of a frame.

    python benchmarks/studio_graph.py [--layers 5000] [--repetitions 7] [--chromium /usr/bin/chromium]

The profile is made up: a network of branches in nested blocks, as a transformer has them. *Usable* is the time from
opening the page to the first drawn graph, server included: search, keys and details work then. Frames are drawn one
after the other while all layers are visible and the drawing is moved; the same drawing as SVG, moved by its transform,
is beside it. Targets: usable within 1.5 s, data from the store within 0.3 s, 60 frames per second (16.7 ms).
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from edgewise.report.graph import make_graph
from edgewise.report.graph.columns import document_of
from edgewise.store import open_store

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from sample_profiles import counted, profiled_run, tensor

USABLE = "#graph-stage[data-drawn]:not([aria-busy])"
FRAMES = """async ([count, svg]) => {
  const stage = document.querySelector("#graph-stage");
  const press = (key) => stage.dispatchEvent(new KeyboardEvent("keydown", { key, shiftKey: true }));
  let move = (step) => press(step % 2 ? "ArrowLeft" : "ArrowRight");
  if (svg) {
    const holder = document.createElement("div");
    holder.style.cssText = "width:1000px;height:640px;overflow:hidden";
    holder.append(new DOMParser().parseFromString(svg, "image/svg+xml").documentElement);
    document.body.prepend(holder);
    move = (step) => (holder.firstChild.style.transform = `translate(${step % 2 ? 60 : 0}px, ${step}px)`);
  }
  const times = [];
  let last = 0;
  for (let step = 0; step < count; step += 1) {
    move(step);
    const now = await new Promise(requestAnimationFrame);
    if (last) times.push(now - last);
    last = now;
  }
  return times;
}"""


def network(count: int) -> object:
    """Return a run of `count` layers in blocks of blocks; every eighth layer takes an earlier tensor, too."""
    layers = []
    for at in range(count):
        place = f"model/layers.{at // 100}/{('attention', 'mlp')[at // 50 % 2]}/{at // 10 % 5}/node_{at}"
        op = ("MatMul", "Add", "Mul", "Softmax", "LayerNormalization")[at % 5]
        taken = [at, at - 6] if at > 8 and at % 8 == 0 else [at]
        tensors = {
            "inputs": tuple(tensor(f"t{one}", 1, 128, 768) for one in taken),
            "outputs": (tensor(f"t{at + 1}", 1, 128, 768),),
        }
        cost = {"macs": 1000 * (at % 50 + 1), "moved": 8000 + at}
        layers.append(counted(at, place, op, 2 + at * 7919 % 97, start=at * 50e-6, operators=(at,), **cost, **tensors))
    return replace(profiled_run(90), layers=tuple(layers))


def row(name: str, values: list[float]) -> None:
    """Print median, least and largest, in ms."""
    told = [f"{value * 1e3:8.1f}" for value in (statistics.median(values), min(values), max(values))]
    print(f"{name:44} {' '.join(told)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=5000)
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    given = parser.parse_args()
    print(f"{given.layers} layers; processors: {os.cpu_count()}, load average: {os.getloadavg()[0]:.1f}")
    print(f"{'ms':44} {'median':>8} {'least':>8} {'largest':>8}")
    with tempfile.TemporaryDirectory() as folder:
        location = str(Path(folder) / "runs.db")
        run = network(given.layers)
        with open_store(location) as store:
            store.save(run)
            row("data from the store, processor time", [_data_time(store, run.id) for _ in range(given.repetitions)])
        command = [sys.executable, "-m", "edgewise", "serve", "--port", "0", "--store", location]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            link = re.search(r"http\S+", server.stdout.readline())[0]
            _in_browser(given, link, run.id)
        finally:
            server.terminate()
            server.wait(10)


def _data_time(store: object, run: str) -> float:
    began = time.process_time()
    document_of(make_graph([store.get(run)]))
    return time.process_time() - began


def _in_browser(given: argparse.Namespace, link: str, run: str) -> None:
    from playwright.sync_api import sync_playwright

    origin = link.partition("/enter")[0]
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=given.chromium, args=arguments)
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        page.goto(link)
        usable, shown = [], 0
        for _ in range(given.repetitions):
            page.goto("about:blank")
            began = time.perf_counter()
            page.goto(f"{origin}/runs/{run}/graph", wait_until="commit")
            page.wait_for_selector(USABLE)
            usable.append(time.perf_counter() - began)
            shown = int(page.get_attribute("#graph-stage", "data-visible"))
        row(f"usable, {shown} nodes visible", usable)
        blocks = page.evaluate("JSON.parse(document.querySelector('#graph-data').textContent)")
        opened = [at for at in range(given.layers, len(blocks["names"])) if at not in blocks["opened"]]
        page.goto(f"{origin}/runs/{run}/graph#flip={'.'.join(map(str, opened))}")
        page.reload()
        page.wait_for_selector(USABLE)
        visible = page.get_attribute("#graph-stage", "data-visible")
        frames = page.evaluate(FRAMES, [120, None])
        row(f"a frame while moving, {visible} nodes, canvas", [each / 1e3 for each in frames])
        with page.expect_download() as download:
            page.click("#graph-svg")
        frames = page.evaluate(FRAMES, [120, download.value.path().read_text()])
        row(f"a frame while moving, {visible} nodes, SVG", [each / 1e3 for each in frames])
        browser.close()


if __name__ == "__main__":
    main()
