"""What programs scrape."""

from __future__ import annotations

import httpx2
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from edgewise.errors import BadInput
from edgewise.studio.command import OPTIONS, settings_of
from made_runs import made_run
from patience import LIMIT_S

GIVEN = {one.name: one.default for one in OPTIONS} | {"metrics": True}


def _get(studio, path, **headers):
    return httpx2.get(f"{studio.url}{path}", headers=headers, timeout=LIMIT_S, trust_env=False)


def test_a_scraper_reads_the_newest_values_without_a_link_where_it_was_asked_for(serve):
    studio = serve(metrics=True)
    studio.store.save(made_run(0))
    answer = _get(studio, "/metrics")
    assert answer.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    families = {one.name: one for one in text_string_to_metric_families(answer.text)}
    assert [one.value for one in families["edgewise_latency_seconds"].samples] == [1e-3]
    assert _get(studio, "/runs").status_code == 403
    assert httpx2.post(f"{studio.url}/metrics", timeout=LIMIT_S, trust_env=False).status_code == 403
    assert _get(studio, "/metrics", host="elsewhere.example").status_code == 421
    assert _get(studio, "/metrics", **{"sec-fetch-site": "cross-site"}).status_code == 403


def test_without_metrics_a_scraper_needs_the_link(serve):
    studio = serve()
    assert _get(studio, "/metrics").status_code == 403
    with studio.client() as client:
        assert client.get("/metrics").text == "# EOF\n"


@pytest.mark.parametrize("beyond", [{"host": "0.0.0.0"}, {"proxy": "https://lab.example.org"}])
def test_metrics_are_for_this_machine(beyond):
    assert settings_of(GIVEN).metrics
    with pytest.raises(BadInput, match="this machine only"):
        settings_of(GIVEN | beyond)
