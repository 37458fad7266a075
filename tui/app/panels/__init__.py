"""The app's panels, by the ids that tabs and keys use."""

from tui.app.panels.base import SizedPanel
from tui.app.panels.clients import ClientsPanel
from tui.app.panels.compare import ComparePanel
from tui.app.panels.cost import CostPanel
from tui.app.panels.data_features import DataFeaturesPanel
from tui.app.panels.live import LivePanel
from tui.app.panels.log import LogPanel
from tui.app.panels.sessions import SessionsPanel
from tui.app.panels.similarity import SimilarityPanel

PANELS: dict[str, type[SizedPanel]] = {
    "live": LivePanel,
    "clients": ClientsPanel,
    "similarity": SimilarityPanel,
    "cost": CostPanel,
    "compare": ComparePanel,
    "log": LogPanel,
    "data": DataFeaturesPanel,
    "sessions": SessionsPanel,
}

__all__ = ["PANELS"]
