"""The way into the studio."""

from __future__ import annotations


def test_a_link_lets_one_browser_in(studio, browser):
    context = browser.new_context()
    page = context.new_page()
    link = studio.link()
    page.goto(link)
    page.wait_for_url(f"{studio.url}/")
    assert page.locator("h1").inner_text() == "Models"
    other = browser.new_context()
    late = other.new_page()
    assert late.goto(link).status == 403
    other.close()
    page.goto(link)  # the browser that is in may open its link again
    page.wait_for_url(f"{studio.url}/")
    context.close()


def test_pages_open_without_complaints(open_page):
    page = open_page("/runs")
    assert page.title() == "Runs – edgewise"


def test_a_client_with_the_cookie_is_in(client, studio):
    assert client.get("/").status_code == 200
    assert client.get("/nothing").status_code == 404
    assert studio.folder.joinpath("secret").stat().st_mode & 0o777 == 0o600
