"""What `inspect` prints: a model's cost in total and by layer, its memory over time, engines that support it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from edgewise.formatting import quantity
from edgewise.model.graph import Graph, Tensor
from edgewise.model.inspection import Inspection, describe_tensor, name_kind
from edgewise.model.support import Support
from edgewise.report.document import DASH, Cell, Column, Document, Section, Table, absent
from edgewise.report.names import keep_end
from edgewise.report.sparsity import ZERO_TITLES, sparsity_section, sparsity_tables, zero_cells
from edgewise.report.timeline import WIDEST, describe_memory, draw_timeline
from edgewise.text import one_line
from edgewise.units import format_bytes, format_si, significant


def inspection_document(inspection: Inspection, *, top: int | None = None, width: int | None = None) -> Document:
    """Tables and lines of one inspected model.

    Args:
        top: number of layers, by MACs, with a row of their own; the rest is folded into one. None shows all in order.
        width: cells of the terminal on which the memory is drawn; None for no drawing.
    """
    tables = [totals_table(inspection), layer_table(inspection, top=top)]
    tables += sparsity_tables(inspection, top=top)
    if inspection.support:
        tables.append(support_table(inspection.support, inspection))
    sections = []
    if assumed := inspection.source.get("assumed"):
        sections.append(Section(title="Assumed", lines=tuple(assumed), tone="poor"))
    if inspection.total.unknown:
        names = ", ".join(map(one_line, inspection.total.unknown[:5]))
        more = "" if len(inspection.total.unknown) <= 5 else f" and {len(inspection.total.unknown) - 5} more"
        line = f"{len(inspection.total.unknown)} operator(s) have no known cost: {names}{more}. {inspection.total.why}"
        sections.append(Section(title="Not known", lines=(line,), tone="poor"))
    if inspection.method:
        ran = inspection.basis == "measured"
        sections.append(
            Section(
                title="Measured" if ran else "Not measured",
                lines=(one_line(inspection.method),),
                tone="plain" if ran else "poor",
            )
        )
    if inspection.sparsity is not None:
        sections.append(sparsity_section(inspection.sparsity))
    sections.append(_memory_section(inspection, width))
    title = f"Inspection of {one_line(str(inspection.source.get('name', '')))}"
    return Document(title=title, tables=tuple(tables), sections=tuple(sections))


def totals_table(inspection: Inspection) -> Table:
    """Two columns: what, and how much."""
    graph, total, plan = inspection.graph, inspection.total, inspection.plan
    source = inspection.source
    size = source.get("size_bytes")
    rows = [
        ("Format", _text(" · ".join(filter(None, (graph.format, graph.version, one_line(graph.producer)))))),
        *_signature_rows(graph),
        ("Precision", _text(inspection.precision)),
        *(("Input", _text(tensor_words(graph.tensors[name]))) for name in graph.inputs),
        *(("Output", _text(tensor_words(graph.tensors[name]))) for name in graph.outputs),
        *([("State", _text(f"kept between inferences: {one_line(', '.join(graph.states))}"))] if graph.states else []),
        ("File size", _amount(size, "B", str(source.get("size_absent_because", "it is not a file")))),
        ("Layers", _plain(len(graph.operators))),
        ("Depth", _plain(total.depth)),
        ("MACs", _known(total.macs, total.macs_known, total.why)),
        ("Operations", _known(total.ops, total.ops_known, total.why)),
        ("Parameters", _amount(total.parameters, "1", "the shape of a weight is open")),
        ("Weights", _amount(total.weight_bytes, "B", "the size of a weight is not known")),
        *(
            (("Scales, zero points", _amount(total.scale_bytes, "B", "the size of a scale is not known")),)
            if total.scale_bytes != 0
            else ()
        ),
        ("Activations, arena", _arena(inspection)),
        ("Activations, at least", _amount(None if plan.unknown else plan.lower_bound_bytes, "B", _open(inspection))),
    ]
    return Table(
        title=str(source.get("name", "")),
        columns=(Column(title=""), Column(title="")),
        rows=tuple((Cell(text=name), cell) for name, cell in rows),
    )


def _signature_rows(graph: Graph) -> Iterator[tuple[str, Cell]]:
    """The signature that all numbers are of, and the others of the file; nothing for a file with one."""
    if len(graph.signatures) < 2:
        return
    yield "Signature", _text(f"{one_line(graph.signature) or 'the first subgraph, which has no name'}: all numbers")
    for name, inputs in graph.signatures.items():
        if name != graph.signature:
            takes = ", ".join(map(tensor_words, inputs)) or "no inputs"
            yield "Other signature", _text(f"{one_line(name)}, of {takes}")


def _open(inspection: Inspection) -> str:
    names = inspection.plan.unknown
    first = f", such as {one_line(names[0])!r}" if names else ""
    advice = "" if inspection.method else ": give the inputs' shapes with --shape"
    return f"the size of {len(names)} tensor(s) is open{first}{advice}"


def _arena(inspection: Inspection) -> Cell:
    if inspection.plan.unknown:
        return absent(_open(inspection))
    return _amount(inspection.plan.arena_bytes, "B", "too many tensors live at the same time to plan")


def _text(text: str) -> Cell:
    return Cell(text=text or "–")


def _plain(number: int) -> Cell:
    return Cell(text=f"{number:,}", value=number)


def _amount(value: float | None, unit: str, why: str) -> Cell:
    if value is None:
        return absent(why)
    if unit == "B":
        return Cell(
            text=f"{quantity(value, unit)} ({value:,.0f} B)" if value >= 1000 else f"{value:.0f} B", value=value
        )
    return Cell(text=f"{format_si(value, '').strip()} ({value:,.0f})" if value >= 1e5 else f"{value:,.0f}", value=value)


def _known(value: int | None, known: int, why: str) -> Cell:
    """A total, or the part of it that is known with the reason why it is not all."""
    if value is not None:
        return _amount(value, "1", "")
    part = _amount(known, "1", "").text
    return Cell(text=f"n/a (known part: {part})", notes=(why,), tone="faint")


def tensor_words(tensor: Tensor) -> str:
    """``"x float32 [1, 3, 224, 224]"``."""
    described = describe_tensor(tensor)
    sizes = ", ".join("?" if size is None else str(size) for size in tensor.shape or ())
    shape = "of unknown rank" if tensor.shape is None else f"[{sizes}]"
    scheme = tensor.quantization
    how = ""
    if scheme is not None:
        per = "" if scheme.channels == 1 else f", {scheme.channels} channels"
        how = f" scale {significant(scheme.scale)} zero point {scheme.zero_point}{per}"
    return one_line(f"{described['name']} {tensor.dtype} {shape}{how}")


def layer_table(inspection: Inspection, *, top: int | None = None) -> Table:
    """One row per operator; on a terminal the most expensive ones and one row with the rest."""
    operators, costs = inspection.graph.operators, inspection.costs
    order = list(range(len(operators)))
    folded: list[int] = []
    if top is not None and len(order) > top:
        slowest = sorted(order, key=lambda at: (-(costs[at].macs or 0), -(costs[at].ops or 0), at))
        order, folded = sorted(slowest[:top]), sorted(slowest[top:])
    rows = [_row(inspection, at) for at in order]
    if folded:
        rows.append(_folded(inspection, folded))
    return Table(
        title="Layers" if not folded else f"Layers: the {len(order)} with the most MACs of {len(operators)}",
        columns=(
            Column(title="#", numeric=True),
            Column(title="Layer", name=True, ends=True),
            Column(title="Operator", rank=1, name=True),
            Column(title="Output", rank=4),
            Column(title="MACs", numeric=True),
            Column(title="Ops", numeric=True, rank=3),
            Column(title="Params", numeric=True, rank=2),
            Column(title="Weights (B)", numeric=True, rank=6, unit="B"),
            Column(title="Moved (B)", numeric=True, rank=5, unit="B"),
            Column(title="Ops/B", numeric=True, rank=7),
            Column(title="Kind", hidden=True),
            Column(title="Inputs", hidden=True),
            Column(title="Not supported by", hidden=True),
            Column(title="Support unknown", hidden=True),
            *(Column(title=title, hidden=True) for title in (ZERO_TITLES if inspection.sparsity is not None else ())),
        ),
        rows=tuple(rows),
    )


def _row(inspection: Inspection, at: int) -> tuple[Cell, ...]:
    graph, operator, cost = inspection.graph, inspection.graph.operators[at], inspection.costs[at]
    outputs = list(graph.output_tensors(operator))
    refused = [each.name for each in inspection.support if at in each.refusals]
    unknown = [each.name for each in inspection.support if at in each.unknown]
    return (
        Cell(text=str(at), value=at),
        Cell(text=one_line(operator.title)),
        Cell(text=one_line(operator.op)),
        Cell(text="; ".join(_shape(tensor) for tensor in outputs[:2]) + ("; …" if len(outputs) > 2 else "")),
        count_cell(cost.macs, cost.why),
        count_cell(cost.ops, cost.why),
        count_cell(cost.parameters, "the shape of a weight is open"),
        bytes_cell(cost.weight_bytes, "the size of a weight is not known"),
        bytes_cell(cost.activation_bytes, "a shape is open"),
        Cell(text=significant(cost.intensity), value=cost.intensity) if cost.intensity is not None else DASH,
        Cell(text=name_kind(operator)),
        Cell(text="; ".join(tensor_words(tensor) for tensor in graph.input_tensors(operator))),
        Cell(text=", ".join(refused)),
        Cell(text=", ".join(unknown)),
        *zero_cells(inspection, at),
    )


def _folded(inspection: Inspection, folded: Sequence[int]) -> tuple[Cell, ...]:
    costs = [inspection.costs[at] for at in folded]

    def total(name: str) -> int:
        return sum(getattr(cost, name) or 0 for cost in costs)

    unknown = sum(1 for cost in costs if cost.macs is None)
    note = f", {unknown} of unknown cost" if unknown else ""
    cells = [Cell(text="…"), Cell(text=f"{len(folded)} more layers{note}"), Cell(text=""), Cell(text="")]
    cells += [count_cell(total(name), "") for name in ("macs", "ops", "parameters")]
    cells += [bytes_cell(total(name), "") for name in ("weight_bytes", "activation_bytes")]
    further = 5 if inspection.sparsity is None else 5 + len(ZERO_TITLES)
    return (*cells, *(Cell(text="") for _ in range(further)))


def count_cell(value: int | None, why: str) -> Cell:
    """A number of things; `why` says why it is not known."""
    if value is None:
        return absent(why)
    return Cell(text=f"{value:,}" if value < 1e4 else format_si(value, "").strip(), value=value)


def bytes_cell(value: int | None, why: str) -> Cell:
    """A number of bytes; `why` says why it is not known."""
    return absent(why) if value is None else Cell(text=format_bytes(value), value=value)


def _shape(tensor: Tensor) -> str:
    if tensor.shape is None:
        return "?"
    return "×".join("?" if size is None else one_line(str(size)) for size in tensor.shape) or "scalar"


def support_table(support: Sequence[Support], inspection: Inspection) -> Table:
    """Per target: the operators that it supports, does not support, or that are unknown, and why."""
    return Table(
        title="Operator support of the engines (the model was not run)",
        columns=(
            Column(title="Engine"),
            Column(title="Supported"),
            Column(title="Not", numeric=True),
            Column(title="Unknown", numeric=True),
            Column(title="Why"),
        ),
        rows=tuple(_support_row(each, inspection) for each in support),
        notes=tuple(dict.fromkeys(f"{each.name}: {each.source}" for each in support)),
    )


def _support_row(support: Support, inspection: Inspection) -> tuple[Cell, ...]:
    count, no, unknown = len(inspection.graph.operators), len(support.refusals), len(support.unknown)
    counts = (
        Cell(text=f"{count - no - unknown} of {count}" if no or unknown else f"all {count}",
             tone="poor" if no else ("plain" if unknown else "good")),
        Cell(text=str(no) if no else "", value=no),
        Cell(text=str(unknown) if unknown else "", value=unknown),
    )  # fmt: skip
    reasons = "; ".join(_first_reason(each, inspection) for each in (support.refusals, support.unknown) if each)
    return (Cell(text=support.name), *counts, Cell(text=reasons))


def _first_reason(reasons: Mapping[int, str], inspection: Inspection) -> str:
    """Why an engine does not support an operator, by the first one; a reason that all share is the model's."""
    first = next(iter(reasons))
    if len(set(reasons.values())) == 1 and len(reasons) == len(inspection.graph.operators):
        return one_line(reasons[first])
    more = f" and {len(reasons) - 1} more" if len(reasons) > 1 else ""
    return f"{keep_end(inspection.graph.operators[first].title, 24)}: {one_line(reasons[first])}{more}"


