"""What the options of ``exec`` ask for."""

from __future__ import annotations

from typing import Any

from edgewise.errors import BadInput
from edgewise.verbs.declared import declared_options, request_of
from edgewise.verbs.exec.env_file import read_env_file
from edgewise.verbs.exec.request import ExecRequest
from edgewise.verbs.option import Values


def read(values: Values) -> ExecRequest:
    """Return the request that the options describe. Raises `BadInput`."""
    fields: dict[str, Any] = {}
    if values["env_file"] is not None:
        if values["command"] or values["run_in"]:
            raise BadInput("⟦env_file⟧ has the command and its folder", advice="give either ⟦env_file⟧ or a command")
        template = read_env_file(values["env_file"])
        given = template.fields(has_models=bool(values["models"] or values["models_file"]))
        fields = {name: value for name, value in given.items() if values.get(name) is None}
    elif not values["command"]:
        raise BadInput("no command given", advice="write it after --: edgewise exec --cpus 1 -- python3 infer.py")
    return request_of(ExecRequest, declared_options(ExecRequest), values, **fields)
