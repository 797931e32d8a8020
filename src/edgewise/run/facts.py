"""Facts about the target of a job, collected there: engines, cores, sensors, the fingerprint of the machine."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from edgewise.device.board import advice_of
from edgewise.device.bootstrap import how_to_install
from edgewise.device.link import FREE_SPACE, TargetError, read_all
from edgewise.device.target import BoardTarget, LocalTarget, RemoteTarget, Target, find_target
from edgewise.device.transport import Remote, RunsPrograms, TellsEmulator
from edgewise.errors import Unavailable
from edgewise.folders import job_folder
from edgewise.record import TargetSpec
from edgewise.record.facts import emulation_of
from edgewise.registry import Availability, Registry, availability_of
from edgewise.run.board import describe_board
from edgewise.run.counters import usable_cores
from edgewise.run.device_tool.phone import describe_phone
from edgewise.run.environment import fingerprint
from edgewise.run.facts_worker import observe
from edgewise.run.meters.base import Traits, meters
from edgewise.runtime.base import Runtime, runtimes
from edgewise.text import means_disk_full, one_line

MOST_ANSWER = 64 * 2**20
_PATIENCE_S = 120.0
_WORKER = "edgewise.run.facts_worker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What a remote target told.

    Attributes:
        engines, sensors: name → whether it can be used there.
        traits: name of a meter → its traits there.
        environment: `edgewise.run.environment.fingerprint` of the machine there.
        cores: the processors that may be used.
        programs: name of a benchmark tool that is there → its path, or a file on this machine that must be sent.
    """

    engines: Mapping[str, Availability]
    sensors: Mapping[str, Availability]
    environment: Mapping[str, Any]
    cores: tuple[int, ...]
    programs: Mapping[str, str] = field(default_factory=dict)
    traits: Mapping[str, Traits] = field(default_factory=dict)


_KNOWN: WeakKeyDictionary[RemoteTarget | BoardTarget, Facts] = WeakKeyDictionary()


def target_of(spec: TargetSpec) -> LocalTarget | RemoteTarget:
    """Where jobs with this target run. Raises `Unavailable`."""
    return find_target(spec.device)


def is_board(spec: TargetSpec) -> bool:
    """Whether a target is a board at a serial port, which holds one model. Raises `Unavailable`."""
    return isinstance(target_of(spec), BoardTarget)


def default_kinds(spec: TargetSpec) -> tuple[bool, bool]:
    """Whether engines in Python, and whether benchmark tools, can be measured on a target. Raises `Unavailable`."""
    target = target_of(spec)
    if isinstance(target, BoardTarget):
        return False, True
    if not isinstance(target, RemoteTarget) or not isinstance(target.transport, RunsPrograms):
        return True, False
    return bool(target.transport.python), True


def require_python(spec: TargetSpec) -> None:
    """Raise `Unavailable` where a target has only benchmark tools, which give no outputs and take no turns."""
    if is_board(spec):
        raise Unavailable(
            f"{spec.device}: a board holds one model and takes no turns, so only bench and evaluate measure it",
            advice="compare stored runs of bench: edgewise compare RUN RUN",
        )
    if not default_kinds(spec)[0]:
        raise Unavailable(
            f"{spec.device} has no Python set; its benchmark tools work with bench and profile only",
            advice="set python = PATH for the device (Termux), or compare stored runs of bench",
        )


def availability_at(spec: TargetSpec, name: str, runtime: Runtime) -> Availability:
    """Whether an engine can be used on a target, and in which version. Raises `Unavailable`."""
    facts = facts_of(spec)
    return availability_of(runtime) if facts is None else facts.engines[name]


def find_engine(name: str, form: str, target: TargetSpec) -> Runtime:
    """The engine called `name`.

    Raises:
        Unavailable: there is none. Where `name` is another word for an engine that can't read models of the format
            `form`, the advice has those that can.
    """
    registry = runtimes()
    try:
        return registry.get(name)
    except Unavailable as error:
        meant = registry.meant.get(name, "").partition("/")[0]
        if meant and form not in registry.get(meant).formats:
            error.advice = f"{meant} can't read {form}; {advise_readers(form, [meant], target)}"
        raise


