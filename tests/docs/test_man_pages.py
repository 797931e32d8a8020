"""The pages for ``man``: one for each command, with all of its flags, and groff has nothing to say against them."""

import re
import shutil
import subprocess

import generate
import pages
import pytest

from edgewise.cli.main import commands, declared
from edgewise.verbs.command import Command

FOLDER = pages.ROOT / "docs" / "man"


def render(file):
    if not shutil.which("groff"):
        pytest.skip("groff is not installed")
    return subprocess.run(
        ["groff", "-K", "utf8", "-man", "-Tutf8", "-ww", "-P-cbou", file], capture_output=True, text=True, check=True
    )


def test_each_command_has_a_page_and_no_other():
    assert {file.stem for file in FOLDER.iterdir()} == {"edgewise", *(f"edgewise-{name}" for name in commands())}
    assert {f"man/{file.name}" for file in FOLDER.iterdir()} <= set(generate.PAGES)


@pytest.mark.parametrize("name", ["", *commands()])
def test_it_is_set_without_a_warning_and_has_every_flag(name):
    done = render(FOLDER / f"edgewise-{name}.1".replace("-.", "."))
    assert done.stderr == ""
    found = declared(name) if name else {}
    for command in [found] if isinstance(found, Command) else found.values():
        for one in command.options:
            for flag in one.flags:
                assert re.search(rf"^ +(-.+, )?{flag}\b", done.stdout, re.MULTILINE), flag


def test_what_roff_would_take_for_a_request_is_text(tmp_path):
    from man_pages import _list

    (tmp_path / "page.1").write_text(".TH X 1\n.SH X\n" + _list([("--flag A.B", ".PP 'it' \\n[.x] \"a\" `b`")]))
    done = render(tmp_path / "page.1")
    assert done.stderr == "" and ".PP 'it' \\n[.x] \"a\" `b`" in done.stdout
