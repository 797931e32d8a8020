"""The tables of an inspection: totals, layers, operators by type, zeros in weights, and which engine supports them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from edgewise.formatting import quantity
from edgewise.model.graph import LANGUAGE_MODEL, Graph, Tensor
from edgewise.model.inspection import Inspection, describe_tensor, name_kind
from edgewise.model.sparsity import LayerSparsity, Sparsity
from edgewise.model.support import Support
from edgewise.report.document import DASH, Cell, Column, Columns, Section, Table, absent, table_of
from edgewise.report.document.bars import describe_memory
from edgewise.report.document.names import keep_end
from edgewise.text import enumerate_few, one_line
from edgewise.units import format_bytes, format_si, significant

ZERO_TITLES = ("Zeros", "Patterns of zeros")
"""Further columns of a CSV file of layers."""


def sparsity_tables(inspection: Inspection, *, top: int | None = None) -> list[Table]:
    """Return the weights with their zeros; empty without sparsity.

    Args:
        top: number of weights, by zeros, with a row of their own; None shows all in order.
    """
    sparsity = inspection.sparsity
    if sparsity is None:
        return []
    rows = sparsity.layers
    if top is not None and len(rows) > top:
        most = sorted(rows, key=lambda each: -(each.zeros or 0))[:top]
        rows = tuple(each for each in rows if each in most)
    shown = "" if len(rows) == len(sparsity.layers) else f": the {len(rows)} with the most of {len(sparsity.layers)}"
    columns: Columns[LayerSparsity] = [
        (Column(title="#", numeric=True), lambda layer: Cell(text=str(layer.index), value=layer.index)),
        (Column(title="Layer", name=True, ends=True), lambda layer: Cell(text=_title(layer, inspection.graph))),
        (Column(title="Elements", numeric=True, rank=2), lambda layer: _count(layer.elements, layer)),
        (Column(title="Zeros", numeric=True), lambda layer: _count(layer.zeros, layer)),
        (Column(title="Zeros (%)", numeric=True), _percentage),
        (Column(title="Patterns"), _patterns),
        (
            Column(title="NaN", numeric=True, hidden=True),
            lambda layer: Cell(text=f"{layer.nan:,}" if layer.nan else "", value=layer.nan),
        ),
        (Column(title="Weight", hidden=True), lambda layer: Cell(text=one_line(layer.weight))),
        (Column(title="Subgraph", hidden=True), lambda layer: Cell(text=one_line(layer.subgraph))),
    ]
    return [table_of(f"Zeros in weights{shown}", rows, columns)]


def _title(layer: LayerSparsity, graph: Graph) -> str:
    for name in filter(None, layer.subgraph.split("/")):
        graph = graph.subgraphs.get(name, graph)
    return one_line(graph.operators[layer.index].title)


def _count(number: int | None, layer: LayerSparsity) -> Cell:
    return absent(layer.absent_because or "") if number is None else Cell(text=f"{number:,}", value=number)


def _percentage(layer: LayerSparsity) -> Cell:
    if layer.zeros is None:
        return absent(layer.absent_because or "")
    share = 100.0 * (layer.share or 0.0)
    return Cell(text=f"{share:.1f}", value=share)


def _patterns(layer: LayerSparsity) -> Cell:
    if layer.patterns_absent_because:
        return absent(layer.patterns_absent_because)
    return Cell(text=", ".join(layer.patterns) or "none" if layer.zeros else "")


def zero_cells(inspection: Inspection, index: int) -> tuple[Cell, ...]:
    """Cells of `ZERO_TITLES` for the operator at `index`: none without sparsity, blank if it has no weights."""
    if inspection.sparsity is None:
        return ()
    own = [each for each in inspection.sparsity.layers if each.index == index and not each.subgraph]
    counted = [each.zeros for each in own if each.zeros is not None]
    zeros = Cell(text=str(sum(counted)), value=sum(counted)) if counted else Cell(text="")
    return zeros, Cell(text="; ".join(", ".join(each.patterns) for each in own if each.patterns))


def sparsity_section(sparsity: Sparsity) -> Section:
    """Return the total, and the number of weights that could not be counted."""
    totals = sparsity.to_dict()["totals"]
    lines = []
    if totals["share"] is not None:
        share = f"{100.0 * totals['share']:.1f} %"
        lines.append(f"{totals['zeros']:,} of {totals['elements']:,} weights are zero ({share})")
    elif not sparsity.layers:
        lines.append("no weights with two or more dimensions were found")
    if totals["weights_not_counted"]:
        lines.append(f"not counted: {totals['weights_not_counted']} weight(s), for the reasons in the table")
    if nan := sum(each.nan for each in sparsity.counted):
        lines.append(f"{nan:,} weights are NaN, which is not zero")
    return Section(title="Sparsity", lines=tuple(lines))


def totals_table(inspection: Inspection) -> Table:
    """Two columns: what, and how much."""
    graph, total, plan = inspection.graph, inspection.total, inspection.plan
    source = inspection.source
    size = source.get("size_bytes")
    rows = [
        ("Format", _text(" · ".join(filter(None, (graph.format, graph.version, one_line(graph.producer)))))),
        *_signature_rows(graph),
        *(_language_rows(graph) or [("Precision", _text(inspection.precision))]),
        *(("Input", _text(tensor_words(graph.tensors[name]))) for name in graph.inputs),
        *(("Output", _text(tensor_words(graph.tensors[name]))) for name in graph.outputs),
        *([("State", _text(f"kept between inferences: {one_line(', '.join(graph.states))}"))] if graph.states else []),
        ("File size", _amount(size, "B", str(source.get("size_absent_because", "it is not a file")))),
        ("Layers", plain_cell(len(graph.operators))),
        *([] if LANGUAGE_MODEL in graph.metadata else [("Depth", plain_cell(total.depth))]),
        ("MACs", _known(total.macs, total.macs_known, total.why)),
        ("Operations", _known(total.ops, total.ops_known, total.why)),
        ("Parameters", _amount(total.parameters, "1", "the shape of a weight is open")),
        ("Weights", _amount(total.weight_bytes, "B", "the size of a weight is not known")),
        *(
            (("Scales, zero points", _amount(total.scale_bytes, "B", "the size of a scale is not known")),)
            if total.scale_bytes != 0
            else ()
        ),
        *_program_rows(graph),
        ("Activations, arena", _arena(inspection)),
        ("Activations, at least", _amount(None if plan.unknown else plan.lower_bound_bytes, "B", _open(inspection))),
    ]
    return Table(
        title=str(source.get("name", "")),
        columns=(Column(title=""), Column(title="")),
        rows=tuple((Cell(text=name), cell) for name, cell in rows),
    )


def _language_rows(graph: Graph) -> list[tuple[str, Cell]]:
    """Return what the header of a language model says; empty for other models."""
    told = graph.metadata.get(LANGUAGE_MODEL)
    if told is None:
        return []
    tokens, numbers, kind = told["context_length"], told["kv_cache_numbers_per_token"], told["tokenizer"]
    unsaid = "the header does not say"
    words = [f"{one_line(kind or '')}, {told['vocabulary'] or 0:,} tokens"]
    words += [f"chat template {told['chat_template']}"] if told["chat_template"] else []
    return [
        ("Architecture", _text(one_line(told["architecture"] or ""))),
        ("Quantisation", _text(told["quantisation"])),
        ("Context", absent(unsaid) if tokens is None else Cell(text=f"{tokens:,} tokens", value=tokens)),
        ("Tokenizer", _text("; ".join(words)) if kind else absent("the file has none")),
        (
            "KV cache, a token",
            absent(told["kv_cache_absent_because"])
            if numbers is None
            else Cell(text=f"{quantity(2 * numbers, 'B')} in f16 ({numbers:,} numbers)", value=2 * numbers),
        ),
    ]


def _signature_rows(graph: Graph) -> Iterator[tuple[str, Cell]]:
    """Yield the signature that all numbers are of, and the others of the file; nothing for a file with one."""
    if len(graph.signatures) < 2:
        return
    yield "Signature", _text(f"{one_line(graph.signature) or 'the first subgraph, which has no name'}: all numbers")
    for name, inputs in graph.signatures.items():
        if name != graph.signature:
            takes = ", ".join(map(tensor_words, inputs)) or "no inputs"
            yield "Other signature", _text(f"{one_line(name)}, of {takes}")


def _program_rows(graph: Graph) -> Iterator[tuple[str, Cell]]:
    """Of a program that says so: what runs its layers, and the memory that it plans for activations."""
    places = Counter(str(each.attributes["runs_in"]) for each in graph.operators if "runs_in" in each.attributes)
    for place, count in places.items():
        own = Counter(one_line(each.op) for each in graph.operators if each.attributes.get("runs_in") == place)
        words = "layer" if count == 1 else "layers"
        yield one_line(place), _text(f"{count} {words}: {enumerate_few(list(own), most=6)}")
    planned = graph.metadata.get("planned_bytes")
    if planned is not None:
        yield "Activations, planned", _amount(sum(planned), "B", "")
    for name, shape in graph.metadata.get("bounds", {}).items():
        yield "Largest input", _text(f"{one_line(name)} {shape}")


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


def plain_cell(number: int) -> Cell:
    """Return the cell of a count."""
    return Cell(text=f"{number:,}", value=number)


def _amount(value: float | None, unit: str, why: str) -> Cell:
    if value is None:
        return absent(why)
    if unit == "B":
        return Cell(
            text=f"{quantity(value, unit)} ({value:,.0f} B)" if value >= 1024 else f"{value:,.0f} B", value=value
        )
    return Cell(text=f"{format_si(value, '').strip()} ({value:,.0f})" if value >= 1e5 else f"{value:,.0f}", value=value)


def _known(value: int | None, known: int, why: str) -> Cell:
    """Return a total, or the part of it that is known with the reason why it is not all."""
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
    """Return a number of things; `why` says why it is not known."""
    if value is None:
        return absent(why)
    return Cell(text=f"{value:,}" if value < 1e4 else format_si(value, "").strip(), value=value)


def bytes_cell(value: int | None, why: str) -> Cell:
    """Return a number of bytes; `why` says why it is not known."""
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


def operator_table(inspection: Inspection) -> Table:
    """Return a row per type of operator, the one with the most MACs first: how many there are, and what they cost."""
    costs, whole = inspection.costs, inspection.total.macs

    def total(at: Sequence[int], field: str) -> int | None:
        values = [getattr(costs[each], field) for each in at]
        return None if None in values else sum(values)

    def row(name: str, at: Sequence[int]) -> tuple[Cell, ...]:
        why = next((costs[each].why for each in at if costs[each].why), "a shape is open")
        macs = total(at, "macs")
        return (
            Cell(text=one_line(name)),
            Cell(text=name_kind(inspection.graph.operators[at[0]])),
            count_cell(len(at), ""),
            count_cell(macs, why),
            Cell(text=f"{macs / whole:.1%}", value=macs / whole) if macs is not None and whole else DASH,
            count_cell(total(at, "parameters"), why),
            bytes_cell(total(at, "weight_bytes"), why),
        )

    types = sorted(
        _types(inspection).items(), key=lambda each: (-(total(each[1], "macs") or 0), -len(each[1]), each[0])
    )
    numbers = ("Count", "MACs", "of all MACs", "Parameters", "Weights (B)")
    return Table(
        title="Operators",
        columns=(
            Column(title="Operator"),
            Column(title="Kind"),
            *(Column(title=each, numeric=True) for each in numbers),
        ),
        rows=tuple(row(name, at) for name, at in types),
        detail=True,
    )


def _types(inspection: Inspection) -> dict[str, list[int]]:
    """Type of operator → indices of its operators."""
    found: dict[str, list[int]] = defaultdict(list)
    for operator in inspection.graph.operators:
        found[operator.op].append(operator.index)
    return found


def support_matrix(inspection: Inspection) -> Table | None:
    """Engines × types of operators that some engine does not support, or may not; None where there is none."""
    types = _types(inspection)
    doubtful = [name for name, at in types.items() if any(_reasons(each, at) for each in inspection.support)]
    if not doubtful:
        return None
    return Table(
        title="Support by operator",
        columns=(Column(title="Operator"), *(Column(title=each.name) for each in inspection.support)),
        rows=tuple(
            (
                Cell(text=f"{one_line(name)} ({len(types[name])})"),
                *(_support_cell(each, types[name]) for each in inspection.support),
            )
            for name in doubtful
        ),
        notes=("operators that every engine supports are left out",) if len(doubtful) < len(types) else (),
        detail=True,
    )


def _reasons(support: Support, at: Sequence[int]) -> tuple[str, ...]:
    """Why an engine does not, or may not, support some of the operators."""
    every = {**support.unknown, **support.refusals}
    return tuple(dict.fromkeys(one_line(every[each]) for each in at if each in every))


def _support_cell(support: Support, at: Sequence[int]) -> Cell:
    reasons = _reasons(support, at)[:3]
    refused = sum(each in support.refusals for each in at)
    if refused:
        return Cell(text="no" if refused == len(at) else f"{len(at) - refused} of {len(at)}", notes=reasons, tone="bad")
    return Cell(text="unknown" if reasons else "yes", notes=reasons, tone="faint" if reasons else "good")
