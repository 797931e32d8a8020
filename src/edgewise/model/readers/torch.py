"""PyTorch exports (``.pt2``): a zip archive with a JSON program, as ``torch.export.save`` writes it.

Neither PyTorch nor pickle is used: weights and example inputs stay unread in the archive, whose layout is described at
https://docs.pytorch.org/docs/stable/user_guide/torch_compiler/export/pt2_archive.html. Files of PyTorch 2.5 to 2.7 hold
``serialized_exported_program.json``, later ones ``NAME/models/NAME.json``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edgewise.errors import BadInput, BadModel
from edgewise.model.graph import Graph, StoredData, Tensor
from edgewise.model.readers.archive import Archive, first_name, looks_zipped, open_archive
from edgewise.model.readers.base import SelfContained, damaged, sign_graph
from edgewise.model.readers.torch_graph import Content, GraphReader
from edgewise.model.readers.torch_program import (
    DTYPES,
    OLD_PROGRAM,
    PROGRAM,
    Refuse,
    expression_of,
    find_programs,
    read_dimension,
    read_tensor,
)
from edgewise.model.readers.torch_shapes import UnknownSize, read_expression
from edgewise.model.signature import Signature

_FIRST = re.compile(r"[^/]+/(data/(weights|constants|sample_inputs|aotinductor)/.*|models/.*\.json|archive_format)")
_ADVICE = "save it again with torch.export.save(torch.export.export(model, inputs), 'model.pt2')"


class TorchReader(SelfContained):
    """Reads PyTorch exports."""

    format = "torch"
    title = "PyTorch export"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Whether it is an archive with the entries of an export; pickles in archives are none."""
        if not looks_zipped(head):
            return False
        try:
            with open_archive(path) as archive:
                names = archive.names
        except (BadModel, OSError):
            # A directory that is lost does not hide what the first entry says.
            first = first_name(head)
            return first == OLD_PROGRAM or bool(_FIRST.fullmatch(first))
        return any(name == OLD_PROGRAM or PROGRAM.fullmatch(name) or _FIRST.fullmatch(name) for name in names)

    def read_signature(self, path: Path) -> Signature:
        """Return what the exported function takes and gives: user inputs, not parameters; symbols are open
        dimensions.
        """
        return sign_graph(path, self.read_graph(path))

    def read_signatures(self, path: Path) -> Mapping[str, Signature]:
        """Return the programs of an archive that has several, the one that PyTorch loads first."""
        names = self.read_graph(path).signatures
        return {name: sign_graph(path, self.read_graph(path, signature=name)) for name in names}

    def read_graph(
        self, path: Path, *, shapes: Mapping[str, tuple[int, ...]] | None = None, signature: str | None = None
    ) -> Graph:
        """Return the network of the program `signature`, by default the main one; the programs of an archive
        are signatures.

        Raises `BadModel`, `BadInput`.
        """
        refuse = Refuse(path)
        with open_archive(path) as archive:
            programs = find_programs(archive)
            if not programs:
                raise damaged(path, "it contains compiled code but no program", advice=_ADVICE)
            main = signature or next(iter(programs))
            graph = _read_program(archive, programs[main], refuse, shapes or {})
            if len(programs) > 1:
                every = {name: _read_program(archive, entry, refuse, {}) for name, entry in programs.items()}
                signatures = {name: tuple(each.tensors[taken] for taken in each.inputs) for name, each in every.items()}
                graph = replace(graph, signatures=signatures, signature=main)
        return graph


def _read_program(archive: Archive, entry: str, refuse: Refuse, shapes: Mapping[str, tuple[int, ...]]) -> Graph:
    document = archive.read_json(entry)
    if set(document) == {"exported_program"} or "graph_module" not in document:
        document = refuse.mapping(document.get("exported_program"), "the program")
    module = refuse.mapping(document.get("graph_module"), "the graph module")
    graph = refuse.mapping(module.get("graph"), "the graph")
    signature = refuse.mapping(module.get("signature"), "the signature")
    users = _find_user_inputs(signature, refuse)
    ranges = document.get("range_constraints")
    bindings = _bind(graph, users, shapes, refuse, ranges if isinstance(ranges, dict) else {})
    places = _find_places(archive, entry)
    content = Content(
        constants={
            key: replace(tensor, data=places.get(tensor.name))
            for key, tensor in _find_constants(graph, signature, bindings, refuse).items()
        },
        inputs=users,
        outputs=_find_user_outputs(signature, refuse),
    )
    built = GraphReader(refuse, bindings).read(graph, content)
    if not built.outputs:
        refuse("it has no outputs that are tensors")
    version = document.get("schema_version")
    return replace(
        built,
        producer=f"PyTorch {str(document.get('torch_version', ''))[:40]}".strip(),
        version=_write_version(version),
        metadata={"dimensions": _describe_ranges(ranges)},
    )


def _find_places(archive: Archive, entry: str) -> dict[str, StoredData]:
    """Full name of a weight → where it lies, of archives that keep every weight as plain bytes (PyTorch 2.8 and later).

    ``torch/export/pt2_archive/constants.py`` of PyTorch names the entries.
    """
    match = PROGRAM.fullmatch(entry)
    folder, name = entry.partition("models/")[0], match and (match[1] or match[2])
    config = f"{folder}data/weights/{name}_weights_config.json"
    if config not in archive.names:
        return {}
    listed = archive.read_json(config).get("config")
    places = {}
    for full, fields in listed.items() if isinstance(listed, dict) else ():
        match fields:
            case {"path_name": str(path), "use_pickle": False, "tensor_meta": {"dtype": int(number), **meta}}:
                found = archive.locate(f"{folder}data/weights/{path}")
                if found and number in DTYPES and _is_row_major(meta):
                    places[full] = StoredData(
                        dtype=DTYPES[number], file=str(archive.path), offset=found[0], size=found[1]
                    )
    return places


