"""`htfl-sim presets`, `methods`, `models`, `datasets`, and `config`: list everything to choose from."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import htfl_sim as hs
from htfl_sim.choices import Plugins, Profile
from tui.cli import completion, options, output
from tui.cli.options import Option, argument, flag
from tui.common import findings
from tui.common.formatting import size

if TYPE_CHECKING:
    from htfl_sim.catalog import Preset, Setting


PAPER = "List only presets of this paper's tables."
METHOD = "List only presets of this method."
DATASET = "List only presets of this data set."
CHECK = "Check the method against its contract on tiny models, in a few seconds."
OWN_KEYS = "Also list this method's own keys."
OWN_DATA = "Data set, or path of your own data, to show."


def presets(
    name: Annotated[str | None, argument("[NAME]", completion.presets, "Preset to show.")] = None,
    profile: Profile = None,
    paper: Annotated[str | None, Option(PAPER, metavar="PAPER")] = None,
    method: Annotated[str | None, Option(METHOD, metavar="M", complete=completion.methods)] = None,
    dataset: Annotated[str | None, Option(DATASET, metavar="D", complete=completion.datasets)] = None,
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
    if name is not None:
        _preset(hs.catalog.preset(name, profile), profile, as_json)
        return
    wanted = {each.name: each for each in hs.catalog.presets(paper, method, dataset)}
    if as_json:
        output.emit(list(map(hs.catalog.preset_json, wanted.values())))
        return
    if not wanted:
        output.say("No preset is like that; see `htfl-sim presets`.")
    for group in hs.catalog.preset_groups():
        place = (group.paper, group.table)
        rows = []
        for each in (wanted[name] for name in group.presets if name in wanted):
            printed = [one.shown for one in each.paper if (one.paper, one.table) == place]
            rows.append([each.name, each.title, printed[0] if printed else None])
        if rows and (not paper or paper.casefold() in group.paper.casefold()):
            where = ", ".join(place) if group.paper else "Of no paper's table"
            output.show(output.heading(where), output.table(["name", "what", ">printed"], rows))


def _preset(found: "Preset", profile: str | None, as_json: bool) -> None:
    """One preset: its complete configuration, as `run --config` accepts it, and the papers' printed values."""
    config = hs.catalog.preset_config(found, profile)
    if as_json:
        output.emit(hs.catalog.preset_json(found) | {"config": config})
        return
    output.show(f"# {found.title}")
    for each in found.paper:
        note = f" ({each.note})" if each.note else ""
        output.show(f"# {each.place}: {each.shown}{note}")
    for other in found.profiles:
        output.show(f"# --profile {other.name}: {'; '.join(other.sources)}")
    output.show("", *hs.catalog.as_toml(config).splitlines())


