"""Functions that a user names, ``package.module:function`` or ``path/to/file.py:function``: found, imported, explained.

The code is the user's own and is run, in this process, because that is what the user asks for.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import importlib.util
import inspect
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from edgewise.errors import BadInput

ADVICE = "give module:function or path/to/file.py:function"
_of_files: dict[Path, ModuleType] = {}
"""The modules of files: two files called model.py are two modules."""
_folders: dict[str, Path] = {}
"""Module that the user's code imported from a folder of the user's → that folder."""
_LIBRARIES = {"site-packages", "dist-packages"}
_set_aside: dict[Path, dict[str, ModuleType]] = {}
"""Folder → its modules whose names another folder's modules have now: two folders may each have a blocks.py."""


def is_factory(text: str) -> bool:
    """Whether `text` names a function and no file: ``module:function``, ``file.py:function``."""
    module, sign, name = text.rpartition(":")
    if not sign or not name or not all(part.isidentifier() for part in name.split(".")) or Path(text).exists():
        return False
    return module.endswith(".py") or all(part.isidentifier() for part in module.split("."))


@contextlib.contextmanager
def own_code(module_name: str) -> Iterator[None]:
    """Put the user's folders on the module path while its code runs; what it prints goes to stderr."""
    file = file_of(module_name)
    beside = Path(module_name).resolve().parent if module_name.endswith(".py") else Path.cwd()
    root = beside if file is None else file.parents[len(_packages_of(file))]
    added = [str(folder) for folder in dict.fromkeys((beside, Path.cwd(), root)) if str(folder) not in sys.path]
    sys.path[:0] = [folder for folder in added if folder != str(root) or root in (beside, Path.cwd())]
    sys.path += [folder for folder in added if folder not in sys.path]  # libraries go before other packages there
    lent = _give_names_to(beside)
    known = set(sys.modules)
    # TensorFlow's C++ libraries log below errors when they are first imported.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        for name in sys.modules.keys() - known:
            if (folder := _folder_of(name)) in (beside, Path.cwd(), root):
                _folders[name] = folder
        _take_back(lent, beside)
        for path in added:
            with contextlib.suppress(ValueError):
                sys.path.remove(path)


def _give_names_to(folder: Path) -> dict[str, ModuleType]:
    """Set modules aside where `folder` has its own of that name; those of libraries stay, as other libraries need them.

    Returns:
        Those that no folder of the user's has, a notebook's say, which `_take_back` gives their names again.
    """
    there = set[str]()
    with contextlib.suppress(OSError):
        there |= {name.removesuffix(".py") for name in os.listdir(folder)}  # noqa: PTH208 (each call of a metric)
    there = there - sys.stdlib_module_names - {"__main__", "edgewise"}
    firsts = {first for first in there & sys.modules.keys() if _is_another(first, folder)}
    lent: dict[str, ModuleType] = {}
    for name in [each for each in sys.modules if firsts and each.partition(".")[0] in firsts]:
        home = _folders.pop(name, None)
        (lent if home is None else _set_aside.setdefault(home, {}))[name] = sys.modules.pop(name)
    mine = _set_aside.pop(folder, {})
    sys.modules.update(mine)
    _folders.update(dict.fromkeys(mine, folder))
    return lent


def _is_another(first: str, folder: Path) -> bool:
    """Whether the module called `first` is neither a library's nor that of `folder`, which has one of that name."""
    if first in _folders:
        return _folders[first] != folder
    file = getattr(sys.modules[first], "__file__", None)
    own = next((each for each in _files_named(folder, first) if each.is_file()), None)
    if not file or own is None:
        return False
    return own != Path(file).resolve() and not _LIBRARIES & set(Path(file).parts)


def _files_named(folder: Path, module: str) -> tuple[Path, Path]:
    return folder / module / "__init__.py", folder / f"{module}.py"


