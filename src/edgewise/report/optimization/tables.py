"""The tables of a search: before and after, all variants, the Pareto front, fragile layers, and one for machines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from edgewise.comparing.comparison import why_unproven
from edgewise.evaluating.agreement import WORST
from edgewise.formatting import factor_text, scale_of, value_text, with_range
from edgewise.metrics import METRICS, SHARES
from edgewise.optimizing.choice import drop_of
from edgewise.optimizing.variant import Candidate, LayerSensitivity, MetricValue, Optimization
from edgewise.report.comparison.words import lower_label
from edgewise.report.document import DASH, Cell, Column, Provenance, Table, Tone, absent, raw_cell, table_by_columns
from edgewise.report.document.names import short_names
from edgewise.report.optimization.elsewhere import device_lines, device_metrics, titled
from edgewise.report.optimization.words import (
    NOT_REACHED,
    STAGES,
    accuracy_text,
    bytes_text,
    is_probable,
    memory_text,
    nearest_of,
    number_of,
    reason_of,
    speed_text,
    speedup_text,
    standing_of,
    verdict_of,
)
from edgewise.report.runs.cells import Scale, amount_cell, label_of, scales_of_two
from edgewise.report.runs.provenance import basis_text, provenance_of_column, provenance_of_number
from edgewise.text import one_line, plural
from edgewise.units import significant

FEW_LAYERS = 10
"""Of layers that the terminal shows."""
_LAYER_CELLS = 40
_LAYER_METHOD = "outputs with this layer alone changed, against the original's; gain: with it alone spared"
_PURE = {"speedup": "Speed-up", "memory_reduction": "Memory reduction", "accuracy_drop": "Accuracy drop",
         "change": "Change"}  # fmt: skip
_SPEED_NOTE = (
    "speed-ups are time of the original over time of the variant. Predicted: by the pre-flight, both in the "
    "variant's engine. Measured: in the race, against the original in its own engine"
)
_TWO_INTERVALS = (
    "intervals of a latency are for a re-run on this machine and include how much its speed varies between runs; those "
    "of a change are narrower, as both were measured in turns"
)
_SAME_SAMPLES = "the interval of a change of accuracy compares answers to the same samples"
_NO_RATIO_INTERVAL = "of this ratio no interval is known"
_TONES: dict[str, Tone] = {"chosen": "good", "accepted": "good", "original": "plain"}
_MARKS = {"original": "○", "chosen": "★", "accepted": "✓"}
_NO_MARK = "·"


def featured(result: Optimization) -> tuple[Candidate | None, str]:
    """Return the variant that is set against the original, and what it is: chosen, closest or nearest."""
    if result.chosen is not None:
        return result.candidate(result.chosen), "chosen"
    nearest = nearest_of(result)
    return nearest, "closest" if nearest is not None and nearest.id == result.closest else "nearest"


def compared_metrics(result: Optimization) -> list[str]:
    """Latency, size, memory and what accuracy means here."""
    own = device_metrics(result) if result.device else ["latency", "memory_peak"]
    return [own[0], "model_size", *own[1:], *([result.headline] if result.headline else [])]


def before_after_table(result: Optimization, *, narrow: bool = False) -> Table:
    """Return the original against the chosen variant, or the nearest; `narrow`: only the change has an interval."""
    other, role = featured(result)
    columns = [Column(title="Metric"), Column(title="Original", numeric=True)]
    if other is None:
        title = "The original"
    else:
        title = f"Before and after: {one_line(result.baseline.id)} → {one_line(other.id)}"
        heading = "Change (interval)" if result.device else "Change (95 % interval)"
        change = Column(title=heading, numeric=True, decides=True)
        columns += [Column(title=role.capitalize(), numeric=True), change]
    rows = tuple(_before_after_row(result, other, metric) for metric in compared_metrics(result))
    raced = other is not None and number_of(other, "speedup").low is not None and not result.device
    compared = other is not None and result.headline in METRICS and number_of(other, "accuracy_drop").low is not None
    notes = [note for note, holds in ((_TWO_INTERVALS, raced), (_SAME_SAMPLES, compared)) if holds and not narrow]
    return Table(title=title, columns=tuple(columns), rows=rows, notes=tuple(notes))


def _before_after_row(result: Optimization, other: Candidate | None, metric: str) -> tuple[Cell, ...]:
    before, label = number_of(result.baseline, metric), Cell(text=titled(result, metric, label_of(metric)))
    if other is None:
        return label, number_cell(metric, before)
    after = number_of(other, metric)
    known = [number.value for number in (before, after) if number.value]
    scales = scales_of_two(metric, METRICS[metric].unit, known)
    sides = (number_cell(metric, number, scale) for number, scale in zip((before, after), scales, strict=True))
    return label, *sides, _change_cell(result, other, metric)


def number_cell(metric: str, number: MetricValue, scale: tuple[Scale, str] | None = None, *, label: str = "") -> Cell:
    """Return a number in its unit, short without its interval.

    Args:
        scale: of values that are read beside it.
        label: what the number is, where it is only written as `metric` is.
    """
    if number.value is None:
        cell = absent(one_line(number.absent_because or "it is not known why"))
        known = number.at_least
        return cell if known is None else replace(cell, text=f"≥ {value_text(metric, METRICS[metric].unit, known)}")
    unit = METRICS[metric].unit
    if metric not in SHARES:
        scale = scale or scale_of(metric, unit, [number.value])
        cell = amount_cell(metric, number.value, number.low, number.high, scale)
    else:
        text = with_range(metric, unit, number.value, number.low, number.high)
        cell = _worded_cell(metric, number, text, short=value_text(metric, unit, number.value))
    return replace(cell, how=partial(_how, metric, number, label))


def _worded_cell(metric: str, number: MetricValue, text: str, **more: Any) -> Cell:
    """Return a number as `text` says it; absent where there is none."""
    if number.value is None:
        return absent(one_line(number.absent_because or NOT_REACHED))
    how = partial(_how, metric, number)
    return Cell(text=text, value=number.value, low=number.low, high=number.high, how=how, **more)


def _how(metric: str, number: MetricValue, label: str = "") -> Provenance:
    unit = "1" if metric in _PURE else METRICS[metric].unit
    title = _PURE.get(metric) or f"{label or label_of(metric)}: {value_text(metric, unit, number.value)}"
    facts = (("Basis", basis_text(number.basis)), ("Method", number.method))
    return provenance_of_number(
        title, unit, (number.value, number.low, number.high), facts, interval=f"{number.coverage:.0%} interval"
    )


_SCREENED = "in the short race that chose what takes part in the race, whose values these are not comparable with"


def _change_cell(result: Optimization, other: Candidate, metric: str) -> Cell:
    before, after = number_of(result.baseline, metric), number_of(other, metric)
    if metric == compared_metrics(result)[0]:
        speed = number_of(other, "speedup")
        notes = (why_unproven(0.0, None, None, over="comparisons of the race"),) if is_probable(speed) else ()
        if other.stage == "screened" and speed.value is not None:  # of a short race, as in the table of variants
            return _worded_cell("speedup", speed, f"~{speed_text(speed)}", notes=(_SCREENED,))
        return _worded_cell("speedup", speed, speed_text(speed), tone=_speed_tone(speed), notes=notes)
    if metric == WORST:  # it is about the change already
        return number_cell(metric, after)
    if metric == result.headline:
        drop = number_of(other, "accuracy_drop")
        return _worded_cell("accuracy_drop", drop_of(drop, metric), accuracy_text(drop, metric))
    if metric == "memory_peak":
        less = number_of(other, "memory_reduction")
        if less.value is not None and less.low and less.high:
            text = memory_text(less)
            factor = f"before over after {factor_text(less.value, less.low, less.high)}"
            notes = (factor,) if text == "not told apart" else ()
            return _worded_cell("memory_reduction", less, text, notes=notes)
    text = bytes_text(before, after)
    if not text or before.value is None or after.value is None:
        reasons = [one.absent_because for one in (before, after) if one.value is None and one.absent_because]
        return absent(one_line(reasons[0]) if reasons else "one of the two is not known")
    exact = after.low == after.high == after.value and before.low == before.high == before.value
    notes = () if exact or text == "not told apart" else (_NO_RATIO_INTERVAL,)
    notes = ("both intervals overlap",) if text == "not told apart" else notes
    ratio = MetricValue(value=before.value / after.value, basis="derived", method="original over variant")
    return _worded_cell("change", ratio, text, notes=notes)


def _speed_tone(speed: MetricValue) -> Tone:
    tones: dict[str, Tone] = {"faster": "good", "slower": "bad"}
    return tones.get(standing_of(speed), "plain")


def variants_table(result: Optimization, *, narrow: bool = False) -> Table:
    """One row a variant, the original first, then the accepted by their speed, then the others as far as they came.

    Args:
        narrow: for the terminal: a mark for the verdict, no reasons (a section tells them), intervals without blanks.
    """
    ordered = ordered_candidates(result)
    kind = accuracy_metric(result)
    verdicts = [verdict_of(result, one) for one in ordered]
    tones: list[Tone] = [_TONES.get(verdict, "plain" if narrow else "faint") for verdict in verdicts]
    told = list(zip(ordered, verdicts, tones, strict=True))
    if narrow:
        marked = [Cell(text=f"{_MARKS.get(word, _NO_MARK)} {one_line(one.id)}", tone=tone) for one, word, tone in told]
        columns = [(Column(title="Variant"), marked)]
    else:
        columns = [
            (Column(title="#", numeric=True), [Cell(text=str(place), value=place) for place in range(len(ordered))]),
            (Column(title="Variant"), [Cell(text=one_line(one.id)) for one in ordered]),
            (Column(title="Verdict", decides=True), [Cell(text=word, tone=tone) for _, word, tone in told]),
        ]
    columns += (
        _device_columns(result, ordered, narrow=narrow)
        if result.device
        else _speed_columns(ordered, _raced_elsewhere(result, ordered), narrow=narrow)
    )
    if kind:
        title = _accuracy_title(kind, result, narrow=narrow)
        accuracies = [_accuracy_cell(result, one, kind, narrow=narrow) for one in ordered]
        columns.append((Column(title=title, numeric=True, folds=True), accuracies))
    sizes = [value for one in ordered if (value := number_of(one, "model_size").value)]
    scale, unit = scale_of("model_size", "B", sizes)
    columns.append((Column(title=f"Size ({unit})", numeric=True), [_size_cell(one, scale) for one in ordered]))
    if not narrow:
        columns.append((Column(title="Why"), [Cell(text=reason_of(one)) for one in ordered]))
    notes = ("★ chosen, ✓ accepted, ○ the original, · not accepted: --details says why",) if narrow else ()
    notes = (*notes, *(device_lines(result) or [_SPEED_NOTE]))
    if not narrow:
        found = "faster by the estimates" if result.device else "proven faster"
        notes = (*notes, f"a variant is accepted where it is {found} within every bound")
    if any(one.stage == "screened" and "speedup" in one.metrics for one in ordered):
        notes = (*notes, f"~: {_SCREENED}")
    if _raced_elsewhere(result, ordered):
        notes = (*notes, "†: in another race than the chosen one, so these speed-ups tell no order between the two")
    if narrow and kind and kind == result.headline and kind != WORST:
        notes = (*notes, f"{lower_label(kind)}: its change against the original")
    count = len(result.candidates)
    title = plural(count, "variant") if narrow else "All variants"
    return table_by_columns(title, columns, notes=notes)


def _raced_elsewhere(result: Optimization, ordered: Sequence[Candidate]) -> list[str]:
    """Ids of the variants whose speed-up is from another race than the chosen one's; none where none was chosen."""
    races = {one.id: one.beside.run for one in ordered if one.beside is not None and one.stage == "raced"}
    chosen = races.get(result.chosen or "")
    return [name for name, race in races.items() if chosen is not None and race != chosen]


