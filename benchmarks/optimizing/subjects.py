"""The networks that optimisers are tried on, with their data: those that ``benchmarks/nets/train.py`` made, and digits.

A network of that folder is judged on Fashion-MNIST where its ``NAME.yaml`` names a task, and otherwise by how far its
outputs agree with the float network's on pictures of noise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from optimizing.entries import ENGINES

from edgewise.data import path as bundled
from edgewise.evaluating.instructions import find_instructions

DIGITS = "digits"
ORDER = (
    DIGITS, "mlp", "cnn", "depthwise", "residual", "transformer",
    "squeezenet", "shufflenet", "mobilenet_v2", "resnet50",
)  # fmt: skip
LOOKED_AT = 8
"""Pictures of noise that passes may look at, where there are too few for a quarter of them to be the usual number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A network as its user has it.

    Attributes:
        files: format → file.
        instructions: how both files are fed.
        data: what is judged and what passes look at, in parts of their own.
        labelled: whether accuracy can be told; else agreement with the float network.
        by_snr: without labels: whether its outputs are compared by their signal-to-noise ratio, else by best classes.
        split: that is judged; None is all of it.
    """

    name: str
    files: dict[str, Path]
    instructions: Path
    data: Path
    labelled: bool
    by_snr: bool = False
    split: str | None = "test"

    def form_for(self, engine: str) -> str | None:
        """Return the format of the file that an engine starts from; None where there is none for it."""
        return next((form for form in ENGINES[engine] if form in self.files), None)

    def hashes(self) -> dict[str, str]:
        """File name → sha256."""
        return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in self.files.values()}


def find_subjects(folder: Path, *, fashion: Path, work: Path, only: Sequence[str]) -> list[Subject]:
    """All of them, digits first, then those in `folder`.

    Args:
        fashion: the folder with Fashion-MNIST.
        work: where data that has to be put together goes.
        only: names; empty is all that there are.

    Raises:
        SystemExit: one is not there.
    """
    names = {file.stem for file in folder.glob("*.onnx") if file.with_suffix(".yaml").is_file()} | {DIGITS}
    if unknown := sorted(set(only) - names):
        raise SystemExit(f"{folder} has no {', '.join(unknown)}: benchmarks/nets/train.py makes them")
    wanted = sorted(names & set(only or names), key=lambda name: (name not in ORDER, _place(name), name))
    work.mkdir(parents=True, exist_ok=True)
    return [_digits(work) if name == DIGITS else _open(folder, name, fashion, work) for name in wanted]


def find_unlabelled(folder: Path, *, only: Sequence[str]) -> list[Subject]:
    """Networks that ``benchmarks/nets/unlabelled.py`` wrote. Raises `SystemExit`: one is not there."""
    files = [file for file in sorted(folder.iterdir()) if file.suffix in (".onnx", ".tflite")]
    if unknown := sorted(set(only) - {file.stem for file in files}):
        raise SystemExit(f"{folder} has no {', '.join(unknown)}: benchmarks/nets/unlabelled.py writes them")
    found = []
    for file in files:
        if only and file.stem not in only:
            continue
        with np.load(file.with_suffix(".npz")) as data:
            split = "test" if "x_test" in data else None
        found.append(
            Subject(
                name=file.stem, files={file.suffix[1:]: file}, instructions=file.with_suffix(".yaml"),
                data=file.with_suffix(".npz"), labelled=False, by_snr=True, split=split,
            )
        )  # fmt: skip
    return found


def _place(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)


def _digits(work: Path) -> Subject:
    data = work / "digits.npz"
    if not data.is_file():
        looked, judged = np.load(bundled("digits_calibration.npz")), np.load(bundled("digits_test.npz"))
        np.savez(data, x_train=looked["x"], y_train=looked["y"], x_test=judged["x"], y_test=judged["y"])
    files = {form: bundled(f"digits_cnn.{form}") for form in ("onnx", "tflite")}
    return Subject(name=DIGITS, files=files, instructions=bundled("digits_cnn.yaml"), data=data, labelled=True)


def _open(folder: Path, name: str, fashion: Path, work: Path) -> Subject:
    files = {form: folder / f"{name}.{form}" for form in ("onnx", "tflite")}
    files = {form: file for form, file in files.items() if file.is_file()}
    labelled = find_instructions(files["onnx"], form="onnx").task is not None
    data = fashion if labelled else _split_noise(folder / "noise.npz", work / "noise.npz")
    return Subject(name=name, files=files, instructions=folder / f"{name}.yaml", data=data, labelled=labelled)


def _split_noise(whole: Path, parts: Path) -> Path:
    """Pictures for passes to look at, and the others, so that everybody looks at the same ones and judges the same."""
    if not parts.is_file():
        pictures = np.load(whole)["x"]
        np.savez(parts, x_train=pictures[:LOOKED_AT], x_test=pictures[LOOKED_AT:])
    return parts
