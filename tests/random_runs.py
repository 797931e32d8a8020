"""Random runs, and random changes of a store of them."""

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from edgewise.record import InputSpec, Job, Measurement, ModelRef, Run, RuntimeSpec, Scenario, TargetSpec, Workload
from edgewise.record.run import Trust
from edgewise.store import Store

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
INPUTS = (InputSpec(name="x", shape=(1, 3, 8, 8), dtype="float32"), InputSpec(name="rate", shape=(), dtype="int64"))
"""Their shapes are ``1x3x8x8, scalar``."""


def random_run(number: int, choose: random.Random) -> Run:
    """A run that shares its settings, and often its value, with others."""
    model = choose.choice(["net_a.onnx", "net_b.onnx", "Other.tflite"])
    scenario = choose.choice([Scenario(), Scenario(kind="offline")])
    job = Job(
        model=ModelRef(name=model, path="/x", format="onnx", sha256=f"{sum(model.encode()):064x}", size_bytes=1),
        runtime=RuntimeSpec(
            name=choose.choice(["onnxruntime", "litert"]),
            precision=choose.choice([None, "bf16"]),
            provider=choose.choice([None, "cpu", "cpu"]),
            threads=choose.choice([None, 1, 1]),
        ),
        target=TargetSpec(device=choose.choice(["local", "pi", "phone"])),
        workload=Workload(
            scenario=scenario, batch=choose.choice([1, 1, 1, 8]), inputs=choose.choice([(), INPUTS, INPUTS[:1]])
        ),
    )
    value, basis = choose.randrange(1, 6) / 4, choose.choice(["measured", "measured", "estimated"])
    metric, unit = (scenario.headline, "s" if scenario.headline == "latency" else "1/s")
    row = Measurement(metric=metric, unit=unit, basis=basis, method="m", value=value, low=value - 0.1, high=value + 0.1)
    return Run(
        id=f"{number:08x}", job=job, created_at=(START + timedelta(minutes=choose.randrange(40))).isoformat(),
        environment=choose.choice([{}, {"cpu": {"model": "Processor X"}}]), trust=choose.choice([None, *(Trust(grade=one) for one in "ABCD")]), status=choose.choice(["done", "done", "failed"]), measurements=(row,) * choose.choice([0, 1, 1]),
        tags=tuple(choose.sample(["red", "blue", "green"], choose.choice([0, 0, 1, 2]))),
    )  # fmt: skip


def random_changes(store: Store, seed: int, *, steps: int) -> Iterator[dict[str, Run]]:
    """Change `store` `steps` times, and give after each change the runs that it must hold, by their ids."""
    choose, stored, number = random.Random(seed), dict[str, Run](), 0
    for _ in range(steps):
        action = choose.choice(["save", "save", "merge", "replace", "remove", "tag", "untag"])
        new = [random_run(number + i, choose) for i in range(3)]
        old = choose.choice(sorted(stored)) if stored else ""
        if action == "merge" or not stored:
            again = choose.sample(sorted(stored), min(2, len(stored)))
            store.merge([*new, *(stored[one] for one in again)])
            stored |= {run.id: run for run in new}
            number += 3
        elif action == "save":
            store.save(new[0])
            stored[new[0].id] = new[0]
            number += 1
        elif action == "replace":
            stored[old] = replace(new[0], id=old)
            store.save(stored[old])
        elif action == "remove":
            gone = {old, choose.choice(sorted(stored))}
            store.remove(gone)
            stored = {one: run for one, run in stored.items() if one not in gone}
        elif action == "tag":
            stored = _without(stored, "red")
            stored[old] = replace(stored[old], tags=(*stored[old].tags, "red"))
            store.tag("red", old, move=True)
        elif any("blue" in run.tags for run in stored.values()):
            store.untag("blue")
            stored = _without(stored, "blue")
        yield stored


def _without(stored: dict[str, Run], tag: str) -> dict[str, Run]:
    return {one: replace(run, tags=tuple(name for name in run.tags if name != tag)) for one, run in stored.items()}
