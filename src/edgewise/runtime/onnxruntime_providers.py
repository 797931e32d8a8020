"""ONNX Runtime's execution providers: which came with the installed package, and what is missing for others."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from edgewise.errors import as_flag
from edgewise.registry import Availability

#: word in the name of a library beside the engine → the execution provider it holds
_LIBRARIES = {
    "cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider",
    "nv_tensorrt_rtx": "NvTensorRTRTXExecutionProvider", "rocm": "ROCMExecutionProvider",
    "migraphx": "MIGraphXExecutionProvider", "openvino": "OpenVINOExecutionProvider", "dnnl": "DnnlExecutionProvider",
    "vitisai": "VitisAIExecutionProvider", "cann": "CANNExecutionProvider", "qnn": "QNNExecutionProvider",
}  # fmt: skip
_NVIDIA = "an NVIDIA GPU, its driver, CUDA and cuDNN"
#: provider → the package that brings it, the system it is for ("" where it is not bound to one), what else it needs
_PACKAGES = {
    "cuda": ("onnxruntime-gpu", "", _NVIDIA),
    "tensorrt": ("onnxruntime-gpu", "", f"{_NVIDIA}, and TensorRT"),
    "coreml": ("onnxruntime", "darwin", "a Mac"),
    "dml": ("onnxruntime-directml", "win32", "Windows with a GPU of DirectX 12"),
    "openvino": ("onnxruntime-openvino", "", "a processor, GPU or NPU of Intel"),
    "qnn": ("onnxruntime-qnn", "win32", "Windows on a Snapdragon"),
    "migraphx": ("onnxruntime-migraphx", "linux", "a GPU of AMD with ROCm"),
    "rocm": ("onnxruntime-rocm", "linux", "a GPU of AMD with ROCm"),
}
_SYSTEMS = {"darwin": "macOS", "win32": "Windows", "linux": "Linux"}


def installed_providers() -> list[str]:
    """Return execution providers besides the CPU's, from the files of the installed package."""
    spec = find_spec("onnxruntime")
    folders = [Path(folder) / "capi" for folder in (spec.submodule_search_locations or ())] if spec else []
    names = [file.name.lower() for folder in folders if folder.is_dir() for file in folder.iterdir()]
    found = [
        title
        for word, title in _LIBRARIES.items()
        if any(name.removeprefix("lib").startswith(f"onnxruntime_providers_{word}.") for name in names)
    ]
    if "directml.dll" in names:
        found.append("DmlExecutionProvider")
    if sys.platform == "darwin" and names:
        found.append("CoreMLExecutionProvider")
    return found


def lacking_provider(provider: str) -> Availability | None:
    """Return what this machine lacks for a provider that is not installed; None for one that is not known here."""
    if provider not in _PACKAGES:
        return None
    package, system, needs = _PACKAGES[provider]
    if system and sys.platform != system:
        return Availability(
            False,
            f"it exists on {_SYSTEMS[system]} only",
            f"measure on such a device: {as_flag('device', 'NAME')}; it needs {needs}",
        )
    reason = f"the installed ONNX Runtime has no {provider} provider"
    if needs.startswith(_NVIDIA) and not Path("/dev/nvidiactl").exists():
        reason += ", and this machine shows no NVIDIA driver (/dev/nvidiactl)"
    return Availability(False, reason, f"pip uninstall onnxruntime, then pip install {package}; it needs {needs}")


def short_name(title: str) -> str:
    """Return the name of a provider in edgewise: ``CUDAExecutionProvider`` is ``cuda``."""
    return title.removesuffix("ExecutionProvider").lower()
