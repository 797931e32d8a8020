"""How tests of the reports' pages open them."""

from __future__ import annotations

import pytest


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
