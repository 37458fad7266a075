"""From what a study asks for to its points, derived by hand, and how a study that is there goes on."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import checkpoints
import presets
from checkpoints import SessionUnreadable
from presets import PresetError
from simulator.base.errors import ConfigError
from simulator.base.nested import merged, toml_value, with_method
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.studies.folder import Status, documents, read_points, text_of, time_left
from simulator.studies.search import Request, read_request
from simulator.studies.study import StudySpec, axis, name, values
from simulator.studies.sweep import Plan, plan
from tests import sessions

TINY: dict[str, Any] = {
    "rounds": 2,
    "federation": {"group": "tiny", "clients": 4},
    "data": {"limit": 200, "partition": "iid"},
}
NOWHERE = Path("nowhere")


def test_points_are_the_product_of_the_axes_the_last_varying_fastest() -> None:
    study = StudySpec("quickstart", config=TINY, over={"method": ("fedgh", "fedssa"), "seed": (0, 1)})
    assert [(point.name, point.axes) for point in study.points(NOWHERE)] == [
        ("fedgh-s0", {"method": "fedgh", "seed": 0}),
        ("fedgh-s1", {"method": "fedgh", "seed": 1}),
        ("fedssa-s0", {"method": "fedssa", "seed": 0}),
        ("fedssa-s1", {"method": "fedssa", "seed": 1}),
    ]


def test_a_point_is_named_by_its_values() -> None:
    for axes, expected in (
        ({"method": "fedlora", "seed": 3}, "fedlora-s3"),
        ({"method.mu": 0.5, "method.hidden": 20}, "mu0.5-hidden20"),
        ({"training.lr": 1e-5}, "lr1e-05"),
        ({"training.lr": 0.1, "method.lr": 0.2}, "training.lr0.1-method.lr0.2"),
        ({"data.rgb": True, "data.dataset": "/my/images"}, "rgbtrue-datasetimages"),
        ({"federation.group": ["cnn1", "cnn3"]}, "groupcnn1_cnn3"),
        ({"preset": "fedgh_htm5"}, "fedgh_htm5"),
    ):
        assert name(axes) == expected


def test_a_point_is_configured_as_a_run_with_the_same_options_would_be() -> None:
    """`run --preset fedlora_htm5 --method fedgh --seed 1 --rounds 2 --set training.lr=0.5`, by hand."""
    study = StudySpec(
        "fedlora_htm5", config={"rounds": 2}, over={"method": ("fedgh",), "seed": (1,), "training.lr": (0.5,)}
    )
    raw = with_method(presets.load("fedlora_htm5").config | {"preset": "fedlora_htm5"}, "fedgh")
    wanted = Config.read(merged(raw, {"rounds": 2, "seed": 1, "training": {"lr": 0.5}}))
    assert study.points(NOWHERE)[0].config == wanted.to_json()


def test_presets_are_named_by_a_template_or_are_an_axis_of_their_own() -> None:
    fedgh, fedssa = StudySpec("{method}_htm5", over={"method": ("fedgh", "fedssa")}).points(NOWHERE)
    assert (fedgh.config["preset"], fedssa.config["preset"]) == ("fedgh_htm5", "fedssa_htm5")
    own = presets.load("fedssa_htm5").config | {"preset": "fedssa_htm5"}
    assert fedssa.config == Config.read(own).to_json()
    points = StudySpec(over={"preset": ("fedgh_htm5", "fedssa_a_htm5")}).points(NOWHERE)
    assert [point.name for point in points] == ["fedgh_htm5", "fedssa_a_htm5"]
    assert points[1].config["method"]["fusion"] == "replace_all"


def test_points_may_take_training_data_and_federation_settings_from_one_preset() -> None:
    """FedGH's own preset trains with batches of 32, FedSSA's clips gradients; Standalone's does neither."""
    own = StudySpec("{method}_htm5", over={"method": ("standalone", "fedgh", "fedssa")})
    shared = replace(own, settings_from="standalone_htm5")
    assert [each.config["training"]["batch_size"] for each in own.points(NOWHERE)] == [64, 32, 64]
    standalone, fedgh, fedssa = shared.points(NOWHERE)
    for section in ("rounds", "until", "data", "federation", "models", "training", "wire"):
        assert fedgh.config[section] == fedssa.config[section] == standalone.config[section]
    assert (fedgh.config["preset"], fedssa.config["method"]["mu_0"]) == ("fedgh_htm5", 0.5)
    [point] = replace(
        shared, config={"rounds": 5}, over={"method": ("fedgh",), "training.lr": (0.5,)}
    ).points(NOWHERE)
    assert (point.config["rounds"], point.config["training"]["lr"]) == (5, 0.5)


