"""The version: of a clone its commit, read without git; of what is built, that of the tag."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import edgewise

ROOT = Path(__file__).parents[2]
NO_GIT_SETTINGS = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


def git(folder, *arguments):
    command = ["git", "-c", "user.name=n", "-c", "user.email=e@example.org", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **NO_GIT_SETTINGS}, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def version_in(folder):
    command = [sys.executable, "-S", "-c", "import edgewise.version as own; print(own.__version__)"]
    return subprocess.run(
        command, cwd=folder, env={"PYTHONPATH": str(folder / "src"), "PATH": ""}, check=True, capture_output=True,
        text=True,
    ).stdout.strip()  # fmt: skip


@pytest.fixture
def clone(tmp_path):
    folder = tmp_path / "clone"
    package = folder / "src" / "edgewise"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    shutil.copy(edgewise.version.__file__, package)
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def commit_of(folder):
    return f"0+source.g{git(folder, 'rev-parse', 'HEAD')[:9]}"


def test_a_clone_has_the_version_of_its_commit(clone):
    assert version_in(clone) == commit_of(clone)


def test_what_an_earlier_build_left_in_a_clone_is_not_its_version(clone):
    (clone / "src/edgewise/version.txt").write_text("9.9\n")
    assert version_in(clone) == commit_of(clone)
    shutil.rmtree(clone / ".git")
    assert version_in(clone) == "9.9"


def test_a_clone_whose_branches_are_packed(clone):
    git(clone, "branch", "other/main")
    git(clone, "pack-refs", "--all")
    assert version_in(clone) == commit_of(clone)


def test_a_clone_at_a_commit_without_a_branch(clone):
    git(clone, "checkout", "-q", "--detach")
    assert version_in(clone) == commit_of(clone)


def test_a_worktree_has_the_version_of_its_own_commit(clone):
    git(clone, "worktree", "add", "-q", "-b", "side", "../side")
    git(clone.parent / "side", "commit", "-q", "--allow-empty", "-m", "second")
    assert version_in(clone.parent / "side") == commit_of(clone.parent / "side") != commit_of(clone)


@pytest.mark.parametrize("head", ["ref: refs/heads/none", None])
def test_a_clone_whose_commit_cannot_be_read(clone, head):
    (clone / ".git/HEAD").unlink() if head is None else (clone / ".git/HEAD").write_text(head)
    assert version_in(clone) == "0+source"


def test_a_folder_that_is_neither_a_clone_nor_built(clone):
    shutil.rmtree(clone / ".git")
    assert version_in(clone) == "0+source"


@pytest.fixture
def versions(clone):
    """The version of a package that would be built from a folder."""
    pytest.importorskip("hatch_vcs", reason="hatch-vcs, which finds the version of a build, is not installed")
    for name in ("pyproject.toml", ".git_archival.txt", ".gitattributes", "README.md"):
        shutil.copy(ROOT / name, clone)
    git(clone, "add", ".")
    git(clone, "commit", "-q", "-m", "second")

    def ask(folder, **environment):
        command = [sys.executable, "-m", "hatchling", "metadata", "version"]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, **NO_GIT_SETTINGS, **environment}, check=True,
            capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    return ask


def archive_of(clone):
    folder = clone.parent / "archive"
    folder.mkdir()
    git(clone, "archive", "-o", "../archive.tar", "HEAD")
    shutil.unpack_archive(clone.parent / "archive.tar", folder, filter="data")
    return folder


def test_without_a_tag_it_is_a_version_before_the_first(clone, versions):
    assert versions(clone) == f"0.1.dev2+source.g{git(clone, 'rev-parse', '--short=9', 'HEAD')}"
    assert versions(archive_of(clone)) == "0.1.dev0+source"


def test_a_build_takes_the_version_that_it_is_told(clone, versions):
    """`sweep --emit github` names the wheel before it is built."""
    assert versions(clone, SETUPTOOLS_SCM_PRETEND_VERSION="0+source.gc0ffee") == "0+source.gc0ffee"


def test_a_tag_is_the_version_and_later_commits_count_from_it(clone, versions):
    git(clone, "tag", "v0.1.0")
    assert versions(clone) == versions(archive_of(clone)) == "0.1.0"
    git(clone, "commit", "-q", "--allow-empty", "-m", "third")
    assert versions(clone).startswith("0.1.1.dev1+g")


def test_without_git_it_is_said_to_be_of_the_source(clone, versions):
    assert versions(clone, PATH="") == "0.1.dev0+source"