def _speed_columns(
    ordered: Sequence[Candidate], elsewhere: Sequence[str], *, narrow: bool
) -> list[tuple[Column, list[Cell]]]:
    """How fast each variant was foreseen and measured to be; `elsewhere`: ids of those of another race."""
    predicted = [_predicted_cell(one, narrow=narrow) for one in ordered]
    measured = [_measured_cell(one, mark="†" if one.id in elsewhere else "", narrow=narrow) for one in ordered]
    return [
        (Column(title="Predicted", numeric=True, folds=True), predicted),
        (Column(title="Measured", numeric=True, folds=True), measured),
    ]


def _device_columns(
    result: Optimization, ordered: Sequence[Candidate], *, narrow: bool
) -> list[tuple[Column, list[Cell]]]:
    """Return what each variant needs on the device; narrow without intervals, energy and bases."""
    found = []
    for metric in device_metrics(result):
        if narrow and metric == "energy":
            continue
        numbers = [number_of(one, metric) for one in ordered]
        if narrow:
            numbers = [replace(each, low=None, high=None) for each in numbers]
        cells = [number_cell(metric, each) for each in numbers]
        column = Column(title=label_of(metric) if narrow else titled(result, metric, label_of(metric)), numeric=True)
        found.append((column, cells))
    return found


