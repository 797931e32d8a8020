"""What the pages on evaluating and optimising say of options and extras is so, and their plug-ins work once installed."""

from __future__ import annotations

import re
import sys
from importlib.metadata import metadata
from importlib.util import find_spec
from pathlib import Path

import pages
import pytest

from edgewise.errors import EdgewiseError
from edgewise.evaluating.dataset import data_formats
from edgewise.evaluating.steps import STEPS
from edgewise.evaluating.task import TaskContext, tasks
from edgewise.evaluating.tasks.detection_options import DECODERS
from edgewise.model.signature import Signature
from edgewise.optimizing.base import passes
from installed_package import write_metadata

EVALUATE = pages.ROOT / "docs" / "evaluate.md"
OPTIMIZE = pages.ROOT / "docs" / "optimize.md"
EXTENDING = pages.ROOT / "docs" / "extending-improving.md"
_OPTION = re.compile(r"`([a-z_]+)(?:=[^`]*)?`")
_FILE = re.compile(r'^""".*: (\w+\.py)"""$')


def rows(page: Path, head: str) -> dict[str, list[str]]:
    """The rows of the table with that first column, by what is in it."""
    lines = page.read_text("utf-8").splitlines()
    begin = next(at for at, line in enumerate(lines) if line.startswith(f"| {head} |"))
    found = {}
    for line in lines[begin + 2 :]:
        if not line.startswith("|"):
            break
        first, *others = [cell.strip() for cell in line.strip("|").split("|")]
        found.update(dict.fromkeys(re.findall(r"`([^`]+)`", first), others))
    return found


class Labelled:
    """Data that is never read."""

    name, path, format, split, kind, classes, labelled = "labelled", None, "none", "all", "image", (), True


def options_of_task(name: str) -> set[str]:
    context = TaskContext(signature=Signature(inputs=(), outputs=()), data=Labelled(), options={"no-such-option": "1"})
    with pytest.raises(EdgewiseError) as refused:
        tasks().get(name).prepare(context)
    assert "no-such-option" in refused.value.message, refused.value.message
    return set(re.findall(r"(?:options are |has: |, )([a-z_]+)(?==|,|$)", refused.value.advice))


@pytest.mark.parametrize("name", ["npz", "folders", "csv", "coco", "idx", "wav", "huggingface"])
def test_the_options_of_every_format_are_on_the_page(name):
    with pytest.raises(EdgewiseError) as refused:
        data_formats().get(name).open(Path("nowhere"), {"no-such-option": "1"})
    known = refused.value.advice.removeprefix("its options: ").split(", ")
    assert _OPTION.findall(rows(EVALUATE, "Format")[name][0]) == known


@pytest.mark.parametrize("name", [name for name in tasks().names() if name != "ordered"])
def test_the_options_of_every_task_are_on_the_page(name):
    if name == "detection":
        pytest.importorskip("pycocotools", reason="the task detection needs pycocotools")
    known = options_of_task(name)
    assert known, "the task's advice lists no options"
    text = rows(EVALUATE, "Task")[name][0]
    assert known - set(re.findall(r"[a-z_]+", " ".join(re.findall(r"`([^`]+)`", text)))) == set()
    assert set(re.findall(r"`(\w+)=", text)) - known == set()


def test_every_decoder_has_a_row():
    assert list(rows(EVALUATE, "`decode`")) == list(DECODERS)


def test_generated_tables_have_every_step_and_pass():
    steps = rows(pages.ROOT / "docs" / "generated" / "steps.md", "Step")
    assert set(steps) == set(STEPS)
    table = rows(pages.ROOT / "docs" / "generated" / "passes.md", "Pass")
    built_in = {name for name, one in passes() if type(one).__module__.startswith("edgewise.")}
    assert set(table) == built_in
    extras = metadata("edgewise").get_all("Provides-Extra")
    assert {row[-1].strip("`") for row in table.values()} <= set(extras)


def test_passes_that_the_page_names_exist():
    text = OPTIMIZE.read_text("utf-8")
    named = {name for cell in rows(OPTIMIZE, "Family") for name in cell.split(", ")}
    assert named <= set(passes().names())
    assert set(re.findall(r"--passes ([a-z0-9-]+)", text)) <= set(passes().names())


def test_the_json_that_the_page_describes_is_what_there_is():
    from sample_optimizations import found

    document = found().to_document()
    told = set(rows(OPTIMIZE, "Key")) | {"schema"}
    assert set(document) - told == set()
    assert set(re.findall(r"`(\w+)`", rows(OPTIMIZE, "Key")["baseline"][0])) >= set(document["baseline"])


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The plug-ins of the page as pip would leave them, and the environment of who uses them."""
    environment = pages.workplace(tmp_path)
    for block in pages.blocks(EXTENDING, "python"):
        if named := _FILE.match(block.text.splitlines()[0]):
            (tmp_path / named[1]).write_text(block.text, encoding="utf-8")
    (points,) = pages.blocks(EXTENDING, "toml")
    write_metadata(tmp_path, "edgewise-examples", points.text)
    return environment


@pytest.mark.engine
@pytest.mark.long
def test_the_plug_ins_of_the_documentation_work(tmp_path: Path, installed: dict[str, str]):
    pages.need_engines()
    printed = []
    for block in pages.blocks(EXTENDING, "sh"):
        command = ["bash", "-euo", "pipefail", "-c", block.text]
        done = pages.run(command, folder=tmp_path, environment=installed)
        assert done.returncode == 0, f"{block.text}\n{done.stdout[-3000:]}"
        printed.append(done.stdout)
    frames, ordered, rounded = printed
    # As many right as in the format that the frames were written from.
    assert "99.63 %" in frames and "night.frames (frames, split all): 540 of 540 samples evaluated" in frames
    assert "close" in ordered and "distance" in ordered
    # On a busy machine a race may end before "no difference that matters" is proven; it is never accepted.
    assert "Nothing beats the original" in rounded or "No variant is proven faster" in rounded
    assert "weights rounded to bfloat16" not in rounded


@pytest.mark.slow
def test_the_pass_of_the_documentation_conforms(tmp_path: Path, installed: dict[str, str]):
    check = pages.blocks(EXTENDING, "python")[-1]
    done = pages.run([sys.executable, "-c", check.text], folder=tmp_path, environment=installed)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "keep_float" in done.stdout


@pytest.mark.engine
@pytest.mark.slow
def test_the_module_of_the_documentation_can_be_built(tmp_path: Path):
    if find_spec("torch") is None or find_spec("onnxscript") is None:
        pytest.skip("not installed: torch and onnxscript")
    environment = pages.workplace(tmp_path)
    (block,) = pages.blocks(OPTIMIZE, "py")
    (tmp_path / "net.py").write_text(block.text, encoding="utf-8")
    (load,) = re.findall(r"^    net\.load_state_dict.*\n", block.text, re.MULTILINE)
    save = block.text.replace(load, '    torch.save(net.state_dict(), "weights.pt")\n') + "\nbuild()\n"
    assert pages.run([sys.executable, "-c", save], folder=tmp_path, environment=environment).returncode == 0
    command = [sys.executable, "-m", "edgewise", "optimize", "net.py:build", "--data", "digits.npz", "--task"]
    command += ["classification", "--prepare", "scale=1/255", "--passes", "torch-to-onnx", "--time-budget", "5min"]
    done = pages.run(command, folder=tmp_path, environment=environment)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "export @ onnxruntime" in done.stdout
