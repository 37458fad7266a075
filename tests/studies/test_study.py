"""From what a study asks for to its points: derived by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import presets
from presets import PresetError
from simulator.base.errors import ConfigError
from simulator.base.nested import merged, toml_value, with_method
from simulator.config import Config
from simulator.config.user_files import Files
from simulator.studies.study import StudySpec, axis, name, values

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


def test_a_template_takes_each_methods_own_preset() -> None:
    study = StudySpec("{method}_htm5", over={"method": ("fedgh", "fedssa")})
    fedgh, fedssa = study.points(NOWHERE)
    assert (fedgh.config["preset"], fedssa.config["preset"]) == ("fedgh_htm5", "fedssa_htm5")
    assert (
        fedssa.config == Config.read(presets.load("fedssa_htm5").config | {"preset": "fedssa_htm5"}).to_json()
    )


def test_points_may_take_training_data_and_federation_settings_from_one_preset() -> None:
    """FedGH's own preset trains with batches of 32, FedSSA's clips gradients; Standalone's does neither."""
    own = StudySpec("{method}_htm5", over={"method": ("standalone", "fedgh", "fedssa")})
    shared = replace(own, settings_from="standalone_htm5")
    assert [each.config["training"]["batch_size"] for each in own.points(NOWHERE)] == [64, 32, 64]
    standalone, fedgh, fedssa = shared.points(NOWHERE)
    for section in ("rounds", "until", "data", "federation", "models", "training", "wire"):
        assert fedgh.config[section] == fedssa.config[section] == standalone.config[section]
    assert (fedgh.config["preset"], fedssa.config["method"]["mu_0"]) == ("fedgh_htm5", 0.5)


def test_settings_of_the_study_lie_over_those_that_its_points_share() -> None:
    study = StudySpec(
        "{method}_htm5",
        settings_from="standalone_htm5",
        config={"rounds": 5},
        over={"method": ("fedgh",), "training.lr": (0.5,)},
    )
    (point,) = study.points(NOWHERE)
    assert (point.config["rounds"], point.config["training"]["lr"]) == (5, 0.5)


def test_presets_may_be_an_axis_of_their_own() -> None:
    points = StudySpec(over={"preset": ("fedgh_htm5", "fedssa_a_htm5")}).points(NOWHERE)
    assert [point.name for point in points] == ["fedgh_htm5", "fedssa_a_htm5"]
    assert points[1].config["method"]["fusion"] == "replace_all"


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
    ):
        with pytest.raises(ConfigError, match=message):
            study.points(NOWHERE)


def test_a_preset_that_a_template_does_not_give_is_named() -> None:
    with pytest.raises(PresetError, match="unknown preset 'fedgh_htm6'"):
        StudySpec("{method}_htm6", over={"method": ("fedgh",)}).points(NOWHERE)


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


def test_a_study_file_may_write_ranges_and_dotted_keys(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        'preset = "quickstart"\n[over]\nseed = "0..2"\nmethod.mu = [0.5]\n', encoding="utf-8"
    )
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


def test_an_axis_is_written_as_key_and_values() -> None:
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


def test_what_is_no_axis_is_refused_with_an_example_or_a_reason() -> None:
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
