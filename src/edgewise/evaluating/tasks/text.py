"""Text: the class of a text, and texts that a model writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from edgewise.errors import BadInput, Unavailable
from edgewise.evaluating.dataset import CorruptSample, Kind, Sample
from edgewise.evaluating.step_settings import Accepts
from edgewise.evaluating.steps_text import ROLES, load_tokenizer
from edgewise.evaluating.task import MetricTable, Preparation, Record, Scorer, TaskContext
from edgewise.evaluating.tasks.classification import Classification
from edgewise.evaluating.tasks.language import PromptOptions, check_prompt, check_room, choose_context, text_of
from edgewise.evaluating.tasks.outputs import (
    WIDE_INTEGERS,
    Count,
    OutputOptions,
    OutputTask,
    YesNo,
    choose_output,
    read_options,
)
from edgewise.evaluating.tasks.text_scores import Bleu, TextTable
from edgewise.model.signature import TensorSpec
from edgewise.run.language_samples import TOO_LONG
from edgewise.text import one_line
from edgewise.workload.arrays import Array

_ROLES = {**ROLES, "tokens": "ids", "position_ids": "positions"}
_MOST_TOKENS = 100_000
_CONTEXT = 2048
_TASK = "text generation"

Infer = Callable[[Sequence[Any]], Sequence[Any]]


MostTokens = Annotated[int, Field(ge=1, lt=10**9), Accepts("a whole number of at least 1")]


class TextClassification(Classification):
    """``text-classification``: the class of a text."""

    name = "text-classification"
    title = "Text classification"
    kinds: Sequence[Kind] = ("text", "array")


class GenerationOptions(OutputOptions):
    """Options of text generation."""

    tokenizer: str | None = Field(None, description="FILE (tokenizer.json of the model)")
    max_new_tokens: MostTokens = Field(64, description="NUMBER")
    eos: str | None = Field(None, description="TOKEN or its number (ends an answer)")
    stop: str | None = Field(None, description="TEXT (ends an answer and is not part of it)")
    prompt: str = Field("{}", description="TEXT with {} where the sample goes")
    special: YesNo = Field("yes", description="yes or no (whether the prompt gets the tokenizer's special tokens)")
    pad: Count | None = Field(None, description="NUMBER (of the token that fills the input up)")


class WritingOptions(PromptOptions):
    """Options of text generation by a language model, which has its own tokenizer."""

    max_new_tokens: MostTokens = Field(64, description="NUMBER")
    stop: str | None = Field(None, description="TEXT (ends an answer and is not part of it)")


class AnswerScorer:
    """Base of the scorers of texts that a model writes.

    Records: ``{"answer": text, "references": [text …], "tokens": number}``.

    Attributes:
        settings: as `Scorer.settings`; subclasses add theirs.
    """

    headline = "exact_match"

    def __init__(self, options: GenerationOptions | WritingOptions) -> None:
        self._prompt = check_prompt(options.prompt)
        self._most, self._stop = min(options.max_new_tokens, _MOST_TOKENS), options.stop
        self._bleu, self._missing = None, ""
        try:
            self._bleu = Bleu()
        except Unavailable as error:
            self._missing = f"{error.message}; {error.advice}"
        self.settings: Mapping[str, Any] = {
            "decoding": "greedy", "max_new_tokens": self._most, "stop": options.stop or None, "prompt": options.prompt,
            "normalised": "exact match and F1 as SQuAD: lower case, no punctuation, no articles",
            "rouge_l": "F1 of the longest common subsequence of words, lower case, letters and digits alone",
            "bleu": self._missing or "sacreBLEU's settings: 13a tokens, mixed case, exponential smoothing",
        }  # fmt: skip

    def keep(self, answer: str, tokens: int, sample: Sample) -> Record:
        """Return the record of an answer, cut where it stops. Raises `BadInput`."""
        if self._stop:
            answer = answer.split(self._stop, 1)[0]
        return {"answer": answer.strip(), "references": _read_references(sample), "tokens": tokens}

    def tabulate(self, records: Sequence[Record]) -> MetricTable:
        """As `Scorer.tabulate`."""
        return TextTable(
            [each["answer"] for each in records],
            [each["references"] for each in records],
            bleu=self._bleu,
            missing=self._missing,
        )

    def answer(self, record: Record) -> tuple[str, list[str]]:
        """As `HasAnswers.answer`."""
        return record["answer"], list(record["references"])


class WritingScorer(AnswerScorer):
    """Asks a language model to go on from the prompt, the likeliest token each time."""

    def __init__(self, context: TaskContext, options: WritingOptions) -> None:
        super().__init__(options)
        self._context = choose_context(options, _CONTEXT, context)
        self.settings = {**self.settings, "context": self._context}

    def question(self, sample: Sample) -> Mapping[str, Any]:
        """As `AsksLanguageModel.question`."""
        _read_references(sample)
        before = self._prompt.replace("{}", text_of(sample))
        return {"before": before, "new_tokens": self._most, "context": self._context}

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`."""
        prompt, made = outputs[0].tolist()
        before = made if made == TOO_LONG else prompt
        check_room(sample, f"the prompt, beside {self._most} new tokens,", prompt, before, self._context)
        return self.keep(outputs[1].tobytes().decode(errors="replace"), made, sample)


