"""What `evaluate` and `optimize` say of data and task: the same words, and what they come to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from edgewise.errors import BadInput

if TYPE_CHECKING:
    from edgewise.evaluating.asking import DataWish

DATA = "Data and task"

Task = Annotated[
    str | None,
    typer.Option(
        metavar="TASK",
        help="classification, detection, segmentation … (default: from the YAML beside the model)",
        rich_help_panel=DATA,
    ),
]
Split = Annotated[
    str | None, typer.Option(metavar="NAME", help="Part that is judged (default: test, else all)", rich_help_panel=DATA)
]
Limit = Annotated[
    int | None, typer.Option(metavar="N", help="Judge so many samples, chosen by --seed", rich_help_panel=DATA)
]
Strict = Annotated[bool, typer.Option("--strict", help="Fail on a sample that can't be used", rich_help_panel=DATA)]
DataFormat = Annotated[
    str | None,
    typer.Option(metavar="FORMAT", help="npz, folders, csv, coco, idx, wav, huggingface, loader", rich_help_panel=DATA),
]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", metavar="NAME=VALUE", help="How to read the data; repeatable", rich_help_panel=DATA),
]
TaskOptions = Annotated[
    list[str] | None,
    typer.Option("--task-option", metavar="NAME=VALUE", help="How to read outputs; repeatable", rich_help_panel=DATA),
]
Prepare = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STEP=VALUE",
        help="What is done to a sample, in order: resize=256, crop=224, scale=1/255; replaces the YAML's steps",
        rich_help_panel=DATA,
    ),
]
InstructionsFile = Annotated[
    Path | None,
    typer.Option("--instructions", metavar="F.yaml", help="Instead of the YAML beside the model", rich_help_panel=DATA),
]
Classes = Annotated[
    Path | None,
    typer.Option(metavar="F.txt", help="Names of the model's classes, one a line", rich_help_panel=DATA),
]
Seed = Annotated[int, typer.Option(help="Of everything that is random", rich_help_panel=DATA)]

MOST_CLASS_BYTES = 4 * 2**20


def read_wish(
    source: str,
    *,
    task: str | None,
    split: str | None,
    limit: int | None,
    seed: int,
    strict: bool,
    form: str | None,
    options: Sequence[str] | None,
    task_options: Sequence[str] | None,
    prepare: Sequence[str] | None,
    instructions: Path | None,
    classes: Path | None,
) -> DataWish:
    """What the user says of the data. Raises `BadInput`."""
    from edgewise.evaluating.asking import DataWish

    return DataWish(
        source=source,
        format=form,
        options=read_pairs(options, "--data-option"),
        split=split,
        limit=limit,
        seed=seed,
        strict=strict,
        task=task,
        task_options=read_pairs(task_options, "--task-option"),
        classes=() if classes is None else read_classes(classes),
        prepare=tuple(prepare or ()),
        file=instructions,
    )


def read_pairs(words: Sequence[str] | None, flag: str) -> dict[str, str]:
    """``["a=1", "b=2"]`` → mapping. Raises `BadInput`."""
    found: dict[str, str] = {}
    for word in words or ():
        name, equals, value = word.partition("=")
        if not equals or not name.strip():
            raise BadInput(f"{flag} {word!r} is not NAME=VALUE", advice=f"for example {flag} label=class")
        if name.strip() in found:
            raise BadInput(f"{flag} {name.strip()} is given twice", advice="give it once")
        found[name.strip()] = value
    return found


def read_classes(path: Path) -> tuple[str, ...]:
    """The names in a file, one a line. Raises `BadInput`."""
    try:
        if path.stat().st_size > MOST_CLASS_BYTES:
            raise BadInput(f"{path} is too large for names of classes", advice="one name a line")
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"can't read {path}: {error}", advice="a text file with one name a line") from error
    if not names:
        raise BadInput(f"{path} holds no names", advice="one name a line")
    return names
