"""The table of the library's devices. `python -m docsite.devices` puts it into docs/devices.md."""

import re
import tomllib
from pathlib import Path

from simulator.clock import devices

PAGE = Path(__file__).parents[1] / "docs" / "devices.md"
_COLUMNS = {
    "gflops": "GFLOP/s",
    "memory_gb": "memory (GB)",
    "down_mbps": "down (Mbit/s)",
    "up_mbps": "up (Mbit/s)",
    "latency_s": "latency (s)",
    "compute_watts": "compute (W)",
    "radio_watts": "radio (W)",
    "idle_watts": "idle (W)",
}
_TABLE = re.compile(r"(?<=\n)\| device \|.*\n(?:\|.*\n)+")


def table() -> str:
    """A row for each device. ≈ marks estimates."""
    path = Path(devices.__file__).with_name("devices.toml")
    lines = [f"| device | {' | '.join(_COLUMNS.values())} |", "|---|" + "---:|" * len(_COLUMNS)]
    for name, fields in tomllib.loads(path.read_text(encoding="utf-8")).items():
        cells = [
            ("≈ " if fields["source"][key].startswith("Estimate") else "") + f"{fields[key]:g}"
            for key in _COLUMNS
        ]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(
        _TABLE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"), count=1), encoding="utf-8"
    )
