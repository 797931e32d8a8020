"""Networks without labels for benchmarks/optimizers.py and benchmarks/quantizers.py, with samples.

    python benchmarks/nets/unlabelled.py FOLDER… [-o build/unlabelled] [--judged 96]

FOLDERs hold the networks: what the packages mediapipe, rapidocr, silero-vad and magika install, and MLPerf Tiny's as
ONNX: ``tflite2onnx.convert("pretrainedResnet.tflite", "pretrainedResnet.onnx")`` of the package tflite2onnx, which
needs onnx before 1.19. Of mediapipe's networks, those with float32 weights, such as ``iris``, may be converted in the
same way. It writes, of those it finds,

- ``NAME.onnx`` or ``NAME.tflite``, inputs fixed where they were open,
- ``NAME.yaml``: how samples are prepared, as the network's authors do,
- ``NAME.npz``: samples that passes look at (``x_train``) and others that variants are judged on (``x_test``), as many
  as ``--judged`` says.

Pictures are crops, at many places and scales, of the two photographs that scikit-learn ships; no network finds its own
object in most of them, and that is what a camera sees most of the time, too. Words are drawn for networks that read.
Sound is voiced and noisy syllables that are made up here. Bytes are those of files of this Python.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

LOOKED_AT, JUDGED = 96, 96
UNIT, SIGNED = ("scale: 1/255",), ("scale: 1/127.5", "offset: -1")
OCR = ("scale: 1/255", "mean: 0.5", "std: 0.5", "layout: nchw")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A network to look for.

    Attributes:
        kind: ``detector``, ``landmark``, ``mask``, ``text``, ``classes``, ``audio``, ``bytes`` or ``mel``.
        file: the end of its path.
        size: of pictures, (height, width).
        fixed: the shape of the only input, where it is open.
    """

    name: str
    kind: str
    file: str
    size: tuple[int, int] | None = None
    steps: tuple[str, ...] = ()
    fixed: tuple[int, ...] | None = None


SOURCES = (
    Source(name="palm", kind="detector", file="palm_detection_lite.tflite", size=(192, 192), steps=UNIT),
    Source(name="face", kind="detector", file="face_detection_short_range.tflite", size=(128, 128), steps=SIGNED),
    Source(name="face-far", kind="detector", file="face_detection_full_range_sparse.tflite", size=(192, 192),
           steps=SIGNED),
    Source(name="person", kind="detector", file="pose_detection.tflite", size=(224, 224), steps=SIGNED),
    Source(name="facemesh", kind="landmark", file="face_landmark.tflite", size=(192, 192), steps=UNIT),
    Source(name="hand", kind="landmark", file="hand_landmark_lite.tflite", size=(224, 224), steps=UNIT),
    Source(name="iris", kind="landmark", file="iris_landmark.tflite", size=(64, 64), steps=UNIT),
    Source(name="pose", kind="landmark", file="pose_landmark_full.tflite", size=(256, 256), steps=UNIT),
    Source(name="selfie", kind="mask", file="selfie_segmentation.tflite", size=(256, 256), steps=UNIT),
    Source(name="text", kind="text", file="PP-OCRv6_det_small.onnx", size=(320, 320), steps=OCR,
           fixed=(1, 3, 320, 320)),
    Source(name="line", kind="text", file="PP-OCRv6_rec_small.onnx", size=(48, 320), steps=OCR, fixed=(1, 3, 48, 320)),
    Source(name="turned", kind="text", file="ch_ppocr_mobile_v2.0_cls_mobile.onnx", size=(48, 192), steps=OCR,
           fixed=(1, 3, 48, 192)),
    Source(name="file-type", kind="bytes", file="standard_v3_3/model.onnx", fixed=(1, 2048)),
    Source(name="objects", kind="classes", file="pretrainedResnet.onnx", size=(32, 32),
           steps=("scale: 1", "layout: nchw")),
    Source(name="visual-wake", kind="classes", file="vww_96_float.onnx", size=(96, 96),
           steps=(*UNIT, "layout: nchw")),
    Source(name="anomaly", kind="mel", file="ad01_fp32.onnx"),
    Source(name="speech", kind="audio", file="silero_vad_openvino_16k.onnx"),
)  # fmt: skip


