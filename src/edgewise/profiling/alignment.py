"""Which operators an engine's steps execute, told from their order alone, for engines that keep no names.

Both sequences are in the order of execution, and a step may stand for several neighbouring operators (a fused
activation, an elided reshape). The alignment of least cost is found by dynamic programming over both, as sequences are
aligned everywhere since S. Needleman and C. Wunsch (1970): a step goes to an operator whose kind it can execute;
operators that no step stands for cost the more to leave out the less likely it is that an engine merges them.
"""

from __future__ import annotations

from collections.abc import Sequence

_IMPOSSIBLE = float("inf")
_UNSURE = 0.5
"""Cost of giving a step to an operator where one of both tells nothing of its kind."""
_IDLE_STEP = {"movement": 1.0, "quantize": 1.0, "dequantize": 1.0}
"""Cost of a step that stands for no operator: engines insert copies and conversions, seldom anything else."""
_OTHER_IDLE_STEP = 5.0
_LEFT_OUT = {
    "movement": 0.1,
    "activation": 0.2,
    "quantize": 0.3,
    "dequantize": 0.3,
    "elementwise": 1.0,
    "normalization": 1.0,
    "": 2.0,
}
"""Cost of an operator that no step stands for, by kind."""
_OTHER_LEFT_OUT = 10.0
MAX_CELLS = 20_000_000
"""Steps × operators of one alignment: more would take minutes."""


def align(steps: Sequence[frozenset[str]], operators: Sequence[str]) -> list[int | None]:
    """For each step the position of the operator it executes, or None; increasing, each operator at most once.

    Args:
        steps: kinds of operators that each step may execute; empty where nothing is known.
        operators: kinds of the operators; "" where it is unknown.
    """
    if not steps or not operators or len(steps) * len(operators) > MAX_CELLS:
        return [None] * len(steps)
    width = len(operators) + 1
    skipping = [_LEFT_OUT.get(kind, _OTHER_LEFT_OUT) for kind in operators]
    row = [0.0]
    for cost in skipping:
        row.append(row[-1] + cost)
    choices: list[bytearray] = []
    for step in steps:
        idle = min((_IDLE_STEP.get(kind, _OTHER_IDLE_STEP) for kind in step), default=_OTHER_IDLE_STEP)
        choice = bytearray(width)
        above, row = row, [row[0] + idle]
        for at in range(1, width):
            match = above[at - 1] + _match(step, operators[at - 1])
            left_out = row[at - 1] + skipping[at - 1]
            alone = above[at] + idle
            best = min(match, left_out, alone)
            choice[at] = _MATCH if best == match else _LEAVE if best == left_out else _ALONE
            row.append(best)
        choices.append(choice)
    return _trace(choices, len(operators))


_ALONE, _MATCH, _LEAVE = 0, 1, 2


def _match(step: frozenset[str], operator: str) -> float:
    if not step or not operator:
        return _UNSURE
    return 0.0 if operator in step else _IMPOSSIBLE


def _trace(choices: Sequence[bytearray], operators: int) -> list[int | None]:
    """Return the way back through the choices."""
    answer: list[int | None] = [None] * len(choices)
    step, operator = len(choices) - 1, operators
    while step >= 0:
        choice = choices[step][operator]
        if choice == _LEAVE:
            operator -= 1
            continue
        if choice == _MATCH:
            operator -= 1
            answer[step] = operator
        step -= 1
    return answer
