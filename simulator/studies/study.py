"""The specification of a study: the common settings of its sessions, its axes, and the resulting points."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import presets
from checkpoints.schema import InJson
from simulator.base.documents import FolderName, Link, OwnFile, PointConfig
from simulator.base.errors import ConfigError, nearest
from simulator.base.nested import (
    Raw,
    as_toml,
    flattened,
    merged,
    parsed,
    read_toml,
    toml_value,
    with_method,
    with_values,
)
from simulator.config import Config
from simulator.config.user_files import Files, Names
from simulator.results.analysis.axes import seeds_of
from simulator.sessions.history import begun_after, changed_settings, settings_in_force
from simulator.sessions.reader import CheckedReader

METHOD = "method"
_FILES = ("plugins", "models", "metrics", "selections")
_TEXTS = ("title", "preset", "profile", "settings_from", "from")
_KEYS = (*_TEXTS, *_FILES, "config", "methods", "over")
_SHARED = ("rounds", "until", "until_time", "data", "federation", "models", "training", "wire")
"""The sections that all points take from one preset, if a study names one in `settings_from`."""
_WHERE = ("address", "gpus_per_point")
"""Settings of a point that say where a sweep runs it. They do not change bits."""
_SHIPPED = Path(presets.__file__).parent / "studies"
_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True)
class Point:
    """One session of a study: its name, its value on each axis, and its complete configuration.

    `branch` is {'parent', 'round', 'method', 'set'} if it continues a session (a name or a path) from a round; method
    and set: the arguments of a fork. `files`: the users' files that it needs, with their SHA-256; older studies have
    none.
    """

    name: FolderName
    axes: Raw
    config: PointConfig
    branch: Raw | None = None
    files: Annotated[tuple[OwnFile, ...], InJson(list[OwnFile])] = ()
    link: Link | None = None

    @property
    def rounds(self) -> int:
        return int(self.config["rounds"])

    @cached_property
    def seeds(self) -> tuple[int, int, int]:
        """Of data, initial weights, and training."""
        return seeds_of(self.config)

    @property
    def is_final(self) -> bool:
        """Whether a tuning study runs it with the chosen values. Its other points are trials."""
        return self.axes.get("stage") == "final"

    def placed_as(self, other: "Point") -> "Point":
        """The same run, with the cluster address and GPU share of the other one."""
        where = {key: each for key, each in other.config["runtime"].items() if key in _WHERE}
        return replace(self, config=merged(self.config, {"runtime": where}))

    def differences(self, other: "Point") -> list[str]:
        """The changes that would make it a different run, wherever it runs, such as 'training.lr 0.01 → 0.1'."""
        mine, theirs = (
            flattened({"from": each.branch or {}, **Config.read(each.config).to_json()})
            for each in (self, other)
        )
        return [
            f"{key} {mine.get(key)} → {theirs.get(key)}"
            for key in dict.fromkeys([*mine, *theirs])
            if mine.get(key) != theirs.get(key) and not key.startswith("runtime.")
        ]


@dataclass(frozen=True)
class StudySpec:
    """What a study asks for. `config` overrides the preset, and each point's values on the axes `over` override both.

    `methods` has settings of single methods, such as tuned ones. They override `config`, and the axes override them.

    `preset` may name axes in braces: '{method}_htm5'. `settings_from` is a preset whose training, data, and federation
    settings all points take. With `origin`, 'SESSION@ROUND', the points branch off there, and there is no preset.
    Without any of these, `config` is complete. `files` are the users' files; `config` and `over` name what they
    contain.
    """

    preset: str | None = None
    profile: str | None = None
    settings_from: str | None = None
    origin: str | None = None
    config: Raw = field(default_factory=dict)
    methods: Mapping[str, Raw] = field(default_factory=dict)
    over: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    files: Files = field(default_factory=Files)
    title: str = ""

    @classmethod
    def read(cls, path: Path) -> "StudySpec":
        """Read a study file. Raises ConfigError."""
        return cls.of_toml(read_toml(path), path)

    @classmethod
    def of_toml(cls, raw: Raw, where: Path) -> "StudySpec":
        """The study in the TOML text from `where`. Raises ConfigError."""
        for key in raw:
            if key not in _KEYS:
                raise ConfigError(
                    f"{where}: unknown key '{key}'.{nearest(key, _KEYS)} A study has {', '.join(_KEYS)}; "
                    "settings go into [config], axes into [over]."
                )
        for key, value in raw.items():
            kind = str if key in _TEXTS else list if key in _FILES else dict
            if not isinstance(value, kind):
                name = {str: "text", list: "list", dict: "table"}[kind]
                raise ConfigError(f"{where}: '{key}' is no {name}.")
        for key, own in raw.get("methods", {}).items():
            if not isinstance(own, dict):
                raise ConfigError(
                    f"{where}: 'methods.{key}' is no table of settings, as [methods.{key}.training]."
                )
        over = {key: values(key, given) for key, given in flattened(raw.get("over", {})).items()}
        names = Names(where.parent)
        files = Files(*(tuple(names.path(str(each)) for each in raw.get(key, [])) for key in _FILES))
        same = ("title", "preset", "profile", "settings_from", "config", "methods")
        given = {key: raw[key] for key in same if key in raw}
        return cls(**given, origin=raw.get("from"), over=over, files=files).with_names(names)

    def with_names(self, names: Names) -> "StudySpec":
        """The study with the files of its settings and axes added to its own files, and named there."""
        config = names.raw(self.config)
        over = {key: tuple(names.value(key, each) for each in values) for key, values in self.over.items()}
        return replace(self, config=config, over=over, files=self.files | names.files)

    def to_toml(self) -> str:
        """Equal studies give equal text. Raises ConfigError for a path that is not valid Unicode."""
        said: Raw = {
            "title": self.title,
            "preset": self.preset,
            "profile": self.profile,
            "settings_from": self.settings_from,
            "from": self.origin,
            **{f"{kind}s": list(files) for kind, files in self.files},
            "config": self.config,
            "methods": dict(self.methods),
            "over": {key: list(each) for key, each in self.over.items()},
        }
        text = as_toml({key: value for key, value in said.items() if value})
        for line in text.splitlines():
            if (shown := line.encode(errors="backslashreplace").decode()) != line:
                raise ConfigError(
                    f"a study cannot name a file that is not valid UTF-8 ({shown}); rename that file."
                )
        return text

    def digest(self) -> str:
        """The SHA-256 (hex) of `to_toml`."""
        return hashlib.sha256(self.to_toml().encode()).hexdigest()

    def points(self, sessions_dir: Path) -> list[Point]:
        """Every point; the last axis varies fastest. Raises ConfigError, PresetError, and errors of a parent."""
        if not self.over:
            raise ConfigError("a study needs an axis; for example: `over={'seed': [0, 1, 2]}`.")
        if self.origin and (self.preset or self.profile):
            raise ConfigError("a study starts from a session or from a preset; name one of them.")
        if self.settings_from and not (self.preset or "preset" in self.over):
            raise ConfigError(
                f"settings_from = '{self.settings_from}' replaces settings of presets, and this study has no preset. "
                "Add one, for example `preset='{method}_htm5'`."
            )
        places = [dict(zip(self.over, each, strict=True)) for each in product(*self.over.values())]
        names = [name(axes) for axes in places]
        for number, each in enumerate(names):
            if each in names[:number]:
                raise ConfigError(f"two points would be called '{each}': their values differ in signs alone.")
        points = []
        session, round = origin_of(self.origin) if self.origin else ("", 0)
        before = settings_after(CheckedReader(sessions_dir / session), round)[0] if self.origin else None
        for each, axes in zip(names, places, strict=True):
            if before is not None:
                flat = flattened(self.config) | {
                    "method.name" if key == METHOD else key: value for key, value in axes.items()
                }
                points.append(Point(each, axes, *_branched(before, session, round, flat)))
                continue
            raw = self.settings_of(axes)
            try:
                points.append(Point(each, axes, Config.read(raw).to_json()))
            except ConfigError as error:
                raise ConfigError(f"point {each}: {error}") from error
        return points

    def settings_of(self, axes: Raw) -> Raw:
        """The settings of a point with these axes, before they are completed. Raises ConfigError, and PresetError."""
        config, over = merged(self.config, {}), dict(axes)
        own = config.get("method")
        method = over.pop(METHOD, over.pop("method.name", own.get("name") if isinstance(own, dict) else None))
        if isinstance(own, dict) and own.pop("name", method) != method:
            del config["method"]  # settings of another method do not carry over
        raw = self._preset(axes)
        over.pop("preset", None)
        if method is not None:
            if f"{{{METHOD}}}" in (self.preset or "") and raw["method"]["name"] != method:
                raise ConfigError(
                    f"preset '{raw['preset']}' runs {raw['method']['name']}, not '{method}'. Presets are an axis of "
                    "their own: `over={'preset': ['…']}`"
                )
            raw = with_method(raw, str(method))
        raw = merged(merged(raw, config), self.methods.get(str(method), {}))
        return with_values(raw, over.items())

    def _preset(self, axes: Raw) -> Raw:
        """The preset of a point with its name; empty without a preset."""
        named = axes.get("preset", self.preset)
        if named is None:
            return {}

        def place(match: re.Match[str]) -> str:
            if match[1] not in axes:
                raise ConfigError(
                    f"the preset '{named}' needs an axis '{match[1]}', which is missing."
                    f"{nearest(match[1], axes)} Add `over={{'{match[1]}': ['…']}}`."
                )
            return str(axes[match[1]])

        preset = _PLACEHOLDER.sub(place, str(named))
        profile = self.profile or presets.PAPER
        raw = presets.load(preset, profile).config | {"preset": preset}
        if self.settings_from:
            shared = presets.load(self.settings_from, profile).config
            raw = {key: each for key, each in raw.items() if key not in _SHARED}
            raw |= {key: each for key, each in shared.items() if key in _SHARED}
        return raw | ({"profile": self.profile} if self.profile else {})


def name(axes: Mapping[str, Any]) -> str:
    """A point's name, as 'fedgh-mu0.5-s0'; whole keys if two have the same last part. Raises ConfigError."""
    words, ends = [], Counter(key.rpartition(".")[2] for key in axes)
    for key, value in axes.items():
        text, end = _spelled(value), key.rpartition(".")[2]
        if key not in (METHOD, "preset"):
            text = (end if ends[end] == 1 else key) + text.rpartition("/")[2]
        words.append(f"s{value}" if key == "seed" else re.sub(r"[^A-Za-z0-9._-]+", "_", text).strip("._"))
    joined = "-".join(words)
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", joined):
        raise ConfigError(
            f"'{joined}' is not a name for a point: use up to 100 letters, digits, '.', '_', and '-'."
        )
    return joined


