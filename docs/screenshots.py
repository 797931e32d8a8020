"""Write docs/images/studio.png: the studio's page of a profile, of a real run of the bundled network on this machine.

    python docs/screenshots.py

Needs Playwright, Chromium and Pillow. `edgewise serve` runs on a store of its own, and the job is made by its form.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from importlib.resources import files
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

IMAGE = Path(__file__).parent / "images" / "studio.png"
SIZE = {"width": 1400, "height": 940}
JOB_S = 300


def main() -> None:
    """Measure, open the page, take the picture."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "edgewise", "serve", "--port", "0", "--root", str(files("edgewise") / "data")]
        environment = {**os.environ, "EDGEWISE_STORE": str(Path(folder) / "runs.db")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            link = re.search(r"http\S+", process.stdout.readline())
            assert link is not None
            try:
                take_picture(link[0])
            finally:
                process.send_signal(signal.SIGINT)


def take_picture(link: str) -> None:
    """Profile the bundled network by the studio's form and write the picture of its graph."""
    with sync_playwright() as playwright:
        options = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(link)
        page.wait_for_url(re.compile(r"/$"))
        page.goto(page.url + "new/profile?model=data/digits_cnn.onnx&runtime=onnxruntime")
        page.get_by_role("button", name="Profile").click()
        page.wait_for_url("**/jobs/*")
        run = finished_run(page)
        page.goto(page.url.partition("/jobs/")[0] + f"/runs/{run}/graph")
        page.wait_for_timeout(2000)  # the layout has settled
        for _ in range(10):
            page.locator("#graph-stage").press("ArrowRight")
            if "features.1.0/Conv" in (page.locator("#graph-name").text_content() or ""):
                break
        page.evaluate("scrollTo(0, 0)")
        page.wait_for_timeout(1000)
        taken = Image.open(BytesIO(page.screenshot()))
        browser.close()
    taken.quantize(256).save(IMAGE, optimize=True)
    print(f"{IMAGE}: {IMAGE.stat().st_size / 1e3:.0f} kB")


def finished_run(page: Page) -> str:
    """The id of the run that the job on `page` made."""
    page.locator("#job[data-status=done]").wait_for(timeout=JOB_S * 1000)
    found = re.search(r'href="/runs/([0-9a-f-]{36})', page.content())
    assert found is not None
    return found[1]


if __name__ == "__main__":
    main()
