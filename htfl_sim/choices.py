"""The choices for a new run: each stands once, with its help, its flag, and the key of the configuration that it sets.

The commands take their options from here, the app writes command lines from here, and `Choices.read` makes the
configuration. Loads nothing, because every command line begins with it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_type_hints

if TYPE_CHECKING:
    from simulator.base.nested import Raw
    from simulator.config import Config
    from simulator.config.user_files import Files

WHAT, SCALE, WHERE, HOW = "What to run", "Quick settings", "Where things lie", "How it runs"
"""The panels of a command's help."""
QUICKSTART = "quickstart"
QUICKSTARTS = {
    "image": QUICKSTART,
    "tokens": "quickstart_text",
    "signal": "quickstart_signals",
    "table": "quickstart_table",
}
"""The preset of a run that names none, by the kind of its data set's samples."""

Kind = Literal[
    "accuracy", "box", "tradeoff", "loss", "metrics", "partition", "tsne", "cka", "cka-curves", "inco", "sensitivity",
    "heatmap", "gain-map", "gain-clients", "critical-difference", "pareto", "tuning", "timeline",
]  # fmt: skip
KINDS: dict[str, tuple[str, ...]] = {
    "accuracy": ("by", "x"),
    "box": ("by", "round"),
    "tradeoff": ("by", "target"),
    "loss": ("by", "x", "metrics"),
    "metrics": ("by", "x", "metrics"),
    "partition": (),
    "tsne": ("round", "images"),
    "cka": ("round", "layers"),
    "cka-curves": ("by", "layers"),
    "inco": ("by",),
    "sensitivity": ("by", "axis", "select"),
    "heatmap": ("axes", "select"),
    "gain-map": ("by", "baseline"),
    "gain-clients": ("by", "baseline", "last"),
    "critical-difference": ("by", "last"),
    "pareto": ("by", "last"),
    "tuning": (),
    "timeline": ("rounds",),
}
"""The kinds of figures, and each kind's options besides `width`."""
OF_ONE = ("partition", "tsne", "cka", "timeline")
"""The kinds that show one session."""


@dataclass(frozen=True)
class Option:
    """An option of a command, whose help does not print the default, or has it in its text.

    flag: if it is not the name. complete: its completion, by its name in the room of commands. values: all that it can
    be. key: of the configuration.
    """

    help: str
    flag: str | None = None
    short: str | None = None
    metavar: str | None = None
    panel: str | None = None
    complete: str | Callable[..., list[str]] | None = None
    least: float | None = None
    values: tuple[str, ...] = ()
    key: str | None = None


PRESET = (
    "A named experiment; see `htfl-sim presets`. In a sweep {method} is replaced by the value on that axis."
)
PROFILE = "Profile of the preset: the paper's text (paper, the default) or the authors' scripts (authors)."
Profile = Annotated[str | None, Option(PROFILE, metavar="PROFILE", panel=WHAT)]
CONFIG = "Configuration file in TOML. Replaces a preset."
DATASET = (
    "A data set's name (`htfl-sim datasets`), a folder of class folders, or an .npz, CSV, or Parquet file."
)
Dataset = Annotated[
    str | None, Option(DATASET, metavar="D", panel=WHAT, complete="datasets", key="data.dataset")
]
PARTITION = "JSON file with every client's sample indices."
METHOD = "A method; see `htfl-sim methods`."
MODELS = (
    "Model that replaces the preset's: a name from `htfl-sim models`, or FILE.py:NAME. Repeat it for a group."
)
Models = Annotated[Sequence[str], Option(MODELS, "--model", metavar="M", panel=WHAT, complete="models")]
CLIENTS = "Number of clients."
Clients = Annotated[int | None, Option(CLIENTS, metavar="N", panel=SCALE, key="federation.clients")]
Seed = Annotated[int | None, Option("Random seed of the run.", metavar="S", panel=SCALE, key="seed")]
UNTIL = "End the run after the round in which mean test accuracy (0…1) reaches this. 0: run all rounds."
Until = Annotated[float | None, Option(UNTIL, metavar="A", panel=SCALE, least=0, key="until")]
UNTIL_TIME = "End the run after the round that reaches this simulated time, such as 90s, 30m, or 2h. 0: run all rounds."
UntilTime = Annotated[str | None, Option(UNTIL_TIME, metavar="T", panel=SCALE, key="until_time")]
SETTINGS = "Configuration key, dotted, with a TOML value. May be repeated; overrides all other options."
Settings = Annotated[
    Sequence[str], Option(SETTINGS, "--set", metavar="KEY=VALUE", panel=SCALE, complete="assignments")
]
METRICS = "Python file with a metric of your own. May be repeated."
SELECTION = "Selection of participants: random, available, utility, or a Python file."
Selection = Annotated[str | None, Option(SELECTION, metavar="S", panel=WHAT, key="selection.strategy")]
PLUGINS = "Python file with methods of your own. May be repeated."
Plugins = Annotated[Sequence[Path], Option(PLUGINS, "--plugin", metavar="FILE")]
DEVICES = ("auto", "cpu", "cuda")
Device = Annotated[
    str | None, Option("Device to compute on.", panel=HOW, values=DEVICES, key="runtime.device")
]
WORKERS = "Number of clients trained at a time. Never changes a result. Default: the machine's cores."
Workers = Annotated[int | None, Option(WORKERS, metavar="N", panel=HOW, least=1, key="runtime.workers")]
RUNNER = "Runner that computes clients: parallel, sequential, stacked, or ray for a cluster."
Runner = Annotated[str | None, Option(RUNNER, metavar="R", panel=HOW, key="runtime.runner")]
WATCH = (
    "Watcher of the run: all, or falling, divergence, plateau, collapse, losing. With options: "
    "plateau:rounds=20,action=stop. May be repeated. Without a name: all."
)
Watch = Annotated[Sequence[str], Option(WATCH, metavar="[WATCHER]", panel=HOW, complete="watchers")]


