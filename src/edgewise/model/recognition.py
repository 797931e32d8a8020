"""Files and folders that are known and can't be run here: what each is, what reads it, and the next command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote

from edgewise.errors import BadModel
from edgewise.model.readers.archive import open_archive

_MOST_PICKLE_BYTES = 64 * 2**20
_MOST_CONFIG_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What a file or folder is.

    Attributes:
        what: with its article: ``a GGUF model``.
        reader: the program that reads it, where there is one.
        advice: the next command, which can be pasted into a shell, or what to do where no command helps.
    """

    what: str
    reader: str = ""
    advice: str

    def refuse(self, path: Path) -> BadModel:
        """The error for `path`."""
        verdict = f"{self.reader} reads it, edgewise does not" if self.reader else "edgewise can't read that"
        return BadModel(f"{path.name or path} is {self.what}; {verdict}", advice=self.advice)


def recognise_file(head: bytes, path: Path) -> Known | None:
    """What the file at `path` is, by its first bytes, else by its name; None where nothing fits."""
    return next((known for way in _WAYS for known in way(head, path)), None)


def recognise_folder(folder: Path) -> Known | None:
    """What kind of model `folder` is; None where it is none. A SavedModel is read, and so it is not known here."""
    if folder.suffix == ".mlpackage" or _holds(folder / "Manifest.json", b"com.apple.CoreML"):
        return _CORE_ML
    for name in ("model_index.json", "config.json"):
        if _holds(folder / name, b'"model_type"', b'"architectures"', b'"transformers_version"', b'"_class_name"'):
            return _hugging_face(folder)
    if (program := folder / "inference.json").is_file() and PADDLE_JSON.search(_beginning(program)):
        return _paddle(program)
    return None


def advise_conversion(form: str, path: Path) -> str:
    """The command that makes a file that engines run, and every command reads, of one of the format `form`; "" if none.

    Args:
        form: as readers call it: ``torch``, ``keras``, ``tensorflow``, ``savedmodel``, ``paddle``, ``ort``.
    """
    if form == "torch":
        program = "import torch; torch.onnx.export(torch.export.load(PATH), (), OUT, dynamo=True)"
        return _convert(path, program, "torch", "onnxscript")
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
        return f"ovc {quote(str(source))} --output_model {out} --compress_to_fp16=False && edgewise inspect {out}"
    return "give the .onnx file that it was made from" if form == "ort" else ""


def _convert(path: Path, program: str, *packages: str) -> str:
    """A Python program, with PATH and OUT filled in, as one line of shell that ends by measuring what it made."""
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


# Kinds that several ways lead to.

_CORE_ML = Known(
    what="a Core ML model",
    reader="Core ML on Apple's systems",
    advice="edgewise bench MODEL.onnx -r onnxruntime/coreml  # on a Mac, with the model that it was converted from",
)


def _hugging_face(folder: Path) -> Known:
    """A folder as Transformers, Diffusers or Sentence Transformers save it."""
    what = "a Hugging Face model folder"
    for name in ("model.onnx", "onnx/model.onnx", "openvino_model.xml", "openvino/openvino_model.xml"):
        if (folder / name).is_file():
            return Known(what=what, advice=f"edgewise bench {quote(str(folder / name))}")
    out = quote(f"{folder.resolve().name}-onnx")
    install = "" if find_spec("optimum") else "pip install 'optimum-onnx[onnxruntime]' && "
    export = f"optimum-cli export onnx --model {quote(str(folder))} {out}"
    return Known(what=what, reader="Transformers", advice=f"{install}{export} && edgewise bench {out}/model.onnx")


def _weights(path: Path, what: str, load: str) -> Known:
    """Weights without a network: the user's code has to build it."""
    if path.parent.is_dir() and (folder := recognise_folder(path.parent)) and "Hugging Face" in folder.what:
        return Known(what=f"{what} in {folder.what}", advice=folder.advice)
    code = f"def make(): net = Net(); net.load_state_dict({load.replace('PATH', repr(str(path)))}); "
    return Known(
        what=what,
        advice="edgewise bench net.py:make  # where net.py says: "
        f"{code}return net, torch.zeros(1, 3, 224, 224), with the network's class and the shape of its input",
    )


