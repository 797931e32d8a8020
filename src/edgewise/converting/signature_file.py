"""One signature of a file as a file of its own: compilers and converters read only the default."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from edgewise.converting.signature_program import write_program, write_saved_model
from edgewise.errors import Unavailable
from edgewise.model.identity import open_model, read_graph
from edgewise.model.readers.base import damaged
from edgewise.model.readers.tflite_entry import read_entry
from edgewise.record import ModelRef
from edgewise.runtime.base import package_availability
from edgewise.text import first_line

_OF_THE_WHOLE_FILE = "OfflineMemoryAllocation"
"""Name of metadata that counts the subgraphs and tensors of the file that it was written for."""
_OF_THE_FIRST = "TFLITE_METADATA"
"""Name of metadata that describes the first subgraph."""
_CALL_FIELD = "subgraph"
"""Of `CallOptions`; the fields of the other options have longer names."""
_MOST_BYTES = 2**31 - 2**24
_MOST_CHARACTERS = 80


def take_signature(path: str, signature: str, folder: Path, *, always: bool = False) -> tuple[str, ModelRef | None]:
    """Return the file that tools read in place of the model at `path`, and the signature that it was made of.

    A signature that is chosen among several becomes a file in `folder`, as does a default that is not the first
    subgraph. In other cases that is `path` itself, and None.

    Args:
        signature: "" is the default.
        folder: is made if it is needed.
        always: of several signatures the default too becomes a file.

    Raises:
        BadModel: the file can't be read.
        BadInput: it has no such signature.
        Unavailable: its signature can't become a file of its own.
    """
    ref = open_model(path, signature).ref
    if not ref.signatures or (not ref.signature and ref.format != "tflite"):
        return path, None
    own = ref.signature or ref.signatures[0]
    source = Path(ref.path)
    if ref.format not in ("tflite", "torch", "savedmodel"):
        raise Unavailable(
            f"edgewise can't take the signature {own} out of {ref.file_name}",
            advice=f"export {own} as a model of its own; of this file only {ref.signatures[0]}, the default, is used",
        )
    if not signature and not always and not read_entry(source, own).subgraph:
        return path, None
    folder.mkdir(exist_ok=True)
    if ref.format == "savedmodel":
        target = folder / name_with(source.parent.name, own)
        write_saved_model(source, own, target)
    elif ref.format == "torch":
        target = folder / f"{name_with(source.stem, own)}.pt2"
        write_program(source, own, target)
    else:
        target = folder / f"{name_with(source.stem, own)}.tflite"
        _write(source, own, target)
    return str(target), ref


def name_with(stem: str, signature: str) -> str:
    """``codec-decode``: the name of a file for a signature; `stem` alone without one."""
    plain = re.sub(r"[^\w.]+", "-", signature)[:_MOST_CHARACTERS]
    return f"{stem}-{plain}" if signature else stem


def _write(source: Path, signature: str, target: Path) -> None:
    """Write the subgraph of `signature` and those that it calls; weights of others are left out."""
    state = package_availability("ai-edge-litert", extra="litert", module="ai_edge_litert")
    if not state:
        raise Unavailable(f"taking a signature out of {source.name} needs LiteRT: {state.reason}",
                          advice=state.install_hint)  # fmt: skip
    read_graph(source, signature=signature)  # which refuses a damaged file with a better reason
    entry = read_entry(source, signature).subgraph
    from ai_edge_litert.tools import flatbuffer_utils

    try:
        model = flatbuffer_utils.read_model(str(source))
        _keep(model, signature, entry)
        size = sum(0 if each.data is None else len(each.data) for each in model.buffers)
        if size <= _MOST_BYTES:
            files = b"" if entry else _files_behind(source)
            target.write_bytes(flatbuffer_utils.convert_object_to_bytearray(model, files))
            return
    except (MemoryError, OSError):
        raise
    except Exception as error:  # its classes check nothing, and raise anything
        raise damaged(source, f"{signature} can't be taken out of it: {first_line(error)}") from error
    raise Unavailable(f"the weights of {signature} are {size:,} B, more than the 2 GiB that edgewise can write",
                      advice="export the signature as a model of its own")  # fmt: skip


def _keep(model: Any, signature: str, entry: int) -> None:
    """Keep what `signature` needs, whose subgraph `entry` becomes the first one."""
    model.signatureDefs = [each for each in model.signatureDefs if _text(each.signatureKey) == signature]
    model.signatureDefs[0].subgraphIndex = 0
    _keep_subgraphs(model, entry)
    left_out = {_OF_THE_WHOLE_FILE} | ({_OF_THE_FIRST} if entry else set())
    model.metadata = [each for each in model.metadata or [] if _text(each.name) not in left_out]
    _keep_codes(model)
    _keep_buffers(model)


def _files_behind(source: Path) -> bytes:
    """Return the archive behind the network, with the files (labels) that `_OF_THE_FIRST` names."""
    with suppress(zipfile.BadZipFile), zipfile.ZipFile(source) as archive:
        begin = min((each.header_offset for each in archive.infolist()), default=None)
        return b"" if begin is None else source.read_bytes()[begin:]
    return b""


def _keep_subgraphs(model: Any, entry: int) -> None:
    """Keep subgraph `entry` as the first one, and those that it calls."""
    places, waiting = {entry: 0}, [entry]
    while waiting:
        for holder, name in _calls(model.subgraphs[waiting.pop()]):
            for at in _numbers(getattr(holder, name)):
                if at not in places:
                    places[at] = len(places)
                    waiting.append(at)
    model.subgraphs = [model.subgraphs[at] for at in places]
    for holder, name in [each for kept in model.subgraphs for each in _calls(kept)]:
        found = getattr(holder, name)
        setattr(holder, name, [places[at] for at in found] if isinstance(found, list) else places.get(found, found))


def _calls(subgraph: Any) -> Iterator[tuple[Any, str]]:
    """Options of operators and their fields that refer to subgraphs."""
    for operator in subgraph.operators or []:
        for options in (operator.builtinOptions, operator.builtinOptions2):
            for name in () if options is None else vars(options):
                if name == _CALL_FIELD or name.endswith(("SubgraphIndex", "SubgraphIndices")):
                    yield options, name


def _numbers(value: Any) -> list[int]:
    """Return indices of subgraphs; a negative one refers to none."""
    return [each for each in (value if isinstance(value, list) else [value]) if each is not None and each >= 0]


def _keep_codes(model: Any) -> None:
    """Keep the operator codes in use: engines refuse a file with one that they don't know."""
    operators = [each for subgraph in model.subgraphs for each in subgraph.operators or []]
    places = {old: new for new, old in enumerate(sorted({each.opcodeIndex for each in operators}))}
    model.operatorCodes = [model.operatorCodes[at] for at in places]
    for each in operators:
        each.opcodeIndex = places[each.opcodeIndex]


def _keep_buffers(model: Any) -> None:
    """Keep the data in use; buffer 0 is the empty one."""
    import numpy as np

    holders = [tensor for subgraph in model.subgraphs for tensor in subgraph.tensors or []] + model.metadata
    places = {old: new for new, old in enumerate(sorted({0, *(each.buffer for each in holders)}))}
    model.buffers = [model.buffers[at] for at in places]
    for each in model.buffers:
        if isinstance(each.data, memoryview):  # from behind the flatbuffer; its writer is fast only with arrays
            each.data = np.frombuffer(each.data, np.uint8)
    model.metadataBuffer = None
    for each in holders:
        each.buffer = places[each.buffer]


def _text(name: Any) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name or ""
