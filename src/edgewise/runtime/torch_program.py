"""Programs of ``torch.export`` (``.pt2``), loaded without running anything that the file brings.

``torch.export.load`` trusts its file: it falls back to unpickling, loads compiled code, evaluates expressions of sizes
as Python, and looks operators up by any dotted name. `guarded` refuses all four while a program is loaded.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

from edgewise.model.eager import EagerModule
from edgewise.model.signature import TensorSpec
from edgewise.runtime.arrays import tell
from edgewise.runtime.base import InvalidModel, UnsupportedModel

_ARITHMETIC = (
    "add|sub|mul|floordiv|truediv|mod|pow|neg|pos|eq|ne|lt|le|gt|ge|and_|or_|not_|xor|lshift|rshift|getitem|abs|index"
)
_OPERATOR = re.compile(
    r"torch\.ops\.[A-Za-z]\w*\.([A-Za-z]\w*|_[A-Za-z]\w*|__i?(and|or|xor|lshift|rshift)__)(\.[A-Za-z]\w*)?"
    rf"|_operator\.({_ARITHMETIC})|math\.[a-z]\w*|torch\._?sym_[a-z]\w*"
)
"""Names of functions that a program may call: PyTorch's operators, and arithmetic on sizes."""
_TEXT = re.compile(r"[\w+-]{0,64}(\.\d{0,40})?")
_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Name, ast.Constant, ast.Load,
    ast.keyword, ast.operator, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip


def load_program(path: Path) -> Any:
    """Return the ``torch.export.ExportedProgram`` at `path`, loaded under `guarded`.

    Raises:
        InvalidModel: it is not a program, or it is damaged.
        UnsupportedModel: it needs more than PyTorch's own operators and plain tensors.
    """
    import torch

    if not path.is_file():
        raise InvalidModel(f"there is no file {path.name}")
    try:
        with guarded():
            return torch.export.load(path)
    except (UnsupportedModel, MemoryError):
        raise
    except Exception as error:  # a damaged file may make the loader fail anywhere
        raise InvalidModel(f"{path.name} can't be loaded: {tell(str(error)) or type(error).__name__}") from error


