"""PyTorch exports with plain weights, laid out as ``torch.export.save`` of PyTorch 2.8 and later does."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np


def write(path: Path, document: Any, weights: Mapping[str, Any], compression: int = zipfile.ZIP_STORED) -> Path:
    """A ``.pt2`` with the program `document` and float32 `weights` by their full names."""
    config = {}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for number, (name, array) in enumerate(weights.items()):
            archive.writestr(f"m/data/weights/weight_{number}", np.ascontiguousarray(array).tobytes())
            sizes = [{"as_int": size} for size in array.shape]
            strides = [{"as_int": step // array.itemsize} for step in np.ascontiguousarray(array).strides]
            meta = {"dtype": 7, "sizes": sizes, "strides": strides, "storage_offset": {"as_int": 0}}
            config[name] = {"path_name": f"weight_{number}", "use_pickle": False, "tensor_meta": meta}
        archive.writestr("m/data/weights/model_weights_config.json", json.dumps({"config": config}))
        archive.writestr("m/models/model.json", json.dumps(document))
        archive.writestr("m/archive_format", "pt2")
    return path
