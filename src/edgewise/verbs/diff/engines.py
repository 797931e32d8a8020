"""Engines that run a model and give the tensors inside it: what `diff` reads in a child process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from edgewise.converting.exposing import add_onnx_outputs
from edgewise.verbs.diff.micro_engines import MICRO_ENGINES, MicroEngine

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


class Tensors(Protocol):
    """One model with all its tensors.

    Attributes:
        formats: of the files that it reads.
        version: of the engine, with its name.
    """

    formats: Sequence[str]
    version: str

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """Return the tensors of `names` after an inference on `feeds`, one array per input in the model's order."""
        ...


def onnx_session(model: bytes, folder: Path) -> Any:
    """Return a session on the processor; `folder` has the weights that are in files of their own."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(folder))
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


class OnnxTensors:
    """ONNX Runtime, with the wanted tensors as further outputs."""

    formats = ("onnx",)

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        import onnx
        import onnxruntime

        model = onnx.load(str(path), load_external_data=False)
        self._inputs = [
            each.name for each in model.graph.input if each.name not in {one.name for one in model.graph.initializer}
        ]
        self._names = add_onnx_outputs(model, names)
        self._session = onnx_session(model.SerializeToString(), path.parent)
        self.version = f"onnxruntime {onnxruntime.__version__}"

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """As `Tensors.run`."""
        fed = dict(zip(self._inputs, feeds, strict=True))
        wanted = [name for name in self._names if name in names]
        found = dict(zip(wanted, self._session.run(wanted, fed), strict=True)) if wanted else {}
        return {**{name: fed[name] for name in names if name in fed}, **found}


class LitertTensors:
    """LiteRT's interpreter, which keeps all tensors; delegates would join layers, so its own kernels run."""

    formats = ("tflite",)

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        from importlib.metadata import version

        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        del names
        self._interpreter = Interpreter(
            model_path=str(path),
            experimental_preserve_all_tensors=True,
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        self._interpreter.allocate_tensors()
        self._places: dict[str, int] = {}
        for each in self._interpreter.get_tensor_details():
            self._places.setdefault(each["name"], each["index"])
        self.version = f"litert {version('ai-edge-litert')} (built-in kernels)"

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """As `Tensors.run`."""
        for given, array in zip(self._interpreter.get_input_details(), feeds, strict=True):
            self._interpreter.set_tensor(given["index"], array)
        self._interpreter.invoke()
        found = {}
        for name in names:
            if (place := self._places.get(name)) is None:
                continue
            try:
                found[name] = self._interpreter.get_tensor(place)
            except ValueError:  # a tensor without data, such as one in a branch that was not taken
                continue
        return found


class OpenVinoTensors:
    """OpenVINO on the processor in 32 bits, with the wanted tensors as further outputs."""

    formats = ("openvino", "onnx")  # of .tflite, OpenVINO's reader loses most names

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        import openvino

        from edgewise.runtime.openvino import OpenVino, read_model

        core = openvino.Core()
        model = read_model(core, path)
        ports = _ports_of(model)
        self._inputs = {name: place for place, port in enumerate(model.inputs) for name in _names_of(port)}
        found = {name: ports[name] for name in names if name in ports and name not in self._inputs}
        if found:
            model.add_outputs(list(found.values()))
        # A tensor that is an output already, or has two names, gets no further one.
        places = {_key(port.get_node().input_value(0)): place for place, port in enumerate(model.outputs)}
        self._names = {name: places[_key(port)] for name, port in found.items()}
        self._compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        self.version = f"openvino {OpenVino().import_engine()}"

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """As `Tensors.run`."""
        told = self._compiled(list(feeds))
        fed = {name: feeds[self._inputs[name]] for name in names if name in self._inputs}
        return fed | {name: told[self._names[name]] for name in names if name in self._names}


def _ports_of(model: Any) -> dict[str, Any]:
    """Tensor name → output of an operation."""
    return {
        name: port for node in model.get_ordered_ops() if node.get_type_name() != "Result"
        for port in node.outputs() for name in _names_of(port)
    }  # fmt: skip


def _names_of(port: Any) -> Sequence[str]:
    """Return the names of a port; one without is called as `edgewise.model.readers.openvino_graph` does."""
    node = port.get_node()
    own: str = node.get_friendly_name()
    plain = own if node.get_type_name() == "Parameter" else f"{own}:{node.get_input_size() + port.get_index()}"
    return sorted(port.get_names()) or [plain]


def _key(port: Any) -> tuple[str, int]:
    return port.get_node().get_friendly_name(), port.get_index()


class TorchTensors:
    """PyTorch, with an interpreter that runs an exported program node by node."""

    formats = ("torch",)

    def __init__(self, path: Path, names: Sequence[str]) -> None:
        import torch

        from edgewise.runtime.torch_program import load_module

        self._found = load_module(path)
        self._inputs = [spec.name for spec in self._found.inputs]
        self._names = frozenset(names)
        self.version = f"torch {torch.__version__}"

    def run(self, feeds: Sequence[Array], names: Sequence[str]) -> Mapping[str, Array]:
        """As `Tensors.run`."""
        import torch
        from torch.utils._pytree import tree_leaves

        found = {name: feed for name, feed in zip(self._inputs, feeds, strict=True) if name in names}
        wanted = self._names

        class Keeping(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch has no types here
            """Copies tensors, because a later node may write into them."""

            def run_node(self, n: Any) -> Any:
                made = super().run_node(n)
                if n.name in wanted and isinstance(made, torch.Tensor):
                    real = made.float() if made.dtype == torch.bfloat16 else made  # which numpy lacks
                    found.setdefault(n.name, real.numpy(force=True).copy())
                return made

        with torch.inference_mode():
            given = tree_leaves(self._found.arrange([torch.from_numpy(feed) for feed in feeds]))
            Keeping(self._found.module).run(*given, enable_io_processing=False)
        return found


ENGINES: Mapping[
    str, type[OnnxTensors] | type[LitertTensors] | type[OpenVinoTensors] | type[TorchTensors] | MicroEngine
]
ENGINES = {
    "onnxruntime": OnnxTensors, "litert": LitertTensors, "openvino": OpenVinoTensors, "torch": TorchTensors,
    **MICRO_ENGINES,
}  # fmt: skip
"""Engine → what runs a model in it with all its tensors."""
