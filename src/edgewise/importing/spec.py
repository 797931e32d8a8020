"""How the files of a tool are described: fields with their places and units."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from edgewise.importing.extraction import Part
    from edgewise.record.job import ScenarioKind

Kind = Literal["text", "json", "jsonl", "table", "yaml", "binary"]

SETTINGS = (
    "model", "version", "provider", "device", "threads", "batch", "precision", "scenario", "streams", "requests",
    "iterations", "warmup", "created", "command", "unit",
    "runtime", "prompt_tokens", "new_tokens", "depth_tokens",
)  # fmt: skip
"""Names of fields that are no metrics; `unit` is for `Form.finish` alone."""
FROM_ZERO = frozenset({"warmup", "prompt_tokens", "new_tokens", "depth_tokens"})
COUNTS = frozenset({"threads", "batch", "streams", "requests", "iterations"}) | FROM_ZERO
"""Settings that are whole numbers of at least 1, those of `FROM_ZERO` of at least 0."""

NUMBER = r"(\S+?)"
"""Group of a number in a pattern: any word, so that a wrong one is reported with its line."""


@dataclass(frozen=True, slots=True)
class Field:
    """One number or setting of a file.

    Attributes:
        name: id of a metric (`edgewise.metrics`) or one of `SETTINGS`.
        at: in text a regular expression that begins with a literal word; its group 1 is the value, and a group
            ``unit`` its unit. Wildcards between words have a bound (``.{0,200}``), because a file may repeat the first
            word on a line of megabytes. In JSON a path: ``latency.avg_ms``, ``results.'90.0%'`` (a key with dots),
            ``runs[*].values`` (all items), ``$.version`` (from the root of the document instead of the run's part).
        unit: unit of the value: a time, a size, or ``1`` and ``1/s``; "" for settings.
        samples: the values are raw samples in order; a JSON path with one ``[*]`` before a list gives a process each.
            The number of samples is the setting `iterations`, unless `Form.sessions`.
        words: the file's word → ours; a word that is not there is taken as it is.
        once: take the first match and not the last one.
        adds: the value is the sum of all matches and of earlier fields of this name.
        per_call: the value is a rate of calls; times the batch it is a rate of samples.
        note: added to the method of the metric.
    """

    name: str
    at: str
    _: KW_ONLY
    unit: str = ""
    samples: bool = False
    words: Mapping[str, Any] = field(default_factory=dict)
    once: bool = False
    adds: bool = False
    per_call: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerRows:
    """The layers of a file.

    Attributes:
        at: in text a regular expression of one row with the keys of `columns` as groups; in JSON the path of the rows.
        columns: JSON: ``name``, ``op``, ``kernel``, ``provider``, ``time``, ``calls`` (per inference), ``status`` → key
            of a row. An object without a name is no layer.
        begin, until: text: regular expressions between whose first matches the rows are; "" for no bound.
        unit: of the time.
        averaged: rows of one name are repetitions (one per request), and their mean is taken.
        method: how the tool timed them.
    """

    at: str
    columns: Mapping[str, str] = field(default_factory=dict)
    unit: str
    begin: str = ""
    until: str = ""
    averaged: bool = False
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One kind of file that a tool writes.

    Attributes:
        title: in words, such as ``text`` or ``JSON of --exportTimes``.
        kind: ``text`` (also CSV), ``json`` or ``yaml``, whose fields are found as in JSON; ``jsonl``, a run per line;
            ``table``, a CSV or Markdown table that begins at the line of `mark` and has a run per row, whose cells are
            found by their column as in a JSON object; ``binary``, bytes of which `decode` makes such a document.
        mark: regular expression that the beginning of such a file contains, and no other tool's file; of a binary file
            a character per byte.
        expects: what a complete file has, for errors: ``a line like 'Median: 1.23 ms'``.
        method: how the tool obtained its times, in words; "" for a file of layers alone.
        each: what begins a run. Text: regular expression of a line; JSON: path of a list whose items are runs.
            "" if the file is one run.
        decode: of a binary file: returns its content as JSON would have it, or raises ValueError with what is wrong.
        items: for structures that paths can't express: returns the runs of a document, each with its place in words; of
            a table, whose document is the list of its rows.
        ends: `each` is the last line of a run and not the first; settings before it hold for all runs that follow.
        finish: takes what fields can't express: reads the part, and adds to it.
        gives: names of what a run has besides `fields`; ``layers`` for those of `finish`.
        sessions: what each list of samples is from, such as ``processes of their own``; "" if all are from one process.
        failed: text: regular expression of the line by which the tool reports a failed run; "" if it writes none.
        errors: text: regular expressions of lines that name an error, the most telling first; group 1 is its message. A
            run without results that has such a line failed, too.
        one_at_a_time: whether a file without a scenario is of inferences one after the other. False if the tool can
            also run several at once, and the file does not tell.
        scenario: of all runs, unless the file tells another; None for inferences one by one or in several streams.
    """

    title: str
    kind: Kind
    mark: str
    expects: str
    method: str = ""
    fields: Sequence[Field] = ()
    rows: LayerRows | None = None
    each: str = ""
    decode: Callable[[bytes], Any] | None = None
    items: Callable[[Any], Sequence[tuple[str, Any]]] | None = None
    ends: bool = False
    finish: Callable[[Part], None] | None = None
    gives: Sequence[str] = ()
    sessions: str = ""
    failed: str = ""
    errors: Sequence[str] = ()
    one_at_a_time: bool = True
    scenario: ScenarioKind | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the metrics and settings that such a file may have, each once."""
        return tuple(dict.fromkeys([*(one.name for one in self.fields), *self.gives]))


class Importer:
    """Base class: the files of one tool, found through the entry-point group ``edgewise.importers``.

    Attributes:
        title: name of the tool, as methods and tables give it.
        runtime: name of the engine that ran, as in `RuntimeSpec.name`, if no field `runtime` names another.
        forms: files that the tool writes.
        absent: metric → why a file may lack it, where there is more to say than that the tool does not report it.
    """

    title: str
    runtime: str
    forms: Sequence[Form]
    absent: Mapping[str, str] = {}
