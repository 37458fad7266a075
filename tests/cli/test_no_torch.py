"""Only what computes imports torch: listings, help, completion, and refused options do not."""

import subprocess
import sys
from pathlib import Path

COMMANDS = (
    "run", "tui", "resume", "sweep", "tune", "pause", "stop", "checkpoint", "switch", "fork", "sessions",
    "show", "why", "tag", "note", "partition", "export", "verify", "inspect", "prune", "rename", "rm",
    "compare", "plot", "report", "presets", "methods", "models", "datasets", "config", "data", "doctor",
)  # fmt: skip
PRINTED = (
    "--help",
    *(f"{command} --help" for command in COMMANDS),
    "sessions",
    "show done",
    "compare done --by method --target 0.5",
    "plot accuracy done --out f.png",
    "presets",
    "presets fedlora_htm5",
    "presets fedssa_htm5 --profile authors",
    "methods",
    "methods --json",
    "methods fedlora",
    "methods inco_prox --json",
    "datasets",
    "datasets digits",
    "models",
    "models htm5",
    "models cnn1 --json",
    "config",
    "config --json",
    "config training.lr",
    "config method.mu",
    "config --method fedlora",
)
REFUSED = (
    "methods FedGH",
    "datasets nope",
    "config learning_rate",
    "config --method FedGH",
    "presets nope",
    "run --method FedGH",
    "run --method nope",
    "run --preset nope",
    "run --profile authors",
    "run --clients x",
    "run --clients 0",
    "run --seed 0..2",
    "run --model cnn1,cnn2",
    "run --model X",
    "run --set federation.group=X",
    "run --dataset X",
    "run --selection X",
    "run --runner X",
    "run --metric nope.py",
    "run --watch nope",
    "run --plugin nope.py",
    "run --config nope.toml",
    "run --set training.learning_rate=1",
    "run --set method.mux=1",
    "run --set method.lambda=1",
    "run --set method.mu=-3",
    "run --set runtime.inner=stacked",
    "runn",
    "tune t --over method=FedGH",
    "tune t --nope",
    "sweep t",
    "sweep t --over method=FedGH,fedssa",
    "sweep t --over training.learning_rate=1,2",
    "sweep t --over seed=0..1 --preset nope",
    "show nope",
    "resume nope",
    "fork nope --at-round 1 --session new",
    "fork done --at-round 1 --session new --method FedGH",
    "fork done --at-round 99 --session new",
    "fork done --at-round 1 --session new --set nokey=1",
    "resume done --set nokey=1",
    "switch done --set nokey=1",
    *("pause done", "stop done", "checkpoint done"),  # it is finished
    "switch nope fedssa",
    "switch done FedGH",
    "partition nope",
    "partition fedlora_htm5 --set data.alphaa=1",
    "data fetch nope",
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
