"""Which operators of a TFLite model XNNPACK computes, and which are left to LiteRT's own, slower kernels."""

from __future__ import annotations

from edgewise.runtime.litert import replaced_by


def find_unaccelerated(content: bytes) -> frozenset[str]:
    """Names of the first outputs of the operators that no delegate takes, as LiteRT decides it here.

    Raises:
        ValueError, RuntimeError: LiteRT can't run the model.
    """
    from ai_edge_litert.interpreter import Interpreter

    interpreter = Interpreter(model_content=content, num_threads=1)
    interpreter.allocate_tensors()
    nodes = interpreter._get_ops_details()  # the only place where the interpreter tells what a delegate took
    operators = [node for node in nodes if node["op_name"] != "DELEGATE"]
    makers = {int(tensor): node for node in operators for tensor in node["outputs"]}
    taken = set[int]().union(*(replaced_by(node, makers) for node in nodes if node["op_name"] == "DELEGATE"))
    names = {int(detail["index"]): str(detail["name"]) for detail in interpreter.get_tensor_details()}
    left = [node for node in operators if int(node["index"]) not in taken and len(node["outputs"])]
    return frozenset(names[int(node["outputs"][0])] for node in left)