def load_module(path: Path) -> EagerModule:
    """Return the program at `path` as a module. Raises as `load_program`."""
    from torch.utils import _pytree

    program = load_program(path)
    signature, spec = program.graph_signature, program.call_spec.in_spec
    with guarded():
        module = program.module()
    nodes = {node.name: node for node in program.graph.nodes}
    given: list[Any] = []  # one per argument: the name of a tensor, or a constant in a list
    for each in signature.input_specs:
        if each.kind.name == "USER_INPUT":
            given.append(each.arg.name if type(each.arg).__name__ == "TensorArgument" else [each.arg.value])
    names = [name for name in given if isinstance(name, str)]

    def arrange(tensors: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        found = iter(tensors)
        leaves = [next(found) if isinstance(each, str) else each[0] for each in given]
        args, keywords = _pytree.tree_unflatten(leaves, spec)
        return tuple(args), dict(keywords)

    return EagerModule(
        module=module,
        inputs=tuple(_spec(name, nodes[name]) for name in names),
        outputs=tuple(_spec(name, nodes[name]) for name in signature.user_outputs if _is_tensor(nodes.get(name))),
        arrange=arrange,
        states=tuple(dict.fromkeys(filter(None, _changed_buffers(program)))),
        repeats=not signature.buffers_to_mutate and not any(map(_changes_input, program.graph.nodes)),
    )


@contextmanager
def guarded() -> Iterator[None]:
    """Refuse what could run code of a file while PyTorch loads one.

    The replaced functions are PyTorch's own and not public; where one of them is missing, nothing is loaded. Raises
    `UnsupportedModel`: at the end too, where PyTorch caught it on the way.
    """
    import pickle

    import torch
    from torch._export.serde import serialize

    try:
        from torch.export.pt2_archive import _package as archive
    except ImportError:  # PyTorch before 2.8
        archive = None
    sympy, deserializer = serialize.sympy, serialize.GraphModuleDeserializer

    refusals: list[UnsupportedModel] = []

    def refuse(why: str) -> NoReturn:
        refusals.append(UnsupportedModel(why))
        raise refusals[-1]

    def refuse_content(what: str) -> Callable[..., Any]:
        return lambda *args, **keywords: refuse(f"the file contains {what}, which could run code; export without it")

    load, sympify, create = torch.load, sympy.sympify, torch.fx.Graph.create_node
    find, generate = deserializer.deserialize_operator, torch.fx.graph._PyTreeCodeGen.__init__

    def find_operator(self: Any, name: str) -> Any:
        return find(self, name) if _OPERATOR.fullmatch(name) else refuse(f"{name[:80]!r} is not an operator of PyTorch")

    def read_expression(text: Any, *args: Any, **keywords: Any) -> Any:
        if isinstance(text, str) and not _is_arithmetic(text):
            refuse(f"the size {text[:80]!r} in the program is not arithmetic")
        return sympify(text, *args, **keywords)

    # Names of inputs become names of parameters in code that PyTorch generates.
    def create_node(self: Any, op: str, target: Any, *args: Any, **keywords: Any) -> Any:
        if op == "placeholder" and not str(target).isidentifier():
            refuse(f"the input name {str(target)[:80]!r} in the program is not an identifier")
        return create(self, op, target, *args, **keywords)

    def generate_code(self: Any, info: Any) -> None:
        for name in info.orig_args:
            if not str(name).isidentifier():
                refuse(f"the input name {str(name)[:80]!r} in the program is not an identifier")
        generate(self, info)

    with ExitStack() as stack:
        for thing, name, replacement in (
            (torch, "load", lambda *args, **keywords: load(*args, **{**keywords, "weights_only": True})),
            (pickle, "loads", refuse_content("a pickled object")),
            (pickle, "load", refuse_content("a pickled object")),
            (torch._C, "_pickle_load_obj", refuse_content("an object of a custom class")),
            (archive, "_load_aoti", refuse_content("compiled code")),
            (deserializer, "deserialize_operator", find_operator),
            (sympy, "sympify", read_expression),
            (torch.fx.Graph, "create_node", create_node),
            (torch.fx.graph._PyTreeCodeGen, "__init__", generate_code),
        ):
            if not hasattr(thing, name):
                raise UnsupportedModel(
                    f"PyTorch {torch.__version__} can't load programs safely: it has no {name}; upgrade PyTorch"
                )
            stack.enter_context(_replaced(thing, name, replacement))
        try:
            yield
        finally:
            if refusals:
                raise refusals[0]


@contextmanager
def _replaced(thing: Any, name: str, replacement: Any) -> Iterator[None]:
    original = getattr(thing, name)
    setattr(thing, name, replacement)
    try:
        yield
    finally:
        setattr(thing, name, original)


def _is_arithmetic(text: str) -> bool:
    """Whether `text` is arithmetic on numbers and symbols: sympy evaluates it as Python."""
    try:
        tree = ast.parse(text, mode="eval") if len(text) <= 10_000 else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return tree is not None and all(map(_is_plain, ast.walk(tree)))


def _is_plain(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):  # classes of sympy and PyTorch; functions of Python have lower-case names
        return isinstance(node.func, ast.Name) and (node.func.id[0].isupper() or node.func.id in ("floor", "ceiling"))
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return bool(_TEXT.fullmatch(node.value))
    return isinstance(node, _NODES) and not (isinstance(node, ast.Name) and node.id.startswith("__"))


def _changes_input(node: Any) -> bool:
    """Whether a step of a program writes to one of its inputs or states in place."""
    schema = getattr(node.target, "_schema", None)
    return bool(schema and schema.is_mutable and getattr(node.args[0], "op", "") == "placeholder")


def _changed_buffers(program: Any) -> Iterator[str | None]:
    """Names of the buffers that a program changes, by its signature and in place."""
    signature = program.graph_signature
    yield from signature.buffers_to_mutate.values()
    for node in filter(_changes_input, program.graph.nodes):
        yield signature.inputs_to_buffers.get(node.args[0].name)


def _is_tensor(node: Any) -> bool:
    return node is not None and hasattr(node.meta.get("val"), "dtype")


def _spec(name: str, node: Any) -> TensorSpec:
    value = node.meta["val"]
    shape = tuple(size if isinstance(size, int) else str(size) for size in value.shape)
    return TensorSpec(name=name, shape=shape, dtype=str(value.dtype).removeprefix("torch."))