def _paddle(path: Path) -> Known:
    out = quote(f"{path.stem}.onnx")
    weights = path.with_suffix(".pdiparams").name
    return Known(
        what="a Paddle model",
        reader="PaddlePaddle",
        advice=f"{_install('paddlepaddle', 'paddle2onnx')}paddle2onnx --model_dir {quote(str(path.parent))} "
        f"--model_filename {quote(path.name)} --params_filename {quote(weights)} --save_file {out} "
        f"&& edgewise bench {out}",
    )


def _tensorrt(path: Path) -> Known:
    return Known(
        what="a TensorRT engine",
        reader="TensorRT, on the kind of GPU that it was built on,",
        advice=f"trtexec --loadEngine={quote(str(path))}  # or the model it was built from: "
        "edgewise bench MODEL.onnx -r onnxruntime/tensorrt",
    )


def _hdf5(path: Path) -> Known:
    if path.name.endswith(".weights.h5"):
        return Known(
            what="the weights of a Keras model, without its network",
            advice="edgewise bench net.py:make  # where make() builds the model, loads the weights and returns it",
        )
    what = "an HDF5 file, probably a Keras model or its weights"
    return Known(what=what, reader="Keras", advice=advise_conversion("keras", path))


def _plain(what: str, advice: str) -> Callable[[Path], Known]:
    return lambda path: Known(what=what, advice=advice)


_UNPACK = "unpack it first"
#: (where, mark, what it is).
_MARKS: tuple[tuple[int, bytes, Callable[[Path], Known]], ...] = (
    (0, b"version https://git-lfs", _plain("a Git LFS pointer, not the model itself",
                                           "run 'git lfs pull' in its repository")),
    (0, b"GGUF", lambda path: Known(what="a GGUF model", reader="llama.cpp",
                                    advice=f"llama-bench -m {quote(str(path))}")),
    (0, b"\x89HDF\r\n\x1a\n", _hdf5),
    (4, b"ET1", _plain("an ExecuTorch program", "edgewise bench FILE.py:function  # one that makes the original")),
    (0, b"\x1f\x8b", _plain("compressed with gzip", _UNPACK)),
    (0, b"\xfd7zXZ\x00", _plain("compressed with xz", _UNPACK)),
    (0, b"\x28\xb5\x2f\xfd", _plain("compressed with zstd", _UNPACK)),
    (0, b"7z\xbc\xaf\x27\x1c", _plain("a 7z archive", _UNPACK)),
    (257, b"ustar", _plain("a tar archive", _UNPACK)),
    (0, b"ptrt", _tensorrt),
    (0, b"ftrt", _tensorrt),
    (0, b"RKNN", _plain("an RKNN model", "give the ONNX model it was converted from")),
    (0, b"7767517", _plain("an ncnn .param file", "give the ONNX model it was converted from")),
    (0, b"\x93NUMPY", _plain("a numpy array, not a model", "arrays go to --input-data, as .npz")),
)  # fmt: skip
PADDLE_JSON = re.compile(rb'"magic"\s*:\s*"pir"')


def _by_mark(head: bytes, path: Path) -> Iterator[Known]:
    for at, mark, known in _MARKS:
        if head[at : at + len(mark)] == mark:
            yield known(path)
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        yield _recognise_zip(path)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05" and len(head) > 1:
        yield _weights(path, "a Python pickle, which can run code and is never opened here", "torch.load(PATH)")
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**27:
        yield _weights(
            path, "a safetensors file, which holds weights and no network", "safetensors.torch.load_file(PATH)"
        )
    if _is_core_ml(head):
        yield _CORE_ML