def ordered_candidates(result: Optimization) -> list[Candidate]:
    """Return the original, what was chosen, what was accepted by speed, and the rest as far as it came."""

    def key(one: Candidate) -> tuple[bool, bool, int, float]:
        speed = number_of(one, "speedup").value or 0.0
        return one.id != result.chosen, not one.accepted, -STAGES.index(one.stage), -speed

    return [result.baseline, *sorted(result.candidates, key=key)]


def accuracy_metric(result: Optimization) -> str:
    """Return what the accuracy column shows: the headline's change, else how far outputs are from the original's."""
    if result.headline:
        return result.headline
    if any(WORST in one.metrics for one in result.candidates):
        return WORST
    return "output_snr" if any("output_snr" in one.metrics for one in result.candidates) else ""


def _accuracy_title(kind: str, result: Optimization, *, narrow: bool) -> str:
    """Return what is shown of accuracy; a narrow column leaves it to the unit that it is a change."""
    if kind != result.headline or kind == WORST:
        return f"{label_of(kind)} (dB)" if narrow and kind == WORST else label_of(kind)
    title = label_of(kind) if narrow else f"Change of {lower_label(kind)}"
    return f"{title} (pt)" if kind in SHARES else title


def _size_cell(one: Candidate, scale: Scale) -> Cell:
    size = number_of(one, "model_size")
    if size.value is None:
        return absent(one_line(size.absent_because or NOT_REACHED))
    how = partial(_how, "model_size", size)
    return Cell(text=significant(scale(size.value)), value=scale(size.value), how=how)


