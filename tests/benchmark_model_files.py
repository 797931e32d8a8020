"""The binary files of benchmark_model, written by protobuf's own library.

Fields: ``tensorflow/lite/tools/benchmark/proto/benchmark_result.proto`` and
``tensorflow/lite/profiling/proto/model_runtime_info.proto`` of TensorFlow; ``write`` writes the recorded files.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FOLDER = Path(__file__).parent / "tool_outputs"
_FILES = {
    "tflite.tools.benchmark": {
        "LatencyMetrics": (
            "float avg_ms=1", "float min_ms=2", "float max_ms=3", "float stddev_ms=4", "float median_ms=5",
            "float p5_ms=6", "float p95_ms=7", "float init_ms=8", "float first_inference_ms=9",
            "float average_warm_up_ms=10",
        ),
        "MemoryMetrics": ("int64 init_footprint_kb=1", "int64 overall_footprint_kb=2", "float peak_mem_mb=3"),
        "MiscMetrics": (
            "float model_size_mb=1", "int32 num_runs=2", "int32 num_warmup_runs=3",
            "float model_throughput_in_mb_per_sec=4",
        ),
        "BenchmarkResult": (
            "string name=1", "LatencyMetrics latency_metrics=2", "MemoryMetrics memory_metrics=3",
            "MiscMetrics misc_metrics=4",
        ),
    },
    "tflite.profiling": {
        "Edge": ("int32 id=1", "string name=2", "*int32 shape=4"),
        "DelegateNodeDetails": ("string delegate_name=1", "*int32 tflite_node_ids_replaced=2"),
        "Node": (
            "int32 id=1", "string name=2", "string type=3", "*int32 inputs=4", "*int32 outputs=5",
            "DelegateNodeDetails delegate_node_details=8", "int32 delegated_to_node_id=9",
        ),
        "RuntimeSubgraph": (
            "int32 subgraph_id=1", "*Edge edges=2", "*Node nodes=3", "*int32 execution_plan=4", "int32 subgraph_type=5",
            "string name=6",
        ),
        "ModelRuntimeDetails": ("string model_name=1", "*RuntimeSubgraph subgraphs=2"),
    },
}  # fmt: skip
RESULT = {
    "latency_metrics": {
        "avg_ms": 2.5, "min_ms": 2.25, "max_ms": 4.75, "stddev_ms": 0.25, "median_ms": 2.375, "p5_ms": 2.25,
        "p95_ms": 3.5, "init_ms": 12.5, "first_inference_ms": 9.75, "average_warm_up_ms": 3.75,
    },
    "memory_metrics": {"init_footprint_kb": 1024, "overall_footprint_kb": 2048, "peak_mem_mb": 12.5},
    "misc_metrics": {
        "model_size_mb": 3.5, "num_runs": 343, "num_warmup_runs": 135, "model_throughput_in_mb_per_sec": 196.75,
    },
}  # fmt: skip
RUNTIME_INFO = {
    "subgraphs": [
        {
            "subgraph_id": 0,
            "subgraph_type": 1,
            "name": "main",
            "edges": [{"id": 0, "name": "image", "shape": [1, 300, 300, 3]}],
            "nodes": [
                {"id": 0, "name": "CONV_2D", "type": "3", "inputs": [0], "outputs": [1], "delegated_to_node_id": 4},
                {"id": 1, "name": "CUMSUM", "type": "128", "inputs": [1], "outputs": [2]},
                {"id": 2, "name": "CONV_2D", "type": "3", "inputs": [2], "outputs": [3], "delegated_to_node_id": 5},
                {"id": 3, "name": "SOFTMAX", "type": "25", "inputs": [3], "outputs": [4], "delegated_to_node_id": 5},
                *(
                    {
                        "id": 4 + at,
                        "name": "TfLiteXNNPackDelegate",
                        "type": "TfLiteXNNPackDelegate",
                        "delegate_node_details": {
                            "delegate_name": "TfLiteXNNPackDelegate",
                            "tflite_node_ids_replaced": replaced,
                        },
                    }
                    for at, replaced in enumerate(([0], [2, 3]))
                ),
            ],
            "execution_plan": [4, 1, 5],
        }
    ]
}


def message(package: str, name: str, /, **fields: Any) -> bytes:
    """Return the bytes of a message."""
    return bytes(_find_class(package, name)(**fields).SerializeToString(deterministic=True))


@cache
def _find_class(package: str, name: str) -> type[Any]:
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package)
    for kind, rows in _FILES[package].items():
        made = file.message_type.add(name=kind)
        for row in rows:
            type_, _, rest = row.partition(" ")
            field, _, number = rest.partition("=")
            added = made.field.add(name=field, number=int(number), label=3 if type_[0] == "*" else 1)
            if (simple := type_.strip("*")) in ("float", "int32", "int64", "string"):
                added.type = added.Type.Value(f"TYPE_{simple.upper()}")
                added.options.packed = added.label == 3
            else:
                added.type, added.type_name = added.TYPE_MESSAGE, f".{package}.{simple}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}"))


def files() -> dict[str, bytes]:
    """Return the recorded files by name."""
    return {
        "benchmark_model_results.pb": message("tflite.tools.benchmark", "BenchmarkResult", **RESULT),
        "benchmark_model_runtime_info.pb": message("tflite.profiling", "ModelRuntimeDetails", **RUNTIME_INFO),
    }


if __name__ == "__main__":
    for file_name, content in files().items():
        (FOLDER / file_name).write_bytes(content)
