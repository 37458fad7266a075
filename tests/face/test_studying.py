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


def test_it_has_a_session_for_every_combination_with_its_methods_own_settings(t3: hs.Study) -> None:
    assert t3.points == ["fedavg-s0", "fedavg-s1", "fedprox-s0", "fedprox-s1"]
    assert {name: each.state for name, each in t3.sessions.items()} == dict.fromkeys(t3.points, "finished")
    assert "4 of 4 points finished" in repr(t3)
    assert t3.sessions["fedprox-s1"].settings["method"]["mu"] == 0.5
    assert "mu" not in t3.sessions["fedavg-s1"].settings["method"]


def test_its_table_and_frame_say_where_on_the_axes_each_row_lies(t3: hs.Study) -> None:
    rows = t3.table(by="method", baseline="fedavg").rows
    assert [(row.label, row.n) for row in rows] == [("fedavg", 2), ("fedprox", 2)]
    frame = t3.records()
    assert list(frame.columns[:3]) == ["point", "method", "seed"] and len(frame) == 4 * 2
    seeds = frame.groupby("method")["seed"].unique().map(list).to_dict()
    assert seeds == {"fedavg": [0, 1], "fedprox": [0, 1]}


@pytest.mark.filterwarnings("error")
def test_its_figure_has_a_line_a_method_and_warns_only_of_means_over_settings(t3: hs.Study) -> None:
    (plot,) = t3.plot(x="bytes", by="method").axes
    assert [line.get_label() for line in plot.get_lines()] == ["FedAvg", "FedProx"]
    with pytest.warns(UserWarning, match="digits is a mean over 2 settings of method"):
        t3.plot(by="dataset")
    with pytest.raises(hs.ConfigError, match="accuracy, box"):
        t3.plot("pie")  # type: ignore[arg-type]


def test_it_goes_on_and_grows_where_it_is_asked_to(t3: hs.Study) -> None:
    assert hs.sweep(t3.path).points == t3.points
    with pytest.raises(hs.ConfigError, match="extend"):
        hs.sweep(t3.path, one(), {**OVER, "seed": range(3)})


def test_what_is_no_list_or_no_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(hs.ConfigError, match=r"over\['seed'\] is 3; an axis takes a list"):
        hs.sweep(tmp_path / "t", tiny(), {"seed": 3})  # type: ignore[dict-item]
    assert not (tmp_path / "t").exists()
    with pytest.raises(checkpoints.SessionUnreadable, match="there is no study"):
        hs.Study(tmp_path)


def test_a_bare_name_lies_in_the_folder_of_sessions(
    t3: hs.Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HTFL_SESSIONS", str(t3.path.parent))
    assert hs.Study("t3").points == t3.points
