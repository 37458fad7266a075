"""Only what computes imports torch: listings, help, completion, and refused options do not."""

import subprocess
import sys
from pathlib import Path

COMMANDS = (
    "run", "tui", "resume", "sweep", "tune", "pause", "stop", "checkpoint", "switch", "fork", "sessions",
    "show", "why", "tag", "note", "partition", "export", "verify", "inspect", "prune", "rename", "rm",
    "compare", "plot", "report", "presets", "methods", "models", "datasets", "config", "data", "doctor",
)  # fmt: skip


def by_command(*lines: str) -> tuple[str, ...]:
    """The command lines of 'COMMAND: OPTIONS | OPTIONS'."""
    split = (line.partition(":") for line in lines)
    return tuple(f"{name} {each.strip()}".strip() for name, _, rest in split for each in rest.split("|"))


SHOWN = by_command(
    "sessions: ",
    "show: done",
    "compare: done --by method --target 0.5",
    "plot: accuracy done --out f.png",
    "presets:  | fedlora_htm5 | fedssa_htm5 --profile authors",
    "methods:  | --json | fedlora | inco_prox --json",
    "datasets:  | digits",
    "models:  | htm5 | cnn1 --json",
    "config:  | --json | training.lr | method.mu | --method fedlora",
)
PRINTED = ("--help", *(f"{command} --help" for command in COMMANDS), *SHOWN)
REFUSED = by_command(
    "methods: FedGH",
    "datasets: nope",
    "config: learning_rate | --method FedGH",
    "presets: nope",
    "run: --method FedGH | --method nope | --preset nope | --profile authors | --clients x | --clients "
    "0 | --seed 0..2 | --model cnn1,cnn2 | --model X | --set federation.group=X | --dataset X | "
    "--selection X | --runner X | --metric nope.py | --watch nope | --plugin nope.py | --config "
    "nope.toml | --set training.learning_rate=1 | --set method.mux=1 | --set method.lambda=1 | --set "
    "method.mu=-3 | --set runtime.inner=stacked",
    "runn: ",
    "tune: t --over method=FedGH | t --nope",
    "sweep: t | t --over method=FedGH,fedssa | t --over training.learning_rate=1,2 | t --over seed=0..1 "
    "--preset nope",
    "show: nope",
    "resume: nope | done --set nokey=1",
    "fork: nope --at-round 1 --session new | done --at-round 1 --session new --method FedGH | done "
    "--at-round 99 --session new | done --at-round 1 --session new --set nokey=1",
    "switch: done --set nokey=1 | nope fedssa | done FedGH",
    "pause: done",
    "stop: done",
    "checkpoint: done",
    "partition: nope | fedlora_htm5 --set data.alphaa=1",
    "data: fetch nope",
)
COMPLETED = (
    "sh",
    "run --",
    "run --method fedl",
    "run --preset fedl",
    "run --model cn",
    "run --dataset ci",
    "run --watch p",
    "run --set tr",
    "run --method fedlora --set method.",
    "sweep t --over m",
    "sweep t --on ",
    "config m",
    "show do",
)
SCRIPT = """
import io, os, sys
from contextlib import redirect_stderr, redirect_stdout

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            raise SystemExit("torch is imported")

sys.meta_path.insert(0, NoTorch())
from tui.cli import main

with redirect_stdout(io.StringIO()):
    main(["--help"])
if loaded := {{"numpy", "pydantic"}} & set(sys.modules):  # nor does completion wait for them
    print("--help loads", loaded)
import tui.app.app  # and all its panels
if loaded := {{"sklearn", "matplotlib"}} & set(sys.modules):
    print("the app loads", loaded)

def code_of(arguments):
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        try:
            code = main(arguments)
        except SystemExit as left:  # a completion ends its process
            code = left.code
    return code, out.getvalue() + err.getvalue()

def check(line, arguments, wanted):
    code, said = code_of(arguments)
    if code not in wanted or not said or "Traceback" in said:
        print(line, "→", code, said)

for line in {printed}:
    check(line, line.split(), (0,))
for line in {refused}:
    check(line, line.split(), (2, 4))
os.environ["_HTFL_SIM_COMPLETE"] = "complete_bash"
for line in {completed}:
    os.environ |= {{"COMP_WORDS": f"htfl-sim {{line}}", "COMP_CWORD": str(len(line.split(" ")))}}
    check(line, [], (0,))
"""


def test_listings_help_completion_and_refused_options_need_no_torch(done: Path) -> None:
    """The lines run in one process in which importing torch ends the command."""
    script = SCRIPT.format(printed=PRINTED, refused=REFUSED, completed=COMPLETED)
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr, ran.returncode) == ("", "", 0)