def _is_row_major(meta: Any) -> bool:
    """Whether the elements of a tensor fill its bytes in row-major order, from the first byte on."""
    match meta:
        case {"sizes": list(sizes), "strides": list(strides), "storage_offset": {"as_int": 0}}:
            expected = 1
            for size, stride in zip(reversed(sizes), reversed(strides), strict=False):
                if size != {"as_int": 1} and stride != {"as_int": expected}:
                    return False
                expected *= size.get("as_int", 0)
            return True
    return False


def _write_version(version: Any) -> str:
    match version:
        case {"major": int(major), "minor": int(minor)}:
            return f"schema {major}.{minor}"
    return ""


def _describe_ranges(ranges: Any) -> dict[str, Any]:
    """Symbol → smallest and largest size that it was exported for; None where there is none."""
    found = {}
    for symbol, bounds in list(ranges.items())[:1000] if isinstance(ranges, dict) else ():
        match bounds:
            case {"min_val": low, "max_val": high}:
                found[str(symbol)[:100]] = [each if isinstance(each, int) else None for each in (low, high)]
    return found


def _find_user_inputs(signature: dict[str, Any], refuse: Refuse) -> tuple[str, ...]:
    found = []
    for spec in refuse.items(signature.get("input_specs"), "the list of inputs"):
        kind, value = refuse.union(spec, "an input")
        match kind, value:
            case "user_input", {"arg": {"as_tensor": {"name": str(name)}}}:
                found.append(name)
    return tuple(found)


def _find_user_outputs(signature: dict[str, Any], refuse: Refuse) -> tuple[str, ...]:
    found = []
    for spec in refuse.items(signature.get("output_specs"), "the list of outputs"):
        match refuse.union(spec, "an output"):
            case "user_output", {"arg": {"as_tensor": {"name": str(name)}}}:
                found.append(name)
            case "loss_output", {"arg": {"name": str(name)}}:
                found.append(name)
    return tuple(found)


def _find_constants(
    graph: dict[str, Any], signature: dict[str, Any], bindings: Mapping[str, int], refuse: Refuse
) -> dict[str, Tensor]:
    """Parameters, buffers and constants by the program's name; buffers that a run changes are variables."""
    changed = set()
    for spec in refuse.items(signature.get("output_specs"), "the list of outputs"):
        match refuse.union(spec, "an output"):
            case "buffer_mutation", {"buffer_name": str(name)}:
                changed.add(name)
    metas = refuse.mapping(graph.get("tensor_values"), "the list of tensors")
    found: dict[str, Tensor] = {}
    for spec in refuse.items(signature.get("input_specs"), "the list of inputs"):
        match refuse.union(spec, "an input"):
            case ("parameter" | "buffer" | "tensor_constant") as kind, {"arg": {"name": str(key)}, **fields}:
                full = refuse.name(fields.get(f"{kind}_name"), f"the {kind} {key[:40]!r}")
                if key not in metas:
                    refuse(f"the {kind} {full[:40]!r} has no type")
                tensor = read_tensor(full, metas[key], bindings, refuse)
                found[key] = replace(tensor, constant=full not in changed, variable=full in changed)
    return found


def _bind(
    graph: dict[str, Any],
    users: tuple[str, ...],
    shapes: Mapping[str, tuple[int, ...]],
    refuse: Refuse,
    ranges: dict[str, Any],
) -> dict[str, int]:
    """Return the sizes that symbols stand for once inputs have the shapes that were asked for."""
    metas = refuse.mapping(graph.get("tensor_values"), "the list of tensors")
    bindings: dict[str, int] = {}
    for name, shape in shapes.items():
        if name not in users:
            raise BadInput(
                (f"{name!r} is not an input of the model"), advice=f"its inputs are {', '.join(users) or 'none'}"
            )
        sizes = refuse.items(refuse.mapping(metas.get(name), "an input").get("sizes"), "a shape")
        if len(sizes) != len(shape):
            raise BadInput(f"{name!r} has {len(sizes)} dimensions, not {len(shape)}", advice="give one size for each")
        for size, wanted in zip(sizes, shape, strict=True):
            factor, symbol = _symbol_of(expression_of(size))
            if symbol and wanted % factor == 0 and bindings.setdefault(symbol, wanted // factor) == wanted // factor:
                _check_range(name, symbol, wanted // factor, ranges)
    for name, shape in shapes.items():
        found = tuple(read_dimension(size, bindings, refuse) for size in metas[name]["sizes"])
        if found != tuple(shape):
            raise BadInput(
                f"{name!r} can't have the shape {'x'.join(map(str, shape))}",
                advice=f"it was exported as {'x'.join(map(str, found))}; other sizes need dynamic_shapes in the export",
            )
    return bindings


def _symbol_of(expression: str | None) -> tuple[int, str]:
    """Factor and symbol where an expression is a symbol or a multiple of one; else the symbol is ""."""
    try:
        value = read_expression(expression or "", {})
    except UnknownSize:
        return 1, ""
    match = re.fullmatch(r"(?:([1-9][0-9]{0,9})\*)?([A-Za-z_]\w*)", str(value))
    return (int(match[1] or 1), match[2]) if match else (1, "")


def _check_range(name: str, symbol: str, size: int, ranges: dict[str, Any]) -> None:
    match ranges.get(symbol):
        case {"min_val": low, "max_val": high}:
            if (isinstance(low, int) and size < low) or (isinstance(high, int) and size > high):
                raise BadInput(
                    f"{name!r} can't have the size {size}: it was exported for {low} to {high}",
                    advice="export it again with a wider range",
                )