def find(source: Source, folders: list[Path]) -> Path | None:
    """Return the file, or else what it was converted to, of the same name in ONNX; None where there is none."""
    names = (source.file, str(Path(source.file).with_suffix(".onnx")))
    return next((path for name in names for folder in folders for path in sorted(folder.rglob(name))), None)


def make_pictures(count: int, size: tuple[int, int], *, seed: int) -> Any:
    """uint8 [count, height, width, 3]: crops of photographs."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(seed)
    photographs = [Image.fromarray(each) for each in load_sample_images().images]
    found = []
    for number in range(count):
        whole = photographs[number % len(photographs)]
        side = int(rng.integers(60, min(whole.size)))
        left, top = (int(rng.integers(0, length - side + 1)) for length in whole.size)
        crop = whole.crop((left, top, left + side, top + side)).resize(size[::-1], Image.Resampling.BILINEAR)
        found.append(np.asarray(crop)[:, :: rng.choice((-1, 1))])
    return np.stack(found)


def draw_words(pictures: Any, *, seed: int) -> Any:
    """Return the pictures with a line of letters and digits on each, as high as a third of it or more; half of them
    upside down.
    """
    from PIL import Image, ImageDraw, ImageFont

    rng = np.random.default_rng(seed)
    letters = list("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 .-")
    found = []
    for pixels in pictures:
        picture = Image.fromarray(pixels)
        size = rng.uniform(0.35, 0.7) * min(picture.height, 64)
        words = "".join(rng.choice(letters, int(rng.integers(3, 18))))
        place = rng.uniform(0, picture.width / 4), rng.uniform(0, max(1.0, picture.height - 1.3 * size))
        ImageDraw.Draw(picture).text(
            place, words, fill=tuple(rng.integers(0, 256, 3).tolist()), font=ImageFont.load_default(size)
        )
        found.append(np.asarray(picture.rotate(180) if rng.random() < 0.5 else picture))
    return np.stack(found)


def make_spectra(count: int, *, seed: int) -> Any:
    """float32 [count, 640]: five frames of 128 mel bands of made-up sounds at 16 kHz, in decibels."""
    frames, hop, window = 5, 512, 1024
    sounds = make_sounds(count, window + hop * (frames - 1), seed=seed)[:, 0]
    parts = np.stack([sounds[:, at * hop : at * hop + window] for at in range(frames)], axis=1) * np.hanning(window)
    power = np.abs(np.fft.rfft(parts)) ** 2
    edges = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 130) / 2595) - 1)
    bins = np.fft.rfftfreq(window, 1 / 16000)[:, None]
    rise, fall = (bins - edges[:-2]) / np.diff(edges)[:-1], (edges[2:] - bins) / np.diff(edges)[1:]
    mels = power @ np.clip(np.minimum(rise, fall), 0, None)
    return (10 * np.log10(mels + 1e-6)).astype(np.float32).reshape(count, -1)


def read_beginnings(count: int, *, seed: int) -> Any:
    """int32 [count, 2048]: the first and last 1,024 bytes of files of this Python, 256 where a file is shorter."""
    files = sorted(path for path in Path(np.__file__).parents[1].rglob("*") if path.is_file())
    kinds: dict[str, list[Path]] = {}
    for path in files:
        kinds.setdefault(path.suffix, []).append(path)
    rng, found = np.random.default_rng(seed), []
    for _ in range(count):  # every kind of file as often as any other
        own = kinds[sorted(kinds)[int(rng.integers(len(kinds)))]]
        content = np.frombuffer(own[int(rng.integers(len(own)))].read_bytes(), np.uint8).astype(np.int32)
        row = np.full(2048, 256, np.int32)
        row[: min(1024, len(content))] = content[:1024]
        row[2048 - min(1024, len(content)) :] = content[-1024:]
        found.append(row)
    return np.stack(found)


def make_sounds(count: int, length: int, *, seed: int) -> Any:
    """float32 [count, 1, length] at 16 kHz: harmonics of a voice, hiss, or both, louder and softer."""
    rng = np.random.default_rng(seed)
    time = np.arange(length) / 16000.0
    found = []
    for _ in range(count):
        pitch, loud = rng.uniform(80, 300), 10 ** rng.uniform(-3, -0.3)
        tone = sum(np.sin(2 * np.pi * pitch * order * time + rng.uniform(0, 6.28)) / order for order in range(1, 20))
        hiss = rng.normal(size=length)
        mix = rng.choice((0.0, 0.1, 0.5, 1.0))
        sound = (1 - mix) * tone / np.abs(tone).max() + mix * hiss / np.abs(hiss).max()
        found.append(loud * sound)
    return np.stack(found)[:, None].astype(np.float32)


def make_samples(source: Source, *, count: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Name of the array → the samples."""
    if source.size is not None:
        pictures = make_pictures(count, source.size, seed=seed)
        yield "x", draw_words(pictures, seed=seed) if source.kind == "text" else pictures
        return
    if source.kind == "bytes":
        yield "x", read_beginnings(count, seed=seed)
        return
    if source.kind == "mel":
        yield "x", make_spectra(count, seed=seed)
        return
    yield "input", make_sounds(count, 576, seed=seed)
    # States as they come in a stream: not far from 0.
    yield "state", np.random.default_rng(seed).normal(scale=0.3, size=(count, 2, 1, 128)).astype(np.float32)