def memory_line(inspection: Inspection) -> str:
    """How much memory activations take, and where the most."""
    plan, operators = inspection.plan, inspection.graph.operators
    if plan.unknown:
        return f"not planned: {_open(inspection)}"
    if not operators or not plan.lower_bound_bytes:
        return "nothing lives: the network has no operators"
    return describe_memory(plan, operators[plan.peak_operator or 0].op)


def _memory_section(inspection: Inspection, width: int | None) -> Section:
    """How much memory activations take, with bars of the memory that lives along the network on a terminal."""
    at, bars = inspection.plan.peak_operator, []
    name = "" if at is None else inspection.graph.operators[at].title
    if width is not None and not inspection.plan.unknown:
        bars = draw_timeline(inspection.plan.live_bytes, peak_name=name, width=min(WIDEST, width - 2))
    return Section(title="Memory of activations", lines=(memory_line(inspection),), drawing=tuple(bars))


def _given(inspection: Inspection) -> dict[str, object]:
    """The arguments of the factory."""
    return dict(inspection.source.get("built", {}).get("parameters", {}))


def sweep_document(inspections: Sequence[Inspection]) -> Document:
    """One row per model of a sweep over the arguments of a factory."""
    names = list(dict.fromkeys(name for each in inspections for name in _given(each)))
    rows = []
    for each in inspections:
        given, total, plan = _given(each), each.total, each.plan
        arena = None if plan.unknown else plan.arena_bytes
        rows.append(
            (
                *(Cell(text=one_line(str(given.get(name, "")))) for name in names),
                count_cell(total.macs, total.why),
                count_cell(total.ops, total.why),
                count_cell(total.parameters, "the shape of a weight is open"),
                bytes_cell(total.weight_bytes, "the size of a weight is not known"),
                bytes_cell(arena, "the size of a tensor is open"),
                _plain(total.depth),
            )
        )
    columns = (
        *(Column(title=name) for name in names),
        Column(title="MACs", numeric=True),
        Column(title="Ops", numeric=True),
        Column(title="Params", numeric=True),
        Column(title="Weights (B)", numeric=True, unit="B"),
        Column(title="Arena (B)", numeric=True, unit="B"),
        Column(title="Depth", numeric=True),
    )
    table = Table(title=f"{len(inspections)} variants", columns=columns, rows=tuple(rows))
    return Document(title="What if", tables=(table,))
