"""Finds tests that a busy machine can fail: that sleep, assert a real time, give up before a minute, or count threads.

``just lint`` runs it over ``tests/``. A line that must do so all the same says why, in a comment
``# real time: reason`` on that line or on the one above. Deadlines of edgewise itself may be short where a test writes
the time: in a module that uses the fixtures ``clock`` or ``threads``.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LEAST_S = 60.0
"""Nothing gives up before that."""
REAL = {"time": {"monotonic", "monotonic_ns", "time", "time_ns", "perf_counter", "perf_counter_ns", "process_time"}}
WAITS = frozenset({
    "Client", "acquire", "check_call", "check_output", "communicate", "create_connection", "get", "join", "read_line",
    "result", "run", "select", "settimeout", "urlopen", "wait", "wait_procs",
})  # fmt: skip
"""Calls of other libraries that wait, whose `timeout` is in seconds."""
GIVEN_SECONDS = frozenset({"join", "settimeout", "wait"})
"""Methods whose only argument is a number of seconds."""
OWN = frozenset({"timeout", "timeout_s", "time_budget", "budget_s", "until", "end_by"})
"""Arguments of edgewise's own functions that are deadlines."""
COUNTS = frozenset({"active_count", "num_threads", "num_ctx_switches", "cpu_times", "process_time", "thread_time"})
REASON = re.compile(r"#.*\breal time: \S")


SAME = frozenset({"abs", "max", "min", "round", "sum"})
"""Functions that make a time of times."""
SCRIPTED = frozenset({"bench", "clock", "few_turns", "threads"})
"""Fixtures with a scripted clock (`tests/scripted_clock.py`), in whose tests no time passes by itself."""


class _Finder(ast.NodeVisitor):
    """Finds the lines of one module."""

    def __init__(self, tree: ast.Module) -> None:
        self.found: list[tuple[int, str]] = []
        self._timed: list[set[str]] = [set()]
        self._scripted = _scripted_in(tree)
        self._is_scripted = False
        self._sleeps = {
            alias.asname or alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "time"
            for alias in node.names
        }

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Names that hold real times are those of a function; so are its fixtures."""
        before = self._is_scripted
        self._timed.append(set())
        self._is_scripted = before or node.name in self._scripted
        self.generic_visit(node)
        self._is_scripted = before
        self._timed.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        """Remember names that hold a real time."""
        if self._is_real(node.value):
            self._timed[-1] |= {
                one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name)
            }
        self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> None:
        """No real time in what is asserted."""
        if any(isinstance(one, ast.Compare) and self._is_real(one) for one in ast.walk(node.test)):
            self._tell(node, "asserts a real time")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """``time.monotonic() + 5`` is a deadline."""
        if isinstance(node.op, ast.Add) and _calls_clock(node.left) and _is_short(node.right):
            self._tell(node, f"a deadline below {LEAST_S:g} s")
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        """No sleep, no wait that gives up early, no count of threads."""
        name, owner = _name_of(node.func), _module_of(node.func)
        if name == "sleep" and not _is_nothing(node.args) and (owner in ("time", "asyncio") or name in self._sleeps):
            self._tell(node, "sleeps")
        elif name == "Timer":
            self._tell(node, "a timer of real seconds")
        elif name in COUNTS or (name == "enumerate" and owner == "threading"):
            self._tell(node, f"{name} is the machine's as much as the test's")
        elif _waits_briefly(node, name):
            self._tell(node, f"waits for less than {LEAST_S:g} s")
        elif name not in WAITS and not self._is_scripted and _short_keyword(node, OWN):
            self._tell(node, f"a deadline below {LEAST_S:g} s")
        elif name == "setattr" and _sets_seconds(node) and not self._is_scripted:
            self._tell(node, f"a constant of less than {LEAST_S:g} real seconds")
        self.generic_visit(node)

    def _is_real(self, node: ast.AST) -> bool:
        """Whether this is a real time, or made of one. What a function made of it is something else."""
        if isinstance(node, ast.Call):
            return _calls_clock(node) or (_name_of(node.func) in SAME and any(map(self._is_real, node.args)))
        if isinstance(node, ast.Name):
            return node.id in self._timed[-1]
        return any(map(self._is_real, ast.iter_child_nodes(node)))

    def _tell(self, node: ast.stmt | ast.expr, what: str) -> None:
        self.found.append((node.lineno, what))


def _scripted_in(tree: ast.Module) -> set[str]:
    """Functions of a module whose time is the test's: with such a fixture, itself or by another one of the module."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    given = {node.name: {one.arg for one in (*node.args.args, *node.args.kwonlyargs)} for node in functions}
    everywhere = any(
        isinstance(node, ast.Call) and _name_of(node.func) == "usefixtures" and SCRIPTED & set(_words_of(node))
        for node in ast.walk(tree)
    ) or any(_is_autouse(node) and SCRIPTED & given[node.name] for node in functions)
    if everywhere:
        return set(given)
    known = set(SCRIPTED)
    while found := {name for name, names in given.items() if names & known and name not in known}:
        known |= found
    return known


