"""`htfl-sim presets`, `methods`, `models`, `datasets`: what there is to choose from."""

from typing import Annotated, Any

from simulator.nested import as_toml
from tui.cli import completion, options, output
from tui.common.formatting import size


def presets(
    name: Annotated[str | None, options.argument("[NAME]", completion.presets)] = None,
    profile: options.Profile = None,
    paper: Annotated[
        str | None, options.option("Only those that this paper's tables print.", metavar="PAPER")
    ] = None,
    method: Annotated[
        str | None, options.option("Only those of this method.", metavar="M", complete=completion.methods)
    ] = None,
    dataset: Annotated[
        str | None, options.option("Only those on this data set.", metavar="D", complete=completion.datasets)
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the named experiments by paper and table, or show one in full with the papers' numbers.

    \b
    Examples
      htfl-sim presets
      htfl-sim presets fedlora_htm5
      htfl-sim presets --paper fedssa --method fedgh
      htfl-sim presets fedssa_htm5 --profile authors
      htfl-sim presets fedlora_htm5 > mine.toml     then: run --config mine.toml
    """
    import presets as room

    if name is not None:
        _preset(room.load(name, profile or room.PAPER), profile, as_json)
    elif as_json:
        output.emit([_preset_facts(each) for each in room.all() if _wanted(each, paper, method, dataset)])
    else:
        wanted = {each.name: each for each in room.all() if _wanted(each, paper, method, dataset)}
        if not wanted:
            output.say("No preset is like that; see `htfl-sim presets`.")
        for group in room.groups():
            members = [name for name in group.presets if name in wanted]
            if not members or (paper and paper.casefold() not in group.paper.casefold()):
                continue
            rows = [_preset_row(wanted[name], group.paper, group.table) for name in members]
            where = f"{group.paper}, {group.table}" if group.paper else "Of no paper's table"
            output.show(output.heading(where), output.table(["name", "what", ">printed"], rows))


def methods(
    name: Annotated[str | None, options.argument("[NAME]", completion.methods)] = None,
    plugin: options.Plugins = None,
    check: Annotated[
        bool, options.flag("Try what every method promises on tiny models: a few seconds.", "--check")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """List the methods with their papers, requirements and traffic, or show one with its hyper-parameters.

    \b
    Examples
      htfl-sim methods
      htfl-sim methods fedlora
      htfl-sim methods --plugin my_method.py
      htfl-sim methods my_method --plugin my_method.py --check
      htfl-sim run --method fedlora --set method.mu=0.7
    """
    from simulator import methods as room

    options.load_plugins(plugin)
    if check:
        _check_method(name, as_json)
        return
    if name is not None:
        found = _method_facts(room.get(name))
        if as_json:
            output.emit(found)
        else:
            parameters = found.pop("parameters")
            output.show(
                output.facts(found.items()), output.heading("Hyper-parameters (--set method.KEY=VALUE)")
            )
            rows = [[each["key"], _default(each["default"]), each["description"]] for each in parameters]
            output.show(output.table(["key", "default", "meaning"], rows) if rows else "none")
        return
    everything = [_method_facts(room.get(each)) for each in room.names()]
    if as_json:
        output.emit(everything)
    else:
        columns = ["name", "title", "paper", "kind", "needs", "down", "up"]
        rows = [[method[column] for column in columns] for method in everything]
        output.show(output.table(columns, rows, expendable=["kind", "title"]))


def models(
    name: Annotated[str | None, options.argument("[NAME]", completion.models)] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models and the groups that deal them out to clients, sized for CIFAR-10; or show one of either.

    \b
    Examples
      htfl-sim models
      htfl-sim models htm5
      htfl-sim run --set federation.group=htm5
      htfl-sim run --set 'federation.group=["cnn1","cnn5"]'
    """
    from simulator import models as room

    shown = [_model_facts(each) for each in (room.members(name) if name else room.names())]
    groups = {group: members for group, members in room.GROUPS.items() if name in (None, group)}
    if as_json:
        output.emit({"groups": groups, "models": shown})
        return
    columns = ["name", "what", ">parameters", ">size", ">features", "representations"]
    rows = [
        [
            each["name"],
            each["title"],
            f"{each['parameters']:,}",
            size(each["bytes"]),
            each["features"],
            each["layers"],
        ]
        for each in shown
    ]
    output.show(
        output.heading("Models, for CIFAR-10's 3×32×32 images and 10 classes"), output.table(columns, rows)
    )
    if groups:
        output.show(output.heading("Groups: client i gets model i mod X"), output.facts(_listed(groups)))


def datasets(
    name: Annotated[str | None, options.argument("[NAME]", completion.datasets)] = None,
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """List the data sets and whether they are here, or show one.

    Your own images work too: a folder of class folders, or an .npz.

    \b
    Examples
      htfl-sim datasets
      htfl-sim data fetch cifar10
      htfl-sim run --dataset ~/photos/by-species
    """
    from simulator.data import datasets as room

    folder = room.data_folder(data_dir)
    found = [_dataset_facts(room.get(each), folder) for each in ([name] if name else room.names())]
    if as_json:
        output.emit(found[0] if name else found)
    elif name:
        output.show(output.facts(found[0].items()))
    else:
        columns = ["name", "title", ">train", ">test", ">classes", "shape", "here", "source"]
        rows = [[_cell(each[column.lstrip(">")]) for column in columns] for each in found]
        output.show(output.table(columns, rows, expendable=["source"]))
        output.say(f"data folder: {folder}", "dim")


def _preset(preset: Any, profile: str | None, as_json: bool) -> None:
    """One preset: its complete configuration, which `run --config` takes, and what the papers printed."""
    from simulator.config import Config

    config = Config.read(preset.config).to_json() | {"preset": preset.name}
    config |= {"profile": profile} if profile else {}
    if as_json:
        output.emit(_preset_facts(preset) | {"config": config})
        return
    output.show(f"# {preset.title}")
    for each in preset.paper:
        note = f" ({each.note})" if each.note else ""
        output.show(f"# {each.place}: {each.shown}{note}")
    for other in preset.profiles:
        output.show(f"# --profile {other.name}: {'; '.join(other.sources)}")
    output.show("", as_toml(config).rstrip("\n"))


def _wanted(preset: Any, paper: str | None, method: str | None, dataset: str | None) -> bool:
    config = preset.config
    printed = [each.paper.casefold() for each in preset.paper]
    return (
        (paper is None or any(paper.casefold() in each for each in printed))
        and (method is None or config.get("method", {}).get("name") == method)
        and (dataset is None or config.get("data", {}).get("dataset") == dataset)
    )


def _preset_facts(preset: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "name": preset.name,
        "title": preset.title,
        "paper": [asdict(each) for each in preset.paper],
        "profiles": [{"name": each.name, "sources": list(each.sources)} for each in preset.profiles],
    }


def _preset_row(preset: Any, paper: str, table: str) -> list[object]:
    printed = [each.shown for each in preset.paper if (each.paper, each.table) == (paper, table)]
    return [preset.name, preset.title, printed[0] if printed else None]


def _check_method(name: str | None, as_json: bool) -> None:
    """Try every promise, say each as it is found out, and end with exit code 2 if any is broken."""
    from simulator.contract import PROMISES, Subject
    from simulator.errors import ConfigError, MethodError

    if name is None:
        raise ConfigError("--check tries one method; name it: htfl-sim methods NAME --check.")
    subject = Subject(name)
    tried = []
    for promise in PROMISES:
        broken = promise.broken_by(subject)
        tried.append({"promise": promise.sentence, "kept": broken is None, "how": broken})
        if not as_json:
            output.show(f"{'kept  ' if broken is None else 'BROKEN'}  {promise.sentence}")
            if broken is not None:
                output.show(f"        {broken}")
    if as_json:
        output.emit({"method": name, "group": subject.group, "promises": tried})
    if count := sum(not each["kept"] for each in tried):
        raise MethodError(f"method '{name}' breaks {count} of {len(tried)} promises.")


def _method_facts(method: Any) -> dict[str, Any]:
    from pydantic_core import PydanticUndefined

    parameters = [
        {
            "key": key,
            "default": None if field.default is PydanticUndefined else field.default,
            "description": field.description or "",
        }
        for key, field in method.Config.model_fields.items()
        if key != "name"
    ]
    card = method.card
    return {
        "name": method.name,
        "title": card.title,
        "paper": card.paper,
        "kind": card.kind,
        "needs": card.needs,
        "down": card.down,
        "up": card.up,
        "parameters": parameters,
    }


def _model_facts(name: str) -> dict[str, Any]:
    """Size in float32 parameters; buffers such as BatchNorm's statistics not counted."""
    from simulator import models as room

    network = room.architecture(name, room.ImageShape(3, 32, 32), 10)
    parameters = list(network.parameters())
    return {
        "name": name,
        "title": room.get(name).title,
        "parameters": sum(each.numel() for each in parameters),
        "bytes": sum(each.numel() * each.element_size() for each in parameters),
        "features": network.num_features,
        "layers": list(network.layers),
    }


def _dataset_facts(dataset: Any, folder: Any) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "title": dataset.title,
        "train": dataset.train_images,
        "test": dataset.test_images,
        "classes": dataset.classes,
        "shape": "×".join(map(str, dataset.shape)),
        "here": dataset.is_present(folder),
        "source": dataset.source,
        "files": [str(file) for file in dataset.files(folder)],
    }


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def _default(value: object) -> object:
    return "not set" if value is None else value


def _listed(groups: dict[str, Any]) -> list[tuple[str, object]]:
    return [(group, ", ".join(members)) for group, members in groups.items()]
