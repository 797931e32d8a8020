"""The worker's side of judging a language model: it answers questions about texts.

A question and its answer travel as arrays, as other samples do. Standard library and numpy only, as everything that is
sent to a device.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from edgewise.runtime.base import Generates, ScoresTokens, TellsProbabilities, UnsupportedModel

Array = np.ndarray[Any, np.dtype[Any]]

TOO_LONG = -1
"""In place of a number of tokens: text and context do not go into the window."""


def pack_question(question: Mapping[str, Any]) -> list[Array]:
    """Return a question as the arrays of a sample.

    Args:
        question: ``context``: tokens of the model's window; ``before``: a text; and either ``texts``, each of which may
            follow, or ``new_tokens``, the number of tokens that are to follow.
    """
    return [np.frombuffer(json.dumps(question).encode(), np.uint8)]


def pack_text(text: str, most: int) -> list[Array]:
    """Return the question for all probabilities in a text, as the arrays of a sample.

    The answer: the tokens of the text, at most `most`, int64 (n,); the natural logarithm of the probability of each but
    the first, float64 (n − 1,); and of every token of the vocabulary at these places, float32 (n − 1, vocabulary), or
    (0, 0) where the engine does not tell them.
    """
    return [np.frombuffer(json.dumps({"whole": text, "most": most}).encode(), np.uint8)]


def answer_question(session: Generates, feed: Sequence[Array]) -> list[Array]:
    """Return the answer to a question of `pack_question`.

    To ``texts``: float64 (texts, 3): the natural logarithm of a text's probability after ``before``, its tokens, and
    the tokens before it in the window. To ``new_tokens``: int64 (2,), the tokens of ``before`` and the new ones,
    without one that ends a text; and the new text, uint8 in UTF-8. `TOO_LONG` is in the last number of tokens where
    the window is too small.

    Raises:
        UnsupportedModel: the engine tells no probabilities.
    """
    question = json.loads(feed[0].tobytes())
    if not isinstance(session, ScoresTokens):
        raise UnsupportedModel("the engine does not tell how probable given tokens are")
    if "whole" in question:
        return _tell_all(session, question["whole"], question["most"])
    if "new_tokens" in question:
        return _write(session, question["before"], question["new_tokens"], question["context"])
    rows = [_score(session, question["before"], text, question["context"]) for text in question["texts"]]
    return [np.array(rows, np.float64)]


def _score(session: Any, before: str, text: str, context: int) -> tuple[float, int, int]:
    """Return log-probability, tokens, and tokens before; where these are 0, nothing is known of the first token."""
    tokens, beginning = list(session.encode(before + text)), list(session.beginning)
    own = len(tokens) - len(session.encode(before))
    room = context - len(beginning)
    if own > room - (not beginning):
        return math.nan, own, TOO_LONG
    window = beginning + tokens[-room:]
    if own < 1 or own >= len(window):
        return math.nan, own, 0
    return math.fsum(session.log_probabilities(window)[-own:]), own, len(window) - own


def _tell_all(session: Any, text: str, most: int) -> list[Array]:
    tokens = [*session.beginning, *session.encode(text)][:most]
    every = np.zeros((0, 0), np.float32)
    if len(tokens) < 2:
        return [np.array(tokens, np.int64), np.zeros(0), every]
    if isinstance(session, TellsProbabilities):
        every = np.asarray(session.all_log_probabilities(tokens), np.float32)
    return [np.array(tokens, np.int64), np.array(session.log_probabilities(tokens), np.float64), every]


def _write(session: Any, before: str, count: int, context: int) -> list[Array]:
    tokens = [*session.beginning, *session.encode(before)]
    made: list[int] = []
    if not tokens or len(tokens) + count > context:
        return [np.array([len(tokens), TOO_LONG]), np.zeros(0, np.uint8)]
    session.fill([])
    session.generate(tokens, count, made.append)
    made = made[: next((place for place, token in enumerate(made) if token in session.ends), len(made))]
    text = session.decode(made) if made else ""
    return [np.array([len(tokens), len(made)]), np.frombuffer(text.encode(errors="replace"), np.uint8)]
