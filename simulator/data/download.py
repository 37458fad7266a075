"""Fetching a published file: resumable, checked against its MD5, and in place only when whole."""

import hashlib
import http.client
import urllib.error
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from simulator.base.errors import DataError
from simulator.data.datasets import Progress

TIMEOUT = 10.0
"""Seconds without a connection or a byte after which the network counts as unreachable."""
CHUNK = 1 << 18
RANGE_NOT_SATISFIABLE = 416


class Published(NamedTuple):
    """A file that somebody publishes."""

    path: str
    """Where it belongs, under the data folder."""
    url: str
    md5: str


def bring(files: Iterable[Published], folder: Path, progress: Progress, dataset: str) -> None:
    """Fetch every file that is missing under `folder` or damaged. Raises DataError as `download` does."""
    for path, url, md5 in files:
        if not has_md5(folder / path, md5):
            download(url, folder / path, md5, progress, dataset)


def verify(files: Iterable[Published], folder: Path, dataset: str) -> None:
    """Raise DataError naming the first file that is missing under `folder` or damaged."""
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
    """Fetch `url` to `target`, going on from `target`.part where an earlier try broke off.

    Raises DataError, naming the file, its place and what else `dataset`'s user can do, when the file cannot be
    had whole and with the published MD5.
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
    """Whether `file` is there and has the published MD5. Raises DataError when it is there but not readable."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() == md5
    except FileNotFoundError:
        return False
    except OSError as unreadable:
        raise DataError(f"{file} cannot be read ({unreadable.strerror}).") from unreadable


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append to `part` what it lacks of `url`, or write it afresh where the server cannot continue."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as refusal:
        refusal.close()
        if refusal.code == RANGE_NOT_SATISFIABLE:  # nothing is lacking; the MD5 will tell
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