def test_what_is_no_study_is_refused_with_a_reason() -> None:
    for study, message in (
        (StudySpec("quickstart"), "needs an axis"),
        (StudySpec("quickstart", over={"training.lrr": (1,)}), "Did you mean 'training.lr'"),
        (StudySpec("quickstart", over={"sed": (1,)}), "Did you mean 'seed'"),
        (
            StudySpec("quickstart", over={"method.mu": (0.5,), "method": ("fedgh",)}),
            "mu0.5-fedgh: 'method.mu' is an",
        ),
        (
            StudySpec("{metod}_htm5", over={"method": ("fedgh",)}),
            "'metod', which is missing. Did you mean 'method'",
        ),
        (StudySpec("{method}_htm5", over={"method": ("fedssa_a",)}), "Presets are an axis of their own"),
        (StudySpec(settings_from="quickstart", over={"seed": (1,)}), "this study has no preset"),
        (StudySpec("quickstart", origin="a@1", over={"seed": (1,)}), "name one of them"),
        (
            StudySpec("quickstart", over={"data.dataset": ("/a/x", "/b/x")}),
            "two points would be called 'datasetx'",
        ),
        (StudySpec(over={"seed": (1,)}), "'method' is missing"),
        (StudySpec("{method}_htm6", over={"method": ("fedgh",)}), "unknown preset 'fedgh_htm6'"),
    ):
        with pytest.raises((ConfigError, PresetError), match=message):
            study.points(NOWHERE)


def test_a_study_written_as_a_file_is_read_back_as_it_was(tmp_path: Path) -> None:
    study = StudySpec(
        "{method}_htm5",
        profile="authors",
        settings_from="standalone_htm5",
        config={"rounds": 5, "data": {"alpha": 0.1}},
        over={"method": ("fedgh",), "method.mu_0": (0.5, 0.9), "seed": (0, 1)},
        files=Files((str(tmp_path / "mine.py"),), (str(tmp_path / "nets.py"),), (str(tmp_path / "f1.py"),)),
        title="A title",
    )
    (tmp_path / "s.toml").write_text(study.to_toml(), encoding="utf-8")
    assert StudySpec.read(tmp_path / "s.toml") == study
    text = 'preset = "quickstart"\n[over]\nseed = "0..2"\nmethod.mu = [0.5]\n'  # ranges and dotted keys
    (tmp_path / "s.toml").write_text(text, encoding="utf-8")
    assert StudySpec.read(tmp_path / "s.toml").over == {"seed": (0, 1, 2), "method.mu": (0.5,)}


def test_a_file_that_is_no_study_is_refused_with_its_place(tmp_path: Path) -> None:
    for text, message in (
        ("presett = 'quickstart'", "unknown key 'presett'. Did you mean 'preset'"),
        ("rounds = 3", r"settings go into \[config\]"),
        ("[over]\nseed = 3", r"over.seed = 3 is not a list of values; write \[3\]"),
        ("over = 3", "'over' is no table"),
        ("preset = 3", "'preset' is no text"),
        ("seed =", "not valid TOML"),
    ):
        (tmp_path / "s.toml").write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=message) as refusal:
            StudySpec.read(tmp_path / "s.toml")
        assert "s.toml" in str(refusal.value) or "over." in str(refusal.value)