def _take_back(lent: Mapping[str, ModuleType], folder: Path) -> None:
    """Give the names to the modules that had them; those that `folder` gave them to meanwhile are set aside."""
    if not lent:
        return
    firsts = {name.partition(".")[0] for name in lent}
    for name in [each for each in sys.modules if each.partition(".")[0] in firsts]:
        _set_aside.setdefault(_folders.pop(name, folder), {})[name] = sys.modules.pop(name)
    sys.modules.update(lent)


def _folder_of(name: str) -> Path | None:
    """Return the folder on the module path that has the module."""
    path = Path(getattr(sys.modules[name], "__file__", None) or "")
    above = name.count(".") + (path.stem == "__init__")
    return path.parents[above] if above < len(path.parents) else None


def file_of(name: str) -> Path | None:
    """Return the user's file of a module: that file itself, or that of ``package.module`` in the current folder;
    else None.
    """
    file = Path(name) if name.endswith(".py") else Path(*name.split(".")).with_suffix(".py")
    return file.resolve() if file.is_file() else None


def import_module(name: str, target: str) -> ModuleType:
    """Return the module called `name`, or in the file of that name; inside `own_code`. Raises `BadInput`."""
    place = file_of(name)
    if name.endswith(".py"):
        if place is None:
            raise BadInput(f"no such file: {name}", advice=ADVICE)
        return _import_file(place, name, target)
    try:
        with explained(target):
            if place is not None and _name_of(place) != name and name not in sys.modules:
                spec = importlib.util.find_spec(name)
                if spec is not None and spec.origin and Path(spec.origin).resolve() == place:
                    return _import_file(place, name, target)
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise BadInput(f"there is no module {error.name!r} for {target}", advice=ADVICE) from error


def _import_file(place: Path, name: str, target: str) -> ModuleType:
    """Return the module in the file `place`, which `name` names: as a file, or as ``folder.module``."""
    if (module := _of_files.get(place)) is not None:
        sys.modules[module.__name__] = module  # another file may have the same name
        return module
    own = _name_of(place)
    known = sys.modules.get(own)
    if known is not None and getattr(known, "__file__", None) == str(place):
        return known
    spec = importlib.util.spec_from_file_location(own, place)
    if spec is None or spec.loader is None:
        raise BadInput(f"{name} can't be imported", advice=ADVICE)
    sys.modules[own] = module = importlib.util.module_from_spec(spec)
    if not name.endswith(".py"):
        sys.modules[name] = module  # for modules that import it by this name
        if "." not in own:
            module.__spec__, module.__package__ = None, name.rpartition(".")[0]  # its relative imports lead there
    try:
        with explained(target):
            spec.loader.exec_module(module)
    except BaseException as error:
        for each in (own, name):
            sys.modules.pop(each, None)
        if isinstance(error, ModuleNotFoundError):
            raise BadInput(
                f"{name} needs the module {error.name!r}, which is not installed", advice=f"pip install {error.name}"
            ) from error
        raise
    _of_files[place] = module
    return module


def _packages_of(file: Path) -> tuple[str, ...]:
    """Return the packages that a file is in, the outermost first."""
    found = itertools.takewhile(
        lambda each: each.name.isidentifier() and (each / "__init__.py").is_file(), file.parents
    )
    return tuple(each.name for each in found)[::-1]


def _name_of(file: Path) -> str:
    """Return the name of a file's module, as `import` has it: exporters write it into layers, so it has no folder
    in it.

    Folders that are packages are in the name, however the file is named: ``pkg/net.py``, ``pkg.net`` or, inside pkg,
    ``net.py``. Names of libraries get a "_", so that these are still found.
    """
    packages = _packages_of(file)
    homes = {file.parent, Path.cwd(), file.parents[len(packages)]}
    others = [each for each in sys.path if Path(each or ".").resolve() not in homes]

    def is_taken(name: str) -> bool:
        found = importlib.machinery.PathFinder.find_spec(name, others)
        return name in sys.stdlib_module_names or (found is not None and found.loader is not None)

    name = re.sub(r"\W", "_", file.stem)
    if packages and not is_taken(packages[0]):
        return ".".join((*packages, name))
    return name + "_" * is_taken(name)


