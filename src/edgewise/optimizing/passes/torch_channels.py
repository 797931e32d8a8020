"""Fewer channels: structured pruning of a PyTorch module by torch-pruning's dependency graph."""

from __future__ import annotations

import contextlib
import copy
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from edgewise.model.graph import Graph
from edgewise.optimizing.libraries import CannotApply, refusing
from edgewise.optimizing.passes.torch_modules import TorchModel, need_module
from edgewise.optimizing.passes.torch_training import flatten_outputs

ROUND_TO = 8
"""Engines compute channels in blocks of 8 or 16; odd counts fall back to slower kernels."""


class ChannelPruner:
    """Removes a share of the channels of every layer in steps, those with the least group norm first.

    The group norm is that of G. Fang et al., "DepGraph: Towards Any Structural Pruning", arXiv:2301.12900. The layers
    that make the outputs keep their channels. The pruner changes a copy, `module`.

    Args:
        ratio: share of the channels to remove, in all steps together.
        steps: number of calls of `shrink`, with training between them.
        keep: operators whose layers keep all channels and inputs.
        only: if not empty, the operators whose layers lose channels; coupled layers lose the same channels.

    Raises:
        CannotApply: the module can't be traced.
        BadInput: the module has no such operator.
    """

    def __init__(
        self,
        model: TorchModel,
        *,
        ratio: float,
        steps: int = 1,
        keep: Sequence[str] = (),
        only: Sequence[str] = (),
    ) -> None:
        self.module = copy.deepcopy(need_module(model)).eval()
        self._inputs = model.inputs
        self._ratio = ratio
        self._kept = [self.module.get_submodule(model.layer_of(name)) for name in keep]
        chosen = [self.module.get_submodule(model.layer_of(name)) for name in only]
        ignored = [self.module.get_submodule(name) for name in find_heads(model.graph)] + self._kept
        if chosen:
            ignored += [each for _, each in _wide_layers(self.module) if all(each is not one for one in chosen)]
        self._widths = dict(_widths(self.module))
        self._shapes = self._run()
        losing = [count for _, count in _widths(self.module, without=ignored)]
        # The number of remaining channels is a multiple of this.
        round_to = ROUND_TO if losing and min(losing) >= 2 * ROUND_TO else 1
        with _explained("traced"):
            self._pruner = _make_pruner(
                self.module, self._inputs, ratio=ratio, steps=steps, round_to=round_to, ignored=ignored
            )

    def shrink(self) -> bool:
        """Do one step. Returns whether channels were removed: small layers may lose none in the first of many steps.

        Raises:
            CannotApply: the module does not work with fewer channels.
        """
        self.module.eval()
        before = dict(_widths(self.module))
        with _explained("run with fewer channels"):
            for group in self._pruner.step(interactive=True):
                # A kept layer must keep its inputs, too.
                if all(dependency.target.module is not each for dependency, _ in group for each in self._kept):
                    group.prune()
            shapes = self._run()
        if shapes != self._shapes:
            raise CannotApply("the module's outputs change their shapes with fewer channels")
        return dict(_widths(self.module)) != before

    def describe(self) -> str:
        """Return a note on the removed channels. Raises `CannotApply` where there are none."""
        after = dict(_widths(self.module))
        before, left = sum(self._widths.values()), sum(after.values())
        if before == left:
            raise CannotApply(f"no layer has channels to remove at a ratio of {self._ratio:g}")
        fewer = sum(after[name] < count for name, count in self._widths.items())
        return f"channels {before} → {left}, fewer in {fewer} layers"

    def _run(self) -> list[Any]:
        import torch

        with torch.no_grad():
            return [each.shape for each in flatten_outputs(self.module(*self._inputs))]


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    """Turn errors of the module's code or the tracer into `CannotApply`."""
    with warnings.catch_warnings(), refusing(f"the module can't be {what}"):
        warnings.simplefilter("ignore")
        yield


def _make_pruner(
    module: Any, inputs: tuple[Any, ...], *, ratio: float, steps: int, round_to: int, ignored: list[Any]
) -> Any:
    import torch_pruning

    return torch_pruning.pruner.BasePruner(
        module,
        inputs,
        importance=torch_pruning.importance.GroupMagnitudeImportance(p=2),
        pruning_ratio=ratio,
        iterative_steps=steps,
        round_to=round_to,
        ignored_layers=ignored,
        # Its defaults are shared between all pruners of a process.
        in_channel_groups={},
        out_channel_groups={},
        num_heads={},
    )


def find_heads(graph: Graph) -> list[str]:
    """Layers with weights that determine the width of an output: no other such layer is between."""
    makers = {output: each for each in graph.operators for output in each.outputs}
    found: dict[str, None] = {}
    seen: set[str] = set()
    pending = list(graph.outputs)
    while pending:
        name = pending.pop()
        if name in seen or name not in makers:
            continue
        seen.add(name)
        operator = makers[name]
        layer = operator.attributes.get("module")
        shapes = [graph.tensors[weight].shape for weight in operator.weights]
        if layer and any(shape is not None and len(shape) >= 2 for shape in shapes):
            found[str(layer)] = None
        else:
            pending += operator.inputs
    return list(found)


def _wide_layers(module: Any) -> Iterator[tuple[str, Any]]:
    """Layers that have output channels of their own."""
    from torch import nn

    kinds = (nn.modules.conv._ConvNd, nn.Linear, nn.LSTM, nn.MultiheadAttention)
    return ((name, each) for name, each in module.named_modules() if isinstance(each, kinds))


def _widths(module: Any, *, without: Sequence[Any] = ()) -> Iterator[tuple[str, int]]:
    for name, each in _wide_layers(module):
        if all(each is not one for one in without):
            count = getattr(each, "out_channels", None) or getattr(each, "out_features", None)
            if count is not None:
                yield name, int(count)
