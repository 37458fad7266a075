"""A program of a user's, which mypy checks and nobody runs: `make lint` with ours, a slow test as a user would."""

from pathlib import Path

from pandas import DataFrame
from torch import nn

import htfl_sim as hs

cfg = hs.preset("fedlora_htm5", dataset="fashion_mnist", rounds=100).with_(method__mu=0.7)
run: hs.Run = hs.run(cfg, "sessions/nb", until=10)
frames: list[DataFrame] = [run.records(), run.clients(), run.partition(), run.cka()]
net: nn.Module = run.model(client=3, round=10)
fork: hs.Run = run.fork("sessions/ssa", at=10, method="fedssa").run()
best: float | None = hs.open(Path("sessions/nb")).best
t3: hs.Study = hs.sweep("t3", cfg, over={"method": ["fedgh", "fedssa"], "seed": range(3)}, jobs=2)
latex: str = t3.table(by="method", target=0.9).to_latex()
t3.plot(x="bytes", by="method").savefig("fig.pdf")
rounds: DataFrame = t3.records()
