"""The process of a lab's host: registers its devices, and carries out jobs, one at a time on a device."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.cancellation import Cancelled, CancelToken, cancellable
from edgewise.clock import now
from edgewise.device.devices import LOCAL, TAGS, Device, find_device, read_devices
from edgewise.errors import BadInput, EdgewiseError, StoreError, Unavailable
from edgewise.record import new_run_id
from edgewise.run.environment import fingerprint
from edgewise.store.lab import Lab, LabDevice
from edgewise.store.lab_jobs import LabJob
from edgewise.text import one_line
from edgewise.verbs.lab import engine
from edgewise.verbs.lab.blocks import SUSPECT, Ask, Blocks
from edgewise.verbs.lab.engine import (
    ANY,
    DELIVER,
    HOUSE,
    SWEEP,
    free_lost_jobs,
    open_app,
    protocol,
    queue_due_suites,
    queue_of,
    ring,
    settings_of,
)
from edgewise.verbs.lab.job import Ended
from edgewise.verbs.lab.safety import takes_times
from edgewise.version import __version__

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.job_context import JobContext
    from procrastinate.worker import Worker

BEAT_S = 2.0
"""How often a host says that it is alive, and looks at its jobs in the store."""
RETRY_S = 2.0
"""How long it waits where the database can't be reached."""
_NEVER_S = 1e8
"""The engine's workers forget no others: that is the work of the periodic task."""

Work = Callable[[LabJob, LabDevice, CancelToken], Ended]
Say = Callable[[str], None]


def boot_id() -> str:
    """Return what tells this machine from others, until it starts again."""
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return socket.gethostname()


def devices_of(host: str, names: Sequence[str], tags: Sequence[str]) -> list[LabDevice]:
    """Return the devices of this host: itself and those registered, or those in `names`. Raises `BadInput`,
    `Unavailable`.

    Args:
        tags: of all of them, beside those of their registrations.
    """
    chosen = [find_device(name) for name in names] or [Device(name=LOCAL, url=LOCAL), *read_devices().values()]
    found = []
    for device in {one.name: one for one in chosen}.values():
        own = [tag.strip() for tag in device.settings.get(TAGS, "").split(",") if tag.strip()]
        here = device.url == LOCAL
        hosts = [f"{LOCAL}:{tag}" for tag in (*own, *tags)] if here else []  # what needs no device
        answers = dict.fromkeys((*((LOCAL, host) if here else (device.name,)), *own, *tags, *hosts))
        processor = fingerprint()["cpu"]["model"] if here else None
        identity = f"{LOCAL}://{host}" if here else f"{device.url} of {host}" if device.is_of_host else device.url
        found.append(
            LabDevice(host=host, name=device.name, identity=identity, answers=tuple(answers), processor=processor)
        )
    return found


