"""Studies from Python: run as processes, read as one table, one frame, one figure."""

from pathlib import Path

import pytest

import checkpoints
import htfl_sim as hs
from tests.face.conftest import tiny

OVER = {"method": ["fedavg", "fedprox"], "seed": range(2)}


def one(**settings: object) -> hs.Config:
    """Two rounds of FedProx on one tiny architecture."""
    return tiny(federation__group=["tiny_cnn"], method="fedprox", method__mu=0.5, rounds=2, **settings)


@pytest.fixture(scope="module")
def t3(tmp_path_factory: pytest.TempPathFactory) -> hs.Study:
    """Two methods and two seeds on one tiny architecture."""
    return hs.sweep(tmp_path_factory.mktemp("studies") / "t3", one(), OVER, jobs=2)


def test_it_has_a_session_for_every_combination(t3: hs.Study) -> None:
    assert t3.points == ["fedavg-s0", "fedavg-s1", "fedprox-s0", "fedprox-s1"]
    assert {name: each.state for name, each in t3.sessions.items()} == dict.fromkeys(t3.points, "finished")
    assert "4 of 4 points finished" in repr(t3)


def test_a_methods_own_settings_are_for_its_own_points(t3: hs.Study) -> None:
    assert t3.sessions["fedprox-s1"].settings["method"]["mu"] == 0.5
    assert "mu" not in t3.sessions["fedavg-s1"].settings["method"]


def test_a_point_gives_the_bits_of_a_run_by_itself(t3: hs.Study, tmp_path: Path) -> None:
    alone = hs.run(one(seed=1), tmp_path / "alone")
    assert alone.records()["accuracy"].tolist() == t3.sessions["fedprox-s1"].records()["accuracy"].tolist()


def test_its_table_has_a_row_a_method_over_the_seeds(t3: hs.Study) -> None:
    rows = t3.table(by="method", baseline="fedavg").rows
    assert [(row.label, row.n) for row in rows] == [("fedavg", 2), ("fedprox", 2)]


def test_its_frame_says_where_on_the_axes_each_round_lies(t3: hs.Study) -> None:
    frame = t3.records()
    assert list(frame.columns[:3]) == ["point", "method", "seed"]
    assert len(frame) == 4 * 2
    assert frame.groupby("method")["seed"].unique().map(list).to_dict() == {
        "fedavg": [0, 1],
        "fedprox": [0, 1],
    }


@pytest.mark.filterwarnings("error")
def test_a_figure_without_hidden_differences_warns_of_nothing(t3: hs.Study) -> None:
    t3.plot(by="method")


def test_a_figure_that_averages_over_settings_warns(t3: hs.Study) -> None:
    with pytest.warns(UserWarning, match="digits is a mean over 2 settings of method"):
        t3.plot(by="dataset")


def test_its_figure_has_a_line_a_method(t3: hs.Study) -> None:
    (plot,) = t3.plot(x="bytes", by="method").axes
    assert [line.get_label() for line in plot.get_lines()] == ["FedAvg", "FedProx"]


def test_it_goes_on_and_grows_where_it_is_asked_to(t3: hs.Study) -> None:
    assert hs.sweep(t3.path).points == t3.points
    with pytest.raises(hs.ConfigError, match="extend"):
        hs.sweep(t3.path, one(), {**OVER, "seed": range(3)})


def test_values_that_are_no_list_are_refused(tmp_path: Path) -> None:
    with pytest.raises(hs.ConfigError, match=r"over\['seed'\] is 3; an axis takes a list"):
        hs.sweep(tmp_path / "t", tiny(), {"seed": 3})  # type: ignore[dict-item]
    assert not (tmp_path / "t").exists()


def test_what_is_no_study_is_said(tmp_path: Path) -> None:
    with pytest.raises(checkpoints.SessionUnreadable, match="there is no study"):
        hs.Study(tmp_path)


def test_a_bare_name_lies_in_the_folder_of_sessions(
    t3: hs.Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HTFL_SESSIONS", str(t3.path.parent))
    assert hs.Study("t3").points == t3.points


def test_an_unknown_figure_names_those_there_are(t3: hs.Study) -> None:
    with pytest.raises(hs.ConfigError, match="accuracy, box"):
        t3.plot("pie")  # type: ignore[arg-type]
