"""Files and folders that are known and can't be run here: what each is, what reads it, and the next command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from edgewise.errors import BadModel
from edgewise.model.bundles import TASK, models_in
from edgewise.model.readers.archive import open_archive
from edgewise.text import enumerate_few

_MOST_PICKLE_BYTES = 64 * 2**20
_MOST_CONFIG_BYTES = 2**20


class Known(NamedTuple):
    """What a file or folder is.

    Attributes:
        what: with its article: ``a TensorRT engine``.
        advice: the next command, which can be pasted into a shell, or what to do where no command helps.
        reader: the program that reads it, where there is one.
    """

    what: str
    advice: str
    reader: str = ""

    def refuse(self, path: Path) -> BadModel:
        """Return the error for `path`."""
        verdict = f"{self.reader} reads it, but edgewise does not" if self.reader else "edgewise can't read it"
        return BadModel(f"{path.name or path} is {self.what}; {verdict}", advice=self.advice)


def recognise_file(head: bytes, path: Path) -> Known | None:
    """Return what the file at `path` is, by its first bytes, else by its name; None where nothing fits."""
    return next((known for way in _WAYS for known in way(head, path)), None)


def recognise_folder(folder: Path) -> Known | None:
    """Return what kind of model `folder` is; None where it is none. A SavedModel is read, and so it is not known
    here.
    """
    if folder.suffix == ".mlpackage" or _holds(folder / "Manifest.json", b"com.apple.CoreML"):
        return _CORE_ML
    for name in ("model_index.json", "config.json"):
        if _holds(folder / name, b'"model_type"', b'"architectures"', b'"transformers_version"', b'"_class_name"'):
            return _hugging_face(folder)
    if (program := folder / "inference.json").is_file() and PADDLE_JSON.search(_beginning(program)):
        return _paddle(program)
    return None


def advise_conversion(form: str, path: Path) -> str:
    """Return the command that makes a file that engines run, and every command reads, of one of the format `form`;
    "" if none.

    Args:
        form: as readers call it: ``torch``, ``keras``, ``tensorflow``, ``savedmodel``, ``paddle``, ``ort``.
    """
    if form == "torch":
        out = quote(f"{path.stem}.onnx")
        return f"{_install('torch', 'onnxscript')}edgewise convert {quote(str(path))} -o {out} && edgewise bench {out}"
    if form == "keras":
        # Keras exports only a model that has been called.
        program = (
            "import keras; m = keras.saving.load_model(PATH, compile=False); "
            'm([keras.ops.zeros([d or 1 for d in i.shape], i.dtype) for i in m.inputs]); m.export(OUT, format="onnx")'
        )
        return _convert(path, program, "tensorflow", "tf2onnx")
    if form in ("tensorflow", "savedmodel", "paddle"):
        source = path.parent if form == "savedmodel" else path
        out = quote(f"{source.stem or 'model'}.xml")
        return f"edgewise convert {quote(str(source))} -o {out} && edgewise inspect {out}"
    return "give the .onnx file that it was made from" if form == "ort" else ""


def _convert(path: Path, program: str, *packages: str) -> str:
    """Return a Python program, with PATH and OUT filled in, as one line of shell that ends by measuring what it
    made.
    """
    out = path.stem + (".onnx" if path.suffix != ".onnx" else "-exported.onnx")
    program = program.replace("PATH", json.dumps(str(path), ensure_ascii=False))
    program = program.replace("OUT", json.dumps(out, ensure_ascii=False))
    return f"{_install(*packages)}python -c {quote(program)} && edgewise bench {quote(out)}"


def _install(*packages: str) -> str:
    lacking = [name for name in packages if find_spec(name) is None]
    return f"pip install {' '.join(lacking)} && " if lacking else ""


def _beginning(path: Path, size: int = 4096) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _holds(path: Path, *words: bytes) -> bool:
    text = _beginning(path, _MOST_CONFIG_BYTES) if path.is_file() else b""
    return any(word in text for word in words)


_CORE_ML = Known(
    "a Core ML model",
    "edgewise bench MODEL.onnx -r onnxruntime/coreml  # on a Mac, with the model that it was converted from",
    reader="Core ML on Apple's systems",
)


def _hugging_face(folder: Path) -> Known:
    """Return a folder as Transformers, Diffusers or Sentence Transformers save it."""
    what = "a Hugging Face model folder"
    for name in ("model.onnx", "onnx/model.onnx", "openvino_model.xml", "openvino/openvino_model.xml"):
        if (folder / name).is_file():
            return Known(what, f"edgewise bench {quote(str(folder / name))}")
    out = quote(f"{folder.resolve().name}-onnx")
    install = "" if find_spec("optimum") else "pip install 'optimum-onnx[onnxruntime]' && "
    export = f"optimum-cli export onnx --model {quote(str(folder))} {out}"
    return Known(what, f"{install}{export} && edgewise bench {out}/model.onnx", reader="Transformers")


def _weights(path: Path, what: str, load: str) -> Known:
    """Weights without a network: the user's code has to build it."""
    if (folder := recognise_folder(path.absolute().parent)) and "Hugging Face" in folder.what:
        return Known(f"{what} in {folder.what}", folder.advice)
    code = (
        f"def make(): net = Net(); net.load_state_dict({load}({str(path)!r})); return net, torch.zeros(1, 3, 224, 224)"
    )
    where = f"in net.py: {code}, with the network's class and the shape of its input"
    return Known(what, f"edgewise bench net.py:make  # {where}")


