"""A gate's outcome as JUnit XML, the format in which CI systems read test results.

One suite; one test case per check. A check that is not met is a failure, one that could not be measured an error,
an inconclusive one that was allowed to pass is skipped. Elements and attributes are those that the readers of CI
systems share (https://github.com/testmoapp/junitxml).
"""

from __future__ import annotations

from xml.etree import ElementTree

from edgewise.comparing.gate import Check, GateResult
from edgewise.report.comparison.document import reason_lines
from edgewise.report.comparison.gate import conclusion_of, describe_check, statements_of
from edgewise.report.runs.conditions import told_apart
from edgewise.text import one_line

SUITE = "edgewise gate"


def render_junit(outcome: GateResult) -> str:
    """Return the XML document, UTF-8 declared, with a final line break."""
    skipped = outcome.count("inconclusive") if outcome.policy == "pass" else 0
    failures = outcome.count("fail") + outcome.count("inconclusive") - skipped
    counts = {"tests": str(len(outcome.checks)), "failures": str(failures), "errors": str(outcome.count("unmeasured"))}
    if outcome.findings.elapsed_s is not None:
        counts["time"] = f"{outcome.findings.elapsed_s:.3f}"
    root = ElementTree.Element("testsuites", {"name": SUITE, **counts})
    suite = ElementTree.SubElement(root, "testsuite", {"name": SUITE, **counts, "skipped": str(skipped)})
    properties = ElementTree.SubElement(suite, "properties")
    for name, value in _properties(outcome):
        ElementTree.SubElement(properties, "property", {"name": name, "value": one_line(value)})
    for check in outcome.checks:
        _add_case(suite, check, outcome)
    lines = map(one_line, (conclusion_of(outcome), *reason_lines(outcome.findings), *statements_of(outcome)))
    ElementTree.SubElement(suite, "system-out").text = "\n".join(lines)
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _add_case(suite: ElementTree.Element, check: Check, outcome: GateResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", {"classname": "edgewise.gate", "name": one_line(check.requirement.text)}
    )
    text = one_line(describe_check(check))
    if check.verdict == "inconclusive" and outcome.policy == "pass":
        ElementTree.SubElement(case, "skipped", {"message": text})
    elif check.verdict == "pass":
        ElementTree.SubElement(case, "system-out").text = text
    else:
        kind = "error" if check.verdict == "unmeasured" else "failure"
        name = "limit-exceeded" if check.verdict == "fail" else check.verdict
        ElementTree.SubElement(case, kind, {"message": text, "type": name}).text = text


def _properties(outcome: GateResult) -> list[tuple[str, str]]:
    """Properties to filter results by."""
    found = [("policy", outcome.policy), ("attempts", str(outcome.attempts))]
    variants = outcome.findings.variants
    for variant, named in zip(variants, told_apart([variant.run for variant in variants]), strict=True):
        found += [(f"{variant.label}.model", named.job.model.name), (f"{variant.label}.run", variant.run.id)]
        found.append((f"{variant.label}.sha256", variant.run.job.model.sha256))
    return found
