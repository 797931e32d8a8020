"""The page of a comparison in a real Chromium, from a file, without a network."""

from __future__ import annotations

from sample_comparisons import four_variants, hostile, one_failed, stored_runs, two_variants

PAGES = {
    "two": two_variants,
    "four": four_variants,
    "stored": stored_runs,
    "failed": one_failed,
    "hostile": hostile,
}


def test_a_narrow_screen_keeps_the_verdict_in_sight_beside_the_name_of_the_metric(show):
    page = show("two")
    page.set_viewport_size({"width": 400, "height": 900})
    for place in (page.locator("th.decides").first, page.locator("td.decides").first):
        assert place.evaluate("(cell) => cell.cellIndex") == 1
        box = place.bounding_box()
        assert box["x"] + box["width"] <= 400
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_conclusion_comes_first_then_table_and_charts(show):
    page = show("two")
    assert page.locator("h1").inner_text() == (
        "B is 2.43× faster than A (ratio 0.412, 95 % interval 0.405 to 0.419), but 1.92× larger in peak memory"
    )
    rows = page.locator("table.sortable").first.locator("tbody tr")
    assert rows.count() == 6
    assert rows.nth(0).locator("th, td").all_inner_texts() == [
        "Latency", "2.43× faster", "421 ± 5 µs", "174 ± 2 µs", "0.412 (0.405 to 0.419)", "± 3 %", "< 0.001"
    ]  # fmt: skip
    figures = page.locator("figure h3").all_inner_texts()
    assert figures == ["Latency: samples", "Latency: process by process", "Ratios"]
    for index in range(3):
        box = page.locator("figure svg").nth(index).bounding_box()
        assert box["width"] > 600 and box["height"] > 150


def test_charts_follow_the_scheme(show):
    page = show("two")
    for scheme, colour, paper in (
        ("light", "rgb(47, 111, 208)", "rgb(255, 255, 255)"),
        ("dark", "rgb(110, 162, 242)", "rgb(23, 28, 35)"),
    ):
        page.emulate_media(color_scheme=scheme)
        line = page.locator("figure svg path[stroke='var(--series-1)']").first
        assert line.evaluate("element => getComputedStyle(element).stroke") == colour
        assert page.locator("figure").first.evaluate("element => getComputedStyle(element).backgroundColor") == paper


def test_what_was_forced_and_cant_be_excluded_stands_above_the_numbers(show):
    page = show("stored")
    warnings = page.locator("section.warnings")
    assert warnings.locator("h3").all_inner_texts() == [
        "Not a fair comparison: it was forced", "Other causes that can't be ruled out"
    ]  # fmt: skip
    assert warnings.bounding_box()["y"] < page.locator("table").first.bounding_box()["y"]
    table = page.locator("table", has_text="Where the environments differ")
    assert table.locator("tbody tr").first.locator("th, td").all_inner_texts() == ["kernel", "6.1.0", "6.5.0"]


def test_four_variants_are_ranked_and_each_is_set_against_the_first(show):
    page = show("four")
    ranking = page.locator("table", has_text="Ranking by latency")
    assert ranking.locator("tbody tr td:nth-child(2)").all_inner_texts() == ["C", "D", "A", "B"]
    assert page.locator("thead th", has_text="Verdict").count() == 3
    assert page.get_by_text("variants that no other beats in latency and peak memory: C and D").is_visible()


def test_headings_sort(show):
    page = show("two")
    page.get_by_role("button", name="Ratio (95 % interval)").first.click()
    assert page.locator("table.sortable").first.locator("tbody th").all_inner_texts() == [
        "Latency", "Latency p99", "Model size", "Peak memory", "Throughput", "Energy"
    ]  # fmt: skip


def test_a_hostile_label_is_only_words(show):
    page = show("hostile")
    assert page.locator("h1").inner_text().startswith("<script>alert(1)</script>|[x](http://evil.example)")
    assert page.locator("script").count() == 1
    assert page.locator("a[href^='http']").count() == 0


def test_a_failure_is_said_first(show):
    page = show("failed")
    assert page.locator("h1").inner_text() == "Nothing could be compared: B failed"
    assert page.locator("section.warnings").get_by_text("Unsupported: operator 'Einsum' is not supported").is_visible()


def test_it_reads_without_scripts_and_on_paper(browser, folder):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((folder / "two.html").as_uri())
    assert page.locator("table").first.is_visible()
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator("figure svg").first.is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
    context.close()
