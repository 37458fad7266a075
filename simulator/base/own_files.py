"""Users' Python files. Each is run once, from exactly the bytes that are hashed, and only if a user names it.

Files that a session or a study names are never run.
"""

import ast
import hashlib
import importlib.util
import site
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Literal

from simulator.base.errors import RAISED, ConfigError
from simulator.base.reading import read_bytes

Kind = Literal["plugin", "model", "metric", "selection"]


@dataclass(frozen=True)
class OwnFile:
    """A file that was run, its name without a folder, and the SHA-256 of its bytes and of local files it imports."""

    kind: Kind
    name: str
    sha256: str


OURS = ("htfl_sim", "simulator", "tui", "presets", "checkpoints")
LARGEST = 1 << 20
"""Bytes of a file. Parsing it takes some 300 times its size."""
_INSTALLED = {*(Path(path) for path in sysconfig.get_paths().values()), Path(site.getusersitepackages())}
"""The folders of Python and installed packages."""
_LOADED: dict[tuple[Kind, str], tuple[OwnFile, ModuleType]] = {}
_PATHS: set[str] = set()
"""The files that were run, by their names in tracebacks."""


@dataclass(frozen=True)
class Sent:
    """A file on its way to another process: its path here, and the bytes that were run."""

    kind: Kind
    path: Path
    source: bytes


_ALONE: dict[str, str] = {}
"""The hash of a file's own bytes, by the hash that includes the local modules it imports."""
_RUN: dict[str, Sent] = {}
"""The files that were run, by SHA-256."""
_RECEIVED: dict[Path, bytes] = {}
"""Files from another process, which may not be on this machine's disk."""


def read(kind: Kind, path: Path) -> tuple[OwnFile, bytes]:
    """A user's file and its bytes. Runs nothing. Raises ConfigError for one that cannot be read."""
    source = _RECEIVED[path] if path in _RECEIVED else read_bytes(path, f"the {kind} {path}", LARGEST)
    before = [*sys.path]
    _import_from(path)
    try:
        return OwnFile(kind, path.name, _sha256(source)), source
    finally:
        sys.path[:] = before  # nothing is imported from beside a file that is not run


def _import_from(path: Path) -> None:
    """Let the neighbors of a file be imported, as next to a script."""
    folder = str(path.absolute().parent)
    if folder not in sys.path:
        sys.path.append(folder)


def load(kind: Kind, path: Path) -> tuple[OwnFile, ModuleType]:
    """Run a file, unless its bytes were run before. Raises ConfigError if it fails or its name is taken."""
    path = path.expanduser()
    file, source = read(kind, path)
    known = _LOADED.get((kind, file.name))
    if known is not None and known[0] != file:
        raise ConfigError(
            f"another {kind} {file.name} has been loaded in this process than {path}; rename it, or start afresh."
        )
    if known is None:
        try:
            known = file, run(file, source, path)
        except RAISED as error:
            raise failed(f"the {kind} {path}", error) from error
        _LOADED[kind, file.name] = known
    return known


def is_same(recorded: str, present: str) -> bool:
    """Whether a session's file was run here. Earlier versions recorded the hash of its own bytes alone."""
    return recorded in (present, _ALONE.get(present))


def _sha256(source: bytes) -> str:
    """The hash of the bytes and those of the local modules that they import, directly or not."""
    digest = hashlib.sha256(source)
    alone = digest.hexdigest()
    modules = local_modules(source)
    for name in sorted(modules):
        digest.update(f"\0{name}\0{hashlib.sha256(modules[name]).hexdigest()}".encode())
    _ALONE[digest.hexdigest()] = alone
    return digest.hexdigest()