class GenerationScorer(AnswerScorer):
    """Generates greedily, the likeliest token each time, with a model without a cache; or reads the tokens of a model
    that generates by itself.

    The input is as long as it was prepared, and filled up on the right: models must not look ahead (decoders don't).
    """

    def __init__(self, context: TaskContext, options: GenerationOptions, *, task: str) -> None:
        super().__init__(options)
        self._output = _choose_logits(context, options.output)
        spec = context.signature.outputs[self._output]
        self._writes = spec.dtype in WIDE_INTEGERS
        self._roles = _find_roles(context.signature.inputs)
        self._options = options
        if options.tokenizer is None:
            raise BadInput("text generation needs a tokenizer", advice="⟦task_option=tokenizer=tokenizer.json⟧")
        self._tokenizer, sha256 = load_tokenizer(Path(options.tokenizer))
        # The model decides the length of its input, not the file's settings from training.
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._eos = self._find_token(options.eos)
        self.settings = {
            **self.settings, "output": spec.name, "tokenizer": f"sha256:{sha256}", "eos": self._eos,
            "decoding": "the model writes tokens itself" if self._writes else "greedy", "special": options.special,
        }  # fmt: skip

    def run_model(self, infer: Infer, arrays: Sequence[Array], sample: Sample) -> Sequence[Array]:
        """Return the tokens that the model writes, int64 [1, tokens].

        Args:
            infer: runs the model once, on one array per input.
            arrays: one per input, of exactly the shapes that the model is fed; a text is put in anew, with the prompt.

        Raises:
            CorruptSample: the prompt is empty or does not go into the input.
            BadInput: outputs that are no scores of tokens.
        """
        import numpy as np

        prompt = self._tokens_of(arrays, sample)
        window = int(arrays[self._roles.index("ids")].shape[-1])
        if not prompt or len(prompt) > window:
            raise CorruptSample(
                sample.name, f"a prompt of {len(prompt)} tokens does not go into an input of {window} tokens"
            )
        if self._writes:
            return [self._read_tokens(infer(self._fill(arrays, prompt))[self._output], prompt, sample)]
        tokens = list(prompt)
        # The last token that is written is not fed any more, so the input may be full by then.
        most = min(len(prompt) + self._most, window + 1)
        while len(tokens) < most:
            token = _find_likeliest(infer(self._fill(arrays, tokens))[self._output], len(tokens), sample)
            if token is None or token == self._eos:
                break
            tokens.append(token)
            if self._options.stop and self._options.stop in self._decode(tokens[len(prompt) :], sample):
                break
        return [np.array([tokens[len(prompt) :]], np.int64)]

    def record(self, outputs: Sequence[Array], sample: Sample, preparation: Preparation) -> Record:
        """As `Scorer.record`; `outputs` are those of `run_model`."""
        tokens = [int(each) for each in outputs[0].reshape(-1)]
        if self._eos in tokens:
            tokens = tokens[: tokens.index(self._eos)]
        return self.keep(self._decode(tokens, sample), len(tokens), sample)

    def _tokens_of(self, arrays: Sequence[Array], sample: Sample) -> list[int]:
        """Return the prompt: of a text, by the tokenizer; else what was prepared, without what fills it up."""
        if isinstance(sample.data, str):
            text = self._options.prompt.replace("{}", sample.data)
            found = self._tokenizer.encode(text, add_special_tokens=self._options.special == "yes")
            return [int(each) for each in found.ids]
        row = arrays[self._roles.index("ids")].reshape(-1)
        if "mask" in self._roles:
            row = row[arrays[self._roles.index("mask")].reshape(-1) != 0]
        tokens = [int(each) for each in row]
        while self._options.pad is not None and tokens and tokens[-1] == self._options.pad:
            tokens.pop()
        return tokens

    def _fill(self, arrays: Sequence[Array], tokens: Sequence[int]) -> list[Array]:
        """Return the model's inputs with `tokens` on the left, in the shapes and types of `arrays`."""
        import numpy as np

        filled = []
        for role, array in zip(self._roles, arrays, strict=True):
            row = np.zeros(array.size, array.dtype)
            if role == "ids":
                row[:] = self._options.pad or 0
                row[: len(tokens)] = tokens
            elif role == "mask":
                row[: len(tokens)] = 1
            elif role == "positions":
                row[:] = np.arange(row.size)
            filled.append(row.reshape(array.shape))
        return filled

    def _read_tokens(self, output: Array, prompt: Sequence[int], sample: Sample) -> Array:
        """Return the tokens of a model that writes itself, without the prompt where the output begins with it."""
        if sum(size != 1 for size in output.shape) > 1:
            raise BadInput(
                f"{sample.name}: an output of shape {list(output.shape)} is not one row of tokens",
                advice="choose another output with ⟦task_option=output=NAME⟧",
            )
        tokens = output.reshape(-1)
        if tokens[: len(prompt)].tolist() == list(prompt):
            tokens = tokens[len(prompt) :]
        return tokens.reshape(1, -1)

    def _decode(self, tokens: Sequence[int], sample: Sample) -> str:
        size = self._tokenizer.get_vocab_size(with_added_tokens=True)
        wrong = next((each for each in tokens if not 0 <= each < 2**31), None)
        if wrong is not None:
            raise BadInput(
                f"{sample.name}: the model wrote token {wrong}, and the tokenizer has {size}",
                advice="is the tokenizer that of this model?",
            )
        return str(self._tokenizer.decode(list(tokens), skip_special_tokens=True))

    def _find_token(self, word: str | None) -> int | None:
        """Return the number of a token given by name or number. Raises `BadInput`."""
        if word is None:
            return None
        number = self._tokenizer.token_to_id(word)
        if number is None and word.isascii() and word.isdecimal() and len(word) <= 9:
            number = int(word)
        if number is None:
            raise BadInput(f"the tokenizer has no token {word!r}", advice="eos=TOKEN or its number")
        return int(number)