@dataclass(frozen=True)
class Choices:
    """The choices for a new run: a preset or a file, then the quick settings, then --set. None or empty if unset."""

    APART: ClassVar = ("device", "workers", "runner", "watch")
    """Commands have these among their other options."""

    preset: Annotated[str | None, Option(PRESET, metavar="P", panel=WHAT, complete="presets")] = None
    profile: Profile = None
    file: Annotated[Path | None, Option(CONFIG, "--config", metavar="FILE", panel=WHAT)] = None
    dataset: Dataset = None
    partition: Annotated[Path | None, Option(PARTITION, metavar="FILE", panel=WHAT)] = None
    method: Annotated[str | None, Option(METHOD, metavar="M", panel=WHAT, complete="methods")] = None
    models: Models = ()
    rounds: Annotated[int | None, Option("Number of rounds.", metavar="N", panel=SCALE, key="rounds")] = None
    until: Until = None
    until_time: UntilTime = None
    clients: Clients = None
    seed: Seed = None
    assignments: Settings = ()
    metrics: Annotated[Sequence[Path], Option(METRICS, "--metric", metavar="FILE", panel=WHAT)] = ()
    selection: Selection = None
    plugins: Plugins = ()
    device: Device = None
    workers: Workers = None
    runner: Runner = None
    watch: Watch = ()

    def read(self) -> "Config":
        """The configuration: preset or file, then the quick settings, then --set. The last one wins.

        Loads the user's files. Raises PresetError or ConfigError.
        """
        from simulator.base.federation_section import refuse_joined
        from simulator.base.nested import merged, put, with_overrides
        from simulator.base.sections import section_of
        from simulator.config import Config, refuse_idle
        from simulator.config.user_files import loaded
        from simulator.methods import declared

        named_files(self.plugins).load()
        chosen = with_overrides({"method": {"name": self.method}}, self.assignments)["method"]
        if self.method and isinstance(chosen, dict) and chosen.get("name") == self.method:
            declared(self.method)  # an unknown one is refused before the rest is loaded
        from simulator.data.datasets import absolute

        base, quick = self._base(), dict[str, Any]()
        given = {
            **self.settings(),
            "federation.group": list(self.models) or None,
            "evaluation.metrics": list(map(str, self.metrics)) or None,
            "watch": section_of(self.watch) or None,
        }
        for key, value in given.items():
            if value is not None:
                put(quick, key, value)
        raw = with_overrides(merged(base, quick), self.assignments)
        for key in ("dataset", "public"):
            if isinstance(data := raw.get("data"), dict) and isinstance(name := data.get(key), str):
                data[key] = absolute(name)
        named_files(metrics=self.metrics).load()  # --set may name them
        config = Config.read(loaded(raw))
        group = config.federation.group
        refuse_joined([group] if isinstance(group, str) else group)
        refuse_idle(config, (assignment.partition("=")[0].strip() for assignment in self.assignments))
        return config

    def settings(self) -> "Raw":
        """The quick settings by dotted key, without the method, the models, and the metrics."""
        found = {
            option.key: getattr(self, name)
            for name, option in options_of(Choices)
            if option.key and getattr(self, name) is not None
        }
        indices = {f"data.{key}": value for key, value in self._indices().items()}
        return found | indices

    @property
    def files(self) -> "Files":
        """The user's files among the choices: mynets.py of mynets.py:MyNet, and a file that selects."""
        models = dict.fromkeys(f"{file}.py" for name in self.models if (file := name.rpartition(".py:")[0]))
        selection = (self.selection,) if self.selection and self.selection.endswith(".py") else ()
        return named_files(self.plugins, tuple(models), self.metrics, selection)

    def without_files(self) -> "Choices":
        """The choices without those that only name Python files."""
        return replace(
            self,
            models=[each for each in self.models if not each.endswith(".py")] or (),
            metrics=(),
            selection=None if self.files.selections else self.selection,
            plugins=(),
        )

    def typed(self) -> Iterator[str]:
        """The same as options of `htfl-sim run`."""
        for name, option in options_of(Choices):
            value = getattr(self, name)
            for each in (value,) if isinstance(value, str) or not isinstance(value, Sequence) else value:
                if each is not None:
                    yield from (option.flag or f"--{name.replace('_', '-')}", str(each))

    def _base(self) -> "Raw":
        import presets
        from simulator.base.errors import ConfigError
        from simulator.base.nested import read_toml, with_method, with_overrides

        if self.preset and self.file:
            raise ConfigError(
                "`preset` and `config` both name a whole run. Give one of them, and `set` for the rest."
            )
        if self.profile and not self.preset:
            raise ConfigError("`profile` chooses a version of a preset. Name the `preset` too.")
        if self.file:
            raw = read_toml(self.file)
        elif self.preset:
            raw = presets.load(self.preset, self.profile or presets.PAPER).config | {"preset": self.preset}
            raw |= {"profile": self.profile} if self.profile else {}
        else:
            data = with_overrides({}, self.assignments).get("data")
            data = (data if isinstance(data, dict) else {}) | self._indices()
            raw = quickstart(self.dataset or data.get("dataset"), data)
        return with_method(raw, self.method) if self.method else raw

    def _indices(self) -> dict[str, Any]:
        """The settings of section `data` that a file of sample indices stands for."""
        return {} if self.partition is None else {"partition": "indices", "indices": str(self.partition)}


