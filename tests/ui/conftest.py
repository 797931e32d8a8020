"""How tests of the reports' pages open them."""

from __future__ import annotations

import pytest


@pytest.fixture
def open_quietly(browser):
    """Opens the page at a path; whatever it asks for or complains about is a failure."""
    context = browser.new_context(offline=True, viewport={"width": 1280, "height": 900})
    page = context.new_page()
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
    assert complaints == []
    assert {url.partition("#")[0] for url in requests} == set(opened)
    context.close()


@pytest.fixture
def contrast():
    """Measures the least contrast of words on a page with what is under them (WCAG 2, relative luminance)."""
    return lambda page: page.evaluate(
        """() => {
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const light = (colour) => {
            canvas.clearRect(0, 0, 1, 1);
            canvas.fillStyle = colour;
            canvas.fillRect(0, 0, 1, 1);
            const parts = [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
            const linear = parts.map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
            return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
          };
          const ground = (element) => {
            for (let at = element; at; at = at.parentElement) {
              const colour = getComputedStyle(at).backgroundColor;
              if (colour !== "rgba(0, 0, 0, 0)") return colour;
            }
            return "rgb(255, 255, 255)";
          };
          const told = [...document.querySelectorAll("h1, h3, h4, td, th, li, p, dt, dd, figcaption")];
          return Math.min(...told.map((each) => {
            const [a, b] = [light(getComputedStyle(each).color), light(ground(each))].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
          }));
        }"""
    )
