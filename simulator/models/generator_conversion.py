"""Makes a generator's safetensors file from a file that `torch.save` wrote: a state dictionary of tensors, and no more.

    python -m simulator.models.generator_conversion SOURCE TARGET

PyTorch's files are pickles, and a pickle can run code. So another process reads the source, with torch's unpickler for
weights, which accepts tensors alone. htfl-sim itself never reads it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file

from simulator.base.errors import DataError, HtflError
from simulator.models.generators import SMALLEST, Design, Generator, check_shapes, save

SECONDS = 600
"""The longest that the other process may take."""
_KEPT = ("PATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""Variables that Python may need to start. No other one reaches the process, as some would weaken the unpickler."""
_PROCESS = """
import sys, torch
from safetensors.torch import save_file
found = torch.load(sys.argv[1], map_location="cpu", weights_only=True)
save_file({name: tensor.detach().to(torch.float32).contiguous().clone() for name, tensor in found.items()}, sys.argv[2])
"""


def convert(source: Path, target: Path) -> Design:
    """Write the generator in `source` to `target`. Returns its design. Raises DataError."""
    if not source.is_file():
        raise DataError(f"there is no file {source}. Name a file that torch.save wrote.")
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder, "plain.safetensors")
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-c", _PROCESS, str(source), str(plain)],
                env={name: os.environ[name] for name in _KEPT if name in os.environ},
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise DataError(f"{source} was not read within {SECONDS} seconds. Get another file.") from late
        if done.returncode or not plain.is_file():
            raise DataError(
                f"{source} is not a state dictionary of tensors, and htfl-sim runs no code of a file. Load the "
                "generator in its own program, and save its state dictionary there."
            )
        weights = load_file(plain)
    design = design_from(source, {name: tuple(tensor.shape) for name, tensor in weights.items()})
    with torch.device("meta"):
        generator = Generator(design)
    generator.load_state_dict(weights, assign=True)
    save(generator, design, target)
    return design


def design_from(file: Path, shapes: Mapping[str, tuple[int, ...]]) -> Design:
    """The design whose weights have these names and shapes. Raises DataError if there is none."""
    first, start, image = (shapes.get(f"{name}.weight", ()) for name in ("mapping.0", "start", "image"))
    if (len(first), len(start), len(image)) != (2, 2, 4):
        raise DataError(
            f"{file} has another kind of generator. It needs the weights mapping.0, start, and image."
        )
    many = {part: sum(name.startswith(f"{part}.") for name in shapes) // 2 for part in ("mapping", "blocks")}
    design = Design(
        noise=first[1],
        latent=first[0],
        layers=many["mapping"],
        width=start[0] // SMALLEST**2,
        size=SMALLEST * 2 ** many["blocks"],
        channels=image[0],
    )
    check_shapes(file, design, shapes)
    return design


def main(arguments: Sequence[str]) -> int:
    """The command. Returns its exit code."""
    if len(arguments) != 2:
        print("usage: python -m simulator.models.generator_conversion SOURCE TARGET", file=sys.stderr)
        return 2
    try:
        design = convert(*map(Path, arguments))
    except HtflError as fault:
        print(fault, file=sys.stderr)
        return fault.exit_code
    print(f"{arguments[1]}: {design}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