def _is_autouse(node: ast.FunctionDef) -> bool:
    words = (one for decorator in node.decorator_list for one in ast.walk(decorator))
    return any(isinstance(one, ast.keyword) and one.arg == "autouse" for one in words)


def _words_of(node: ast.Call) -> list[str]:
    return [one.value for one in node.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]


def _name_of(function: ast.expr) -> str:
    return (
        function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""
    )


def _module_of(function: ast.expr) -> str:
    owner = function.value if isinstance(function, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""


def _calls_clock(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _name_of(node.func) in REAL.get(_module_of(node.func), ())


def _is_short(node: ast.expr, unit: float = 1.0) -> bool:
    """Whether this is a time above 0 and below a minute: 0 does not wait."""
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < LEAST_S * unit


def _is_nothing(arguments: list[ast.expr]) -> bool:
    """Whether they are the number 0: ``asyncio.sleep(0)`` does not sleep."""
    return [one.value for one in arguments if isinstance(one, ast.Constant)] == [0]


def _short_keyword(node: ast.Call, names: frozenset[str] | set[str], unit: float = 1.0) -> bool:
    return any(word.arg in names and _is_short(word.value, unit) for word in node.keywords)


def _waits_briefly(node: ast.Call, name: str) -> bool:
    """``thread.join(5)``, ``process.wait(timeout=5)``, and what is told a browser in milliseconds."""
    if name.startswith("wait_for_"):
        return _short_keyword(node, {"timeout"}, unit=1000.0)
    if name in GIVEN_SECONDS and isinstance(node.func, ast.Attribute) and [*map(_is_short, node.args)] == [True]:
        return True
    return name in WAITS and _short_keyword(node, {"timeout"})


def _sets_seconds(node: ast.Call) -> bool:
    """``monkeypatch.setattr(module, "PATIENCE_S", 0.3)``, in either of its forms."""
    return any(word.endswith("_S") for word in _words_of(node)) and bool(node.args) and _is_short(node.args[-1])


def problems(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a test module that depend on how fast the machine is, with the reason, but for those that say why."""
    finder = _Finder(tree := ast.parse(text))
    finder.visit(tree)
    lines = ["", *text.splitlines()]
    for number, what in sorted(set(finder.found)):
        if not REASON.search(lines[number]) and not REASON.search(lines[number - 1]):
            yield number, what


def main() -> int:
    """Print what is found below the folders given, and fail where there is something."""
    count = 0
    for folder in sys.argv[1:] or ["tests"]:
        for path in sorted(Path(folder).rglob("*.py")):
            for number, what in problems(path.read_text(encoding="utf-8")):
                print(f"{path}:{number}: {what}")
                count += 1
    if count:
        print(
            f"{count} places where a busy machine fails a test; write the time (tests/scripted_clock.py), or say why:"
        )
        print("    # real time: REASON")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
