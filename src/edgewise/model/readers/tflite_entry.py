"""Where an engine enters a TFLite file: a signature's subgraph, its inputs and outputs, and the states it keeps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgewise.model.readers.base import Wrong
from edgewise.model.readers.tflite_schema import OPERATORS
from edgewise.model.readers.tflite_tables import open_tables

_VAR_HANDLE, _ASSIGN, _CALL_ONCE = map(OPERATORS.index, ("VAR_HANDLE", "ASSIGN_VARIABLE", "CALL_ONCE"))


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
    """Return the entry point `signature` of the file at `path`; None is the first subgraph. Raises `BadModel`."""
    with open_tables(path) as tables:
        model = tables.read_model()
        named = {each["signature_key"]: each["subgraph_index"] for each in model["signature_defs"]}
        graphs, entry = model["subgraphs"], 0 if signature is None else named.get(signature, -1)
        codes = [each["builtin_code"] for each in model["operator_codes"]]
        variables, resources = dict[str, None](), dict[str, None]()
        seen, todo = {entry}, [entry]
        while todo:
            if not 0 <= (at := todo.pop()) < len(graphs):
                raise Wrong(f"it refers to subgraph {at} of {len(graphs)}")
            graph, handles = graphs[at], dict[int, str]()
            variables |= {each["name"] or "state": None for each in graph["tensors"] if each["is_variable"]}
            for step in graph["operators"]:
                code = codes[step["opcode_index"]] if step["opcode_index"] < len(codes) else -1
                options = [step[field][1] for field in ("builtin_options", "builtin_options_2") if step[field]]
                if code == _VAR_HANDLE:
                    names = [each.get("shared_name") or "state" for each in options]
                    handles |= dict(zip(tables.numbers(step["outputs"]), names, strict=False))
                elif code == _ASSIGN:
                    resources |= {handles.get(each, "state"): None for each in tables.numbers(step["inputs"])[:1]}
                elif code != _CALL_ONCE:  # that runs before the first inference alone
                    run = {each[name] for each in options for name in each if name.endswith("subgraph_index")}
                    todo += run - seen
                    seen |= run
        return EntryPoint(
            subgraph=entry,
            inputs=tuple(tables.numbers(graphs[entry]["inputs"])),
            outputs=tuple(tables.numbers(graphs[entry]["outputs"])),
            variables=tuple(variables),
            resources=tuple(resources),
        )
