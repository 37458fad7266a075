"""What sessions did before a setting existed: they go on with it, whatever new sessions do by default.

A session records its configuration whole. A key that is missing there is younger than the session.
"""

from collections.abc import Mapping
from typing import Any

from simulator.base.data_section import has_columns, is_own
from simulator.base.nested import Raw, flattened, merged, renamed
from simulator.base.sections import SAMPLED

SECTIONS: dict[str, Raw] = {
    "data": {"statistics": "all"},
    "cka": {"every": 0, "model": "local", "untrained": True},
    "evaluation": {"parts": [], "initial": "all", "metrics_for": "all", "classes": False},
}
METHODS: dict[str, Raw] = {
    "fedssa": {"t_from": 1, "holders": "participants"},
    "fedgh": {"server_step": "client"},
    "fedgen": {"weighting": "samples", "hidden_bias": True},
    "fedtgp": {"distance": "samples"},
    **{name: {"scale_layers": False} for name in ("heterofl", "fedrolex")},
    "fedproto": {"collect": "after"},
    "fd": {"distance": "mse", "collect": "after"},
    "moon": {"first": "own"},
    "inco_moon": {"first": "own", "epsilon": 0.0},
    **{name: {"epsilon": 0.0} for name in ("inco_avg", "inco_prox", "inco_nova", "inco_scaffold")},
}
"""By the method's name, of its own section."""


def completed(raw: Mapping[str, Any]) -> Raw:
    """A recorded configuration with what was so before its missing keys existed."""
    today = renamed(raw)
    return merged(_before(today), today)


def younger(raw: Mapping[str, Any]) -> Raw:
    """The settings that a recorded configuration lacks, by dotted key, as `completed` fills them."""
    today = renamed(raw)
    known = flattened(today)
    return {key: value for key, value in flattened(_before(today)).items() if key not in known}


COMPARED = 1000
"""Up to so many clients, CKA compared all of them."""


def _before(raw: Mapping[str, Any]) -> Raw:
    method, federation, system = (raw.get(section) for section in ("method", "federation", "system"))
    name = method.get("name") if isinstance(method, Mapping) else None
    own = METHODS.get(str(name), {})
    clients = federation.get("clients") if isinstance(federation, Mapping) else None
    everybody: Raw = {}
    if isinstance(clients, int) and SAMPLED < clients <= COMPARED:
        everybody = {"cka": {"clients": clients}}
    data = raw.get("data")
    columns: Raw = {}
    if isinstance(data, Mapping) and is_own(data):
        columns["domains"] = "found"
    if isinstance(data, Mapping) and has_columns(str(data.get("dataset"))):
        columns["numbers"] = "inferred"
    timed: Raw = {}
    if isinstance(system, Mapping):
        stale = system.get("schedule") == "buffered" or system.get("late") == "next"
        timed = {"system": {"costs": "planned", **({"stale_as": "model"} if stale else {})}}
    return merged(
        merged({**SECTIONS, **({"method": own} if own else {}), **timed}, everybody), {"data": columns}
    )
