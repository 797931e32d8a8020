"""The page of an evaluation in a real Chromium, from a file, without a network."""

from __future__ import annotations

from dataclasses import replace

from edgewise.evaluating.evaluation import EvaluationResults
from sample_optimizations import evaluation, hostile_evaluation, one_model, two_models, with_failure


def many_classes() -> EvaluationResults:
    """A matrix of 120 classes, each mostly right."""
    counts = tuple(
        tuple(90 if row == column else 10 if column == (row + 1) % 120 else 0 for column in range(120))
        for row in range(120)
    )
    (one,) = one_model().models
    names = tuple(f"a class with a rather long name {place}" for place in range(120))
    told = evaluation(confusion=counts, classes=names)
    return EvaluationResults(models=(replace(one, run=replace(one.run, evaluation=told)),))


PAGES = {
    "one": one_model,
    "two": two_models,
    "failed": with_failure,
    "hostile": hostile_evaluation,
    "many": many_classes,
}


def test_accuracy_and_latency_stand_in_one_row(show):
    page = show("two")
    title = page.locator("header").inner_text().partition("\n")[2].strip()
    assert title.startswith("vww.tflite is worse than kws.onnx on 900 of 1000 samples: top-1 accuracy 92.33 % against")
    assert "2 could not be used" in title
    row = page.locator("table.sortable").first.locator("tbody tr").nth(1).locator("th, td").all_inner_texts()
    assert row[:4] == ["vww.tflite", "litert/cpu", "92.33 % [90.63, 93.64]", "210 ± 11"]
    matrices = [f"{name}: labels down, answers across" for name in ("kws.onnx", "vww.tflite")]
    assert page.locator("figure h3").all_inner_texts() == ["Top-1 accuracy by model", *matrices]


def test_the_matrix_has_names_on_both_sides_and_words_for_every_count(show):
    page = show("one")
    matrix = page.locator("table.confusion")
    assert matrix.locator("thead th").all_inner_texts() == ["yes", "no", "silence"]
    assert matrix.locator("tbody th[scope=row]").all_inner_texts() == ["yes", "no", "silence"]
    cell = matrix.locator("tbody tr").nth(0).locator("td").nth(1)
    assert cell.inner_text() == "15"
    assert cell.get_attribute("title") == "15 of 300 yes taken for no"
    # A cell without samples is empty to the eye and 0 to a screen reader.
    empty = matrix.locator("tbody tr").nth(1).locator("td").nth(2)
    assert empty.text_content().strip() == "0"
    assert empty.locator(".sr").count() == 1


def test_the_matrix_is_reached_and_scrolled_from_the_keyboard(show):
    page = show("many")
    region = page.get_by_role("group", name="Confusion of kws.onnx")
    region.focus()
    assert region.evaluate("element => element.scrollLeft") == 0
    for _ in range(1000):  # scrolling is smooth, and the page's policy allows no script that would wait for it
        page.keyboard.press("ArrowRight")
        page.wait_for_timeout(20)
        if region.evaluate("element => element.scrollLeft") > 0:
            break
    assert region.evaluate("element => element.scrollLeft") > 0


def test_what_scrolls_has_a_shadow_at_the_edge_behind_which_more_is(show):
    places = show("one").locator(".scroll, .chart").all()
    assert places
    for place in places:
        layers = place.evaluate("element => getComputedStyle(element).backgroundAttachment").split(", ")
        assert layers == ["local", "local", "scroll", "scroll", "scroll"]  # a cover moves along and bares the shadow


def test_more_is_darker_and_words_stay_readable(show):
    page = show("one")
    light = page.evaluate(
        """() => [...document.querySelectorAll("table.confusion tbody tr:first-child td")].map((cell) => {
             const canvas = document.createElement("canvas").getContext("2d");
             canvas.fillStyle = getComputedStyle(cell).backgroundColor;
             canvas.fillRect(0, 0, 1, 1);
             const [r, g, b] = canvas.getImageData(0, 0, 1, 1).data;
             return r + g + b;
           })"""
    )
    assert light[0] < light[1] < light[2]


def test_a_failure_is_said_above_the_numbers(show):
    page = show("failed")
    warnings = page.locator("section.warnings")
    assert warnings.get_by_text("operator 'Einsum' is not supported").is_visible()
    assert warnings.bounding_box()["y"] < page.locator("table").first.bounding_box()["y"]


def test_a_hostile_name_is_only_words(show):
    page = show("hostile")
    assert page.locator("h1").inner_text().startswith("<script>alert(1)</script>")
    assert page.locator("script").count() == 1
    assert page.locator("a[href^='http']").count() == 0


def test_it_reads_without_scripts(browser, folder):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto((folder / "two.html").as_uri())
    assert page.locator("table.confusion").first.is_visible()
    context.close()