def methods(
    name: Annotated[str | None, argument("[NAME]", completion.methods, "Method to show.")] = None,
    plugins: Plugins = (),
    check: Annotated[bool, flag(CHECK, "--check")] = False,
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

    hs.load_files(plugins)
    if check:
        _check_method(name, as_json)
        return
    if name is None:
        everything = [each.to_json() for each in hs.catalog.methods()]
        columns = ["name", "title", "paper", "kind", "needs", "down", "up"]
        rows = [[each[column] for column in columns] for each in everything]
        output.answer(as_json, everything, output.table(columns, rows, expendable=["kind", "title"]))
        return
    card = hs.catalog.method(name)
    found = card.to_json()
    if as_json:
        output.emit(found)
        return
    rows = []
    for each in found.pop("parameters"):
        values = ", ".join(map(str, each["values"] or ()))  # if these are few
        default = "not set" if each["default"] is None else each["default"]
        rows.append([each["key"], default, each["description"] + (f" ({values})" if values else "")])
    del found["space"]
    output.show(
        output.facts(found),
        output.heading("Hyper-parameters (--set method.KEY=VALUE)"),
        output.table(["key", "default", "meaning"], rows) if rows else "none",
        output.heading("Ranges that `htfl-sim tune` searches"),
        output.facts(card.ranges),
    )


def _check_method(name: str | None, as_json: bool) -> None:
    """Check every promise and print each result. Exits with code 2 if any promise is broken."""
    if name is None:
        raise hs.ConfigError("--check tries one method; name it: htfl-sim methods NAME --check.")
    tried = []
    for each in hs.catalog.check_method(name):
        tried.append(each)
        if not as_json:
            output.show(f"{'kept  ' if each.kept else 'BROKEN'}  {each.promise}")
            if each.how is not None:
                output.show(f"        {each.how}")
    if as_json:
        group = hs.catalog.trial_group(name)
        output.emit({"method": name, "group": group, "promises": [asdict(each) for each in tried]})
    hs.catalog.refuse_broken(name, tried)


def models(
    name: Annotated[str | None, argument("[NAME]", completion.models, "Model or group to show.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models and model groups with their sizes, or show one of them.

    \b
    Examples
      htfl-sim models
      htfl-sim models htm5
      htfl-sim run --set federation.group=htm5
      htfl-sim run --set 'federation.group=["cnn1","cnn5"]'
    """
    shown, groups = hs.catalog.models(name), hs.catalog.model_groups(name)
    if as_json:
        output.emit({"groups": groups, "models": [asdict(each) for each in shown]})
        return
    cells: output.Cells = {"name": "name", "what": "title", "samples": "samples"}
    cells |= {">parameters": lambda each: f"{each.parameters:,}", ">size": lambda each: size(each.bytes)}
    cells |= {">features": "features", "representations": "layers"}
    output.show(
        output.heading("Models, for 10 classes of 3×32×32 images, 200 tokens, 9×128 signals, or 30 features"),
        output.listing(shown, cells),
    )
    if groups:
        output.show(
            output.heading("Groups: client i gets model i mod X"),
            output.facts((group, ", ".join(each)) for group, each in groups.items()),
        )


def datasets(
    name: Annotated[str | None, argument("[NAME]", completion.datasets, OWN_DATA)] = None,
    settings: options.Assignments = (),
    data_dir: options.DataDir = None,
    as_json: options.AsJson = False,
) -> None:
    """List the data sets and whether they are present, or show one.

    Of your own data, it shows what a run would read: a folder of class
    folders, an .npz, a table, or a data set of Hugging Face.

    \b
    Examples
      htfl-sim datasets
      htfl-sim datasets ~/photos/by-species
      htfl-sim datasets my.csv --set data.target=label
      htfl-sim data fetch cifar10
      htfl-sim run --dataset ~/photos/by-species
      htfl-sim run --dataset hf:fancyzhx/ag_news --set data.target=label
    """
    if name and name not in hs.catalog.dataset_names():
        report = hs.catalog.report(name, settings, data_dir)
        if as_json:
            output.emit(report)
            return
        output.show(output.facts(findings.data_facts(report)))
        output.warn(report["warnings"])
        return
    if settings:
        remedy = "Name their path: htfl-sim datasets PATH --set KEY=VALUE."
        raise hs.ConfigError(f"--set describes your own data. {remedy}")
    if name:
        one = asdict(hs.catalog.dataset(name, data_dir))
        output.answer(as_json, one, output.facts(one))
        return
    found = [asdict(each) for each in hs.catalog.datasets(data_dir)]
    columns = ["name", "title", ">train", ">test", ">classes", "shape", "here", "source"]
    rows = [[_cell(each[column.lstrip(">")]) for column in columns] for each in found]
    output.answer(as_json, found, output.table(columns, rows, expendable=["source"]))
    if not as_json:
        output.say(f"data folder: {hs.folders.data_folder(data_dir)}", "dim")


def config(
    key: Annotated[str | None, argument("[KEY]", completion.keys, "Key to show.")] = None,
    method: Annotated[str | None, Option(OWN_KEYS, metavar="M", complete=completion.methods)] = None,
    plugins: Plugins = (),
    as_json: options.AsJson = False,
) -> None:
    """List every configuration key with its values, default, and meaning, or show one key.

    A run's own values: `htfl-sim show NAME`, or `htfl-sim presets NAME`.

    \b
    Examples
      htfl-sim config
      htfl-sim config training.lr
      htfl-sim config method.mu
      htfl-sim config --method fedlora
    """
    hs.load_files(plugins)
    found = hs.catalog.settings(key, method)
    if as_json:
        output.emit([asdict(each) for each in found])
    elif key is not None:
        for number, each in enumerate(found):
            facts = {
                "key": each.key,
                "takes": each.takes,
                "default": _setting_default(each),
                "meaning": each.description,
                "methods": ", ".join(each.methods),
                "set it": f"--set {each.key}=VALUE",
            }
            output.show(*([""] if number else []), output.facts(facts))
    else:
        cells: output.Cells = {"key": "key", "takes": "takes", "default": _setting_default}
        output.show(output.listing(found, cells | {"meaning": "description"}))
        if not method:
            own = "A method's own keys: htfl-sim config --method M, or htfl-sim config method.KEY"
            output.say(own, "dim")


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else value


def _setting_default(each: "Setting") -> str:
    return "not set" if each.default is None else hs.catalog.toml_value(each.default)