def _predicted(one: Candidate) -> MetricValue:
    """Return the speed-up that the pre-flight foresaw."""
    prediction = one.predicted
    if prediction is None or prediction.speedup is None:
        because = "" if prediction is None else one_line(prediction.because)
        return MetricValue(value=None, absent_because=because or "nothing was predicted")
    low, high, method = prediction.low, prediction.high, prediction.method
    return MetricValue(value=prediction.speedup, low=low, high=high, basis="estimated", method=method)


def _predicted_cell(one: Candidate, *, narrow: bool) -> Cell:
    if one.predicted is None and one.parent is None:
        return DASH
    speed = _predicted(one)
    return _worded_cell("speedup", speed, _tight(speedup_text(speed.value, speed.low, speed.high), narrow))


def _measured_cell(one: Candidate, *, mark: str, narrow: bool) -> Cell:
    if one.parent is None:
        return DASH
    speed = number_of(one, "speedup")
    about = "~" if one.stage == "screened" else ""
    text = _tight(speedup_text(speed.value, speed.low, speed.high), narrow)
    first, blank, rest = text.partition(" ")
    return _worded_cell("speedup", speed, f"{about}{first}{mark}{blank}{rest}", tone=_speed_tone(speed))


def _accuracy_cell(result: Optimization, one: Candidate, kind: str, *, narrow: bool) -> Cell:
    if one.id == result.baseline.id:
        return DASH
    if kind == WORST and narrow and number_of(one, kind).value is not None:
        number = number_of(one, kind)
        return Cell(text=f"{number.value:.1f}", value=number.value, low=number.low, high=number.high)
    if kind != result.headline or kind == WORST:
        return number_cell(kind, number_of(one, kind))
    drop = number_of(one, "accuracy_drop")
    text = accuracy_text(drop, kind, unit=False, space=not narrow)
    return _worded_cell("accuracy_drop", drop_of(drop, kind), text)


def _tight(text: str, narrow: bool) -> str:
    """Return an interval that is not parted where a line ends."""
    return text.replace(", ", ",") if narrow else text


def front_table(result: Optimization) -> Table | None:
    """Return the members of the Pareto front with the numbers that it is about; None where there is none."""
    known = {one.id: one for one in (result.baseline, *result.candidates)}
    members = [known[name] for name in result.front if name in known]
    if not members:
        return None
    columns = [(Column(title="Variant"), [Cell(text=one_line(one.id)) for one in members])]
    for metric in result.front_metrics:
        cells = [number_cell(metric, number_of(one, metric)) for one in members]
        columns.append((Column(title=label_of(metric), numeric=True, folds=True), cells))
    over = ", ".join(lower_label(metric) for metric in result.front_metrics)
    note = f"no other variant is proven better in one of these and no worse in the others: {over}"
    return table_by_columns("Pareto front", columns, notes=[note], detail=True)