def _spelled(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return short if float(short := f"{value:g}") == value else repr(value)
        case list() | tuple():
            return "_".join(map(_spelled, value))
    return str(value)


def origin_of(text: str) -> tuple[str, int]:
    """The session and the round of 'SESSION@ROUND'. Raises ConfigError."""
    session, at, round = text.rpartition("@")
    if not at or not session or not round.isdecimal():
        raise ConfigError(f"'{text}' names no round of a session; for example: `origin='t3/fedlora-s0@50'`.")
    return session, int(round)


def _branched(before: Config, session: str, round: int, changes: Raw) -> tuple[Raw, Raw]:
    """A point's configuration, and its `branch` as `Point` defines it. changes: settings by their dotted keys."""
    from simulator.sessions.forking import MAY_CHANGE  # needs torch; reading a study does not

    method = changes.pop("method.name", None)
    assignments = [f"{key}={toml_value(value)}" for key, value in changes.items()]
    after = changed_settings(before, None if method is None else str(method), assignments, MAY_CHANGE)
    if after.rounds <= round:
        raise ConfigError(
            f"{session} branches off after round {round}, which leaves no round to run. Ask for more, for "
            f"example `rounds={round + 10}`."
        )
    branch = {"parent": session, "round": round, "method": method and str(method), "set": assignments}
    return after.to_json(), branch


def settings_after(session: CheckedReader, round: int) -> tuple[Config, int]:
    """The configuration at the end of a round, and the round after which its method began. Raises ConfigError."""
    from simulator.sessions import metadata

    done = len(session.records())
    if not 0 <= round <= done:
        raise ConfigError(f"{session.folder} has no round {round}; it has rounds 0 to {done}.")
    config, history = metadata.current(session, {}, round)
    entries = [entry for entry in history if entry["from_round"] <= max(round, 1)]
    entries = entries if round else entries[:1]
    raw = settings_in_force({"config": config.to_json()}, entries)
    return metadata.read_config(session, raw), begun_after(entries)


_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")
_MOST = 10_000


def axis(assignment: str) -> tuple[str, tuple[Any, ...]]:
    """The key and values of 'training.lr=0.1,0.01' or 'seed=0..2'. Raises ConfigError."""
    key, equals, text = assignment.partition("=")
    if not equals or not key.strip() or not text.strip():
        raise ConfigError(
            f"'{assignment}' is not an axis. Examples: `over='method.mu=0.5,0.7'` and `over='seed=0..2'`."
        )
    return key.strip(), values(key.strip(), text)


def values(key: str, given: Any) -> tuple[Any, ...]:
    """The values of the axis `key`, from a text or a TOML list. Raises ConfigError."""
    if isinstance(given, str):
        found = [value for piece in _pieces(given) for value in _expanded(key, piece)]
    elif isinstance(given, list | tuple | range):
        found = list(given)
    else:
        raise ConfigError(
            f"over.{key} = {given!r} is not a list of values; write [{given!r}], or leave it out."
        )
    if not found:
        raise ConfigError(f"the axis {key} has no values.")
    for number, value in enumerate(found):
        # 1 and 1.0 are one setting; True and 1 are two
        if any(
            value == other and isinstance(value, bool) == isinstance(other, bool) for other in found[:number]
        ):
            raise ConfigError(f"the axis {key} has the value {value!r} twice.")
    return tuple(found)


def _expanded(key: str, piece: str) -> list[Any]:
    if match := _RANGE.fullmatch(piece):
        first, last = int(match[1]), int(match[2])
        if not 0 <= last - first < _MOST:
            raise ConfigError(
                f"{key}={piece} is not a valid range: use up to {_MOST:,} numbers, from the smaller up to the larger."
            )
        return list(range(first, last + 1))
    return [parsed(piece)]


def _pieces(text: str) -> Iterator[str]:
    """The parts of a text between commas outside of brackets and quotes."""
    depth, quote, piece = 0, "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in "[{":
            depth += 1
        elif character in "]}":
            depth -= 1
        elif character == "," and depth == 0:
            yield piece.strip()
            piece = ""
            continue
        piece += character
    yield piece.strip()


def shipped_studies() -> list[str]:
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def shipped_file(name: str) -> Path:
    """Raises ConfigError with the nearest name."""
    if name not in shipped_studies():
        raise ConfigError(
            f"there is no study '{name}'.{nearest(name, shipped_studies())} There are {', '.join(shipped_studies())}."
        )
    return _SHIPPED / f"{name}.toml"