@dataclass(kw_only=True)
class Host:
    """A host's process.

    Attributes:
        work: carries out a job.
        say: tells its owner what happens.
        ask: asks a device how it is, before and after blocks of jobs; None judges no device.
        worker: names this process in the store.
    """

    lab: Lab
    name: str
    devices: Sequence[LabDevice]
    work: Work
    say: Say
    ask: Ask | None = None
    worker: str = field(default_factory=lambda: f"{socket.gethostname()}:{os.getpid()}:{new_run_id()[-12:]}")
    _running: dict[str, tuple[LabJob, CancelToken]] = field(default_factory=dict)
    _workers: dict[str, Worker] = field(default_factory=dict)
    _locks: dict[str, threading.Lock] = field(default_factory=dict)
    _blocks: dict[str, Blocks] = field(default_factory=dict)
    _suspects: set[str] = field(default_factory=set)
    _loop: asyncio.AbstractEventLoop | None = None
    _stopping: threading.Event = field(default_factory=threading.Event)
    _draining: bool = False
    _problem: EdgewiseError | None = None

    def run(self) -> None:
        """Carry out jobs until the host is drained or this process is told to end.

        Raises `BadInput` and `Unavailable` where it can't be part of the lab, or no longer.
        """
        logging.getLogger("procrastinate").setLevel(logging.CRITICAL + 1)  # what matters is said here
        logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL + 1)
        settings_of(self.lab)
        for line in self.lab.register(
            self.name, self.worker, version=__version__, boot=boot_id(), devices=self.devices
        ):
            self.say(f"{line}: they take turns")
        self._locks = {one.name: threading.Lock() for one in self._places}
        if self.ask is not None:
            for one in self.devices:
                self._blocks[one.name] = Blocks(lab=self.lab, device=one, ask=self.ask, say=self.say)
        asyncio.run(self._run())
        with suppress(StoreError):
            self.lab.leave(self.name, self.worker)
        if self._problem is not None:
            raise self._problem

    @property
    def _places(self) -> Sequence[LabDevice]:
        """Where jobs run: the devices, and this host's processor, for jobs without a device, where it is none of them.

        Such a job and a measurement of the processor take turns, as one would disturb the other.
        """
        if any(one.is_host for one in self.devices):
            return self.devices
        own = LabDevice(host=self.name, name=LOCAL, identity=f"{LOCAL}://{self.name}", answers=(), processor="")
        return (*self.devices, own)

    async def _run(self) -> None:
        loop = self._loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            with suppress(ValueError, RuntimeError):  # not in the main thread
                loop.add_signal_handler(number, self.stop)
        loop.set_exception_handler(lambda _loop, _context: None)  # of the engine's tasks while its database is away
        threads = ThreadPoolExecutor(max_workers=len(self._places) + 1, thread_name_prefix="device")
        app, house = (open_app(self.lab.url, min_size=1, max_size=size) for size in (4, 2))
        by_name = {one.name: one for one in self._places}

        @app.task(name=DELIVER, pass_context=True)
        async def deliver(context: JobContext, job: str) -> None:
            device = by_name[str(context.worker_name)]
            await loop.run_in_executor(threads, self._carry_out, device, job, context.job.id)

        @house.periodic(cron=engine.SWEEP_CRON)
        @house.task(name=SWEEP, queue=HOUSE, queueing_lock=HOUSE)
        async def sweep(timestamp: int) -> None:
            await free_lost_jobs(house, self.lab)
            for one in await asyncio.to_thread(queue_due_suites, self.lab):
                self.say(f"queued the {one.cells} cells of {one.suite}, as {one.name} says")

        async with app.open_async(), house.open_async():
            tasks = [asyncio.create_task(self._serve(app, name, one)) for name, one in by_name.items()]
            keeping = asyncio.create_task(self._serve(house, HOUSE))
            beating = asyncio.create_task(self._beat(app, threads))
            await asyncio.gather(*tasks)
            for blocks in self._blocks.values():
                await loop.run_in_executor(threads, self._close, blocks)
            self._draining = True
            self._workers[HOUSE].stop()  # type: ignore[no-untyped-call]  # the engine's
            await keeping
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
        threads.shutdown()

    def stop(self) -> None:
        """End: what runs is queued again."""
        self._stopping.set()
        self._drain()
        for _, token in list(self._running.values()):
            token.cancel("stopped")
        for blocks in self._blocks.values():
            blocks.stop()

    def _drain(self) -> None:
        """Take no more jobs, and end with the last one."""
        self._draining = True
        for name, worker in self._workers.items():
            if name != HOUSE:
                worker.stop()  # type: ignore[no-untyped-call]

    def _queues(self, device: LabDevice | None) -> list[str]:
        """Of the jobs that a device takes, those without a time only where it is suspect; None is for the house."""
        if device is None:
            return [HOUSE]
        is_fit = device.identity not in self._suspects
        own = [queue_of(one) for one in device.answers if is_fit or one.startswith(f"{LOCAL}:")]
        return [ANY, *own] if device.is_host else own

    async def _serve(self, app: App, name: str, device: LabDevice | None = None) -> None:
        """Have the engine deliver jobs, again and again where its database goes away."""
        from procrastinate.worker import Worker

        while not self._draining:
            queues = self._queues(device)
            worker = self._workers[name] = Worker(
                app, queues=queues, name=name, concurrency=1, delete_jobs="always", install_signal_handlers=False,
                stalled_worker_timeout=_NEVER_S, update_heartbeat_interval=engine.HEARTBEAT_S,
                listen_notify=name != HOUSE,
            )  # fmt: skip
            try:
                await worker.run()  # type: ignore[no-untyped-call]
            except Exception as error:  # whatever the driver raises; the engine's own error says no more than that
                reason = error.__cause__ or error
                self.say(f"{name}: the database failed: {one_line(str(reason)) or type(reason).__name__}")
            if not self._draining:
                await asyncio.sleep(RETRY_S)

    async def _beat(self, app: App, threads: ThreadPoolExecutor) -> None:
        """Say that this host is alive, stop jobs that are cancelled or no longer this host's, and end idle blocks."""
        told, loop = 0.0, asyncio.get_running_loop()
        while True:
            with suppress(StoreError):
                draining = await asyncio.to_thread(self._look)
                if draining and not self._draining:
                    self.say("draining: no more jobs are taken")
                    self._drain()
                await asyncio.to_thread(self._look_at_devices)
            for one in self._places:
                if (worker := self._workers.get(one.name)) and set(worker.queues or ()) != set(self._queues(one)):
                    worker.stop()  # type: ignore[no-untyped-call]  # it begins again with the others
                blocks = self._blocks.get(one.name)
                if blocks is not None and blocks.is_idle and not self._locks[one.name].locked():
                    loop.run_in_executor(threads, self._close, blocks)
            if now() - told >= engine.HEARTBEAT_S:
                told = now()
                # The engine's own heartbeat of a worker ends before its last job does: when it is told to stop, and
                # where its connection broke.
                for worker in list(self._workers.values()):
                    with suppress(Exception):
                        if worker.worker_id is not None:
                            await app.job_manager.update_heartbeat(worker.worker_id)
            if self._problem is not None:
                self.stop()
            await asyncio.sleep(BEAT_S)

    def _look(self) -> bool:
        """Look at the store; whether this host is to drain."""
        draining = self.lab.beat(self.name, self.worker)
        if draining is None:
            self._problem = BadInput(
                f"another process is the host {self.name} of this lab now", advice="give this one a name: ⟦host=NAME⟧"
            )
            return False
        try:
            settings_of(self.lab)
        except Unavailable as error:
            self._problem = error
            return False
        running = dict(self._running)  # more may begin while the store is asked
        found = self.lab.jobs.find(running)
        for job_id, (job, token) in running.items():
            row = found.get(job_id)
            if row is None or row.fence != job.fence or row.status not in ("running", "queued"):
                token.cancel("lost")
            elif row.cancelling:
                token.cancel("cancelled")
        return draining

    def _look_at_devices(self) -> None:
        """See which devices are suspect, and say which no longer are."""
        if self._blocks:
            mine = {one.identity for one in self.devices}
            verdicts = self.lab.gauges.verdicts()
            self._suspects = {one for one, (verdict, _) in verdicts.items() if verdict == SUSPECT and one in mine}

    def _close(self, blocks: Blocks) -> None:
        """End the open block of an idle device, if it has one."""
        with self._locks[blocks.device.name]:
            self._end_block(blocks)

    def _enter(self, blocks: Blocks, token: CancelToken) -> None:
        """Begin a block where none is open. Raises `Cancelled` with the reason `SUSPECT` where the device is out."""
        with cancellable(token):
            if blocks.enter():
                self._put_out(blocks.device)
                raise Cancelled(SUSPECT)

    def _leave(self, blocks: Blocks) -> None:
        """End the block after a job, where it has lasted long enough or no job waits."""
        blocks.touch()
        queues = [queue_of(one) for one in blocks.device.answers]
        more = not self._draining and self._persist(lambda: self.lab.jobs.is_any_queued(queues))
        if blocks.is_over(waiting=bool(more)):
            self._end_block(blocks)

    def _end_block(self, blocks: Blocks) -> None:
        """End the open block of a device, whose lock is held; it takes no more jobs where it is suspect."""
        if blocks.close(self._persist, judged=not self._stopping.is_set()):
            self._put_out(blocks.device)

    def _put_out(self, device: LabDevice) -> None:
        """Have a suspect device take no more jobs whose times count."""
        self._suspects.add(device.identity)
        if (worker := self._workers.get(device.name)) is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(worker.stop)  # before the engine knows that this job has ended

    def _carry_out(self, device: LabDevice, job_id: str, delivery: int | None) -> None:
        """Carry out a delivered job unless another worker has begun it. Runs in a thread of its device."""
        with self._locks[device.name]:
            if self._stopping.is_set():
                self._persist(lambda: self.lab.jobs.ring_again(job_id, ring))
                return
            job = self.lab.jobs.begin(
                job_id, version=protocol(), host=self.name, place=device.name, worker=self.worker, delivery=delivery
            )
            if job is None:
                return
            token = CancelToken()
            self._running[job_id] = job, token
            blocks = self._blocks.get(device.name)
            if blocks is not None and not takes_times(job):
                blocks.disturb()
                blocks = None
            try:
                if blocks is not None:
                    self._enter(blocks, token)
                self.say(f"{device.name}: {job.title}")
                ended = self.work(job, device, token)
            except Cancelled as error:
                if error.reason == "cancelled":
                    self._persist(lambda: self.lab.jobs.finish(job, "cancelled", message="cancelled"))
                elif error.reason in ("stopped", SUSPECT):
                    self._persist(lambda: self.lab.jobs.free(job_id, delivery=delivery, ring=ring, counts=False))
                return
            except StoreError as error:
                self.say(f"{device.name}: {error.message}")
                self._persist(lambda: self.lab.jobs.free(job_id, delivery=delivery, ring=ring))
                return
            except Exception as error:  # whatever it is, the job must come to an end
                self.say(f"{device.name}: {job.title}: internal error: {type(error).__name__}: {error}")
                ended = Ended.failed(job, f"internal error: {type(error).__name__}: {error}")
            finally:
                del self._running[job_id]
            block = None if blocks is None else blocks.id
            if not self._persist(lambda: self.lab.jobs.end(job, ended.outcome, ended.runs, block=block)):
                self.say(f"{device.name}: {job.title}: refused, as it was started again elsewhere")
            if blocks is not None:
                self._leave(blocks)

    def _persist(self, write: Callable[[], Any]) -> Any:
        """Return what `write` gives, once the database takes it."""
        told = False
        while True:
            try:
                return write()
            except StoreError as error:
                if not told:
                    self.say(error.message)
                told = True
                if self._stopping.wait(RETRY_S):
                    return None
