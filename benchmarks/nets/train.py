"""Make the nets that the benchmarks of `evaluate` and `optimize` use: trained ones with data, and graphs for speed.

    python benchmarks/nets/train.py [--output build/nets] [--data FOLDER] [--only cnn,mlp] [--reuse]

Trained on Fashion-MNIST (Debian's ``dataset-fashion-mnist``; the script reads its four IDX files): ``cnn``,
``depthwise``, ``residual``, ``mlp`` and ``transformer``. For speed, with random weights: ``mobilenet_v2``,
``resnet50``, ``squeezenet`` and ``shufflenet``. The digits network is bundled; ``examples/digits/train.py`` makes it.

Needs torch, onnx, onnxscript, onnxruntime, litert-torch and ai-edge-litert, not edgewise. One thread, minutes a net.
The output folder gets, per net:

- ``NAME.onnx`` (opset 17) and ``NAME.tflite``, float32, batch 1, logits; images are 0..1, channels first;
- ``NAME.yaml``: how edgewise feeds both;
- ``NAME.pt``: the weights as a state dict, for `torch.load(..., weights_only=True)` and ``--reuse``;
- ``NAME.json``: figures, versions and hashes;

and ``noise.npz``, pictures of nothing, on which variants of the graphs for speed can be compared with their parents.
The test set is used for one thing: the accuracies in the table. Seeds are fixed; the same versions on the same kind of
processor give the same weights. What misses its target is marked, and the exit status is then 1.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import exporting
import numpy as np
import torch
from architectures import TRAINED
from data import CLASSES, FASHION, Images, hash_fashion, load_fashion, make_noise
from imagenet import UNTRAINED, settle
from torch import nn

SEED = 7
SETTLING_PICTURES, NOISE_PICTURES = 16, 32
CHECKED_PICTURES = 4
PACKAGES = ("torch", "litert-torch", "ai-edge-litert", "onnx", "onnxscript", "onnxruntime", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a net is trained: AdamW with one learning-rate cycle.

    Attributes:
        target: share of test images that the files must get right.
    """

    epochs: int
    batch: int = 256
    rate: float
    decay: float = 0.02
    target: float


RECIPES = {
    "cnn": Recipe(epochs=3, rate=4e-3, target=0.90),
    "depthwise": Recipe(epochs=3, rate=8e-3, target=0.885),
    "residual": Recipe(epochs=3, rate=5e-3, target=0.905),
    "mlp": Recipe(epochs=6, rate=1.5e-3, target=0.875),
    "transformer": Recipe(epochs=4, batch=128, rate=1.5e-3, target=0.86),
}


def train(model: nn.Module, recipe: Recipe, images: Images) -> None:
    """Change the weights of `model`, and leave it ready for inference."""
    generator = torch.Generator().manual_seed(SEED)
    model.to(memory_format=torch.channels_last).train()
    x, y = torch.from_numpy(images.scaled()), torch.from_numpy(images.labels)
    steps = -(-len(images) // recipe.batch)
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, recipe.rate, epochs=recipe.epochs, steps_per_epoch=steps)
    for epoch in range(recipe.epochs):
        total = 0.0
        for chosen in torch.randperm(len(images), generator=generator).split(recipe.batch):
            loss = nn.functional.cross_entropy(model(x[chosen]), y[chosen])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"  epoch {epoch + 1}/{recipe.epochs}: training loss {total / len(images):.4f}", flush=True)
    model.to(memory_format=torch.contiguous_format).eval()


def make_trained(name: str, folder: Path, sets: tuple[Images, Images], *, reuse: bool) -> dict[str, Any]:
    """Train, export and judge one net; its figures."""
    learn, judge = sets
    recipe = RECIPES[name]
    weights = folder / f"{name}.pt"
    torch.manual_seed(SEED)
    model = TRAINED[name]()
    figures: dict[str, Any] = {"epochs": recipe.epochs, "batch": recipe.batch, "learning_rate": recipe.rate}
    if reuse and weights.is_file():
        model.load_state_dict(torch.load(weights, weights_only=True))
        figures |= _old_times(folder / f"{name}.json")
    else:
        wall, cpu = time.monotonic(), time.process_time()
        train(model, recipe, learn)
        figures |= {"training_s": time.monotonic() - wall, "training_cpu_s": time.process_time() - cpu}
        torch.save(model.state_dict(), weights)
    example = torch.zeros(1, 1, 28, 28)
    figures |= export(model, name, folder, example)
    exporting.write_instructions(folder / f"{name}.yaml", steps=["scale: 1/255"], classes=CLASSES)
    inputs = judge.scaled()
    for form, outputs in answers(model, name, folder, inputs):
        figures[f"accuracy_{form}"] = float((outputs.argmax(1) == judge.labels).mean())
    return figures | {"test_images": len(judge), "target": recipe.target}


def _old_times(path: Path) -> dict[str, Any]:
    """Return what an earlier run measured of the training whose weights are used again."""
    old = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return {key: old.get(key) for key in ("training_s", "training_cpu_s")}


