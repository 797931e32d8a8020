"""llama.cpp's ``llama-bench``.

Formats: ``tools/llama-bench/llama-bench.cpp`` of github.com/ggml-org/llama.cpp, printers of JSON, JSONL, CSV and
Markdown (builds of 2023 to 2026). A test is ``pp`` (computes a prompt of random tokens), ``tg`` (decodes one random
token after another, from an empty prompt) or ``pp+tg`` (one after the other, timed together); its repetitions are of
one process, each after ``-d`` tokens of depth, which are not timed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from edgewise.importing.extraction import Part
from edgewise.importing.reading import HEAD_CHARACTERS, to_word
from edgewise.importing.spec import Field, Form, Importer

_UNTIMED = "tokenising and sampling are not in it"
_METHOD = f"its own timer around each repetition of a test, one process, random tokens; {_UNTIMED}"
_QUANTISATION = re.compile(r"\b(I?Q\d\w*|TQ\d\w*|MXFP4|BF16|F16|F32)\b")
_TEST = re.compile(r"(?:pp ?(\d{1,9}))?\+?(?:tg ?(\d{1,9}))?(?: @ d(\d{1,9}))?")
_BUILD = re.compile(r"^build: \S{1,100} \((\d{1,9})\)", re.MULTILINE)
_FACTS = ("n_batch", "n_ubatch", "n_gpu_layers", "flash_attn", "gpu_info")
_OF_PROMPTS = ("ttft", "ttft_model", "prefill_rate")
_OF_NEW_TOKENS = ("tpot", "decode_rate")


def _finish(part: Part) -> None:
    """Take the times of one test: those of repetitions, or only their mean, which CSV has."""
    row, tokens = part.json, _begin(part, part.json.get("model_type"))
    for name in _FACTS:
        if row.get(name) not in (None, ""):
            part.effective[name] = to_word(row[name])
    kinds = dict.fromkeys(to_word(row[key]) for key in ("type_k", "type_v") if row.get(key))
    if kinds:
        part.effective["kv_cache_type"] = "/".join(kinds)
    if not tokens:
        return
    times = [_read_time(part, each, f"samples_ns[{index}]") for index, each in enumerate(_list_repetitions(row, part))]
    mean = sum(times) / len(times) if times else _read_time(part, row.get("avg_ns"), "avg_ns")
    if part.settings["new_tokens"]:
        part.notes["tpot"] = f"time of a repetition / {tokens} tokens, of decoding one token after another"
        if times:
            part.samples["tpot"] = [[time / tokens for time in times]]
        else:
            part.notes["tpot"] += f"; {_UNTIMED}"
            part.values["tpot"], part.basis["tpot"] = mean / tokens, "derived"
        rate = "decode_rate"
    else:
        rate = "prefill_rate"
        if times:
            part.samples["ttft_model"] = [times]
            part.notes["ttft_model"] = "each is a repetition; the first new token is not sampled"
        else:
            part.reasons["ttft_model"] = "the file has the mean of the repetitions and no median"
    part.values[rate], part.basis[rate] = tokens / mean, "derived"
    part.notes[rate] = f"{tokens} tokens / {mean:.6g} s, the mean time of the repetitions; {_UNTIMED}"
    if times:
        part.settings["iterations"] = len(times)


def _finish_markdown(part: Part) -> None:
    """Take the printed rate of one row, whose test is a word such as ``pp512 @ d1024``."""
    row, test = part.json, _TEST.fullmatch(part.json.get("test", ""))
    if test is None or not (test[1] or test[2]):
        raise part.source.error(part.path, f"the test is {to_word(row.get('test'))!r}; expected a word like 'pp512'")
    for name, digits in zip(("prompt_tokens", "new_tokens", "depth_tokens"), test.groups(), strict=True):
        part.set(name, digits or 0, at=part.path)
    build = _BUILD.search(part.source.text, part.begin, part.begin + HEAD_CHARACTERS)
    if build is not None:
        part.settings["version"] = build[1]
    if not _begin(part, row.get("model")):
        return
    rate = "decode_rate" if part.settings["new_tokens"] else "prefill_rate"
    part.set(rate, row.get("t/s", "").partition(" ")[0], at=part.path, unit="1/s")
    part.notes[rate] = f"mean of the rates of the repetitions; {_UNTIMED}"
    why = "the table has the mean of rates, and no times"
    part.reasons |= {"tpot" if rate == "decode_rate" else "ttft_model": why}


def _begin(part: Part, described: Any) -> int:
    """Take what all formats have, and say what the test leaves out.

    `described`: the model in llama.cpp's words, ``llama 1B Q4_0``.

    Returns:
        Number of tokens that the test timed, 0 if it timed prompt and new tokens together.
    """
    settings = part.settings
    settings["batch"] = 1  # a test computes one sequence
    settings.setdefault("depth_tokens", 0)  # builds before -d had no depth
    for name in ("prompt_tokens", "new_tokens"):
        if name not in settings:
            raise part.source.error(part.where, f"{name} is missing; expected {part.form.expects}")
    if "provider" in settings:
        settings["provider"] = settings["provider"].lower()
    if found := _QUANTISATION.search(to_word(described or "")):
        settings["precision"] = found[1].lower()
    prompt, new = settings["prompt_tokens"], settings["new_tokens"]
    test = "+".join([*([f"pp{prompt}"] if prompt else []), *([f"tg{new}"] if new else [])])
    part.reasons["ttft"] = "llama-bench makes no text: it leaves out tokenising and sampling"
    if prompt and new:
        why = f"the test {test} times prompt and new tokens together"
        part.reasons |= dict.fromkeys((*_OF_PROMPTS, *_OF_NEW_TOKENS), why)
        return 0
    part.reasons |= dict.fromkeys(_OF_PROMPTS[1:] if new else _OF_NEW_TOKENS, f"not timed by the test {test or 'of 0'}")
    if not test:
        raise part.source.error(part.where, "n_prompt and n_gen are 0")
    return int(prompt or new)


def _list_repetitions(row: Any, part: Part) -> Sequence[Any]:
    found = row.get("samples_ns", ())
    if not isinstance(found, list | tuple):
        raise part.source.error(f"{part.path}.samples_ns", f"expected a list, not {type(found).__name__}")
    return found


def _read_time(part: Part, raw: Any, name: str) -> float:
    at = part.path if part.form.kind == "table" else f"{part.path}.{name}"
    time = part.number(raw, "ns", at=at, what=name)
    if not time:
        raise part.source.error(at, f"{name} is 0")
    return time


_FIELDS = (
    Field("model", "model_filename"), Field("version", "build_number"), Field("provider", "backends"),
    Field("threads", "n_threads"), Field("device", "cpu_info"), Field("created", "test_time"),
    Field("prompt_tokens", "n_prompt"), Field("new_tokens", "n_gen"), Field("depth_tokens", "n_depth"),
    Field("parameters", "model_n_params", unit="1"), Field("parameters_size", "model_size", unit="B"),
)  # fmt: skip
_RATES = ("prefill_rate", "decode_rate")
_JSON = Form(
    title="JSON", kind="json", mark=r'\A\s*\[\s*\{\s*"build_commit"\s*:',
    expects="a list of objects with 'n_prompt', 'n_gen' and 'samples_ns'", method=_METHOD,
    items=lambda root: [(f"[{index}]", {**row}) for index, row in enumerate(root)],
    fields=_FIELDS, finish=_finish, gives=("tpot", "ttft_model", *_RATES, "batch", "precision", "iterations"),
    scenario="generate",
)  # fmt: skip


class LlamaBench(Importer):
    """JSON, JSONL, CSV and Markdown of ``llama-bench``: one run per test."""

    title = "llama-bench"
    runtime = "llama.cpp"
    absent: Mapping[str, str] = {
        "load_time": "llama-bench does not time the loading",
        "kv_cache_bytes": "llama-bench tells the type of the KV cache and not its size",
    }
    forms = (
        _JSON,
        replace(
            _JSON, title="JSONL", kind="jsonl", mark=r'\A\s*\{\s*"build_commit"\s*:[^\n]*"samples_ns"\s*:',
            expects="lines with 'n_prompt', 'n_gen' and 'samples_ns'", items=None,
        ),
        Form(
            title="CSV", kind="table", mark=r"^build_commit,build_number,.{0,2000}\bn_prompt,n_gen,",
            expects="rows with n_prompt, n_gen and avg_ns", method=_METHOD, fields=_FIELDS, finish=_finish,
            gives=("tpot", *_RATES, "batch", "precision"), scenario="generate",
        ),
        Form(
            title="Markdown",
            kind="table",
            mark=r"^\| model +\| +size \| +params \| backend +\|.{0,500}\| *test *\| *t/s \|",
            expects="a table with the columns model, test and t/s",
            method=_METHOD,
            fields=(Field("model", "model"), Field("provider", "backend"), Field("threads", "threads")),
            finish=_finish_markdown,
            gives=(*_RATES, "version", "batch", "precision", "prompt_tokens", "new_tokens", "depth_tokens"),
            scenario="generate",
        ),
    )  # fmt: skip
