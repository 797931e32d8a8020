"""`edgewise serve` as a process: its lines, its port, its end."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest

from messages import has, says
from patience import LIMIT_S

pytest.importorskip("starlette")

import httpx2
import psutil

from edgewise.errors import BadInput
from edgewise.store import open_store
from edgewise.studio.server import RELEASE_S, holder_of, listen, make_server
from edgewise.studio.settings import Settings
from sample_runs import all_runs


@contextmanager
def serving(*arguments, store, prefix=()):
    """The process of `edgewise serve`; what it prints is its standard output."""
    command = [*prefix, sys.executable, "-m", "edgewise", "serve", "--store", str(store), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def link_of(line: str) -> str:
    return re.search(r"https?://\S+", line)[0]


@contextmanager
def enter(link: str):
    """A client that a link let in."""
    with httpx2.Client(base_url=f"http://{urlsplit(link).netloc}", trust_env=False, timeout=LIMIT_S) as client:
        assert client.get(link).status_code == 200
        yield client


def test_a_link_for_the_next_browser_comes_when_one_was_used_and_ctrl_c_ends_it(tmp_path):
    with serving("--port", "0", store=tmp_path / "runs.db") as process:
        first = process.stdout.readline()
        assert first.startswith("the studio is at http://127.0.0.1:")
        assert process.stdout.readline() == "Ctrl-C ends it.\n"
        with enter(link_of(first)) as client:
            assert client.get("/runs").status_code == 200
            second = process.stdout.readline()
            assert second.startswith("a browser is logged in; the link for another browser is http://127.0.0.1:")
            with enter(link_of(second)) as other, other.stream("GET", "/events") as events:
                # Streams and connections that are kept open do not keep it from ending.
                process.send_signal(signal.SIGINT)
                assert process.wait(LIMIT_S) == 130
                del events
        assert "Traceback" not in process.stderr.read()
    assert (tmp_path / "runs.studio" / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_browsers_stay_in_when_the_server_starts_again(tmp_path):
    port = free_port()
    cookies = None
    for _ in range(2):
        with serving("--port", str(port), store=tmp_path / "runs.db") as process:
            link = link_of(process.stdout.readline())
            if cookies is None:
                with enter(link) as client:
                    cookies = dict(client.cookies)
            with httpx2.Client(cookies=cookies, trust_env=False) as client:
                assert client.get(f"http://127.0.0.1:{port}/runs").status_code == 200


def free_port() -> int:
    """A port that is free, below those that the kernel gives to other programs in the meantime."""
    below = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(10_000, below)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def test_a_port_in_use_names_the_process_and_the_way_out(tmp_path):
    settings = Settings(port=0, folder=tmp_path)
    held, settings = listen(settings, next_port=False)
    with held:
        with pytest.raises(BadInput) as caught:
            listen(settings, next_port=False)
        assert re.match(says("port-use", port=settings.port, holder_of=has(" by '")), caught.value.message)
        assert caught.value.message.endswith(f"' (process {os.getpid()})")
        assert "--next-port" in caught.value.advice
        found, chosen = listen(settings, next_port=True)
        with found:
            assert settings.port < chosen.port < settings.port + 100
            assert chosen.own_origin.endswith(f":{chosen.port}")


def test_a_long_command_that_holds_a_port_is_not_cut_within_a_word(monkeypatch):
    command = ["/usr/bin/python3", "/srv/v/bin/edgewise", "serve", "--root", "/srv/some/models/of", "--port", "25017"]
    monkeypatch.setattr(psutil.Process, "cmdline", lambda self: command)
    with socket.create_server(("127.0.0.1", 0)) as held:
        told = holder_of(held.getsockname()[1])
    shown = "/usr/bin/python3 /srv/v/bin/edgewise serve --root /srv/some/models/of --port …"
    assert told == f" by '{shown}' (process {os.getpid()})"


def test_a_store_that_can_not_be_written_can_be_looked_at(tmp_path, bound_by_modes):
    folder = tmp_path / "locked"
    folder.mkdir()
    with open_store(str(folder / "runs.db")) as store:
        for run in all_runs():
            store.save(run)
    folder.chmod(0o555)
    try:
        with serving("--port", "0", store=folder / "runs.db", prefix=bound_by_modes) as process:
            link = link_of(process.stdout.readline())
            assert process.stdout.readline() == (
                f"the store {folder / 'runs.db'} is read-only: its runs can be seen, nothing can be measured\n"
            )
            with enter(link) as client:
                assert "kws.onnx" in client.get("/runs").text
                assert client.get("/").status_code == client.get("/jobs").status_code == 200
                origin = {"origin": str(client.base_url).rstrip("/")}
                asked = client.post("/new/estimate", data={"model": "x", "device": "cortex-m4"}, headers=origin)
                assert asked.status_code in (400, 422)
                upload = client.post("/uploads", files={"file": ("net.onnx", b"x" * 100)}, headers=origin)
                assert 400 <= upload.status_code < 600
                assert "this is a bug" not in upload.text
                for path, button in (("/new/bench", "Bench"), ("/", "Upload"), ("/jobs", None)):
                    text = client.get(path).text
                    assert f"The store {folder / 'runs.db'} is read-only: its runs can be seen" in text
                    found = re.search(rf"<button[^>]*>{button}</button>", text)
                    assert button is None or " disabled" in found[0]
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT_S) == 130
    finally:
        folder.chmod(0o755)


def test_the_server_rests_until_it_is_to_end(tmp_path, monkeypatch):
    """It waits for an event, minutes long, and does not look now and then."""
    waits = []

    async def wait_for(event, seconds):
        waits.append(seconds)
        await event

    monkeypatch.setattr(asyncio, "wait_for", wait_for)
    listener, settings = listen(Settings(port=0, folder=tmp_path), next_port=False)
    listener.close()
    server = make_server(lambda: None, settings)

    async def rest():
        loop = asyncio.create_task(server.main_loop())
        while not waits:
            await asyncio.sleep(0)
        threading.Thread(target=setattr, args=(server, "should_exit", True)).start()  # as a signal's handler does
        await loop

    with ThreadPoolExecutor(1) as pool:  # in this thread, a browser of another test may have a loop
        pool.submit(lambda: asyncio.run(rest())).result()
    assert waits == [RELEASE_S] and RELEASE_S >= 10.0


def test_an_answer_that_is_cut_off_at_the_end_prints_no_traceback(tmp_path, capfd):
    begun = threading.Event()

    async def hang(scope, receive, send):
        if scope["type"] == "lifespan":
            for _ in range(2):
                kind = (await receive())["type"]
                await send({"type": f"{kind}.complete"})
            return
        begun.set()
        await asyncio.sleep(600)  # real time: it is cut off

    class App:
        state = SimpleNamespace(studio=SimpleNamespace(jobs=SimpleNamespace(live=SimpleNamespace(close=lambda: None))))
        __call__ = staticmethod(hang)

    listener, settings = listen(Settings(port=0, folder=tmp_path), next_port=False)
    server = make_server(App(), settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    with socket.create_connection(("127.0.0.1", settings.port)) as client:
        client.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{settings.port}\r\n\r\n".encode())
        assert begun.wait(LIMIT_S)
        server.should_exit = True
        thread.join(LIMIT_S)
    assert not thread.is_alive()
    assert capfd.readouterr() == ("", "")


def test_log_handlers_of_the_process_stay_open(tmp_path):
    handler = logging.FileHandler(tmp_path / "own.log")
    try:
        listener, settings = listen(Settings(port=0, folder=tmp_path), next_port=False)
        with listener:
            make_server(None, settings)
        assert handler.stream is not None  # as it is once the handler is closed
    finally:
        handler.close()


def test_the_first_answer_needs_no_page_no_form_and_no_model(tmp_path):
    """The start takes as long as its imports do: what only later pages need must not be among them."""
    script = """
