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


def launch(api: Any, **settings: Any) -> Any:
    """Start the browser, whose contexts have `LIMIT_MS` for whatever they wait for; settings are Playwright's."""
    arguments = ["--disable-background-networking"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
    browser = api.launch(executable_path=PATH, args=arguments, timeout=LIMIT_MS, **settings)
    browser.on("context", lambda context: context.set_default_timeout(LIMIT_MS))
    return browser
