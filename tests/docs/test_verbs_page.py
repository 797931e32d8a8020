"""The verb and the command of docs/extending-verbs.md, installed from a folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pages
import pytest

from installed_package import write_metadata

PAGE = pages.ROOT / "docs" / "extending-verbs.md"


@pytest.mark.slow
def test_the_verb_and_the_command_of_the_documentation_work(tmp_path: Path):
    environment = pages.workplace(tmp_path)
    for name, module, points in zip(
        ("pace", "cores"), pages.blocks(PAGE, "python"), pages.blocks(PAGE, "toml"), strict=True
    ):
        (tmp_path / f"edgewise_{name}.py").write_text(module.text, encoding="utf-8")
        write_metadata(tmp_path, f"edgewise-{name}", points.text)

    def edgewise(*words):
        return pages.run([sys.executable, "-m", "edgewise", *words], folder=tmp_path, environment=environment)

    done = edgewise("pace", "300ms", "--within", "2s", "--json", "-o", "page.html")
    assert done.returncode == 0 and json.loads(done.stdout.partition("wrote")[0]) == {"count": 6}, done.stdout
    assert "6 inferences fit" in (tmp_path / "page.html").read_text(encoding="utf-8")
    refused = edgewise("pace", "3s")
    assert refused.returncode == 2 and "TIME is 3 s, more than --within has" in refused.stdout
    code = "import edgewise; print(edgewise.pace(0.25, cores=2).count)"
    assert pages.run([sys.executable, "-c", code], folder=tmp_path, environment=environment).stdout == "8\n"
    assert int(edgewise("cores").stdout) >= int(edgewise("cores", "--per", "2").stdout)
    assert "--per must be at least 1, not 0" in edgewise("cores", "--per", "0").stdout
