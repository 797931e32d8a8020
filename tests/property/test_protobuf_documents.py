"""Protobuf messages as documents: what protobuf's own library writes is read, and any bytes end well."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark_model_files import message
from edgewise.importing.protobuf import decode_message
from edgewise.importing.tools.litert import _RESULT, _RUNTIME_INFO
from edgewise.wire import Damaged

FLOATS = st.floats(min_value=0, max_value=1e9, width=32)
INTEGERS = st.integers(0, 2**31 - 1)


def seven_digits(value):
    return float(f"{struct.unpack('<f', struct.pack('<f', value))[0]:.7g}")


@given(avg=FLOATS, p5=FLOATS, peak=FLOATS, growth=INTEGERS, runs=INTEGERS)
def test_results_are_read_as_protobuf_writes_them(avg, p5, peak, growth, runs):
    content = message(
        "tflite.tools.benchmark", "BenchmarkResult", latency_metrics={"avg_ms": avg, "p5_ms": p5},
        memory_metrics={"init_footprint_kb": 1, "overall_footprint_kb": growth, "peak_mem_mb": peak},
        misc_metrics={"num_runs": runs},
    )  # fmt: skip
    assert decode_message(content, _RESULT, "BenchmarkResult") == {
        "latency": {"avg_ms": seven_digits(avg)},
        "memory": {"overall_footprint_kb": growth, "peak_mem_mb": seven_digits(peak)},
        "misc": {"num_runs": runs},
    }


@given(nodes=st.lists(st.tuples(INTEGERS, st.text(max_size=9), INTEGERS)))
def test_lists_and_text_are_read_as_protobuf_writes_them(nodes):
    rows = [{"id": each, "name": name, "delegated_to_node_id": to, "inputs": [1, 2]} for each, name, to in nodes]
    content = message("tflite.profiling", "ModelRuntimeDetails", subgraphs=[{"subgraph_id": 0, "nodes": rows}])
    found = decode_message(content, _RUNTIME_INFO, "ModelRuntimeDetails")
    read = [{"id": each, "name": name, "delegated_to": to} for each, name, to in nodes]
    assert found == {"subgraphs": [{"nodes": read} if nodes else {}]}


@given(content=st.binary(max_size=200))
def test_any_bytes_are_a_document_or_damaged(content):
    try:
        assert isinstance(decode_message(content, _RUNTIME_INFO, "ModelRuntimeDetails"), dict)
    except Damaged as error:
        assert str(error)


def test_a_field_of_another_type_and_too_many_items(monkeypatch):
    with pytest.raises(Damaged, match=r"LatencyMetrics\.avg_ms"):
        decode_message(b"\x12\x02\x08\x01", _RESULT, "BenchmarkResult")
    monkeypatch.setattr("edgewise.importing.protobuf.MOST_ITEMS", 2)
    content = message("tflite.profiling", "ModelRuntimeDetails", subgraphs=[{}] * 3)
    with pytest.raises(Damaged, match=r"ModelRuntimeDetails\.subgraphs has more than 2 items"):
        decode_message(content, _RUNTIME_INFO, "ModelRuntimeDetails")