import builtins, os, signal, sys, threading, urllib.request
from edgewise.__main__ import main

def say(line, **settings):  # the line with the link: asks for its page, then ends the server
    def ask():
        urllib.request.urlopen(line.split()[-1]).read()
        sys.stderr.write(" ".join(sys.modules) + "\\n")
        os.kill(os.getpid(), signal.SIGINT)
    if line.startswith("the studio is at"):
        threading.Thread(target=ask).start()

builtins.print = say
sys.exit(main())
"""
    command = [
        sys.executable,
        "-c",
        script,
        "serve",
        "--port",
        "0",
        "--store",
        str(tmp_path / "runs.db"),
        "--root",
        ".",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    loaded = set(done.stderr.split())
    assert done.returncode == 130 and "edgewise.studio.views.entrance" in loaded, done.stderr
    heavy = {
        "httptools", "jinja2", "numpy", "pydantic", "rich", "uvloop", "websockets", "edgewise.comparing",
        "edgewise.device.devices", "edgewise.model", "edgewise.profiling", "edgewise.progress", "edgewise.report",
        "edgewise.verbs.context", "edgewise.verbs.request", "edgewise.studio.forms", "edgewise.studio.views.home", "sqlalchemy.orm",
    }  # fmt: skip
    assert loaded & heavy == set(), loaded & heavy
