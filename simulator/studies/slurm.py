"""A study for Slurm: one script in its folder, an array with a task for each point. A tuning study is one job.

Users may edit the script. Writing it again changes only the line with the task numbers.
"""

import re
import shlex
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from checkpoints import Group
from simulator.base.errors import ConfigError
from simulator.studies.executor import Launch
from simulator.studies.study import Point

SCRIPT, LOGS = "slurm.sh", "slurm-logs"
WORKERS = 4
_ARRAY = re.compile(r"^#SBATCH --array=.*$", re.MULTILINE)


class Written(NamedTuple):
    """kept: it existed before, and only its tasks changed."""

    path: Path
    kept: bool


def check(folder: Path, points: Sequence[Point]) -> None:
    """Raise ConfigError if Slurm cannot run the points of the study in `folder`."""
    if not str(folder).isprintable() or any(each in str(folder) for each in '"\\'):
        raise ConfigError(
            f"a Slurm script cannot name the folder {folder}; use a sessions folder whose path has no quotes, "
            "backslashes, and control characters."
        )
    for point in points:
        if point.config["runtime"].get("gpus_per_point", 1.0) != 1.0:
            raise ConfigError(
                "runtime.gpus_per_point is for studies on Ray: Slurm gives every point a whole GPU. Use "
                f"`runtime.gpus_per_point=1`, or edit the line --gres of {SCRIPT} where the site divides GPUs."
            )


def write(
    group: Group,
    points: Sequence[Point],
    launch: Launch,
    jobs: int | None,
    gpus: bool,
    *,
    tunes: bool = False,
) -> Written:
    """Write a study's script, for `jobs` at once, on `gpus` if any; one job if it `tunes`. Raises DiskError."""
    path = group.folder / SCRIPT
    array = f"#SBATCH --array=0-{len(points) - 1}" + (f"%{jobs}" if jobs else "")
    # Keep the user's text, encoding, and permissions.
    before = path.read_text(encoding="utf-8", errors="surrogateescape") if path.is_file() else ""
    mode = stat.S_IMODE(path.stat().st_mode) if path.is_file() else None
    kept = path.is_file() if tunes else _ARRAY.search(before) is not None
    if not kept:
        text = script(group.folder, points, launch, None if tunes else array, gpus, jobs or 1)
    else:
        text = before if tunes else _ARRAY.sub(lambda _: array, before, count=1)
    group.write({SCRIPT: text.encode(errors="surrogateescape")})
    if mode is not None:
        path.chmod(mode)
    (group.folder / LOGS).mkdir(exist_ok=True)
    return Written(path, kept)


def script(
    folder: Path, points: Sequence[Point], launch: Launch, array: str | None, gpus: bool, jobs: int = 1
) -> str:
    """The text of the script. array: its line for an array; None for a tuning study, with so many points at once."""
    study = shlex.quote(str(folder))
    threads = max(int(point.config["runtime"]["threads_per_client"]) for point in points)
    workers = max(launch.workers_of(point) or WORKERS for point in points)
    devices = {str(launch.device or point.config["runtime"]["device"]) for point in points}
    logs = str(folder / LOGS).replace("%", "%%")  # which Slurm would replace
    if array is None:
        command, log = f"tune {study} --jobs {jobs}", "%j"
        about, again = "a tuning study, one job", "keeps it."
        parts, threads = [], jobs * threads
    else:
        command, log = f'sweep {study} --point "$SLURM_ARRAY_TASK_ID"', "%a"
        about, again = f"{len(points)} points, each a task of this array", "changes only the line\n# --array."
        parts = [array]
    return "\n".join(
        [
            "#!/bin/bash",
            f"# Study {folder.name}: {about}. Submit it again to continue:",
            "# finished points are skipped, interrupted points are resumed.",
            "#",
            f"#   sbatch {shlex.quote(str(folder / SCRIPT))}",
            "#",
            f"# You may edit this file. Another `htfl-sim {command.split()[0]} … --on slurm` {again}",
            *parts,
            f'#SBATCH --job-name="{folder.name}"',
            f"#SBATCH --cpus-per-task={workers * threads}",
            *(["#SBATCH --gres=gpu:1"] if "cuda" in devices or ("auto" in devices and gpus) else []),
            "##SBATCH --time=24:00:00",
            "##SBATCH --partition=",
            "##SBATCH --account=",
            "##SBATCH --mem=",
            f'#SBATCH --output="{logs}/{log}.log"',
            "#SBATCH --open-mode=append",
            "# Slurm sends SIGTERM two minutes before the time limit. A point then stops after its next client, with",
            "# a checkpoint. Allow more if clients take longer. Slurm queues it again if its node fails.",
            "#SBATCH --signal=B:TERM@120",
            "#SBATCH --requeue",
            "",
            f"exec {' '.join(_command(command, launch, threads))}",
            "",
        ]
    )


def _command(command: str, launch: Launch, threads: int) -> Iterator[str]:
    beside = Path(sys.executable).with_name("htfl-sim")
    yield shlex.quote(str(beside)) if beside.is_file() else "htfl-sim"
    yield command
    each = '"$SLURM_CPUS_PER_TASK"' if threads == 1 else f'"$((SLURM_CPUS_PER_TASK / {threads}))"'
    yield f"--workers {each}"
    yield f"--data-dir {shlex.quote(str(launch.data_dir))}"
    if launch.device is not None:
        yield f"--device {shlex.quote(str(launch.device))}"
    if launch.allow_inexact:
        yield "--allow-inexact"
    yield from map(shlex.quote, launch.files.options())
    yield "--no-progress"