@given(
    st.lists(
        st.one_of(st.integers(), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)), min_size=1
    )
)
def test_what_toml_can_say_comes_back_as_it_was(given_values: list[object]) -> None:
    distinct = [
        value
        for number, value in enumerate(given_values)
        if not any(value == other for other in given_values[:number])
    ]
    assert list(values("k", ",".join(map(toml_value, distinct)))) == distinct


def test_an_axis_is_written_as_key_and_values_or_refused_with_an_example_or_a_reason() -> None:
    for text, expected in (
        ("method=fedgh,fedssa", ("method", ("fedgh", "fedssa"))),
        ("seed=0..2", ("seed", (0, 1, 2))),
        ("seed=0..1,7", ("seed", (0, 1, 7))),
        ("method.mu = 0.5, 0.7", ("method.mu", (0.5, 0.7))),
        ("data.rgb=true,false", ("data.rgb", (True, False))),
        ('federation.group=["cnn1","cnn2"],htm5', ("federation.group", (["cnn1", "cnn2"], "htm5"))),
        ('data.dataset="a,b",c', ("data.dataset", ("a,b", "c"))),
    ):
        assert axis(text) == expected
    for text, message in (
        ("seed", "is not an axis"),
        ("=1", "is not an axis"),
        ("seed=", "is not an axis"),
        ("seed=2..0", "from the smaller up to the larger"),
        ("seed=0..99999", "use up to 10,000 numbers"),
        ("lr=0.1,0.10", "value 0.1 twice"),
    ):
        with pytest.raises(ConfigError, match=message):
            axis(text)


# A study that is there goes on as it was asked for; what would change it is refused, or adds to it.

