"""The page of a search in a real Chromium, from a file, without a network."""

from __future__ import annotations

from sample_optimizations import bounds_unmet, changed_search, found, hostile_search, nothing_found, without_data

PAGES = {
    "found": found,
    "nothing": nothing_found,
    "unmet": bounds_unmet,
    "without": without_data,
    "hostile": hostile_search,
    "changed": changed_search,
}


def test_the_conclusion_comes_first_then_tables_and_charts(show):
    page = show("found")
    assert page.locator("h1").inner_text() == (
        "kws.ort-static.onnx on openvino against kws.onnx on onnxruntime: 2.97× faster [2.91, 3.03], 3.50× smaller, "
        "Top-1 accuracy 91.67 % (+0.00 pt [−0.92, +0.92])"
    )
    changes = page.locator("table").first.locator("tbody tr td.decides")
    assert changes.all_inner_texts() == [
        "2.97× faster [2.91, 3.03]", "3.50× smaller", "about the same", "+0.00 pt [−0.92, +0.92]"
    ]  # fmt: skip
    assert page.locator("figure h3").all_inner_texts() == [
        "Latency against top-1 accuracy", "Predicted and measured speed-up", "Layer sensitivity"
    ]  # fmt: skip
    for index in range(3):
        box = page.locator("figure svg").nth(index).bounding_box()
        assert box["width"] > 600 and box["height"] > 150


def test_variants_sort_with_what_is_not_known_last(show):
    page = show("found")
    page.get_by_role("button", name="Measured").click()
    names = page.locator(".every tbody tr td:nth-child(2)").all_inner_texts()
    assert names[:2] == ["ort-dynamic @ onnxruntime", "ort-static @ openvino"]
    page.get_by_role("button", name="Measured").click()
    assert page.locator(".every tbody tr td:nth-child(2)").first.inner_text() == "ort-static @ openvino"


def test_every_variant_says_why(show):
    page = show("found")
    rows = page.locator(".every tbody tr")
    assert rows.count() == 8
    assert all(rows.nth(index).locator("td").last.inner_text().strip() for index in range(8))


def test_where_nothing_wins_the_page_says_so(show):
    page = show("nothing")
    assert page.locator("h1").inner_text() == "Nothing beats the original"
    assert page.locator(".evidence").inner_text().startswith("the closest variant is ort-dynamic @ onnxruntime: slower")


def test_what_stands_in_the_way_of_bounds_is_said_first(show):
    page = show("unmet")
    assert page.locator("h1").inner_text() == "No variant meets --max-latency 100us and --max-size 9kB"
    assert "Model size 15.0 KiB is over --max-size 9 kB (8.79 KiB)" in page.locator(".evidence").inner_text()


def test_a_hostile_name_is_only_words(show):
    page = show("hostile")
    assert page.locator("h1").inner_text().count("<script>alert(1)</script>") == 1
    assert page.locator("script").count() == 1
    assert page.locator("a[href^='http']").count() == 0


def test_it_reads_without_scripts_and_on_paper(browser, folder):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((folder / "found.html").as_uri())
    assert page.get_by_text("edgewise optimize kws.onnx").is_visible()
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.pdf(format="A4").startswith(b"%PDF")
    context.close()


def test_before_and_after_fits_a_narrow_screen_so_that_no_column_covers_another(open_quietly, folder):
    page = open_quietly(folder / "found.html")
    page.set_viewport_size({"width": 400, "height": 900})
    box = page.get_by_role("region", name="Before and after").first
    assert box.evaluate("(box) => box.scrollWidth <= box.clientWidth")
