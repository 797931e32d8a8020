"""What the passes on modules say of themselves without any of their packages: capabilities, recipes, refusals."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.model.graph import Graph, Operator, Tensor
from edgewise.model.signature import Signature
from edgewise.optimizing.base import CannotApply, Facts, PassSettings, PassTask, passes
from edgewise.optimizing.passes.torch_channels import find_heads
from edgewise.optimizing.passes.torch_pt2e import Pt2eSettings
from edgewise.optimizing.passes.torch_training import TrainingSettings
from edgewise.optimizing.pipeline import choose_conversion
from edgewise.optimizing.search_settings import SearchSettings
from messages import says
from pass_settings import settings_of

NAMES = (
    "executorch-dynamic", "executorch-static", "keras-to-litert", "torch-distill", "torch-prune", "torch-pt2e",
    "torch-to-executorch", "torch-to-litert", "torch-to-onnx",
)  # fmt: skip


def make_graph(*layers: tuple[str, str], weights: bool = True) -> Graph:
    """A chain of operators, each of a (module, op)."""
    tensors, operators = {"x": Tensor(name="x", shape=(1, 4), dtype="float32")}, []
    before = "x"
    for index, (module, op) in enumerate(layers):
        output = f"t{index}"
        tensors[output] = Tensor(name=output, shape=(1, 4), dtype="float32")
        kernel = f"w{index}"
        weighed = bool(module) and weights
        if weighed:
            tensors[kernel] = Tensor(name=kernel, shape=(4, 4), dtype="float32", constant=True)
        operators.append(
            Operator(
                index=index,
                name=output,
                op=op,
                inputs=(before, kernel) if weighed else (before,),
                outputs=(output,),
                weights=(kernel,) if weighed else (),
                attributes={"module": module} if module else {},
            )
        )
        before = output
    return Graph(name="", format="torch", tensors=tensors, operators=tuple(operators), inputs=("x",), outputs=(before,))


def make_facts(graph: Graph, *, quantized: bool = False) -> Facts:
    return Facts(
        path=Path("model.py:make"),
        format="torch",
        graph=graph,
        signature=Signature(inputs=(), outputs=()),
        quantized=quantized,
        runtimes=("onnxruntime",),
        cores=1,
    )


TWO = make_graph(("body", "linear"), ("", "relu"), ("head", "linear"), ("", "softmax"))
ONE = make_graph(("head", "linear"))


@pytest.mark.parametrize("name", NAMES)
def test_each_is_found_by_its_name_and_names_an_extra(name):
    found = passes().get(name)
    assert found.name == name
    assert found.capabilities.extra == ("executorch" if "executorch" in name else "torch-optimize")
    answer = found.availability()
    assert answer.available or "edgewise[" in answer.install_hint


def test_the_training_passes_want_samples_and_their_labels():
    for name in ("torch-prune", "torch-distill"):
        capabilities = passes().get(name).capabilities
        assert capabilities.trains and capabilities.calibrates and capabilities.labels and not capabilities.exact


def test_conversions_are_exact_and_have_a_recipe_without_settings():
    for name in ("torch-to-onnx", "torch-to-litert", "torch-to-executorch", "keras-to-litert"):
        found = passes().get(name)
        assert found.capabilities.exact
        first = found.recipes(make_facts(TWO))[0]
        assert (first.label, first.rank) == ("", 0) and first.settings == settings_of(found)


def test_pruning_has_recipes_where_there_is_a_layer_besides_the_last():
    prune = passes().get("torch-prune")
    assert [recipe.settings.ratio for recipe in prune.recipes(make_facts(TWO))] == [0.5, 0.25]
    assert prune.recipes(make_facts(ONE)) == ()
    assert prune.recipes(make_facts(TWO, quantized=True)) == ()


def test_what_is_quantised_is_not_quantised_again():
    assert passes().get("torch-pt2e").recipes(make_facts(TWO, quantized=True)) == ()


@pytest.mark.parametrize(("saturate", "other"), [(False, "7-bit"), (True, "8-bit")])
def test_activations_have_7_bits_first_where_sums_of_8_saturate(monkeypatch, saturate, other):
    monkeypatch.setattr("edgewise.optimizing.passes.torch_pt2e.sums_saturate", lambda: saturate)
    recipes = passes().get("torch-pt2e").recipes(make_facts(TWO))
    assert [(one.label, one.settings) for one in recipes] == [
        ("", Pt2eSettings(reduce_range=saturate)), (other, Pt2eSettings(reduce_range=not saturate))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("engines", "first"),
    [
        ((), "torch-to-onnx"), (("openvino", "executorch"), "torch-to-onnx"), (("litert",), "torch-to-litert"),
        (("executorch",), "torch-to-executorch"), (("torch",), "torch-to-onnx"),
    ],
)  # fmt: skip
def test_a_module_is_converted_for_an_engine_of_the_search(engines, first):
    settings = SearchSettings(model="net.py:make", format="torch", runtimes=engines)
    assert choose_conversion(settings) == first


def test_labels_of_recipes_are_distinct():
    for name in NAMES:
        labels = [recipe.label for recipe in passes().get(name).recipes(make_facts(TWO))]
        assert len(set(labels)) == len(labels)


def test_the_head_is_the_last_layer_with_weights_whatever_follows_it():
    assert find_heads(TWO) == ["head"]
    assert find_heads(ONE) == ["head"]


def test_a_keras_file_is_refused_because_loading_it_runs_what_it_names(tmp_path):
    with pytest.raises(CannotApply, match=says("loading-keras-file-can-run")):
        passes().get("keras-to-litert").apply(
            PassTask(model="m.keras", format="keras", settings=PassSettings(), folder=tmp_path)
        )


def test_epochs_follow_from_the_samples_unless_they_are_given():
    assert TrainingSettings(epochs=3).epochs_for(10_000) == 3
    assert TrainingSettings(batch=16).epochs_for(1600) == 16
    assert TrainingSettings(batch=16).epochs_for(10**6) == 10


def test_recipes_import_no_framework():
    code = (
        "import sys\nfrom edgewise.optimizing.base import passes\n"
        f"for name in {NAMES!r}: passes().get(name).availability()\n"
        "print([each for each in ('torch', 'keras', 'numpy', 'onnx') if each in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
