"""A gate's reports: JUnit, the comment of a pull request, JSON, the page, the terminal."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from edgewise.comparing.assessment import assess
from edgewise.comparing.comparison import ComparisonResult, Variant
from edgewise.comparing.criteria import Criteria
from edgewise.comparing.gate import Check, GateResult, refuse
from edgewise.comparing.requirement import parse_requirements
from edgewise.errors import BadInput
from edgewise.record.caution import Caution
from edgewise.report.comparison.gate import (
    MARKER,
    gate_document,
    gate_page,
    render_gate_markdown,
)
from edgewise.report.comparison.junit import render_junit
from edgewise.report.document.text import to_text
from edgewise.verbs.gate.presentation import FORMAT as GATE
from messages import is_in, says
from sample_comparisons import judged
from sample_runs import failed_run, make_run

HOSTILE = "e\x1b[31mvil\n|<script>alert(1)</script> ](javascript:x) ￾ \"'&"


def made(*verdicts: str, policy: str = "retry") -> GateResult:
    """An outcome with these verdicts and nothing else."""
    (requirement,) = parse_requirements(["latency=3%"], [])
    checks = tuple(Check(requirement=requirement, verdict=one, because=f"as it is {one}") for one in verdicts)
    variant = Variant(label="candidate", run=make_run(2))
    return GateResult(
        checks=checks, findings=ComparisonResult(variants=(variant,), comparisons=()), policy=policy, attempts=1
    )


def suite_of(outcome: GateResult) -> ElementTree.Element:
    root = ElementTree.fromstring(render_junit(outcome))
    assert root.tag == "testsuites"
    (suite,) = root
    return suite


# --- JUnit ---


def test_the_page_has_each_chart_once():
    page = gate_page(judged())
    ((_, (part,)),) = page.parts()
    assert any(chart is not None for chart in page.charts()) and list(part.charts()) == []


def test_junit_has_a_case_per_check():
    suite = suite_of(judged())
    assert suite.tag == "testsuite" and suite.get("name") == "edgewise gate"
    cases = suite.findall("testcase")
    assert [case.get("name") for case in cases] == [
        "Latency: at most 3 % worse",
        "Model size: at most 1 MB (977 KiB)",
        "Energy: at most 5 mJ",
    ]
    assert [[child.tag for child in case] for case in cases] == [["failure"], ["system-out"], ["error"]]
    assert "powercap" in cases[2].find("error").get("message")
    assert "baseline 420 µs, candidate 460 µs" in cases[0].find("failure").get("message")
    properties = {one.get("name"): one.get("value") for one in suite.find("properties")}
    assert properties["candidate.run"] == make_run(2).id and properties["policy"] == "retry"


@pytest.mark.parametrize(("policy", "tag"), [("pass", "skipped"), ("fail", "failure"), ("retry", "failure")])
def test_junit_counts_what_it_holds(policy, tag):
    suite = suite_of(made("pass", "fail", "unmeasured", "inconclusive", policy=policy))
    tags = [child.tag for case in suite.findall("testcase") for child in case]
    assert tags == ["system-out", "failure", "error", tag]
    for attribute, element in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        assert int(suite.get(attribute)) == tags.count(element)
    assert int(suite.get("tests")) == 4


def test_junit_keeps_to_the_common_schema():
    """Elements, their order and attributes of the schema that Jenkins publishes as junit-10.xsd."""
    allowed = {
        "testsuites": {"name", "tests", "failures", "errors", "time", "disabled"},
        "testsuite": {"name", "tests", "failures", "errors", "skipped", "time", "timestamp", "hostname", "id"},
        "properties": set(),
        "property": {"name", "value"},
        "testcase": {"name", "classname", "time"},
        "failure": {"message", "type"},
        "error": {"message", "type"},
        "skipped": {"message", "type"},
        "system-out": set(),
    }
    root = ElementTree.fromstring(render_junit(made("pass", "fail", "unmeasured", "inconclusive", policy="pass")))
    for element in root.iter():
        assert set(element.attrib) <= allowed[element.tag], element.tag
    order = [child.tag for child in root[0]]
    assert order == ["properties", *["testcase"] * 4, "system-out"]


def hostile() -> GateResult:
    base = make_run(2)
    model = replace(base.job.model, name=HOSTILE)
    run = replace(base, job=replace(base.job, model=model))
    outcome = judged(candidate=run, notes=(HOSTILE,))
    checks = tuple(replace(check, because=HOSTILE) for check in outcome.checks)
    return replace(outcome, checks=checks)


def test_hostile_names_stay_text_everywhere():
    suite = suite_of(hostile())
    text = ElementTree.tostring(suite, encoding="unicode")
    assert "\x1b" not in text and "￾" not in text and "<script>" not in text
    comment = render_gate_markdown(hostile())
    assert "\x1b" not in comment and "<script>" not in comment and not re.search(r"(?<!\\)\]\(", comment)
    for line in comment.splitlines():
        if line.startswith("| Latency:"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 7
    page = GATE.render(hostile(), ".html")
    assert "<script>alert" not in page and "\x1b" not in page
    assert "\x1b" not in to_text(gate_document(hostile()))


# --- Markdown ---


def test_the_comment_begins_with_the_marker_and_the_verdict():
    comment = render_gate_markdown(judged(notes=("measured on a Tuesday",)))
    lines = comment.splitlines()
    assert lines[0] == MARKER == "<!-- edgewise gate -->"
    named = "latency failed: 9.55 % worse, at least 5.70 % worse (limit +3 %); energy not measured: "
    assert (
        lines[1].startswith(f"### ✗ edgewise gate failed on onnxruntime/cpu: {named}")
        and "; model size met: 52.7 KiB is exact" in lines[1]
    )
    assert "| Verdict | Requirement | Baseline | Candidate | Ratio | Why |" in lines
    head, details = comment.split("<details>")
    assert "✗ fail" in head and "✓ pass" in head and "? unmeasured" in head
    assert "measured on a Tuesday" in details and "measured on a Tuesday" not in head
    assert "| Latency | " in details
    assert comment.rstrip().endswith("</details>")


def test_passing_without_proof_is_said_aloud():
    passed = made("pass", "inconclusive", policy="pass")
    assert passed.exit_code == 0
    for text in (render_gate_markdown(passed), to_text(gate_document(passed)), render_junit(passed)):
        flat = " ".join(text.split())
        assert "passed WITHOUT PROOF on onnxruntime/cpu: 1 of 2 requirements is inconclusive" in flat
        assert "1 of them passed without proof" in flat
    assert "?" in render_gate_markdown(passed).splitlines()[1]
    assert "✓" in render_gate_markdown(made("pass")).splitlines()[1]


def test_the_first_line_names_the_engine_where_there_is_one():
    def title(outcome, **facts):
        base, new = (make_run(number, **facts) for number in (1, 2))
        variants = (Variant(label="baseline", run=base), Variant(label="candidate", run=new))
        return first_line(replace(outcome, findings=ComparisonResult(variants=variants, comparisons=())))

    def first_line(outcome):
        return gate_document(outcome).answer[0]

    met = "the requirement is met: latency: as it is pass (limit +3 %)"
    assert title(made("pass"), runtime="openvino") == f"Gate passed on openvino/cpu: {met}"
    assert title(made("pass"), threads=4) == f"Gate passed on onnxruntime/cpu with 4 threads: {met}"
    assert title(made("inconclusive")).startswith(
        "Gate failed on onnxruntime/cpu, as it could not be ruled out that a limit is exceeded: latency"
    )
    (size,) = parse_requirements([], ["model_size=1MB"])
    check = Check(requirement=size, verdict="pass", because="it is exact")
    assert title(replace(made("pass"), checks=(check,))).startswith("Gate passed: ")
    two = (Variant(label="baseline", run=make_run(1, runtime="openvino")), *made("pass").findings.variants)
    assert first_line(replace(made("pass"), findings=ComparisonResult(variants=two, comparisons=()))).startswith(
        "Gate passed: "
    )
    assert first_line(replace(made("unmeasured"), findings=ComparisonResult(variants=(), comparisons=()))).startswith(
        "Gate not measured: "
    )


# --- the others ---


@pytest.mark.parametrize("width", [80, 120])
def test_the_terminal_table_fits(width):
    text = to_text(gate_document(judged()), width=width)
    assert max(map(len, text.splitlines())) <= width
    told = "Gate failed on onnxruntime/cpu: latency failed: 9.55 % worse, at least 5.70 % worse (limit +3 %)"
    assert told in " ".join(text.split())
    assert re.search(r"Latency: at most 3 % worse +420 µs +460 µs +1\.\d+( \(1\.\d+ to 1\.\d+\))? +fail \[1\]", text)
    assert ("intervals left out for width: Ratio" in " ".join(text.split())) == (width == 80)


def test_a_comparison_keeps_its_ratio_on_a_narrow_terminal():
    text = to_text(gate_document(judged()), width=70)
    assert re.search(r"Latency: at most 3 % +420 µs +460 µs +1\.096 +fail \[1\]", text)
    assert "columns left out for width" not in text


def test_json_is_that_of_compare_and_the_checks():
    document = json.loads(GATE.render(judged(), ".json"))
    assert document["schema"] == 1 and document["passed"] is False
    assert (document["policy"], document["attempts"], document["exit_code"]) == ("retry", 1, 5)
    row = document["comparisons"][0]
    assert {"a", "b", "metric", "ratio", "low", "high", "verdict", "p_adjusted"} <= set(row)
    assert [check["verdict"] for check in document["checks"]] == ["fail", "pass", "unmeasured"]
    assert document["checks"][0]["limit"] == 0.03
    assert document["checks"][0]["ratio"] == pytest.approx(row["ratio"])


def test_json_has_no_numbers_that_json_does_not_know():
    check = replace(made("pass").checks[0], value=float("inf"))
    document = json.loads(GATE.render(replace(made("pass"), checks=(check,)), ".json"))
    assert document["checks"][0]["value"] is None


def test_the_page_asks_nothing_of_any_server():
    page = GATE.render(judged(), ".html")
    assert "failed on onnxruntime/cpu: latency failed: 9.55 % worse" in page
    assert not re.search(r'(src|href)="https?:', page)
    assert "default-src 'none'" in page


def test_an_outcome_without_any_comparison_is_rendered_too():
    requirements = parse_requirements(["3%"], ["latency=5ms"])
    variants = (Variant(label="baseline", run=failed_run()),)
    outcome = GateResult(
        checks=refuse(requirements, "the baseline run failed", headline="latency"),
        findings=ComparisonResult(variants=variants, comparisons=()),
        policy="retry",
        attempts=0,
    )
    for extension in GATE.extensions:
        assert "the baseline run failed" in GATE.render(outcome, extension)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("g.pdf", "one of: .xml"),
        ("gate", "one of: .xml"),
        ("nowhere/g.xml", says("there-no-folder")),
        ("there.xml", "--force"),
    ],
)
def test_targets_are_refused_before_measuring(tmp_path, name, words):
    (tmp_path / "there.xml").write_text("mine")
    with pytest.raises(BadInput) as caught:
        GATE.check(tmp_path / name, overwrite=False)
    assert is_in(words, f"{caught.value.message} {caught.value.advice}")


def test_files_are_written_whole(tmp_path):
    path = tmp_path / "gate.xml"
    GATE.write(judged(), path, overwrite=False)
    ElementTree.parse(path)
    GATE.write(made("pass"), path, overwrite=True)
    assert 'tests="1"' in path.read_text("utf-8")


@pytest.mark.parametrize("extension", GATE.extensions)
def test_a_gate_replaces_its_own_reports_and_no_other_file(tmp_path, extension):
    path = tmp_path / f"gate{extension}"
    GATE.write(judged(), path, overwrite=False)
    first = path.read_text("utf-8")
    GATE.check(path, overwrite=False)
    GATE.write(made("pass"), path, overwrite=False)
    assert path.read_text("utf-8") != first
    for other in ("", "mine", '<testsuites name="pytest tests">', "<!-- edgewise -->", '{"schema": 1, "runs": []}'):
        path.write_text(other, "utf-8")
        with pytest.raises(BadInput, match=says("exists-already-in-folders")):
            GATE.write(judged(), path, overwrite=False)
        assert path.read_text("utf-8") == other


def test_a_preparation_that_costs_accuracy_is_said_also_where_the_gate_passes():
    outcome = judged()
    caution = Caution.of("better-preparation", "--prepare pad=32 scores 13.20 points better on 250 of 500 samples")
    variants = tuple(
        replace(one, run=replace(one.run, cautions=(*one.run.cautions, caution))) for one in outcome.findings.variants
    )
    outcome = replace(outcome, findings=replace(outcome.findings, variants=variants))
    comment, _, _ = render_gate_markdown(outcome).partition("<details>")
    assert "pad=32 scores 13.20 points better" in comment
    assert gate_document(outcome).answer[1:] == (f"caution: {caution.message}",)
    assert "--prepare pad=32 scores 13.20 points better" in " ".join(to_text(gate_document(outcome), width=80).split())


def test_why_the_candidate_is_slower_stands_below_a_verdict_that_is_not_met():
    outcome = judged()
    outcome = replace(outcome, findings=replace(outcome.findings, reasons={"candidate": "2 operators more"}))
    assert gate_document(outcome).answer[1] == "2 operators more"
    assert "\n2 operators more.\n" in render_gate_markdown(outcome)
    assert suite_of(outcome).findall("system-out")[-1].text.splitlines()[1] == "2 operators more"
    met = tuple(check for check in outcome.checks if check.verdict == "pass")
    assert "2 operators more" not in gate_document(replace(outcome, checks=met)).answer


def test_a_caution_on_both_accuracies_is_said_once_in_each_report():
    caution = Caution.of("class-order", "the order of the classes is a guess")
    first, second = (replace(one.run, cautions=(caution,)) for one in judged().findings.variants)
    variants = (Variant(label="baseline", run=first), Variant(label="candidate", run=second))
    outcome = replace(judged(), findings=assess(variants, Criteria(force=True)))
    for text in (render_gate_markdown(outcome), render_junit(outcome), to_text(gate_document(outcome))):
        assert text.count(caution.message) == 1


def test_junit_tells_files_of_one_name_apart():
    before, after = make_run(1), make_run(2)
    files = [
        replace(run.job.model, path=path, sha256=path[1] * 64)
        for run, path in ((before, "/a/kws.onnx"), (after, "/b/kws.onnx"))
    ]
    variants = [
        Variant(label=label, run=replace(run, job=replace(run.job, model=model)))
        for label, run, model in zip(("baseline", "candidate"), (before, after), files, strict=True)
    ]
    outcome = replace(made("pass"), findings=ComparisonResult(variants=tuple(variants), comparisons=()))
    properties = {one.get("name"): one.get("value") for one in suite_of(outcome).find("properties")}
    assert [properties[f"{label}.model"] for label in ("baseline", "candidate")] == ["a/kws.onnx", "b/kws.onnx"]


def test_every_caution_on_the_data_of_an_accuracy_is_said_without_details_and_before_other_doubts():
    outcome = judged()
    unsure = Caution.of("class-order", "the classes are taken in the data's order, bag, boot …")
    first, second = outcome.findings.variants
    second = replace(second, run=replace(second.run, cautions=(*second.run.cautions, unsure)))
    outcome = replace(
        outcome,
        findings=replace(outcome.findings, variants=(first, second)),
        judging=("accuracy is judged as in the stored run 1",),
    )
    told = ("accuracy is judged as in the stored run 1", f"caution on candidate: {unsure.message}")
    assert gate_document(outcome).answer[1:3] == told
    assert all(line[1:] in render_gate_markdown(outcome).partition("<details>")[0] for line in told)
    assert outcome.to_document()["gate_notes"][0] == told[0]