def write(source: Source, file: Path, folder: Path, *, judged: int) -> None:
    """Write the network, its instructions and its samples."""
    model = folder / f"{source.name}{file.suffix}"
    if source.fixed is None:
        shutil.copyfile(file, model)
    else:
        fix_input(file, model, source.fixed)
    turned = ("layout: nchw",) if file.suffix == ".onnx" and source.file.endswith(".tflite") else ()
    steps = (*source.steps, *turned)
    lines = ["edgewise: 1", *(["inputs:"] if steps else []), *(f"  - {step}" for step in steps)]
    (folder / f"{source.name}.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    arrays = {}
    if source.kind == "audio":  # several inputs have no splits: a part of the samples is set apart
        arrays = dict(make_samples(source, count=LOOKED_AT + judged, seed=1))
    else:
        for split, count, seed in (("train", LOOKED_AT, 1), ("test", judged, 2)):
            arrays |= {f"{name}_{split}": samples for name, samples in make_samples(source, count=count, seed=seed)}
    np.savez(folder / f"{source.name}.npz", **arrays)


def fix_input(file: Path, target: Path, shape: tuple[int, ...]) -> None:
    """Write the ONNX file with a concrete shape of its only input."""
    import onnx
    from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed

    model = onnx.load(file)
    for place, dim in enumerate(model.graph.input[0].type.tensor_type.shape.dim):
        if dim.dim_value <= 0:  # -1 is open, and one name may stand for several sizes
            dim.dim_param = f"size {place}"
    make_input_shape_fixed(model.graph, model.graph.input[0].name, shape)
    onnx.save(model, target)


def main() -> int:
    """Write what is found; say what is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path, default=Path("build/unlabelled"))
    parser.add_argument("--judged", type=int, default=JUDGED, help="samples that variants are judged on")
    words = parser.parse_args()
    words.output.mkdir(parents=True, exist_ok=True)
    for source in SOURCES:
        file = find(source, words.folders)
        if file is None:
            print(f"{source.name}: no {source.file}")
            continue
        write(source, file, words.output, judged=words.judged)
        print(f"{source.name} ({source.kind}): {file}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
