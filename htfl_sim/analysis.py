"""The numbers of sessions, as the app draws them and as your own scripts can: torch is not needed.

    from htfl_sim.analysis import Feed, feed

    run = feed.read(Path("sessions/mu07"))   # one session now, also while another process runs it
    run.curves.mean                          # [rounds] mean test accuracy, 0…1
    best_round(run.curves.mean)              # the highest, and its round
    Feed(folder).poll()                      # whether a live session has changed since

Sessions: Feed, Run, Summary, StudySummary, Branch. Numbers per round and client: Curves, costs, clients' changes, CKA,
seconds. Several sessions: measures, differences, standing. What they look like: palette, one color per method.
"""

from simulator.base.documents import Event
from simulator.base.names import cell
from simulator.base.record import Record
from simulator.base.sections import MANY, SAMPLED
from simulator.results.analysis import axes, feed, remaining, static_names
from simulator.results.analysis.axes import seed_text
from simulator.results.analysis.caveats import rows_differ
from simulator.results.analysis.cka import CkaMeasurement, last_measured, least_similar
from simulator.results.analysis.clients import (
    accuracy_changes,
    best_round,
    fell_most,
    incidents,
    listed_clients,
    lowest_client,
)
from simulator.results.analysis.comparison import common_target, differences, standing
from simulator.results.analysis.costs import (
    COSTS,
    SIMULATED,
    Cost,
    Position,
    costs,
    elsewhere,
    nearest,
    spent,
)
from simulator.results.analysis.curves import Array, Curves
from simulator.results.analysis.events import description, is_alarming, shown_events
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.lineage import Branch, tree
from simulator.results.analysis.measures import (
    MEASURES,
    Line,
    Measure,
    Values,
    accuracy_of,
    after_fork,
    averaged,
    measured,
)
from simulator.results.analysis.milestones import milestones
from simulator.results.analysis.overview import read_overview
from simulator.results.analysis.parts import PARTS, client_on_part, part_means, part_measures
from simulator.results.analysis.quantiles import quantiles
from simulator.results.analysis.reproduction import command_lines
from simulator.results.analysis.resources import (
    TIME_PARTS,
    at_work,
    busy_share,
    machine_use,
    method_metrics,
    seconds_by_part,
)
from simulator.results.analysis.run import LIVE, SessionData
from simulator.results.analysis.samples import FEW, Samples, tested
from simulator.results.analysis.summary import Summary
from simulator.results.analysis.timeline import Timeline, timeline
from simulator.results.analysis.traffic import by_tensor
from simulator.results.figures import palette
from simulator.results.figures.palette import (
    OKABE_ITO,
    VIRIDIS_STOPS,
    channels,
    contrast,
    in_order,
    looks_of,
    luminance,
)
from simulator.results.inspection import client_samples
from simulator.results.inspection.client_samples import ClassSample, ClientSamples, FeatureMean
from simulator.results.inspection.embedding import Embedding
from simulator.sessions.history import entries_to, next_change, settings_in_force
from simulator.studies.summary import Seeds, StudySummary, by_seed, study_axes

__all__ = [
    "COSTS",
    "FEW",
    "LIVE",
    "MANY",
    "MEASURES",
    "OKABE_ITO",
    "PARTS",
    "SAMPLED",
    "SIMULATED",
    "TIME_PARTS",
    "VIRIDIS_STOPS",
    "Array",
    "Branch",
    "CkaMeasurement",
    "ClassSample",
    "ClientSamples",
    "Cost",
    "Curves",
    "Embedding",
    "Event",
    "FeatureMean",
    "Feed",
    "Line",
    "Measure",
    "Position",
    "Record",
    "Samples",
    "Seeds",
    "SessionData",
    "StudySummary",
    "Summary",
    "Timeline",
    "Values",
    "accuracy_changes",
    "accuracy_of",
    "after_fork",
    "at_work",
    "averaged",
    "axes",
    "best_round",
    "busy_share",
    "by_seed",
    "by_tensor",
    "cell",
    "channels",
    "client_on_part",
    "client_samples",
    "command_lines",
    "common_target",
    "contrast",
    "costs",
    "description",
    "differences",
    "elsewhere",
    "entries_to",
    "feed",
    "fell_most",
    "in_order",
    "incidents",
    "is_alarming",
    "last_measured",
    "least_similar",
    "listed_clients",
    "looks_of",
    "lowest_client",
    "luminance",
    "machine_use",
    "measured",
    "method_metrics",
    "milestones",
    "nearest",
    "next_change",
    "palette",
    "part_means",
    "part_measures",
    "quantiles",
    "read_overview",
    "remaining",
    "rows_differ",
    "seconds_by_part",
    "seed_text",
    "settings_in_force",
    "shown_events",
    "spent",
    "standing",
    "static_names",
    "study_axes",
    "tested",
    "timeline",
    "tree",
]