def local_modules(source: bytes) -> dict[str, bytes]:
    """The bytes of every module outside of Python and its packages that this code imports, by name. Nothing is run."""
    found: dict[str, bytes] = {}
    waiting = [(source, "")]
    while waiting:
        text, package = waiting.pop()
        for name in imported(text, package):
            if name not in found and (file := _local_file(name)) is not None:
                found[name] = read_bytes(file, most=LARGEST)
                waiting.append((found[name], name if file.name == "__init__.py" else name.rpartition(".")[0]))
    return found


def imported(source: bytes, package: str) -> Iterator[str]:
    """The modules that this code imports, and the packages that contain them; relative to `package`."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return  # reported when it is run
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                named = [each.name for each in names]
            case ast.ImportFrom(module=module, names=names, level=level):
                above = package.split(".")[: len(package.split(".")) - level + 1] if level else []
                base = ".".join([*above, *([module] if module else [])])
                named = [base, *(f"{base}.{each.name}" for each in names)]
            case _:
                continue
        for name in named:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1) if all(parts))


def _local_file(name: str) -> Path | None:
    """The file of a module that is not part of Python, an installed package, or htfl-sim."""
    top, *below = name.split(".")
    if top in OURS or top in sys.stdlib_module_names:
        return None
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None or (spec.origin is None and not spec.submodule_search_locations):
        return None
    origin = Path(spec.origin or next(iter(spec.submodule_search_locations or ())))
    if any(origin.is_relative_to(folder) for folder in _INSTALLED):
        return None
    if not below:
        return origin if origin.is_file() else None
    for folder in spec.submodule_search_locations or ():
        place = Path(folder, *below)
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                return file
    return None


def loaded(kind: Kind, name: str) -> OwnFile | None:
    """The file of that name, if it has been loaded."""
    found = _LOADED.get((kind, name))
    return found[0] if found else None


def run(file: OwnFile, source: bytes, path: Path) -> ModuleType:
    """Run the bytes as a new module, under a name that no other module has."""
    _PATHS.add(str(path))
    _import_from(path)
    module = ModuleType(f"htfl_sim_{file.kind}_{file.sha256[:12]}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # pydantic looks up a configuration's annotations there
    exec(compile(source, str(path), "exec"), module.__dict__)
    _RUN[file.sha256] = Sent(file.kind, path, source)
    return module


def was_run(path: Path) -> bool:
    """Whether the file at this path has been run in this process."""
    return any(Path(each).absolute() == path for each in _PATHS)


def to_send(sha256: str) -> Sent | None:
    """The file of that SHA-256, for another process. None if none was run, as for an installed package's."""
    return _RUN.get(sha256)


def receive(sent: Sent) -> Path:
    """Accept a file that another process has run. Returns the path under which `read` finds it."""
    _RECEIVED[sent.path] = sent.source
    return sent.path


def mark(path: Path) -> None:
    """Mark a file as a user's that is imported in another way."""
    _PATHS.add(str(path))


def is_users(file: str) -> bool:
    """Whether a file, by its name in a traceback, is a user's and not htfl-sim's."""
    return file in _PATHS


def failed(what: str, error: BaseException) -> ConfigError:
    """The error for an exception in a user's code, with the innermost line of that code."""
    line = line_in(error)
    where = f", line {line[1]}" if line else ""
    return ConfigError(f"{what} failed{where}: {said(error)}.")


def said(error: BaseException) -> str:
    """The type of an error in a user's code, and the first line of its message."""
    called = f"it called sys.exit({error.code!r})" if isinstance(error, SystemExit) else str(error)
    reason = called.strip().rstrip(".").splitlines()
    return f"{type(error).__name__}: {reason[0] if reason else 'no reason given'}"


def line_in(error: BaseException) -> tuple[str, int | None] | None:
    """The innermost line of a user's file in an error's traceback: the file's path as given, and the number."""
    if isinstance(error, SyntaxError) and error.filename is not None and is_users(error.filename):
        return error.filename, error.lineno
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if is_users(frame.filename)]
    return (frames[-1].filename, frames[-1].lineno) if frames else None
