"""The numbers of sessions, as the app draws them and as your own scripts can: torch is not needed.

    from htfl_sim.analysis import Feed, feed

    run = feed.read(Path("sessions/mu07"))   # one session now, also while another process runs it
    run.curves["accuracy"]                          # [rounds] mean test accuracy, 0…1
    best_round(run.curves["accuracy"])              # the highest, and its round
    Feed(folder).poll()                      # whether a live session has changed since

Sessions: Feed, Run, Summary, StudySummary, Branch. Numbers per round and client: Curves, costs, clients' changes, CKA,
seconds, counts by class. Several sessions: measures, differences, standing,
the partners of a session and its gains over them. A study, setting by seed: Board.
What they look like: palette, one color per method.
"""

from simulator.base.documents import Event, Report
from simulator.base.names import cell
from simulator.base.record import SCALARS, Record
from simulator.base.sections import MANY, PARTS, SAMPLED
from simulator.results.analysis import axes, feed, remaining
from simulator.results.analysis.axes import seed_text
from simulator.results.analysis.caveats import rows_differ
from simulator.results.analysis.cka import CkaMeasurement, last_measured, least_similar
from simulator.results.analysis.classes import (
    ClassChange,
    ClassCounts,
    ClassTable,
    class_changes,
    class_counts,
    class_table,
    recall_changes,
    recalls,
)
from simulator.results.analysis.client_values import Array
from simulator.results.analysis.clients import (
    accuracy_changes,
    best_round,
    change_over,
    fell_most,
    incidents,
    listed_clients,
    lowest_client,
)
from simulator.results.analysis.comparison import (
    Standing,
    common_round,
    common_target,
    differences,
    standing,
)
from simulator.results.analysis.confusion import Confusion
from simulator.results.analysis.costs import (
    COSTS,
    SIMULATED,
    Cost,
    Position,
    comparable_costs,
    costs,
    elsewhere,
    nearest,
    reached,
    spent,
)
from simulator.results.analysis.curves import Curves
from simulator.results.analysis.described import Setting, described
from simulator.results.analysis.divergence import NO_SCORE, Divergence
from simulator.results.analysis.effect import Effect, Window, effects, read_effects
from simulator.results.analysis.events import description, is_alarming, shown_events
from simulator.results.analysis.feed import Feed
from simulator.results.analysis.gain import BASELINE
from simulator.results.analysis.lineage import Branch, tree, with_parents
from simulator.results.analysis.measures import (
    MEASURES,
    Line,
    Values,
    accuracy_of,
    after_fork,
    averaged,
    is_share,
    measured,
)
from simulator.results.analysis.milestones import milestones
from simulator.results.analysis.overview import read_overview
from simulator.results.analysis.pareto import pareto_front
from simulator.results.analysis.partners import SHADOW, Pair, Partner, Partners
from simulator.results.analysis.parts import client_on_part, part_means, part_measures
from simulator.results.analysis.pulse import SILENT_SECONDS, Silence
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
from simulator.results.analysis.round_gains import (
    RoundGain,
    client_gains,
    common_rounds,
    gain_after,
    gains_by_round,
    gains_of,
    verdict,
)
from simulator.results.analysis.run import LIVE, SessionData
from simulator.results.analysis.samples import FEW, Samples, tested
from simulator.results.analysis.summary import Summary
from simulator.results.analysis.timeline import Timeline, timeline
from simulator.results.analysis.totals import Totals
from simulator.results.analysis.traffic import by_tensor
from simulator.results.analysis.why import Why, why
from simulator.results.analysis.why_parts import ClassRow, Finding
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
from simulator.sessions.reader import parent_folder
from simulator.studies.board import Board, BoardReader, BoardRow
from simulator.studies.cells import PointCell, Seen
from simulator.studies.summary import Seeds, StudySummary, by_seed, study_axes
from simulator.studies.trial_board import TrialBoard, TrialRow

__all__ = [
    "BASELINE",
    "COSTS",
    "FEW",
    "LIVE",
    "MANY",
    "MEASURES",
    "NO_SCORE",
    "OKABE_ITO",
    "PARTS",
    "SAMPLED",
    "SCALARS",
    "SHADOW",
    "SILENT_SECONDS",
    "SIMULATED",
    "TIME_PARTS",
    "VIRIDIS_STOPS",
    "Array",
    "Board",
    "BoardReader",
    "BoardRow",
    "Branch",
    "CkaMeasurement",
    "ClassChange",
    "ClassCounts",
    "ClassRow",
    "ClassSample",
    "ClassTable",
    "ClientSamples",
    "Confusion",
    "Cost",
    "Curves",
    "Divergence",
    "Effect",
    "Embedding",
    "Event",
    "FeatureMean",
    "Feed",
    "Finding",
    "Line",
    "Pair",
    "Partner",
    "Partners",
    "PointCell",
    "Position",
    "Record",
    "Report",
    "RoundGain",
    "Samples",
    "Seeds",
    "Seen",
    "SessionData",
    "Setting",
    "Silence",
    "Standing",
    "StudySummary",
    "Summary",
    "Timeline",
    "Totals",
    "TrialBoard",
    "TrialRow",
    "Values",
    "Why",
    "Window",
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
    "change_over",
    "channels",
    "class_changes",
    "class_counts",
    "class_table",
    "client_gains",
    "client_on_part",
    "client_samples",
    "command_lines",
    "common_round",
    "common_rounds",
    "common_target",
    "comparable_costs",
    "contrast",
    "costs",
    "described",
    "description",
    "differences",
    "effects",
    "elsewhere",
    "entries_to",
    "feed",
    "fell_most",
    "gain_after",
    "gains_by_round",
    "gains_of",
    "in_order",
    "incidents",
    "is_alarming",
    "is_share",
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
    "parent_folder",
    "pareto_front",
    "part_means",
    "part_measures",
    "quantiles",
    "reached",
    "read_effects",
    "read_overview",
    "recall_changes",
    "recalls",
    "remaining",
    "rows_differ",
    "seconds_by_part",
    "seed_text",
    "settings_in_force",
    "shown_events",
    "spent",
    "standing",
    "study_axes",
    "tested",
    "timeline",
    "tree",
    "verdict",
    "why",
    "with_parents",
]
