"""Where an engine enters a TFLite file: a signature's subgraph, its inputs and outputs, and the states it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.model.readers.base import damaged
from edgewise.model.readers.tflite_operators import TfliteOperatorReader
from edgewise.model.readers.tflite_tables import open_tables


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryPoint:
    """A subgraph that an application runs.

    Attributes:
        subgraph: its index.
        inputs, outputs: indices of its tensors.
        variables: names of tensors that keep their value between inferences.
        resources: names of resource variables that its operators assign; engines keep them outside of tensors.
    """

    subgraph: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    variables: tuple[str, ...]
    resources: tuple[str, ...]


def read_entry(path: Path, signature: str | None = None) -> EntryPoint:
    """The entry point `signature` of the file at `path`; None is the first subgraph. Raises `BadModel`."""
    with open_tables(path) as tables:
        model = tables.read_model()
        entries = {each["signature_key"]: each["subgraph_index"] for each in model["signature_defs"]}
        graphs, entry = model["subgraphs"], 0 if signature is None else entries.get(signature, -1)
        if not 0 <= entry < len(graphs):
            raise damaged(path, f"it has no subgraph for the signature {signature!r}")
        reader = TfliteOperatorReader(path, tables, model)
        variables: dict[str, None] = {}
        resources: dict[str, None] = {}
        seen, todo = {entry}, [entry]
        while todo:
            graph, handles = graphs[todo.pop()], dict[int, str]()
            for record, tensor in enumerate(graph["tensors"]):
                if tensor["is_variable"]:
                    variables[tensor["name"] or f"tensor_{record}"] = None
            for step in reader.read_all(graph):
                if step.code.op == "VAR_HANDLE":
                    handles |= dict.fromkeys(step.outputs, step.attributes.get("shared_name") or "state")
                elif step.code.op == "ASSIGN_VARIABLE":
                    resources[handles.get(step.inputs[0], "state") if step.inputs else "state"] = None
                if step.code.op != "CALL_ONCE":  # that runs before the first inference alone
                    todo += {*step.subgraphs} - seen
                    seen.update(step.subgraphs)
        return EntryPoint(
            subgraph=entry,
            inputs=tuple(tables.numbers(graphs[entry]["inputs"])),
            outputs=tuple(tables.numbers(graphs[entry]["outputs"])),
            variables=tuple(variables),
            resources=tuple(resources),
        )
