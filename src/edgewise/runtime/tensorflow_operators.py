"""Which operators of a TensorFlow graph may run: those that compute on tensors and nothing else.

TensorFlow has operators that read and write files, open connections and call Python; a SavedModel may run them while
it is loaded. TensorFlow's list of operators marks those with a state. Of these only the ones below are allowed; a model
with another one is refused before anything is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from edgewise.runtime.base import UnsupportedModel

#: with a state, but of the network alone: variables, tables, control flow, random numbers, checks
_ALLOWED = re.compile(
    r"VarHandleOp|ReadVariableOp|Assign(?:Add|Sub)?(?:VariableOp)?|VarIsInitializedOp|Variable(?:V2|Shape)?|"
    r"DisableCopyOnRead|DestroyResourceOp|Resource(?:Gather|GatherNd|Scatter\w+)|StatefulPartitionedCall|If|While|Case|"
    r"(?:Anonymous)?(?:Mutable)?(?:Dense)?HashTable(?:OfTensors)?(?:V2)?|LookupTable(?:Find|Size|Import|Insert)V2|"
    r"InitializeTableV2|TensorArray\w*|Stack(?:Push|Pop|Close)?(?:V2)?|RandomUniform(?:Int)?|RandomStandardNormal|"
    r"RandomShuffle|RandomGamma|RandomPoisson(?:V2)?|Stateful(?:Uniform|StandardNormal|TruncatedNormal|Random)\w*|"
    r"Multinomial|TruncatedNormal|ParameterizedTruncatedNormal|NonDeterministicInts|RngSkip|RngReadAndSkip|"
    r"StatelessRandomGetAlg|Assert|CheckNumerics(?:V2)?|Empty|GuaranteeConst"
)
#: without a state by TensorFlow's list, and yet at files or Python code
_FORBIDDEN = frozenset({
    "ReadFile", "MatchingFiles", "PyFuncStateless", "GenerateVocabRemapping", "InitializeTableFromTextFile",
    "ReaderRestoreState",
})  # fmt: skip


def check_graph(graph: Any) -> None:
    """Raise `UnsupportedModel` for a ``GraphDef`` with an operator that does more than compute."""
    _check_operators([*graph.node, *_inner_nodes(graph)])


def check_saved_model(meta: Any, signature: str) -> None:
    """Raise `UnsupportedModel` where loading or running a SavedModel could do more than compute.

    The functions that save and restore variables are at files by nature. They are left out, so nothing else may call
    them, neither the network nor TensorFlow's loader, which runs functions of the saved objects (tables) and restores
    variables by itself, from the model's own folder.

    Args:
        meta: the ``MetaGraphDef``.
        signature: the name of the one that runs.
    """
    graph = meta.graph_def
    nodes = {node.name: node for node in graph.node}
    saver = [_node_name(name) for name in (meta.saver_def.save_tensor_name, meta.saver_def.restore_op_name)]
    savers = {called for name in saver if name in nodes for called in _called(nodes[name])}
    ends = [_node_name(info.name) for info in meta.signature_def[signature].outputs.values()]
    if "__saved_model_init_op" in meta.signature_def:
        ends += [_node_name(info.name) for info in meta.signature_def["__saved_model_init_op"].outputs.values()]
    for key in ("saved_model_main_op", "legacy_init_op"):
        ends += map(_node_name, meta.collection_def[key].node_list.value)
    running = [*_reachable(nodes, ends), *_inner_nodes(graph, without=savers)]
    _check_operators(running)
    if savers & {*meta.object_graph_def.concrete_functions} or any(savers & {*_called(node)} for node in running):
        raise UnsupportedModel("its network calls the functions that save and restore its variables")


def _check_operators(nodes: Iterable[Any]) -> None:
    from tensorflow.python.framework import op_def_registry

    for kind in sorted({node.op for node in nodes}):
        known = op_def_registry.get(kind)
        # An unknown one is a custom operator or a function; loading says so.
        stateful = known is not None and known.is_stateful
        if kind in _FORBIDDEN or (stateful and not _ALLOWED.fullmatch(kind)):
            raise UnsupportedModel(
                f"its operator {kind[:60]} can reach files, the network or other code; edgewise runs operators that "
                "compute on tensors only"
            )


def _inner_nodes(graph: Any, without: Iterable[str] = ()) -> Iterator[Any]:
    """Nodes of the functions of a graph."""
    left_out = set(without)
    for function in graph.library.function:
        if function.signature.name not in left_out:
            yield from function.node_def


def _reachable(nodes: Mapping[str, Any], ends: Iterable[str]) -> Iterator[Any]:
    """Yield the nodes that lead to `ends`."""
    todo, seen = [*ends], set[str]()
    while todo:
        name = todo.pop()
        if name not in seen and name in nodes:
            seen.add(name)
            yield nodes[name]
            todo += map(_node_name, nodes[name].input)


def _node_name(tensor: str) -> str:
    return tensor.lstrip("^").partition(":")[0]


def _called(node: Any) -> Iterator[str]:
    """Names of the functions that a node calls."""
    for value in node.attr.values():
        if value.func.name:
            yield value.func.name
        yield from (each.name for each in value.list.func)