STUDY = StudySpec("quickstart", config=TINY, over={"method": ("fedgh", "fedssa"), "seed": (0, 1)})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A study that has been asked for, and none of whose points has run."""
    plan(tmp_path / "t", STUDY).open().close("stopped")
    return tmp_path / "t"


def names(planned: Plan) -> Sequence[str]:
    return [point.name for point in planned.points]


def test_a_study_lies_in_its_folder_as_it_was_asked_for(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} >= {"study.toml", "points.json", "lock"}
    listed = json.loads((folder / "points.json").read_text())
    assert [(each["name"], each["axes"]) for each in listed][1] == (
        "fedgh-s1",
        {"method": "fedgh", "seed": 1},
    )
    assert StudySpec.read(folder / "study.toml") == STUDY
    assert checkpoints.groups(folder.parent) == [folder]
    for again in (plan(folder), plan(folder, STUDY)):
        assert again.listed and again.points == plan(folder).points and len(again.unbegun) == 4


def test_more_values_are_refused_with_how_to_have_them_and_then_had(folder: Path) -> None:
    more = replace(STUDY, over={**STUDY.over, "seed": (0, 1, 2)})
    with pytest.raises(ConfigError, match=r"Use `extend=True` to add 2 points \(fedgh-s2, fedssa-s2\)"):
        plan(folder, more)
    extended = plan(folder, more, extend=True)
    assert names(extended) == ["fedgh-s0", "fedgh-s1", "fedgh-s2", "fedssa-s0", "fedssa-s1", "fedssa-s2"]
    extended.open().close("stopped")
    assert plan(folder).points == extended.points and plan(folder).listed


def test_another_study_under_the_same_name_is_refused_with_what_differs(folder: Path) -> None:
    for change, message in (
        ({"config": {**TINY, "rounds": 3}}, r"'fedgh-s0' would change \(rounds 2 → 3\)"),
        ({"over": {"method": ("fedgh",), "seed": (0, 1)}}, "leave out its point 'fedssa-s0'"),
        ({"over": {**STUDY.over, "training.lr": (0.1,)}}, "leave out its point 'fedgh-s0'"),
    ):
        for extend in (False, True):
            with pytest.raises(ConfigError, match=message):
                plan(folder, replace(STUDY, **change), extend=extend)


def test_a_study_file_that_was_edited_is_refused_with_what_differs(folder: Path) -> None:
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.replace("rounds = 2", "rounds = 4"))
    with pytest.raises(ConfigError, match="rounds 2 → 4"):
        plan(folder)
    (folder / "study.toml").write_text(text.replace("seed = [0, 1]", "seed = [0, 1, 2]"))
    with pytest.raises(ConfigError, match="Use `extend=True`"):
        plan(folder)
    assert len(plan(folder, extend=True).points) == 6
    (folder / "study.toml").write_text(f'# my notes\ntitle = "Mine"\n{text}')  # changes no point
    assert plan(folder).points == plan(folder, STUDY).points


def test_points_stay_as_listed_without_their_preset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = plan(folder).points
    monkeypatch.setattr("presets.load", lambda *_: pytest.fail("the preset was asked"))
    assert plan(folder).points == before


def test_where_a_study_cannot_be_it_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SessionUnreadable, match="there is no study"):
        plan(tmp_path / "t")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "notes.txt").touch()
    with pytest.raises(SessionUnreadable, match=r"notes\.txt in it"):
        plan(tmp_path / "t", STUDY).open()


def test_studies_of_before_keep_their_rules_for_listed_points_and_for_the_next_ones(tmp_path: Path) -> None:
    """Without data.statistics: statistics then came from all samples."""
    [point, *_] = STUDY.points(tmp_path)
    data = {key: value for key, value in point.config["data"].items() if key != "statistics"}
    older = point.config | {"data": data}
    checkpoints.Group.open(tmp_path / "t", documents(STUDY, [replace(point, config=older)])).close("stopped")
    assert read_points(tmp_path / "t")[0].config["data"]["statistics"] == "all"
    with checkpoints.Group.open(tmp_path / "u", documents(STUDY, [])) as group:
        group.write({checkpoints.TUNING: text_of(asdict(Request(older, ("standalone",), rounds=1)))})
    assert read_request(tmp_path / "u").base["data"]["statistics"] == "all"


def test_a_point_is_as_far_as_its_session_s_files_say(tmp_path: Path) -> None:
    waiting = Status("p", rounds=20)
    assert waiting.read(tmp_path / "p") == waiting, "it has none yet"
    sessions.make(tmp_path / "p", rounds=12, of=20, state="stopped")
    read = waiting.read(tmp_path / "p")
    assert (read.state, read.round, read.rounds, read.seconds) == ("stopped", 12, 20, (2.5,))
    assert read.accuracy is not None and read.best is not None and read.left == 8 * 2.5
    (tmp_path / "p" / "session.json").write_text("{")
    read = waiting.read(tmp_path / "p")
    assert read.state == "failed" and "session.json" in read.reason


def test_points_that_have_not_begun_take_what_the_others_do() -> None:
    for statuses, jobs, seconds in (
        ([Status("a", 10)], 1, None),  # nothing has been timed
        ([Status("a", 10, "running", 4, seconds=(1.0, 3.0))], 1, 6 * 2.0),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 1, 6 * 2.0 + 10 * 2.0),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 2, (6 * 2.0 + 10 * 2.0) / 2),
        ([Status("a", 10, "running", 4, seconds=(2.0,)), Status("b", 10)], 9, (6 * 2.0 + 10 * 2.0) / 2),
        # four rounds took 8 s of simulated time, and 6 s are left: three rounds
        ([Status("a", 10, "running", 4, seconds=(2.0,), until_time=14.0, simulated=8.0)], 1, 3 * 2.0),
        ([Status("a", 10, "failed", 4, seconds=(2.0,)), Status("b", 5)], 1, 5 * 2.0),
        ([Status("a", 10, "finished", 10, seconds=(2.0,))], 1, 0.0),
    ):
        assert time_left(statuses, jobs) == seconds
