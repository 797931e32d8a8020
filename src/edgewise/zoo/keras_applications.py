"""A network of Keras Applications with random weights as a ``.keras`` file, made in a process of its own.

The request is a JSON object with ``names``, or with the ``name`` of one network and the ``path`` to write it to. The
answer to ``names`` is their list; each is a function of ``keras.applications`` (https://keras.io/api/applications/).
"""

from __future__ import annotations

import json
from typing import Any

from edgewise.child_process import serve

SEED = 0


def answer(request: bytes) -> bytes:
    """Answer one request. Raises whatever Keras raises."""
    import keras

    asked: dict[str, Any] = json.loads(request)
    known = sorted(name for name, value in vars(keras.applications).items() if name[0].isupper() and callable(value))
    if "names" in asked:
        return json.dumps(known).encode()
    if asked["name"] not in known:
        raise ValueError(f"keras.applications has no {asked['name']}")
    keras.utils.set_random_seed(SEED)
    getattr(keras.applications, asked["name"])(weights=None).save(asked["path"])
    return b"{}"


if __name__ == "__main__":
    raise SystemExit(serve(answer))