def make_untrained(name: str, folder: Path) -> dict[str, Any]:
    """Draw, export and compare one graph for speed; its figures."""
    torch.manual_seed(SEED)
    model = UNTRAINED[name]()
    settle(model, torch.from_numpy(to_range(make_noise(SETTLING_PICTURES, seed=SEED))))
    torch.save(model.state_dict(), folder / f"{name}.pt")
    figures = export(model, name, folder, torch.zeros(1, 3, 224, 224))
    exporting.write_instructions(folder / f"{name}.yaml", steps=["scale: 1/127.5", "offset: -1"])
    if not (folder / "noise.npz").is_file():
        np.savez_compressed(folder / "noise.npz", x=make_noise(NOISE_PICTURES, seed=SEED + 1))
    inputs = to_range(make_noise(CHECKED_PICTURES, seed=SEED + 1))
    wanted: np.ndarray[Any, Any] | None = None
    for form, outputs in answers(model, name, folder, inputs):
        wanted = outputs if wanted is None else wanted
        figures[f"largest_difference_{form}"] = float(np.abs(outputs - wanted).max() / np.abs(wanted).max())
    return figures


def to_range(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bytes to -1..1, as ``NAME.yaml`` says."""
    return pixels.astype(np.float32) * np.float32(1 / 127.5) - np.float32(1)


def export(model: nn.Module, name: str, folder: Path, example: torch.Tensor) -> dict[str, Any]:
    """Write both files; sizes and hashes."""
    files = folder / f"{name}.onnx", folder / f"{name}.tflite"
    exporting.export_onnx(model, example, files[0])
    exporting.export_tflite(model, example, files[1])
    return {
        "parameters": exporting.count_parameters(model),
        "macs": exporting.count_macs(model, example),
        "bytes": {file.name: file.stat().st_size for file in files},
        "sha256": {file.name: exporting.hash_file(file) for file in files},
    }


def answers(model: nn.Module, name: str, folder: Path, inputs: Any) -> Iterator[tuple[str, Any]]:
    """Yield outputs of the module, then of both files."""
    yield "torch", exporting.answer_torch(model, inputs, batch=256 if inputs.shape[1] == 1 else 1)
    yield "onnx", exporting.answer_onnx(folder / f"{name}.onnx", inputs)
    yield "tflite", exporting.answer_tflite(folder / f"{name}.tflite", inputs)


def format_table(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """As Markdown. A dash stands for what a net does not have."""
    yield "| net | parameters | MMACs | ONNX MB | TFLite MB | torch | ONNX | TFLite | target | training s (CPU s) |"
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, row in found.items():
        sizes = " | ".join(f"{row['bytes'][f'{name}.{form}'] / 1e6:.2f}" for form in ("onnx", "tflite"))
        if "target" in row:
            shares = [f"{row[f'accuracy_{form}']:.2%}" for form in ("torch", "onnx", "tflite")]
            target = f"{row['target']:.1%}{'' if holds(row) else ' **missed**'}"
        else:
            shares = ["–", *(f"differs {row[f'largest_difference_{form}']:.0e}" for form in ("onnx", "tflite"))]
            target = "–"
        took = "–"
        if row.get("training_s") is not None:
            took = f"{row['training_s']:.0f} ({row['training_cpu_s']:.0f})"
        cells = [name, f"{row['parameters']:,}", f"{row['macs'] / 1e6:.1f}", sizes, *shares, target, took]
        yield f"| {' | '.join(cells)} |"


def holds(row: Mapping[str, Any]) -> bool:
    """Whether both files reach the target."""
    return "target" not in row or min(row["accuracy_onnx"], row["accuracy_tflite"]) >= row["target"]


def choose(words: str | None) -> Sequence[str]:
    """Return the names asked for. Raises `SystemExit` for an unknown one."""
    known = (*TRAINED, *UNTRAINED)
    names = words.split(",") if words else known
    for name in names:
        if name not in known:
            raise SystemExit(f"there is no net {name!r}; there are {', '.join(known)}")
    return names


def main() -> int:
    """Make, describe, tabulate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("build/nets"), help="folder for the files")
    parser.add_argument("--data", type=Path, default=FASHION, help="folder with Fashion-MNIST's four packed IDX files")
    parser.add_argument("--only", help="names, separated by commas; all where left out")
    parser.add_argument("--reuse", action="store_true", help="take the weights that an earlier run left, and export")
    words = parser.parse_args()
    names = choose(words.only)
    folder: Path = words.output
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    exporting.hush()
    sets = load_fashion(words.data) if set(names) & set(TRAINED) else None
    found: dict[str, dict[str, Any]] = {}
    for name in names:
        print(name, flush=True)
        if name in TRAINED:
            assert sets is not None
            row = make_trained(name, folder, sets, reuse=words.reuse) | {"data_sha256": hash_fashion(words.data)}
        else:
            row = make_untrained(name, folder)
        row["seed"] = SEED
        row["versions"] = {"python": platform.python_version(), **{each: version(each) for each in PACKAGES}}
        (folder / f"{name}.json").write_text(json.dumps(row, indent=2) + "\n", encoding="utf-8")
        found[name] = row
    print("\n".join(format_table(found)))
    return 0 if all(holds(row) for row in found.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