def find(module: ModuleType, attribute: str, target: str, *, also: Callable[[Any], bool] = lambda _: False) -> Any:
    """Return what `attribute` names in the module: something that can be called, or what `also` takes.

    Raises `BadInput`.
    """
    found: Any = module
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
            known = ", ".join(sorted(names)[:12]) or "none"
            raise BadInput(f"{target} does not exist", advice=f"functions in the module: {known}") from None
    if not callable(found) and not also(found):
        raise BadInput(f"{target} is {name_type(found)} and can't be called", advice=ADVICE)
    return found


@contextlib.contextmanager
def explained(target: str) -> Iterator[None]:
    """Raise what the user's code raises as `BadInput`: its type, its message and the line of the user's that raised it.

    A module that is missing stays what it is, for the caller to say which.
    """
    try:
        yield
    except (BadInput, ModuleNotFoundError, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:
        message = (str(error).strip() or "no message").splitlines()[0][:300]
        raise BadInput(f"{target} failed: {type(error).__name__}: {message}", advice=_locate(error)) from error


@contextlib.contextmanager
def running(target: str) -> Iterator[None]:
    """Run the user's code of ``module:function``: `own_code`, `explained`, and a missing module as `BadInput`."""
    try:
        with own_code(target.rpartition(":")[0]), explained(target):
            yield
    except ModuleNotFoundError as error:
        raise BadInput(
            f"{target} needs the module {error.name!r}, which is not installed", advice=f"pip install {error.name}"
        ) from error


def _locate(error: BaseException) -> str:
    """Return the last line of the user's own code that an error went through."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"see {_shorten(error.filename)}, line {error.lineno}: {(error.text or '').strip()[:120]}"
    ours = os.path.dirname(__file__)  # noqa: PTH120 (compared with names of files as Python has them)
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ is not None else []
    own = [
        frame
        for frame in frames
        if not frame.filename.startswith((ours, "<")) and f"{os.sep}lib{os.sep}python" not in frame.filename
    ]
    if not own:
        place = (
            "give a file of Python source" if isinstance(error, SyntaxError) else "the error is outside your own files"
        )
        return place
    code = (own[-1].code_context or [""])[0].strip()[:120]
    return f"see {_shorten(own[-1].filename)}, line {own[-1].lineno}: {code}"


def _shorten(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename


def call(function: Callable[..., Any], arguments: Mapping[str, Any], target: str, *, flag: str = "⟦what_if⟧") -> Any:
    """Return what the function gives for these keyword arguments; inside `own_code`.

    Args:
        flag: what gives arguments, for advice.

    Raises:
        BadInput: it takes no such argument, lacks one, or fails.
    """
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # some functions of extension modules have none
        signature = None
    if signature is not None:
        _check_parameters(signature, arguments, target, flag)
    with explained(target):
        return function(**arguments)


def _check_parameters(signature: inspect.Signature, arguments: Mapping[str, Any], target: str, flag: str) -> None:
    parameters = signature.parameters.values()
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    known = "it takes " + (", ".join(names) or "no parameters")
    if not any(each.kind is each.VAR_KEYWORD for each in parameters):
        for name in arguments:
            if name not in names:
                raise BadInput(f"{target} has no parameter {name!r}", advice=known)
    for each in parameters:
        given = each.name in arguments and each.kind is not each.POSITIONAL_ONLY
        if each.default is each.empty and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and not given:
            raise BadInput(f"{target} needs a value for {each.name!r}", advice=f"give {flag} {each.name}=VALUE")


def name_type(value: Any) -> str:
    """Return ``an int``, ``a torch.nn.Linear``."""
    kind = type(value)
    name = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