def named_files(
    plugins: Sequence[str | Path] = (),
    models: Sequence[str | Path] = (),
    metrics: Sequence[str | Path] = (),
    selections: Sequence[str | Path] = (),
) -> "Files":
    """The user's files by what is in them."""
    from simulator.config.user_files import Files

    return Files(*(tuple(map(str, files)) for files in (plugins, models, metrics, selections)))


def options_of(kind: type) -> Iterator[tuple[str, Option]]:
    """The fields of a dataclass that are options."""
    hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
    for each in fields(kind):
        for option in getattr(hints[each.name], "__metadata__", ()):
            if isinstance(option, Option):
                yield each.name, option


def quickstart(dataset: str | None, data: Mapping[str, Any]) -> "Raw":
    """The quickstart for a data set, with the given settings of section `data`.

    A user of a column, or a client of a folder, is a client, and there are at most so many. Others are Dirichlet.
    """
    from pydantic import ValidationError

    import presets
    from simulator.base.data_section import COLUMNS, DataConfig
    from simulator.base.nested import merged
    from simulator.data import datasets, partition

    try:
        columns = DataConfig.model_validate({key: data[key] for key in COLUMNS if key in data})
    except ValidationError:
        columns = DataConfig()  # the whole configuration is refused, with the key
    name = QUICKSTARTS[datasets.kind_of(dataset, columns) if dataset else "image"]
    raw: Raw = presets.load(name).config | {"preset": name}
    if dataset and (users := datasets.users(dataset, columns)).counts:
        chosen: Raw = {"partition": "natural"}
        if users.are_clients and data.get("partition", "natural") == "natural":
            chosen |= {"min_samples": 1, **({"split": "own"} if users.are_tested else {})}
        least = data.get("min_samples", chosen.get("min_samples", DataConfig().min_samples))
        groups = partition.groups_of_users(users.counts, least)
        most = len(groups) if users.are_clients else raw["federation"]["clients"]
        raw = merged(raw, {"data": chosen, "federation": {"clients": min(most, max(len(groups), 1))}})
    elif dataset and raw["data"]["partition"] == "natural" and not datasets.has_users(dataset):
        raw = merged(raw, {"data": {"partition": "dirichlet", "alpha": 0.5, "min_samples": 20}})
    return raw
