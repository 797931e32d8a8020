"""The browser that opens pages in tests."""

from __future__ import annotations

import shutil

PATH = shutil.which("chromium-headless-shell") or shutil.which("chromium")
"""None where neither is installed. Without the frame of a browser, a page takes a third of the processor time."""
