"""What the tasks of a language model share: their context, and what becomes of a text that does not go into it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from edgewise.errors import BadInput
from edgewise.evaluating.dataset import CorruptSample, Sample
from edgewise.evaluating.step_settings import Accepts
from edgewise.evaluating.task import TaskContext
from edgewise.evaluating.tasks.outputs import TaskOptions
from edgewise.run.language_samples import TOO_LONG

LONGEST_TOKEN = 8
"""Characters of a token: of a longer text only the end is tokenised. Most tokens have fewer."""


class ContextOptions(TaskOptions):
    """Options of a task of a language model."""

    context: Annotated[int, Field(ge=2, lt=10**7), Accepts("a whole number of at least 2")] | None = Field(
        None, description="NUMBER of tokens that the model sees at once"
    )


class PromptOptions(ContextOptions):
    """Options of a task with a prompt."""

    prompt: str = Field("{}", description="TEXT with {} where the sample goes")


def require_language_model(context: TaskContext, task: str) -> None:
    """Raise `BadInput` for a model that is fed arrays."""
    if not context.language:
        advice = "give a GGUF file, a folder with genai_config.json or openvino_tokenizer.xml, or another ⟦task⟧"
        raise BadInput(f"{task} needs a language model", advice=advice)


def choose_context(options: ContextOptions, usual: int, context: TaskContext) -> int:
    """Return the tokens of the window: those asked for, else `usual`, or what the model takes where that is less.

    Raises:
        BadInput: more than the model takes.
    """
    longest = context.longest
    if options.context is None:
        return min(usual, longest or usual)
    if longest is not None and options.context > longest:
        raise BadInput(
            f"a context of {options.context} tokens is more than the {longest} that the model takes",
            advice=f"⟦task_option=context={longest}⟧",
        )
    return options.context


def check_prompt(prompt: str) -> str:
    """Return the template of a prompt. Raises `BadInput` for one without a place for the sample."""
    if "{}" not in prompt:
        raise BadInput(f"prompt={prompt!r} has no place for the sample", advice="put {} where it goes")
    return prompt


def text_of(sample: Sample) -> str:
    """Return the text of a sample. Raises `BadInput` for one of another kind."""
    if not isinstance(sample.data, str):
        raise BadInput(f"{sample.name} is no text", advice="give a .txt or .jsonl file")
    return sample.data


def check_room(sample: Sample, what: str, tokens: int, before: int, context: int) -> None:
    """Raise `CorruptSample` where `what` did not go into the window, or nothing stood before it."""
    if before == TOO_LONG:
        raise CorruptSample(sample.name, f"{what} has {tokens} tokens, too many for a context of {context}")
    if before == 0:
        raise CorruptSample(sample.name, f"no token stands before {what}")