def advise_readers(form: str, deaf: Sequence[str], target: TargetSpec) -> str:
    """The installed engines that read models of the format `form`, and how those in `deaf` get a file of their own."""
    registry = runtimes()
    known = "; ".join(
        f"{name}: providers {', '.join(p.name for p in runtime.providers)}, "
        f"precisions {', '.join(sorted({x for p in runtime.providers for x in p.precisions}))}"
        for name, runtime in registry
        if form in runtime.formats and availability_at(target, name, runtime)
    )
    own = {to: name for name in deaf for to in ("onnx", "tflite") if to != form and to in registry.get(name).formats}
    ways = [
        f"for {name}, from PyTorch or Keras: edgewise convert FILE.py:FUNCTION --to {to}" for to, name in own.items()
    ]
    return "; ".join([f"installed runtimes that read it: {known or 'none'}", *ways])


def cores_at(spec: TargetSpec) -> tuple[int, ...]:
    """The processors that a job may use on its target."""
    facts = facts_of(spec)
    return usable_cores() if facts is None else facts.cores


def environment_at(spec: TargetSpec) -> dict[str, Any]:
    """The fingerprint of the target's machine."""
    facts = facts_of(spec)
    return fingerprint() if facts is None else dict(facts.environment)


def activity_at(
    spec: TargetSpec, seconds: float, *, sleep: Callable[[float], object] = time.sleep
) -> Mapping[str, float | None]:
    """What the machine of a target did in `seconds` in which edgewise was idle: `Counters.delta`.

    Args:
        sleep: waits on this machine.

    Raises `Unavailable`.
    """
    target = target_of(spec)
    if not isinstance(target, RemoteTarget):
        return observe(seconds, sleep=sleep)
    try:
        with job_folder() as folder:
            return ask(target, _WORKER, {"observe_s": seconds}, folder=folder, timeout_s=_PATIENCE_S)
    except (OSError, ValueError, TypeError) as error:
        raise target.unavailable(error) from error


def require_real_processor(spec: TargetSpec) -> None:
    """Raise `Unavailable` where the target's processor is emulated: its times can't be compared."""
    if emulated := emulation_of(environment_at(spec)):
        raise Unavailable(
            f"{spec.device}: {emulated}, so times there can't be compared",
            advice="compare and optimize on a real device; bench and evaluate give outputs, accuracy and sizes there",
        )


def facts_of(spec: TargetSpec) -> Facts | None:
    """What a remote target told when it was asked first; None for this machine. Raises `Unavailable`."""
    target = target_of(spec)
    if not isinstance(target, RemoteTarget | BoardTarget):
        return None
    if target not in _KNOWN:
        transport = target.transport
        if isinstance(target, BoardTarget):
            _KNOWN[target] = _board_facts(target)
        elif isinstance(transport, RunsPrograms):
            _KNOWN[target] = _phone_facts(target, transport)
        else:
            _KNOWN[target] = _ask_facts(target)
    return _KNOWN[target]


def _board_facts(target: BoardTarget) -> Facts:
    """What a board at a serial port reports of itself, and that only its firmware can be measured."""
    try:
        board = target.transport.connect()
    except OSError as error:
        advice = advice_of(error, target.transport.baud)
        raise Unavailable(f"{target.name} can't be used: {error}", advice=advice) from error
    absent = Availability(False, "the board runs only its own firmware", "omit -d to use it on this machine")
    return Facts(
        engines=dict.fromkeys(runtimes().names(), absent) | {"mlperf_tiny": Availability(True, version=board.profile)},
        sensors=dict.fromkeys(meters().names(), absent),
        environment=describe_board(board),
        cores=(0,),
    )