def _paddle(path: Path) -> Known:
    out = quote(f"{path.stem}.onnx")
    files = f"--model_filename {quote(path.name)} --params_filename {quote(path.stem + '.pdiparams')}"
    convert = f"paddle2onnx --model_dir {quote(str(path.parent))} {files} --save_file {out} && edgewise bench {out}"
    return Known("a Paddle 3 model", _install("paddlepaddle", "paddle2onnx") + convert, reader="PaddlePaddle")


def _tensorrt(path: Path) -> Known:
    other = "edgewise bench MODEL.onnx -r onnxruntime/tensorrt"
    advice = f"trtexec --loadEngine={quote(str(path))}  # or the model it was built from: {other}"
    return Known("a TensorRT engine", advice, reader="TensorRT, on the kind of GPU that it was built on,")


def _hdf5(path: Path) -> Known:
    if path.name.endswith(".weights.h5"):
        where = "make() builds the model, loads the weights and returns it"
        return Known("the weights of a Keras model, without its network", f"edgewise bench net.py:make  # {where}")
    what = "an HDF5 file, probably a Keras model or its weights"
    return Known(what, advise_conversion("keras", path), reader="Keras")


_UNPACK = "unpack it first"
#: (where, mark, what it is or how to find out).
_MARKS: tuple[tuple[int, bytes, Known | Callable[[Path], Known]], ...] = (
    (0, b"version https://git-lfs",
     Known("a Git LFS pointer, not the model itself", "run 'git lfs pull' in its repository")),
    (0, b"LITERTLM",
     Known("a LiteRT-LM bundle of a language model", "give a .tflite file that it was built from", "LiteRT-LM")),
    (0, b"\x89HDF\r\n\x1a\n", _hdf5),
    (0, b"\x1f\x8b", Known("compressed with gzip", _UNPACK)),
    (0, b"\xfd7zXZ\x00", Known("compressed with xz", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", Known("compressed with zstd", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", Known("a 7z archive", _UNPACK)),
    (257, b"ustar", Known("a tar archive", _UNPACK)),
    (0, b"ptrt", _tensorrt),
    (0, b"ftrt", _tensorrt),
    (0, b"RKNN", Known("an RKNN model", "give the ONNX model it was converted from")),
    (0, b"7767517", Known("an ncnn .param file", "give the ONNX model it was converted from")),
    (0, b"\x93NUMPY", Known("a numpy array, not a model", "give arrays with ⟦input_data⟧, as .npz")),
)  # fmt: skip
#: Version, then a description that begins with an input, whose name comes first; all but the version with lengths.
_CORE_ML_HEAD = re.compile(rb"\x08[\x01-\x1f]\x12[\x80-\xff]*[\x00-\x7f]\x0a[\x80-\xff]*[\x00-\x7f]\x0a")
PADDLE_JSON = re.compile(rb'"magic"\s*:\s*"pir"')


def _by_mark(head: bytes, path: Path) -> Iterator[Known]:
    for at, mark, known in _MARKS:
        if head[at : at + len(mark)] == mark:
            yield known if isinstance(known, Known) else known(path)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        yield _recognise_zip(path)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        yield _weights(path, "a Python pickle, which can run code, so edgewise never opens it", "torch.load")
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        yield _weights(path, "a safetensors file, which contains weights but no network", "safetensors.torch.load_file")
    if _CORE_ML_HEAD.match(head):
        yield _CORE_ML


def _recognise_zip(path: Path) -> Known:
    """Return a zip archive by the names of its entries; nothing is unpacked."""
    names: tuple[str, ...] = ()
    models: Sequence[tuple[str, ...]] | None = None
    data = b""
    with suppress(BadModel, OSError), open_archive(path) as archive:
        names, models = archive.names, models_in(archive)
        if pickled := next((name for name in names if name.endswith("/data.pkl")), None):
            data = archive.read(pickled, _MOST_PICKLE_BYTES)
    if any(re.fullmatch(r"[^/]+/code/.+\.py", name) for name in names):
        example = "(torch.zeros(1, 3, 224, 224),)"
        program = f"import torch; torch.onnx.export(torch.jit.load(PATH), {example}, OUT, dynamo=False)"
        advice = _convert(path, program, "torch") + "  # with the shape of its input"
        return Known("a TorchScript program", advice, reader="PyTorch")
    if b"ultralytics" in data:
        export = f"{_install('ultralytics')}yolo export model={quote(str(path))} format=onnx"
        out = quote(str(path.with_suffix(".onnx")))
        return Known("an Ultralytics model", f"{export} && edgewise bench {out}", reader="Ultralytics")
    if data or path.suffix in (".pt", ".pth"):
        return _weights(path, "a PyTorch checkpoint, which does not contain the network itself", "torch.load")
    if names[:1] and names[0].endswith(".npy"):
        return Known("an .npz file of arrays, not a model", "give arrays with ⟦input_data⟧")
    if models is None:
        return Known("a zip archive that is cut or damaged", "download or export it again")
    return _bundle(path, models) if models else Known("a zip archive", _UNPACK)


def _bundle(path: Path, models: Sequence[tuple[str, ...]]) -> Known:
    """Return an archive of models, with the command that unpacks it and inspects the first."""
    steps, archive, folder = list[str](), path, Path(path.stem if path.suffix else f"{path.name}-unpacked")
    first = min(models, key=lambda names: (names[-1].endswith(TASK), len(names)))
    for inner in first:
        steps.append(f"python -m zipfile -e {quote(str(archive))} {quote(str(folder))}")
        archive = folder / inner
        folder = archive.with_suffix("")
    of_mediapipe = path.suffix == TASK or any(len(each) > 1 or not Path(each[0]).suffix for each in models)
    kind = "a MediaPipe bundle" if of_mediapipe else "a zip archive"
    named = enumerate_few([" in ".join(reversed(each)) for each in models], 6)
    return Known(
        f"{kind} of {len(models)} model{'s' if len(models) > 1 else ''}: {named}",
        f"{' && '.join(steps)} && edgewise inspect {quote(str(archive))}",
        reader="MediaPipe" if of_mediapipe else "",
    )


def _by_text(head: bytes, path: Path) -> Iterator[Known]:
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        yield Known("a web page, probably from a failed download", "download it again and check the file")
    if start.startswith(b"{"):
        if PADDLE_JSON.search(head):
            yield _paddle(path)
        if (folder := recognise_folder(path.absolute().parent)) and "Hugging Face" in folder.what:
            yield Known(f"a description in {folder.what}", folder.advice)
        yield Known("JSON text", "give a model file, such as model.onnx")
    if start.startswith(b"<?xml"):
        yield Known("XML, but not an OpenVINO IR (it has no <net>)", "give the .xml file of an OpenVINO model")


def _by_name(head: bytes, path: Path) -> Iterator[Known]:
    """Yield formats without a mark, told by what lies beside the file or by its name."""
    owners = [
        path.with_suffix(""),
        path.with_suffix(".onnx"),
        path.with_name(path.name.partition(".onnx")[0] + ".onnx"),
    ]
    owners = [
        each for each in owners if each.suffix == ".onnx" and path.suffix not in (".tflite", ".xml", ".keras", ".py")
    ]
    beside = {".bin": (".xml",), ".pdiparams": (".pdmodel", ".json")}.get(path.suffix, ())
    for owner in (*map(path.with_suffix, beside), *owners):
        if owner != path and owner.is_file():
            yield Known("the weights of a model", f"edgewise bench {quote(str(owner))}  # the file beside it")
    if path.suffix == ".bin":
        advice = "for an OpenVINO model give the .xml that belongs to it"
        yield Known("a .bin file of weights, without a network", advice)
    if path.suffix in (".engine", ".plan", ".trt"):
        yield _tensorrt(path)
    if path.suffix == ".mlmodel":
        yield _CORE_ML
    if path.suffix == ".pb":
        what = "a protobuf file, but neither a frozen TensorFlow graph nor a SavedModel"
        yield Known(what, "give the folder of a SavedModel, or a frozen graph")
    if path.suffix == ".caffemodel":
        yield Known("a Caffe model", "convert it to ONNX")


_WAYS = (_by_mark, _by_text, _by_name)
