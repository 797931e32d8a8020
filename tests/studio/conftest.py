"""A studio that listens, and clients and browsers that are logged in to it."""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from edgewise.store import Store
from edgewise.studio.app import make_app
from edgewise.studio.server import listen, make_server
from edgewise.studio.settings import Settings
from edgewise.studio.studio import Studio
from patience import LIMIT_S


@dataclass
class Served:
    """A running studio.

    Attributes:
        url: its origin, without a slash at the end.
        folder: its uploads and jobs.
        cookie: name and value of the cookie that lets a browser in.
    """

    studio: Studio
    app: Any

    @property
    def settings(self) -> Settings:
        return self.studio.settings

    @property
    def url(self) -> str:
        return self.settings.own_origin

    @property
    def store(self) -> Store:
        return self.studio.store

    @property
    def folder(self) -> Path:
        return self.settings.folder

    @property
    def cookie(self) -> tuple[str, str]:
        name, _, value = self.studio.sessions.set_cookie().partition(";")[0].partition("=")
        return name, value

    def link(self) -> str:
        """A link that lets one browser in, once."""
        return self.studio.sessions.new_link(self.url)

    def client(self, **settings):
        """An HTTP client that is logged in; what it writes comes from the studio's own origin."""
        import httpx2

        headers = {"cookie": "=".join(self.cookie), "origin": self.url, **settings.pop("headers", {})}
        # Without `verify`, no certificates are read for each client, which took most of the time of many a test.
        settings = {"timeout": LIMIT_S, "trust_env": False, "verify": False, **settings}
        return httpx2.Client(base_url=self.url, headers=headers, **settings)


@contextmanager
def served(folder: Path, **settings):
    """A studio on a free port, in a thread of this process, whose store and files lie in `folder`."""
    given = Settings(**{"port": 0, "store": str(folder / "runs.db"), "folder": folder / "runs.studio", **settings})
    listener, given = listen(given, next_port=False)
    with listener:
        app = make_app(given)
        server = make_server(app, given)
        thread = threading.Thread(target=server.run, args=([listener],), name="studio")
        thread.start()
        try:
            # The socket listens already: a request that comes before the server is ready waits in its queue.
            yield Served(app.state.studio, app)
        finally:
            server.should_exit = True
            thread.join(LIMIT_S)
            assert not thread.is_alive(), "the studio does not end"


@pytest.fixture(scope="module")
def serve(tmp_path_factory):
    """Starts studios that a whole module uses: ``serve(roots=(folder,))``; each has a folder and a port of its own."""
    with ExitStack() as running:
        yield lambda **settings: running.enter_context(served(tmp_path_factory.mktemp("studio"), **settings))


@pytest.fixture(scope="module")
def second(serve):
    return serve()


@pytest.fixture
def emptied(second):
    """A studio without runs and jobs, shared by the tests of a file."""
    yield second
    second.store.remove(second.store.find(["all"]) if second.store.list() else [])
    for job in second.store.jobs.list():
        with second.store.jobs.removing(job.id):
            shutil.rmtree(second.studio.jobs.folder_of(job.id))


@pytest.fixture
def browse(filled):
    """An HTTP client that is logged in to the studio that a file fills."""
    with filled.client() as client:
        yield client


@pytest.fixture
def studio(tmp_path):
    """A studio of this test alone, with an empty store."""
    with served(tmp_path) as running:
        yield running


@pytest.fixture
def client(studio):
    """An HTTP client that is logged in to `studio`; it follows no redirection."""
    with studio.client() as client:
        yield client


@dataclass
class Watch:
    """What a page's browser asked for and complained about.

    Attributes:
        expected: parts of complaints that are right in this test, such as ``status of 404``.
    """

    origin: str
    requests: list[str]
    complaints: list[str]
    expected: list[str]

    def check(self) -> None:
        left = [each for each in self.complaints if not any(part in each for part in self.expected)]
        assert left == []
        elsewhere = {url for url in self.requests if urlsplit(url).scheme not in ("data", "blob")}
        assert {url for url in elsewhere if not url.startswith(f"{self.origin}/")} == set()


def new_page(context, watch):
    """A page of `context` whose requests and complaints `watch` collects."""
    page = context.new_page()
    page.on("request", lambda request: watch.requests.append(request.url))
    page.on("console", lambda message: message.type in ("error", "warning") and watch.complaints.append(message.text))
    page.on("pageerror", lambda error: watch.complaints.append(str(error)))
    page.on("dialog", lambda dialog: (watch.complaints.append(dialog.message), dialog.dismiss()))
    return page


@pytest.fixture
def open_page(browser, request):
    """Opens a path of a studio in a browser that is logged in: ``open_page("/runs")``.

    Complaints of the console, script errors and requests to another origin fail the test at its end; `expect` names
    parts of the complaints that are right, such as ``status of 404``. Further arguments are those of a Playwright
    context (``viewport``, ``color_scheme``, ``java_script_enabled``); `at` is another studio than the fixture's.
    """
    contexts, watches = [], []

    def show(path="/", *, at=None, expect=(), **settings):
        at = at or request.getfixturevalue("studio")
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        name, value = at.cookie
        context.add_cookies([{"name": name, "value": value, "url": at.url, "sameSite": "Strict", "httpOnly": True}])
        watch = Watch(at.url, [], [], list(expect))
        watches.append(watch)
        page = new_page(context, watch)
        page.goto(at.url + path)
        return page

    yield show
    for watch in watches:
        watch.check()
    for context in contexts:
        context.close()


@pytest.fixture
def page(open_page):
    """The first page of `studio` in a browser that is logged in."""
    return open_page("/")
