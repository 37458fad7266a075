"""What a session's files say of it besides tensors: its settings, its data, its environment, what it keeps."""

import checkpoints
from checkpoints import Damaged, Retention
from simulator.builder import Built
from simulator.config import Config
from simulator.errors import ConfigError, SessionError
from simulator.methods import plugins
from simulator.nested import Raw, merged
from simulator.sessions.environment import environment
from simulator.sessions.history import history_entry, settings_in_force


def current(session: checkpoints.SessionReader, runtime: Raw) -> tuple[Config, list[Raw]]:
    """A session's configuration as its last checkpoint left it, with `runtime` laid over, and its history.

    Raises SessionError when the plugin of its method is not loaded or not the same, Damaged when these are no settings.
    """
    history = session.manifest().history if session.rounds() else []
    plugin = (history[-1] if history else {}).get("plugin", session.document["plugin"])
    raw = settings_in_force(session.document, history)
    plugins.check(session.folder, str(raw["method"]["name"]), plugin)
    config = read_config(session, merged(raw, {"runtime": runtime}))
    return config, history or [history_entry(config, 1)]


def read_config(session: checkpoints.SessionReader, raw: Raw) -> Config:
    """Settings that the session's files say, which must be valid; raises Damaged."""
    try:
        return Config.read(raw)
    except ConfigError as error:
        raise Damaged(f"{session.folder}: its settings are not valid here: {error}") from error


def check_data(session: checkpoints.SessionReader, config: Config, built: Built) -> None:
    """Raise SessionError unless the data and their partition are those the session was made with."""
    if built.data.fingerprint != session.document["data_fingerprint"]:
        raise SessionError(
            f"{session.folder}: the data set '{config.data.dataset}' or its partition is not the one this session was "
            "made with; point --data-dir at the original data."
        )


def of_new(config: Config, built: Built, parent: Raw | None) -> Raw:
    """What session.json says of a new session."""
    return {
        "config": config.to_json(),
        "parent": parent,
        "environment": environment(built.federation.device, config.runtime.threads_per_client),
        "data_fingerprint": built.data.fingerprint,
        "plugin": plugins.recorded(config.method.name),
    }


def on_device(config: Config, built: Built) -> Config:
    """The configuration with the device that 'auto' came to."""
    return Config.read(merged(config.to_json(), {"runtime": {"device": built.federation.device.type}}))


def with_workers(config: Config, workers: int | None) -> Config:
    """The configuration with so many clients at a time; as it is for None."""
    return (
        config
        if workers is None
        else Config.read(merged(config.to_json(), {"runtime": {"workers": workers}}))
    )


def retention(config: Config, parent: Raw | None = None) -> Retention:
    """Which checkpoints the configuration keeps; of a fork also its first, from which its rounds can be run again."""
    settings = config.checkpoint
    return Retention(
        last=settings.keep_last,
        every=settings.keep_every,
        best="accuracy.mean" if settings.keep_best else None,
        pinned=frozenset({parent["round"]} if parent else ()),
    )