def program_at(spec: TargetSpec, name: str) -> str:
    """The path of a benchmark tool on a target, or of a file on this machine to send there. Raises `Unavailable`."""
    facts = facts_of(spec)
    if facts is None or name not in facts.programs:
        raise Unavailable(f"{spec.device} has no {name}", advice=f"edgewise devices check {spec.device}")
    return facts.programs[name]


def _phone_facts(target: RemoteTarget, transport: RunsPrograms) -> Facts:
    """Facts about a device that runs programs through its shell; those of its Python too where it has one."""
    try:
        phone = describe_phone(transport)
    except OSError as error:
        raise target.unavailable(error) from error
    if transport.python:
        facts = _ask_facts(target)
        environment = {**phone.environment, "python": facts.environment["python"]}
    else:
        advice = "set python = PATH for the device (Termux), or use -r benchmark_model"
        absent = Availability(False, "the device has no Python set", advice)
        facts = Facts(
            engines=dict.fromkeys(runtimes().names(), absent),
            sensors=dict.fromkeys(meters().names(), absent),
            environment={},
            cores=phone.cores,
        )
        environment = dict(phone.environment)
    engines = {**facts.engines, **phone.tools}
    return replace(facts, engines=engines, environment=environment, programs=phone.programs)


def _ask_facts(target: RemoteTarget) -> Facts:
    registries: Mapping[str, Registry[Any]] = {"runtimes": runtimes(), "meters": meters()}
    question = {
        kind: {name: registry.location(name) for name in registry.names()} for kind, registry in registries.items()
    }
    try:
        with job_folder() as folder:
            told = ask(target, _WORKER, question, folder=folder, timeout_s=_PATIENCE_S)
        if not told["numpy"]:
            raise Unavailable(f"{target.name} has no numpy", advice=how_to_install(target.transport, "numpy"))
        environment = dict(told["environment"])
        if isinstance(target.transport, TellsEmulator) and target.transport.emulator:
            environment["virtualisation"] |= {"emulator": target.transport.emulator}
        return Facts(
            engines={
                name: _there(target.transport, name, Availability(**each)) for name, each in told["runtimes"].items()
            },
            sensors={name: Availability(**each) for name, each in told["meters"].items()},
            traits={name: Traits(**each) for name, each in told["traits"].items()},
            environment=environment,
            cores=tuple(int(core) for core in told["cores"]),
        )
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise target.unavailable(error) from error


def _there(transport: Remote, engine: str, found: Availability) -> Availability:
    """Where an engine is missing, and how it gets onto that device: its own words are of the machine that runs it."""
    if found:
        return found
    hint = how_to_install(transport, engine, found.install_hint)
    return replace(found, reason=f"{found.reason} on {transport.name}", install_hint=hint)


def ask(
    target: Target,
    module: str,
    question: Mapping[str, Any],
    *,
    folder: Path,
    timeout_s: float,
    files: Mapping[str, Path] | None = None,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """What a process on `target` answers to one JSON object on its standard input.

    Args:
        module: whose ``main`` answers with one JSON object on standard output.
        files: name → file on this machine; a value of `question` that is the name in braces becomes its path there.

    Raises:
        OSError: the process can't be started, crashed or is silent for longer than `timeout_s`.
        TypeError, ValueError: it answered something else.
        Cancelled: the work was stopped.
    """
    with target.workspace(folder, files) as workspace:
        paths = {f"{{{name}}}": target.locate(workspace, name, file) for name, file in (files or {}).items()}
        fitted = {key: paths.get(value, value) if isinstance(value, str) else value for key, value in question.items()}
        process = workspace.start(module, environment=environment)
        try:
            process.stdin.write(json.dumps(fitted).encode())
            process.stdin.close()
            answer = read_all(process, timeout_s=timeout_s, most=MOST_ANSWER)
        finally:
            process.kill()
    if not answer:
        told = process.stderr.read_text(errors="replace").strip().splitlines() if process.stderr.exists() else []
        why = one_line(told[-1])[:300] if told else "it ended without an answer"
        raise TargetError(why, advice=FREE_SPACE if means_disk_full(why) else "")
    return dict(json.loads(answer))
