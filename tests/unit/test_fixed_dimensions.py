"""Dimensions that a file leaves open and an engine got fixed: reports say so, and how to measure the file as it is."""

from dataclasses import replace

import pytest

from edgewise.record import Caution, InputSpec
from edgewise.report.bench.document import bench_document
from edgewise.report.comparison.document import comparison_document
from edgewise.report.evaluation.document import describe_results
from edgewise.report.optimization.document import describe_optimization
from edgewise.run.host_protocol import ProtocolError, SessionResult
from edgewise.run.told_facts import check_facts
from edgewise.run.trust import cautions_of
from sample_comparisons import two_variants
from sample_optimizations import found, two_models
from sample_runs import make_run

CODE = "fixed-dimensions"
SAID = "the file's batch is open: it was fixed to 1 for openvino; compiled as it is, it may be slower"
COMMAND = "edgewise bench {} -r openvino --set keep_open_dimensions=true"


def with_caution(run):
    return replace(run, cautions=(*run.cautions, Caution.of(CODE, SAID)))


def sentence_of(told, *, note="", batch=1):
    """Return the message on a run whose engine told this."""
    run = make_run(1, runtime="openvino")
    inputs = (InputSpec(name="x", shape=(batch, 3, 224, 224), dtype="float32", note=note),)
    job = replace(run.job, workload=replace(run.job.workload, batch=batch, inputs=inputs))
    facts = {"effective": {"threads": 1, "fixed_dimensions": told}, "steady": {"warmup_found": True}}
    session = SessionResult(index=0, started_at="", facts=facts)
    messages = [
        each.message
        for each in cautions_of(job, sessions=[session], measurements=run.measurements, usable_cores=2)
        if each.code == CODE
    ]
    return messages[0] if messages else ""


@pytest.mark.parametrize(
    ("told", "note", "batch", "begin"),
    [
        ({"x": {"0": 1}}, "", 1, "the file's batch is open: it was fixed to 1 for openvino; "),
        ({"x": {"0": 8}, "mask": {"0": 8}}, "", 8, "the file's batch is open: it was fixed to 8 for openvino; "),
        ({"x": {"0": 1, "2": 224}}, "open dimension 2 taken as 224 (a height)", 1,
         "the file's batch and dimension 2 of x are open: they were fixed to 1 and 224 for openvino; "),
        ({"x": {"0": 1}}, "open dimension 0 taken as 1 (unknown)", 1,
         "the file's dimension 0 of x is open: it was fixed to 1 for openvino; "),
    ],
)  # fmt: skip
def test_the_run_says_what_was_fixed(told, note, batch, begin):
    assert sentence_of(told, note=note, batch=batch) == begin + "compiled as it is, it may be slower"


def test_a_closed_file_has_no_caution():
    assert sentence_of({}) == "" == sentence_of(None)


def test_what_a_worker_tells_is_checked():
    check_facts({"effective": {"fixed_dimensions": {"x": {"0": 1}}}})
    with pytest.raises(ProtocolError):
        check_facts({"effective": {"fixed_dimensions": {"x": {"0": "many"}}}})


def test_the_recommended_engine_is_the_one_that_got_it_fixed():
    def worth(runs):
        document = bench_document(runs)
        assert SAID not in " ".join(document.answer)
        return [
            line for section in document.sections if section.title == "Also worth measuring" for line in section.lines
        ]

    fast = with_caution(make_run(1, runtime="openvino", latency=1e-4))
    slow = make_run(2, latency=4e-4)
    assert worth([fast, slow]) == [f"{SAID}: {COMMAND.format('kws.onnx')}"]
    assert any(SAID in (section.brief or "") for section in bench_document([fast, slow]).sections)
    for others in ([fast], [replace(slow, id=fast.id), replace(fast, id=slow.id, job=slow.job, cautions=())]):
        assert worth(others) == []
    beaten = with_caution(make_run(1, runtime="openvino", latency=4e-4))
    beaten = [beaten, make_run(2, latency=1e-4)]
    assert worth(beaten) == []
    assert any(SAID in (section.brief or "") for section in bench_document(beaten).sections)


def test_a_comparison_that_it_wins():
    findings = two_variants()
    a, b = findings.variants
    won = replace(findings, variants=(a, replace(b, run=with_caution(b.run))))
    assert f"{SAID}: {COMMAND.format('kws.onnx')}" in comparison_document(won).answer
    lost = replace(findings, variants=(replace(a, run=with_caution(a.run)), b))
    document = comparison_document(lost)
    assert SAID not in " ".join(document.answer)
    assert any(SAID in (section.brief or "") for section in document.sections)


def test_an_evaluation():
    results = two_models()
    models = tuple(replace(one, run=with_caution(one.run)) for one in results.models)
    lines = [line for section in describe_results(replace(results, models=models)).sections for line in section.lines]
    assert [line for line in lines if "fixed to" in line] == [SAID]


def test_a_search_that_chooses_it():
    result = found()
    best = result.candidate(result.chosen)
    raced = replace(best, measured=with_caution(make_run(1, runtime="openvino")))
    others = tuple(raced if one is best else one for one in result.candidates)
    document = describe_optimization(replace(result, candidates=others), width=80)
    assert f"{SAID}: {COMMAND.format('kws.ort-static.onnx')}" in document.title
    (conditions,) = (section for section in document.sections if section.title == "Conditions")
    assert conditions.lines.count(SAID) == 1 and SAID in conditions.brief
    assert SAID not in describe_optimization(result, width=80).title