def layers_table(result: Optimization, *, narrow: bool = False) -> Table | None:
    """Layers, the most fragile first; None where they were not tried one by one."""
    layers = result.sensitivity
    if not layers:
        return None
    shown = layers[:FEW_LAYERS] if narrow else layers
    names = short_names([one_line(one.layer) for one in shown], _LAYER_CELLS if narrow else None, ends=True)
    share = not result.headline or result.headline in SHARES
    lost = "Accuracy lost (pt)" if share else f"Rise of {lower_label(result.headline)}"
    told: tuple[tuple[str, str], ...] = (
        ("snr_db", "SNR (dB)"), ("gain_db", "Gain (dB)"), ("accuracy_drop", lost),
    )  # fmt: skip
    columns = [
        (Column(title="Layer"), [Cell(text=name) for name in names]),
        (Column(title="Operator", rank=1), [Cell(text=one_line(one.op)) for one in shown]),
    ]
    for key, title in told:
        if key == "snr_db" or any(getattr(one, key) is not None for one in layers):
            factor = 100.0 if key == "accuracy_drop" and share else 1.0
            how = partial(provenance_of_column, title, "measured", _LAYER_METHOD, "none is computed")
            cells = [_layer_cell(one, key, factor) for one in shown]
            columns.append((Column(title=title, numeric=True, how=how), cells))
    fragile = [Cell(text="yes", tone="bad") if one.fragile else Cell(text="no") for one in shown]
    columns.append((Column(title="Kept in float"), fragile))
    notes: tuple[str, ...] = (
        "SNR of the network's outputs when this layer alone is changed: a lower SNR means a more fragile layer",
    )
    if rest := len(layers) - len(shown):
        notes = (*notes, f"{rest} more layers are in the report's files")
    return table_by_columns("Layer sensitivity", columns, notes=notes)


def _layer_cell(one: LayerSensitivity, key: str, factor: float) -> Cell:
    value: float | None = getattr(one, key)
    if value is None:
        return absent(one_line(one.absent_because or "it was not measured"))
    return Cell(text=significant(value * factor), value=value * factor)


def csv_table(result: Optimization) -> Table:
    """One row a variant, the original first, SI units, nothing rounded, for machines."""
    metrics = list(
        dict.fromkeys(
            [*compared_metrics(result)[:1], "speedup", *compared_metrics(result)[1:3], "memory_reduction",
             *([result.headline] if result.headline else []),
             "accuracy_drop", *(name for one in result.candidates for name in one.metrics)]
        )
    )  # fmt: skip
    columns = [Column(title=title) for title in ("Variant", "Parent", "Verdict", "Stage", "Accepted", "On the front")]
    columns.append(Column(title="Predicted speed-up", numeric=True))
    named = [(metric, _csv_column(metric)) for metric in metrics]
    columns += [replace(column, title=titled(result, metric, column.title)) for metric, column in named]
    rest = ("Runtime", "Provider", "Threads", "Precision", "Passes", "Kept in float", "Path", "sha256", "Run", "Why")
    columns += [Column(title=title) for title in rest]
    rows = tuple(_csv_row(result, one, metrics) for one in (result.baseline, *result.candidates))
    return Table(title="Optimization", columns=tuple(columns), rows=rows)


def _csv_column(metric: str) -> Column:
    if metric in _PURE:
        return Column(title=_PURE[metric], numeric=True, unit="1")
    return Column(title=label_of(metric), numeric=True, unit=METRICS[metric].unit if metric in METRICS else "")


def _csv_row(result: Optimization, one: Candidate, metrics: Sequence[str]) -> tuple[Cell, ...]:
    runtime, model = one.runtime, one.model
    kept = dict.fromkeys(name for each in one.passes for name in each.keep_float)
    words: list[Any] = [one.id, one.parent, verdict_of(result, one), one.stage, one.accepted, one.id in result.front]
    rest: list[Any] = [
        runtime.name, runtime.provider, runtime.threads, runtime.precision,
        " + ".join(f"{each.name} {each.label}".strip() for each in one.passes), " ".join(kept),
        None if model is None else model.path, None if model is None else model.sha256, one.run, one.why,
    ]  # fmt: skip
    return (
        *map(_word, words),
        _raw(_predicted(one)),
        *(_raw(number_of(one, name)) for name in metrics),
        *map(_word, rest),
    )


def _raw(number: MetricValue) -> Cell:
    """Return a number of a variant for machines."""
    return raw_cell(number.value, one_line(number.absent_because or NOT_REACHED), low=number.low, high=number.high)


def _word(value: Any) -> Cell:
    if isinstance(value, bool):
        return Cell(text="yes" if value else "no")
    return Cell(text=one_line(str(value)) if value not in (None, "") else "n/a")
