"""The browser that every test of a page opens."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.ui)
            item.add_marker(pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not installed"))


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    arguments = ["--disable-background-networking"] + (["--no-sandbox"] if os.geteuid() == 0 else [])
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=arguments)
        yield browser
        browser.close()
