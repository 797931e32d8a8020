"""The messages of LiteRT's own package are those that the importer of benchmark_model reads."""

from __future__ import annotations

import pytest

from benchmark_model_files import RUNTIME_INFO, files
from edgewise.importing import import_file

pytestmark = pytest.mark.engine
messages = pytest.importorskip("ai_edge_litert.model_runtime_info_pb2", reason="needs ai-edge-litert")


def test_its_own_messages_write_the_recorded_file(tmp_path):
    content = messages.ModelRuntimeDetails(**RUNTIME_INFO).SerializeToString(deterministic=True)
    assert content == files()["benchmark_model_runtime_info.pb"]
    (tmp_path / "runtime_info.pb").write_bytes(content)
    (run,) = import_file(tmp_path / "runtime_info.pb")
    assert run.effective["operators_delegated"] == 3 and len(run.layers) == 4