def _choose_logits(context: TaskContext, asked: str | None) -> int:
    """Return the number of the output asked for, named logits, or alone with scores per token. Raises `BadInput`."""
    outputs = context.signature.outputs
    named = [number for number, each in enumerate(outputs) if each.name.rsplit("/", 1)[-1].split(":")[0] == "logits"]
    deep = [number for number, each in enumerate(outputs) if each.shape is not None and len(each.shape) == 3]
    for found in (named, deep):
        if asked is None and len(outputs) > 1 and len(found) == 1:
            return found[0]
    return choose_output(context, asked, _TASK)


def _find_roles(inputs: Sequence[TensorSpec]) -> list[str]:
    """Return the role of every input. Raises `BadInput` for one that is not known, such as a cache."""
    if len(inputs) == 1:
        return ["ids"]
    roles = []
    for each in inputs:
        # TensorFlow writes serving_default_input_ids:0
        name = each.name.split(":")[0].removeprefix("serving_default_")
        if name not in _ROLES:
            raise BadInput(
                f"input {each.name!r} is not known to text generation, whose models keep nothing between runs",
                advice=f"export the model without a cache; inputs may be called {', '.join(_ROLES)}",
            )
        roles.append(_ROLES[name])
    if roles.count("ids") != 1:
        raise BadInput("the model has no input of token numbers", advice="call it input_ids")
    return roles


def _find_likeliest(logits: Array, length: int, sample: Sample) -> int | None:
    """Return the token after the first `length` ones; None where there are no numbers to choose by.

    `logits`: [1, window, tokens], or [1, tokens] or [1, 1, tokens] of the next token alone.
    """
    import numpy as np

    if logits.ndim == 3 and logits.shape[0] == 1 and (logits.shape[1] >= length or logits.shape[1] == 1):
        row = logits[0, length - 1 if logits.shape[1] > 1 else 0]
    elif logits.ndim == 2 and logits.shape[0] == 1:
        row = logits[0]
    else:
        raise BadInput(
            f"{sample.name}: an output of shape {list(logits.shape)} has no scores of the token after {length}",
            advice="text generation reads logits [1, length, tokens]; choose one with ⟦task_option=output=NAME⟧",
        )
    return None if row.size == 0 or np.isnan(row).any() else int(row.argmax())


def _read_references(sample: Sample) -> list[str]:
    """Return the texts that would be right. Raises `BadInput`."""
    texts = [sample.label] if isinstance(sample.label, str) else sample.label
    if not isinstance(texts, tuple | list) or not texts or not all(isinstance(each, str) for each in texts):
        raise BadInput(
            f"{sample.name} has the label {one_line(repr(sample.label))[:60]}, which is not text",
            advice="text generation needs one text or more per sample",
        )
    return list(texts)


class TextGeneration(OutputTask):
    """``text-generation``: whether the model writes the expected text."""

    name = "text-generation"
    title = "Text generation"
    kinds: Sequence[Kind] = ("text", "array")
    metrics: Sequence[str] = ("exact_match", "f1_tokens", "rouge_l", "bleu")
    language_models = True
    options = GenerationOptions
    scorer = GenerationScorer

    def prepare(self, context: TaskContext) -> Scorer:
        """As `Task.prepare`; a language model writes by itself."""
        if not context.language:
            return super().prepare(context)
        return WritingScorer(context, read_options(WritingOptions, context.options, self.name))
