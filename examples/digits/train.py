"""Train the bundled digits network and write it as ONNX and TFLite, with its test data and its provenance.

The data set is scikit-learn's copy of the UCI "Optical Recognition of Handwritten Digits" test set: 1,797 images of
8×8 pixels with values 0..16. Every pixel becomes a 4×4 block, so that an input is 1×32×32, and values become 0..1.

Run it as ``README.md`` beside it says. It takes some minutes on two cores and is deterministic for the versions that
it writes into ``digits_cnn.json``; another version of torch may give weights that differ in the last digits.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from model import CLASSES, DigitsCnn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

SEED = 7
TEST_IMAGES = 540
CALIBRATION_IMAGES = 128
EPOCHS = 60
BATCH = 64
OPSET = 17
BUNDLED = Path(__file__).parents[2] / "src" / "edgewise" / "data"


def load_images() -> tuple[np.ndarray, np.ndarray]:
    """Images as uint8 (n, 1, 32, 32), 0..255, and labels as uint8 (n,)."""
    digits = load_digits()
    pixels = np.rint(digits.images * (255 / 16)).astype(np.uint8)
    return pixels.repeat(4, axis=1).repeat(4, axis=2)[:, None], digits.target.astype(np.uint8)


def split(images: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training and test images and labels: a stratified random split with a fixed seed."""
    train_x, test_x, train_y, test_y = train_test_split(
        images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=SEED
    )
    return train_x, test_x, train_y, test_y


def scaled(images: np.ndarray) -> torch.Tensor:
    """What the network eats: float32, 0..1."""
    return torch.from_numpy(images.astype(np.float32) / np.float32(255))


def jitter(batch: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Each image turned by up to 12°, scaled by up to 10 % and moved by up to 3 pixels."""
    n = len(batch)
    turn, scale, move_x, move_y = (2 * torch.rand(4, n, generator=generator) - 1).unbind()
    angle, factor = turn * 0.21, 1 + 0.1 * scale
    cosine, sine = torch.cos(angle) * factor, torch.sin(angle) * factor
    matrix = torch.stack(
        (torch.stack((cosine, -sine, move_x * 3 / 16), 1), torch.stack((sine, cosine, move_y * 3 / 16), 1)), 1
    )
    grid = nn.functional.affine_grid(matrix, list(batch.shape), align_corners=False)
    return nn.functional.grid_sample(batch, grid, align_corners=False)


def train(images: np.ndarray, labels: np.ndarray) -> DigitsCnn:
    """Adam with one learning-rate cycle over `EPOCHS` epochs."""
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    generator = torch.Generator().manual_seed(SEED)
    model, x, y = DigitsCnn(), scaled(images), torch.from_numpy(labels.astype(np.int64))
    steps = -(-len(x) // BATCH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, epochs=EPOCHS, steps_per_epoch=steps)
    model.train()
    for epoch in range(EPOCHS):
        total = 0.0
        for chosen in torch.randperm(len(x), generator=generator).split(BATCH):
            loss = nn.functional.cross_entropy(model(jitter(x[chosen], generator)), y[chosen], label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item() * len(chosen)
        print(f"epoch {epoch + 1}/{EPOCHS}: training loss {total / len(x):.4f}", flush=True)
    return model.fold()


def export_onnx(model: DigitsCnn, path: Path) -> None:
    """One file, weights inside, dynamic dimension ``batch``."""
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, 32, 32),),
        str(path),
        input_names=["image"],
        output_names=["logits"],
        dynamic_axes={"image": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=OPSET,
        dynamo=False,
    )


def export_tflite(model: DigitsCnn, path: Path) -> None:
    """Float32, batch 1, the same 1×1×32×32 input as the ONNX file."""
    import litert_torch

    litert_torch.convert(model, (torch.zeros(1, 1, 32, 32),)).export(str(path))


def accuracy(model: DigitsCnn, images: np.ndarray, labels: np.ndarray) -> float:
    """Share of images whose largest logit is at the label."""
    with torch.inference_mode():
        return float((model(scaled(images)).argmax(1).numpy() == labels).mean())


def provenance(folder: Path, *, figures: dict[str, float | int]) -> dict[str, object]:
    """Where the files come from, as ``digits_cnn.json``."""
    names = ("digits_cnn.onnx", "digits_cnn.tflite", "digits_test.npz", "digits_calibration.npz")
    packages = ("torch", "scikit-learn", "numpy", "onnx", "litert-torch")
    return {
        "script": "examples/digits/train.py",
        "license": "Apache-2.0 (models); CC BY 4.0 (data)",
        "data": {
            "source": "UCI Optical Recognition of Handwritten Digits (E. Alpaydin, C. Kaynak, 1998), CC BY 4.0, "
            "doi:10.24432/C50P49, test part as in sklearn.datasets.load_digits",
            "split": f"train_test_split(test_size={TEST_IMAGES}, stratify=labels, random_state={SEED}): "
            "by image; the same writers are in both parts",
            "test_file": "digits_test.npz: x uint8 (540, 1, 32, 32), y uint8 (540,)",
            "calibration_file": f"digits_calibration.npz: {CALIBRATION_IMAGES} training images, same layout",
            "scaling": "input = x / 255 as float32; x = round(pixel · 255 / 16), every pixel repeated 4×4",
        },
        "input": {"layout": "NCHW in both files", "shape": ["batch", 1, 32, 32], "dtype": "float32", "range": [0, 1]},
        "output": {"shape": ["batch", CLASSES], "dtype": "float32", "meaning": "logits of the digits 0..9"},
        "onnx_opset": OPSET,
        "seed": SEED,
        "epochs": EPOCHS,
        **figures,
        "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        "sha256": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names},
    }


def main() -> None:
    """Train, export, describe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=BUNDLED, help="folder for the files")
    folder: Path = parser.parse_args().output
    folder.mkdir(parents=True, exist_ok=True)
    train_x, test_x, train_y, test_y = split(*load_images())
    model = train(train_x, train_y)
    export_onnx(model, folder / "digits_cnn.onnx")
    export_tflite(model, folder / "digits_cnn.tflite")
    np.savez_compressed(folder / "digits_test.npz", x=test_x, y=test_y)
    chosen = np.random.default_rng(SEED).permutation(len(train_x))[:CALIBRATION_IMAGES]
    np.savez_compressed(folder / "digits_calibration.npz", x=train_x[chosen], y=train_y[chosen])
    figures: dict[str, float | int] = {
        "parameters": sum(tensor.numel() for tensor in model.parameters()),
        "training_images": len(train_x),
        "test_images": len(test_x),
        "test_accuracy": accuracy(model, test_x, test_y),
    }
    text = json.dumps(provenance(folder, figures=figures), indent=2, ensure_ascii=False)
    (folder / "digits_cnn.json").write_text(text + "\n", encoding="utf-8")
    print(f"test accuracy {figures['test_accuracy']:.4f}, {figures['parameters']} parameters, files in {folder}")


if __name__ == "__main__":
    main()
