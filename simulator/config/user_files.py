"""The Python files that a run needs: named where its settings are written by a user, then loaded by their paths."""

import importlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from simulator.base import own_files
from simulator.base.errors import SessionError
from simulator.base.nested import Raw, merged

GROUP, METRICS, SELECTION = "federation.group", "evaluation.metrics", "selection.strategy"
"""The settings that may name files of Python."""
PATHS = {
    "partition": ("data", "indices"),
    "devices": ("system", "device_file"),
    "trace": ("system", "trace"),
    "availability": ("system", "availability_file"),
    "generator": ("method", "generator_file"),
}
"""The settings that are paths of other files, by kind."""
_LOADERS: dict[own_files.Kind, str] = {
    "plugin": "simulator.methods.registry",
    "model": "simulator.models.libraries",
    "metric": "simulator.metrics.user_metrics",
    "selection": "simulator.selection.user_selection",
}
"""The module that loads a kind of file. They import torch."""


@dataclass(frozen=True)
class Files:
    """Files by what is in them, as absolute paths: methods, models, metrics, selections of participants."""

    plugins: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    selections: tuple[str, ...] = ()

    def __or__(self, other: "Files") -> "Files":
        """These, then those of the other; each once."""
        return Files(
            *(
                tuple(dict.fromkeys((*mine, *theirs)))
                for (_, mine), (_, theirs) in zip(self, other, strict=True)
            )
        )

    def __iter__(self) -> Iterator[tuple[own_files.Kind, tuple[str, ...]]]:
        """Each kind, as its option is called, and its files."""
        for field in fields(self):
            yield cast(own_files.Kind, field.name.removesuffix("s")), getattr(self, field.name)

    def confirmed(self, given: "Files", where: Path) -> "Files":
        """These files, which the study at `where` names, at the paths of the user, and the user's other ones.

        A user names a file by `given`, or has run it in this process. Raises SessionError for the other files. Runs
        nothing.
        """
        found, missing = list[tuple[str, ...]](), list[tuple[str, str]]()
        for (kind, mine), (_, theirs) in zip(self, given, strict=True):
            paths = list[str]()
            for file in mine:
                own = next((each for each in theirs if Path(each).name == Path(file).name), None)
                if own is None and not own_files.was_run(Path(file)):
                    missing.append((kind, file))
                paths.append(own or file)
            found.append(tuple(dict.fromkeys((*paths, *theirs))))
        if missing:
            raise SessionError(
                f"{where} names Python files, which were not run: "
                f"{', '.join(f'the {kind} {file}' for kind, file in missing)}. If you trust them, add "
                f"{' '.join(f'`{kind}={file}`' for kind, file in missing)}."
            )
        return Files(*found)

    def options(self) -> Iterator[str]:
        """The same as options of a command."""
        for kind, files in self:
            for file in files:
                yield from (f"--{kind}", file)

    def load(self) -> None:
        """Run each file; one that has been run does nothing. Raises ConfigError for one that fails or is not there."""
        for kind, files in self:
            for file in files:
                own_files.read(kind, Path(file))  # a missing one is refused before torch is imported
        for kind, files in self:
            for file in files:
                importlib.import_module(_LOADERS[kind]).load(Path(file))


class Names:
    """Reads files out of settings: what is left are names, what was named is in `files`."""

    def __init__(self, folder: Path) -> None:
        """Relative paths are from `folder`."""
        self._folder = folder
        self.files = Files()

    def raw(self, raw: Mapping[str, Any]) -> Raw:
        """`raw` with `nets/mynets.py:MyNet` in federation.group as `mynets:MyNet`, `figures/f1.py` in
        evaluation.metrics as `f1`, `mypick.py` in selection.strategy as `mypick`, and paths such as data.indices
        absolute.
        """
        result = merged(raw, {})
        own = (GROUP, METRICS, SELECTION)
        for section, name in (*((key.split(".")[0], key.split(".")[1]) for key in own), *PATHS.values()):
            if isinstance(settings := result.get(section), dict) and name in settings:
                settings[name] = self.value(f"{section}.{name}", settings[name])
        return result

    def value(self, key: str, given: Any) -> Any:
        """The same for one dotted key. The configuration refuses what is no name."""
        if key in (GROUP, METRICS) and isinstance(given, list | tuple):
            return [self.value(key, each) for each in given]
        if not isinstance(given, str):
            return given
        if tuple(key.split(".")) in PATHS.values():
            return self.path(given)
        file, colon, model = given.rpartition(".py:")
        if key == GROUP and colon:
            self.files |= Files(models=(self.path(f"{file}.py"),))
            return f"{Path(file).name}:{model}"
        if key in (METRICS, SELECTION) and given.endswith(".py"):
            path = (self.path(given),)
            self.files |= Files(metrics=path) if key == METRICS else Files(selections=path)
            return Path(given).stem
        return given

    def path(self, file: str) -> str:
        """The absolute path of a file as it is given."""
        return str((self._folder / Path(file).expanduser()).absolute())


def loaded(raw: Mapping[str, Any]) -> Raw:
    """`raw`, as `Names.raw` leaves it, after running its files. Only for what a user wrote. Raises ConfigError."""
    names = Names(Path())
    result = names.raw(raw)
    names.files.load()
    return result
