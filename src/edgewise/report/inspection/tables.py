"""The tables of an inspection: totals, layers, operators by type, zeros in weights, and which engine supports them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Any

from edgewise.formatting import quantity
from edgewise.grouping import by_key
from edgewise.model.graph import LANGUAGE_MODEL, Graph, Tensor
from edgewise.model.inspection import Inspection, describe_tensor, name_kind
from edgewise.model.sparsity import LayerSparsity, Sparsity
from edgewise.model.support import Support
from edgewise.report.document import DASH, Cell, Column, Columns, Section, Table, absent, table_of, value_cell
from edgewise.report.document.bars import describe_memory
from edgewise.report.document.columns import number_column, text_column
from edgewise.report.document.names import keep_end
from edgewise.text import enumerate_few, one_line, shape_text
from edgewise.units import format_bytes, format_si, significant

NO_SHAPE, NO_SIZE = "the shape of a weight is open", "the size of a weight is not known"


def sparsity_tables(inspection: Inspection, *, top: int | None = None) -> list[Table]:
    """Return the weights with their zeros: the `top` with the most, or all in order; empty without sparsity."""
    sparsity = inspection.sparsity
    if sparsity is None:
        return []
    rows = sparsity.layers
    if top is not None and len(rows) > top:
        most = sorted(rows, key=lambda each: -(each.zeros or 0))[:top]
        rows = tuple(each for each in rows if each in most)
    shown = "" if len(rows) == len(sparsity.layers) else f": the {len(rows)} with the most of {len(sparsity.layers)}"
    why: Callable[[LayerSparsity], str | None] = attrgetter("absent_because")
    columns: Columns[LayerSparsity] = [
        number_column("#", lambda layer: layer.index, str),
        text_column("Layer", lambda layer: _title(layer, inspection.graph), name=True, ends=True),
        number_column("Elements", lambda layer: layer.elements, "{:,}".format, why=why, rank=2),
        number_column("Zeros", lambda layer: layer.zeros, "{:,}".format, why=why),
        number_column("Zeros (%)", _percentage, "{:.1f}".format, why=why),
        (Column(title="Patterns"), _patterns),
        number_column("NaN", lambda layer: layer.nan, lambda nan: f"{nan:,}" if nan else "", hidden=True),
        text_column("Weight", lambda layer: layer.weight, hidden=True),
        text_column("Subgraph", lambda layer: layer.subgraph, hidden=True),
    ]
    return [table_of(f"Zeros in weights{shown}", rows, columns)]


def _title(layer: LayerSparsity, graph: Graph) -> str:
    for name in filter(None, layer.subgraph.split("/")):
        graph = graph.subgraphs.get(name, graph)
    return graph.operators[layer.index].title


def _percentage(layer: LayerSparsity) -> float | None:
    return None if layer.zeros is None else 100.0 * (layer.share or 0.0)


def _patterns(layer: LayerSparsity) -> Cell:
    if layer.patterns_absent_because:
        return absent(layer.patterns_absent_because)
    return Cell(text=", ".join(layer.patterns) or "none" if layer.zeros else "")


def _zero_columns(sparsity: Sparsity) -> Columns[int]:
    """Return columns of a CSV file: the zeros of the weights of each operator, and the patterns that they make."""

    def own(at: int) -> list[LayerSparsity]:
        return [each for each in sparsity.layers if each.index == at and not each.subgraph]

    def zeros(at: int) -> Cell:
        counted = [each.zeros for each in own(at) if each.zeros is not None]
        return value_cell(sum(counted), str) if counted else Cell(text="")

    def patterns(at: int) -> str:
        return "; ".join(", ".join(each.patterns) for each in own(at) if each.patterns)

    return [(Column(title="Zeros", hidden=True), zeros), text_column("Patterns of zeros", patterns, hidden=True)]


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
    quantised = graph.metadata.get(LANGUAGE_MODEL, {}).get("quantisation")
    rows = [
        ("Format", _text(" · ".join(filter(None, (graph.format, graph.version, one_line(graph.producer)))))),
        *_signature_rows(graph),
        *_language_rows(graph),
        *([] if quantised else [("Precision", _text(inspection.precision))]),
        *(("Input", _text(tensor_words(graph.tensors[name]))) for name in graph.inputs),
        *(("Output", _text(tensor_words(graph.tensors[name]))) for name in graph.outputs),
        *_state_rows(graph),
        ("File size", _amount(size, "B", str(source.get("size_absent_because", "it is not a file")))),
        ("Layers", value_cell(len(graph.operators), "{:,}".format)),
        *([] if LANGUAGE_MODEL in graph.metadata else [("Depth", value_cell(total.depth, "{:,}".format))]),
        ("MACs", _known(total.macs, total.macs_known, total.why)),
        ("Operations", _known(total.ops, total.ops_known, total.why)),
        ("Parameters", _amount(total.parameters, "1", NO_SHAPE)),
        ("Weights", _amount(total.weight_bytes, "B", NO_SIZE)),
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
        *([("Quantisation", _text(told["quantisation"]))] if told["quantisation"] else []),
        ("Context", absent(unsaid) if tokens is None else Cell(text=f"{tokens:,} tokens", value=tokens)),
        ("Tokenizer", _text("; ".join(words)) if kind else absent("the file has none")),
        (
            "KV cache, a token",
            absent(told["kv_cache_absent_because"])
            if numbers is None
            else Cell(text=f"{quantity(2 * numbers, 'B')} in f16 ({numbers:,} numbers)", value=2 * numbers),
        ),
    ]


def _state_rows(graph: Graph) -> list[tuple[str, Cell]]:
    """Return what is kept between inferences; of a language model it is the KV cache, which has a row of its own."""
    if not graph.states or LANGUAGE_MODEL in graph.metadata:
        return []
    return [("State", _text(f"kept between inferences: {one_line(', '.join(graph.states))}"))]


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
    graph, costs, operators = inspection.graph, inspection.costs, inspection.graph.operators
    order = list(range(len(operators)))
    folded: list[int] = []
    if top is not None and len(order) > top:
        slowest = sorted(order, key=lambda at: (-(costs[at].macs or 0), -(costs[at].ops or 0), at))
        order, folded = sorted(slowest[:top]), sorted(slowest[top:])

    def outputs(at: int) -> str:
        known = [tensor.shape for tensor in graph.output_tensors(operators[at])]
        shapes = ["?" if shape is None else shape_text(shape) or "scalar" for shape in known]
        return "; ".join(shapes[:2]) + ("; …" if len(shapes) > 2 else "")

    def intensity(at: int) -> Cell:
        return DASH if (known := costs[at].intensity) is None else value_cell(known, significant)

    def of_cost(title: str, name: str, show: Callable[[int], str], why: str = "", **settings: Any) -> Any:
        return number_column(
            title, lambda at: getattr(costs[at], name), show, why=lambda at: why or costs[at].why, **settings
        )

    def engines(of: Callable[[Support], Container[int]]) -> Callable[[int], str]:
        return lambda at: ", ".join(each.name for each in inspection.support if at in of(each))

    columns: Columns[int] = [
        number_column("#", lambda at: at, str),
        text_column("Layer", lambda at: operators[at].title, name=True, ends=True),
        text_column("Operator", lambda at: operators[at].op, rank=1, name=True),
        text_column("Output", outputs, rank=4),
        of_cost("MACs", "macs", count_text),
        of_cost("Ops", "ops", count_text, rank=3),
        of_cost("Params", "parameters", count_text, NO_SHAPE, rank=2),
        of_cost("Weights (B)", "weight_bytes", format_bytes, NO_SIZE, rank=6, unit="B"),
        of_cost("Moved (B)", "activation_bytes", format_bytes, "a shape is open", rank=5, unit="B"),
        (Column(title="Ops/B", numeric=True, rank=7), intensity),
        text_column("Kind", lambda at: name_kind(operators[at]), hidden=True),
        text_column("Inputs", lambda at: "; ".join(map(tensor_words, graph.input_tensors(operators[at]))), hidden=True),
        text_column("Not supported by", engines(lambda each: each.refusals), hidden=True),
        text_column("Support unknown", engines(lambda each: each.unknown), hidden=True),
        *([] if inspection.sparsity is None else _zero_columns(inspection.sparsity)),
    ]
    title = f"Layers: the {len(order)} with the most MACs of {len(operators)}" if folded else "Layers"
    table = table_of(title, order, columns)
    return replace(table, rows=(*table.rows, _folded(inspection, folded, len(columns)))) if folded else table


def _folded(inspection: Inspection, folded: Sequence[int], width: int) -> tuple[Cell, ...]:
    """Return a row of `width` cells with the sums of what is known."""
    costs = [inspection.costs[at] for at in folded]

    def total(name: str, show: Callable[[int], str]) -> Cell:
        return value_cell(sum(getattr(cost, name) or 0 for cost in costs), show)

    unknown = sum(1 for cost in costs if cost.macs is None)
    note = f", {unknown} of unknown cost" if unknown else ""
    cells = [Cell(text="…"), Cell(text=f"{len(folded)} more layers{note}"), Cell(text=""), Cell(text="")]
    cells += [total(name, count_text) for name in ("macs", "ops", "parameters")]
    cells += [total(name, format_bytes) for name in ("weight_bytes", "activation_bytes")]
    return (*cells, *[Cell(text="")] * (width - len(cells)))


def count_text(value: int) -> str:
    """``"9,408"``, ``"1.20 M"``: a number of things."""
    return f"{value:,}" if value < 1e4 else format_si(value, "").strip()


def support_table(support: Sequence[Support], inspection: Inspection) -> Table:
    """Per target: the operators that it supports, does not support, or that are unknown, and why."""
    count = len(inspection.graph.operators)

    def supported(each: Support) -> Cell:
        no, unknown = len(each.refusals), len(each.unknown)
        text = f"{count - no - unknown} of {count}" if no or unknown else f"all {count}"
        return Cell(text=text, tone="poor" if no else "plain" if unknown else "good")

    def reasons(each: Support) -> str:
        return "; ".join(_first_reason(some, inspection) for some in (each.refusals, each.unknown) if some)

    columns: Columns[Support] = [
        text_column("Engine", lambda each: each.name),
        (Column(title="Supported"), supported),
        number_column("Not", lambda each: len(each.refusals), lambda no: str(no or "")),
        number_column("Unknown", lambda each: len(each.unknown), lambda unknown: str(unknown or "")),
        text_column("Why", reasons),
    ]
    notes = dict.fromkeys(f"{each.name}: {each.source}" for each in support)
    return table_of("Operator support of the engines (the model was not run)", support, columns, notes=[*notes])


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

    def why(of: tuple[str, list[int]]) -> str:
        return next((costs[each].why for each in of[1] if costs[each].why), "a shape is open")

    def share(of: tuple[str, list[int]]) -> Cell:
        macs = total(of[1], "macs")
        return value_cell(macs / whole, "{:.1%}".format) if macs is not None and whole else DASH

    types = sorted(
        _types(inspection).items(), key=lambda each: (-(total(each[1], "macs") or 0), -len(each[1]), each[0])
    )
    columns: Columns[tuple[str, list[int]]] = [
        text_column("Operator", lambda of: of[0]),
        text_column("Kind", lambda of: name_kind(inspection.graph.operators[of[1][0]])),
        number_column("Count", lambda of: len(of[1]), count_text),
        number_column("MACs", lambda of: total(of[1], "macs"), count_text, why=why),
        (Column(title="of all MACs", numeric=True), share),
        number_column("Parameters", lambda of: total(of[1], "parameters"), count_text, why=why),
        number_column("Weights (B)", lambda of: total(of[1], "weight_bytes"), format_bytes, why=why),
    ]
    return table_of("Operators", types, columns, detail=True)


def _types(inspection: Inspection) -> dict[str, list[int]]:
    """Type of operator → indices of its operators."""
    return by_key((operator.op, operator.index) for operator in inspection.graph.operators)


def support_matrix(inspection: Inspection) -> Table | None:
    """Engines × types of operators that some engine does not support, or may not; None where there is none."""
    types = _types(inspection)
    doubtful = [name for name, at in types.items() if any(_reasons(each, at) for each in inspection.support)]
    if not doubtful:
        return None
    columns: Columns[str] = [
        text_column("Operator", lambda name: f"{name} ({len(types[name])})"),
        *((Column(title=each.name), partial(_support_cell, each, types)) for each in inspection.support),
    ]
    notes = ("operators that every engine supports are left out",) if len(doubtful) < len(types) else ()
    return table_of("Support by operator", doubtful, columns, notes=notes, detail=True)


def _reasons(support: Support, at: Sequence[int]) -> tuple[str, ...]:
    """Why an engine does not, or may not, support some of the operators."""
    every = {**support.unknown, **support.refusals}
    return tuple(dict.fromkeys(one_line(every[each]) for each in at if each in every))


def _support_cell(support: Support, types: Mapping[str, Sequence[int]], name: str) -> Cell:
    at = types[name]
    reasons = _reasons(support, at)[:3]
    refused = sum(each in support.refusals for each in at)
    if refused:
        return Cell(text="no" if refused == len(at) else f"{len(at) - refused} of {len(at)}", notes=reasons, tone="bad")
    return Cell(text="unknown" if reasons else "yes", notes=reasons, tone="faint" if reasons else "good")
