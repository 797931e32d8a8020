"""How tests of the reports' pages open them."""

from __future__ import annotations

import pytest

from edgewise.verbs.shown_in_python import format_of


@pytest.fixture(scope="session")
def offline(browser):
    """What all these pages open in: they keep nothing, and a context of its own costs more than most pages."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    yield context
    context.close()


@pytest.fixture
def open_quietly(offline):
    """Opens the page at a path; whatever it asks for or complains about is a failure."""
    page = offline.new_page()
    requests, complaints, opened = [], [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: complaints.append(dialog.message))

    def show(path):
        opened.append(path.as_uri())
        page.goto(path.as_uri())
        return page

    yield show
    page.close()
    assert complaints == []
    assert {url.partition("#")[0] for url in requests} == set(opened)


@pytest.fixture(scope="module")
def folder(request, tmp_path_factory):
    """A folder with a page for each result that the module's `PAGES` make."""
    folder = tmp_path_factory.mktemp("pages")
    for name, make in request.module.PAGES.items():
        result = make()
        format_of(result).write(result, folder / f"{name}.html")
    return folder


@pytest.fixture
def show(open_quietly, folder):
    """Opens the page of a result of the module by its name."""
    return lambda name: open_quietly(folder / f"{name}.html")
