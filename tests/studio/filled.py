"""A store with runs and jobs whose every name is an attack on the pages that show it."""

from __future__ import annotations

from dataclasses import replace

from edgewise.record import Caution, Failure
from edgewise.store import Store
from sample_profiles import faster_run, profiled_run
from sample_runs import all_runs

SCRIPT = '"><script>window.__hit=1</script>'
IMAGE = "<img src=x onerror=window.__hit=1>"
QUOTED = "' onmouseover='window.__hit=1' x='"
TEMPLATE = "{{7*7}}${7*7}<%= 7 %>"
URL = "javascript:window.__hit=1"
RIGHT_TO_LEFT = "\u202egpj.exe\u2066\u200f"
CONTROLS = "a\x00b\x1b[31m\r\nSet-Cookie: a=b\u2028"
WIDE = "\U0001f525" * 300
SVG = "<svg/onload=window.__hit=1>"
ENDS = "</textarea></title></style></script><script>window.__hit=1</script>-->"
HOSTILE = (SCRIPT, IMAGE, QUOTED, TEMPLATE, URL, RIGHT_TO_LEFT, CONTROLS, WIDE, SVG, ENDS)


def hostile_runs():
    """Runs of which each has one hostile name in every place, the last ones with profiles."""
    runs = [*all_runs(), profiled_run(), faster_run()]
    for number, name in enumerate(HOSTILE):
        before = runs[number % len(all_runs())] if number < 8 else (profiled_run if number == 8 else faster_run)()
        yield replace(
            before,
            id=f"0195f0c0-0000-7000-8000-{0xABC000 + number:012x}",
            job=replace(
                before.job,
                model=replace(before.job.model, name=name, path=f"/models/{name}"),
                runtime=replace(before.job.runtime, name=name, provider=name, options={name: name}),
                target=replace(before.job.target, device=name),
            ),
            environment={**before.environment, "os": name, name: name},
            layers=tuple(
                replace(layer, name=name, op=name, nodes=(name,), engine_op=name, attributes={name: name})
                for layer in before.layers
            ),
            failure=before.failure and replace(before.failure, message=name, advice=name, stderr_tail=name),
            cautions=(*before.cautions, Caution(code="throttled", message=name, advice=name)),
        )
    failed = next(run for run in all_runs() if run.failure)
    failure = Failure(cause=failed.failure.cause, message=IMAGE, phase=SCRIPT, advice=SVG, stderr_tail=ENDS)
    yield replace(failed, id="0195f0c0-0000-7000-8000-000000abcfff", failure=failure)


def fill(store: Store) -> None:
    """Put runs and ended jobs into an empty store."""
    for run in [*all_runs(), profiled_run(), faster_run(), *hostile_runs()]:
        store.save(run)
    for number, status in enumerate(("done", "failed", "cancelled", "lost")):
        name = HOSTILE[number]
        document = {"verb": "bench", "schema": 1, "models": [f"/models/{name}"], "runtimes": [name]}
        # No dispatcher looks at this queue.
        store.jobs.add(document, title=name, queue="without a dispatcher", device=name)
        job = store.jobs.claim("without a dispatcher", name)
        store.jobs.finish(job, status, message=name, advice=name, exit_code=1, runs=[profiled_run().id])
