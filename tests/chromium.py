"""The browser that opens pages in tests."""

from __future__ import annotations

import os
import shutil
from typing import Any

from patience import LIMIT_S

PATH = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""None where neither is installed. Without the frame of a browser, a page takes a third of the processor time."""
LIMIT_MS = LIMIT_S * 1000
"""A page is waited for as long as another process: Playwright by itself gives up after 30 s, and expects for 5 s."""

COVERED = """() => [...document.querySelectorAll("tr")].flatMap((row) => {
  const boxes = [...row.cells].map((one) => [one.textContent.trim(), one.getBoundingClientRect()])
    .filter(([, box]) => box.width).sort(([, a], [, b]) => a.left - b.left);
  return boxes.slice(1).flatMap(([name, box], at) => box.left < boxes[at][1].right - 1 ? [[boxes[at][0], name]] : []);
})"""
"""Pairs of cells of a row of which one lies over the other."""
TALL = """() => [...document.querySelectorAll(".scroll:not(:has(.atlas))")].filter((box) => box.scrollWidth > box.clientWidth + 1).flatMap((box) => {
  const end = box.getBoundingClientRect().right, range = document.createRange();
  const height = (cell) => (range.selectNodeContents(cell), range.getBoundingClientRect().height);
  return [...box.querySelectorAll("tbody tr")].filter((row) => row.offsetHeight > 60 + Math.max(0,
    ...[...row.cells].filter((one) => one.getBoundingClientRect().left < end - 10).map(height)))
    .map((row) => row.textContent.trim());
})"""
"""Rows that cells out of sight make taller, by two lines and more; cells of the atlas hold as many anyway."""


def launch(api: Any, **settings: Any) -> Any:
    """Start the browser, whose contexts have `LIMIT_MS` for whatever they wait for; settings are Playwright's."""
    arguments = ["--disable-background-networking"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
    browser = api.launch(executable_path=PATH, args=arguments, timeout=LIMIT_MS, **settings)
    browser.on("context", lambda context: context.set_default_timeout(LIMIT_MS))
    return browser
