"""The pages of a calibration and of estimates in a real Chromium, from files, without a network."""

from __future__ import annotations

import pytest

from edgewise.verbs.calibrate.presentation import FORMAT as CALIBRATIONS
from edgewise.verbs.predict.presentation import FORMAT as FORECASTS
from sample_calibrations import HOSTILE, calibration, forecasts

PAGES = {
    "calibration": (CALIBRATIONS, calibration),
    "unnamed": (CALIBRATIONS, lambda: calibration(families=False)),
    "estimates": (FORECASTS, forecasts),
    "hostile": (FORECASTS, lambda: forecasts(extra=HOSTILE)),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predictions")
    for name, (kind, make) in PAGES.items():
        kind.write(make(), folder / f"{name}.html", overwrite=False)
    return folder


@pytest.fixture
def show(open_quietly, folder):
    return lambda name: open_quietly(folder / f"{name}.html")


def test_the_validation_has_its_charts_and_the_law_its_equation(show):
    page = show("calibration")
    assert page.locator("h1").inner_text() == "Calibration of phone"
    assert "3.841 × host" in page.locator("header").inner_text()
    assert page.locator("figure h3").all_inner_texts() == [
        "Predicted and measured", "Fitted curve", "Coverage of the intervals", "Residuals by family",
    ]  # fmt: skip
    law = page.locator("table.sortable").nth(0).locator("tbody tr").nth(0).locator("th, td").all_inner_texts()
    assert law == ["scale", "7.5 %", "22.4 %", "100%", "1.000", "0.992", "5", "3.841 × host"]
    assert page.locator("figure svg .role-legend-label").all_text_contents()[:2] == ["mobile", "classic"]


def test_the_coverage_names_what_was_found_without_a_model(show):
    caption = show("calibration").locator("figcaption").nth(2).inner_text()
    assert "coefficients and error were found without the model; the law was chosen with all of them" in caption
    assert "5 models tell little about coverage" in caption


def test_without_families_residuals_have_the_names_of_the_models(show):
    page = show("unnamed")
    figure = page.locator("figure", has_text="Residuals by model")
    assert [text.strip() for text in figure.locator(".role-axis-label text").all_text_contents()][-5:] == [
        "MobileNetV1", "MobileNetV2", "SqueezeNet", "InceptionV3", "ResNet50",
    ]  # fmt: skip


def test_estimates_stand_beside_their_intervals_and_refusals_beside_their_reasons(show):
    page = show("estimates")
    rows = page.locator("table.sortable").nth(0).locator("tbody tr")
    assert rows.nth(0).locator("th, td").all_inner_texts()[:4] == [
        "EfficientNet", "115 ms", "[90.4, 147] ms", "100%",
    ]  # fmt: skip
    assert rows.nth(2).locator("th, td").nth(1).inner_text().startswith("n/a")
    assert "64.3 times the most of the measured models (InceptionV3, 140 ms)" in page.locator("main").inner_text()
    assert page.locator("figure h3").nth(0).inner_text() == "Latency of the models"
    assert "Refused: 1." in page.locator("figcaption").nth(0).inner_text()


def test_names_with_markup_and_controls_are_only_text(show):
    page = show("hostile")
    assert page.locator("main script").count() == 0
    assert "<script>alert(1)</script>" in page.locator("main").inner_text()
    assert not {"\x1b", "\u202e"} & set(page.content())
