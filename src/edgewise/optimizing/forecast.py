"""What passes should win, before any is tried: the pre-flight's answers, and the order that follows from them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from operator import itemgetter

from edgewise.comparing.contenders import NATIVE
from edgewise.optimizing.commission import Commission
from edgewise.optimizing.planning import Attempt
from edgewise.optimizing.preflight import Preflight
from edgewise.optimizing.state import State, Witness
from edgewise.optimizing.variant import Prediction

PREFLIGHT_SHARE = 0.15
LEAST_PREFLIGHT_S = 20.0
"""Of what data would win, also where the time before the races is over."""


class Forecast:
    """Asks the pre-flight about attempts, and keeps what it says in the state."""

    def __init__(self, commission: Commission, state: State, witness: Witness) -> None:
        self._commission = commission
        self._state = state
        self._witness = witness

    def predict(self, attempts: Sequence[Attempt], *, left: float) -> list[Attempt]:
        """The attempts by rank, the fastest by the pre-flight first.

        Of equals the first recipe of every pass and the first of every file, those in an engine's own format before
        others: where time is short, something of everything is tried.
        """
        if not attempts:
            return []
        self._witness.stage("Pre-flight: what should help here?")
        asked: dict[str, Prediction] = {}
        keyed: list[tuple[tuple[int, float, int, bool], Attempt]] = []
        room = PREFLIGHT_SHARE * min(self._commission.budget_s, 2.0 * max(0.0, left))
        parents = list(dict.fromkeys(attempt.parent for attempt in attempts))
        for place, parent in enumerate(parents):
            # What one file leaves over is the others'.
            begin, share = time.monotonic(), room / (len(parents) - place)
            flight = self._flight(parent, budget_s=share)
            own = NATIVE.get(self._state.facts_of(parent).format)
            for turn, attempt in enumerate(_in_turns([one for one in attempts if one.parent == parent])):
                found = {
                    self._state.name(attempt, engine): self._foretell(flight, attempt, engine)
                    for engine in attempt.engines
                }
                speed = max((one.speedup for one in found.values() if one.speedup is not None), default=1.0)
                keyed.append(((attempt.recipe.rank, -speed, turn, own not in attempt.engines), attempt))
                asked |= found
            room -= time.monotonic() - begin
        self._state.predictions |= asked
        self._witness.predicted(asked)
        return [attempt for _, attempt in sorted(keyed, key=itemgetter(0))]

    def predict_lacking(self, lacking: Sequence[Attempt], *, own: str, left: float) -> None:
        """What passes would win that are not tried because there are no samples; the pre-flight needs none."""
        if self._commission.judged is not None or not lacking:
            return
        self._witness.stage("Pre-flight: what would help with --data?")
        room = min(2.0 * PREFLIGHT_SHARE * self._commission.budget_s, max(LEAST_PREFLIGHT_S, left))
        end = time.monotonic() + room
        asked = [(one, engine) for one in lacking for engine in one.engines]
        flights: dict[str, Preflight] = {}
        # One answer in the original's engine says more than one of every file in none.
        for attempt, engine in sorted(asked, key=lambda each: each[1] != own):
            parent = attempt.parent
            if parent not in flights:
                flights[parent] = self._flight(parent, budget_s=max(0.0, end - time.monotonic()))
            found = self._foretell(flights[parent], attempt, engine)
            self._state.with_data[self._state.name(attempt, engine)] = found
        self._witness.predicted(self._state.with_data)

    def _flight(self, parent: str, *, budget_s: float) -> Preflight:
        return Preflight(self._state.facts_of(parent), threads=self._commission.threads or 1, budget_s=budget_s)

    def _foretell(self, flight: Preflight, attempt: Attempt, engine: str) -> Prediction:
        if self._commission.is_module and self._commission.format in attempt.one.capabilities.reads:
            return Prediction(speedup=None, because="it changes the module, before there is a file")
        return flight.predict(attempt.one, attempt.recipe, runtime=engine)


def _in_turns(attempts: Sequence[Attempt]) -> list[Attempt]:
    """The first recipe of every pass, then the second of each; in a turn those first that are calibrated.

    These win most where they win, and the time of the pre-flight may not do for all.
    """
    seen: Counter[str] = Counter()
    turns = []
    for attempt in attempts:
        turns.append(((seen[attempt.one.name], not attempt.one.capabilities.calibrates), attempt))
        seen[attempt.one.name] += 1
    return [attempt for _, attempt in sorted(turns, key=itemgetter(0))]