def _recognise_zip(path: Path) -> Known:
    """A zip archive by the names of its entries; nothing is unpacked."""
    try:
        with open_archive(path) as archive:
            names = archive.names
            pickled = next((name for name in names if name.endswith("/data.pkl")), None)
            data = archive.read(pickled, _MOST_PICKLE_BYTES) if pickled else b""
    except (BadModel, OSError):
        names, data = (), b""
    if any(re.fullmatch(r"[^/]+/code/.+\.py", name) for name in names):
        example = "(torch.zeros(1, 3, 224, 224),)"
        program = f"import torch; torch.onnx.export(torch.jit.load(PATH), {example}, OUT, dynamo=False)"
        advice = _convert(path, program, "torch") + "  # with the shape of its input"
        return Known(what="a TorchScript program", reader="PyTorch", advice=advice)
    if b"ultralytics" in data:
        export = f"{_install('ultralytics')}yolo export model={quote(str(path))} format=onnx"
        out = quote(str(path.with_suffix(".onnx")))
        return Known(what="an Ultralytics model", reader="Ultralytics", advice=f"{export} && edgewise bench {out}")
    if data or path.suffix in (".pt", ".pth"):
        return _weights(path, "a PyTorch checkpoint, which holds no network that can be run alone", "torch.load(PATH)")
    if names[:1] and names[0].endswith(".npy"):
        return Known(what="an .npz file of arrays, not a model", advice="arrays go to --input-data")
    return Known(what="a zip archive", advice=_UNPACK)


def _is_core_ml(head: bytes) -> bool:
    """Whether the protobuf fields are a Core ML ``Model``'s: version, description, then one numbered from 200 on."""
    if head[:1] != b"\x08" or head[2:3] != b"\x12":
        return False
    length, after = _varint(head, 3)
    key, end = _varint(head, after + length)
    return 0 < after < end and key >> 3 >= 200


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at `at` and where it ends; (0, 0) where there is none."""
    value = 0
    for index, byte in enumerate(data[at : at + 10]):
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    return 0, 0


def _by_text(head: bytes, path: Path) -> Iterator[Known]:
    start = head.lstrip()[:64].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        what = "a web page, probably of a download that failed"
        yield Known(what=what, advice="download it again and look at what arrives")
    if start.startswith(b"{"):
        if PADDLE_JSON.search(head):
            yield _paddle(path)
        if (folder := recognise_folder(path.resolve().parent)) and "Hugging Face" in folder.what:
            yield Known(what=f"a description in {folder.what}", advice=folder.advice)
        yield Known(what="JSON text", advice="give a model file, such as model.onnx")
    if start.startswith(b"<?xml"):
        what = "XML, but not an OpenVINO IR (it has no <net>)"
        yield Known(what=what, advice="give the .xml file of an OpenVINO model")


def _by_name(head: bytes, path: Path) -> Iterator[Known]:
    """Formats without a mark, told by what lies beside the file or by its name."""
    del head
    if path.suffix == ".pdiparams" and path.with_suffix(".pdmodel").is_file():
        beside = quote(str(path.with_suffix(".pdmodel")))
        yield Known(what="the weights of a Paddle model", advice=f"edgewise bench {beside}  # the .pdmodel beside it")
    if path.suffix == ".pdiparams" and path.with_suffix(".json").is_file():
        yield Known(what="the weights of a Paddle model", advice=_paddle(path.with_suffix(".json")).advice)
    beside = path.with_suffix(".xml")
    if path.suffix == ".bin":
        if beside.is_file():
            yield Known(what="the weights of an OpenVINO model", advice=f"give the .xml beside it: {beside}")
        else:
            what = "a .bin file of weights, without a network"
            yield Known(what=what, advice="for an OpenVINO model give the .xml that belongs to it")
    for owner in (
        path.with_suffix(""),
        path.with_suffix(".onnx"),
        path.with_name(path.name.partition(".onnx")[0] + ".onnx"),
    ):
        if owner != path and owner.suffix == ".onnx" and owner.is_file() and path.suffix not in (".tflite", ".xml"):
            yield Known(what="weights that belong to an ONNX model", advice=f"give the .onnx beside it: {owner}")
    if path.suffix in (".engine", ".plan", ".trt"):
        yield _tensorrt(path)
    if path.suffix == ".mlmodel":
        yield _CORE_ML
    if path.suffix == ".pb":
        yield Known(
            what="a protobuf file, but neither a frozen TensorFlow graph nor a SavedModel",
            advice="give the folder of a SavedModel, or a frozen graph",
        )
    if path.suffix == ".caffemodel":
        yield Known(what="a Caffe model", advice="convert it to ONNX")


_WAYS = (_by_mark, _by_text, _by_name)
