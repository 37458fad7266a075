"""`htfl-sim tui --serve`: the app in a browser of this machine, and nobody else's pages in it."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tests
from htfl_sim.configuring import Choices
from tests import sessions
from tests.cli.conftest import Cli
from tui.app import terminal
from tui.app.runs import LaunchOptions
from tui.cli import tui
from tui.cli.tui import _start

ROOT = Path(tests.__file__).parents[1]
SECONDS = 600


@pytest.fixture
def web() -> Any:
    """The package of the extra `serve`, and what it is made of."""
    pytest.importorskip("textual_serve", reason="the extra `serve` is not installed")
    return pytest.importorskip("aiohttp", reason="the extra `serve` is not installed")


def test_the_line_that_installs_the_extra_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve.server", None)
    refused = cli("tui", "--serve")
    assert refused.code == 2
    assert "textual_serve is not installed" in refused.err
    assert re.search(r"`pip install 'textual[-_]serve", refused.err)


PAGES = [
    ("localhost:8000", "http://localhost:8000", True),
    ("127.0.0.1:8000", "http://127.0.0.1:8000", True),
    ("localhost:9000", "http://localhost:9000", True),  # a tunnel with another port on this side
    ("localhost:8000", None, True),  # no browser
    ("localhost:8000", "http://elsewhere.example", False),
    ("localhost:8000", "http://localhost:8001", False),  # another server of this machine
    ("elsewhere.example:8000", "http://elsewhere.example:8000", False),  # a name bound to this machine
    ("localhost.elsewhere.example", "http://localhost.elsewhere.example", False),
    ("localhost:8000", "null", False),  # a file, or a frame without an origin
]


def test_only_pages_of_this_server_reach_the_app_and_only_with_the_token() -> None:
    for host, origin, taken in PAGES:
        assert tui.is_local(host, origin) is taken, (host, origin)
    for given in ((None, None), ("", ""), ("secre", "é")):
        assert not tui.knows("secret", *given)
    assert tui.knows("secret", "secret", None) and tui.knows("secret", None, "secret")


def test_an_opened_page_starts_no_second_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", "textual.drivers.web_driver:WebDriver")
    assert terminal.is_web() and terminal.is_there()
    choices = Choices(rounds=3)
    assert _start(choices, "new", LaunchOptions(tmp_path, tmp_path, apart=True)) is choices


def test_no_request_without_the_token_is_answered_and_no_page_of_others(web: Any) -> None:
    """Also of a program of another user of this machine, which can say any Host and Origin."""
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    paths = ("/", "/?token=wrong", "/ws", "/ws?token=wrong", "/download/1", "/static/js/textual.js", "/none")

    async def asked() -> None:
        from aiohttp.test_utils import TestClient, TestServer

        app = await tui.local_server("true", 8000, "secret")._make_app()
        async with TestClient(TestServer(app)) as client:
            assert {(await client.get(path, headers=upgrade)).status for path in paths} == {403}
            page = await client.get("/?token=secret", headers={"Host": "localhost:9000"})
            assert "ws://localhost:9000/ws" in await page.text()  # the port that the browser knows
            assert "no-referrer" in page.headers["Referrer-Policy"]
            taken = [(await client.get(path)).status for path in ("/", "/static/js/textual.js")]
            assert taken == [200, 200]  # by the cookie of the first page
            foreign = upgrade | {"Origin": "http://elsewhere.example"}
            assert (await client.get("/ws", headers=foreign)).status == 403
            socket = await client.ws_connect("/ws", headers={"Host": "localhost:8000"})
            await socket.close()

    asyncio.run(asked())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((tui.HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(port: int, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The real command, until the test is over."""
    given = ["tui", "--serve", "--session", "main", "--port", str(port)]
    given += ["--sessions-dir", str(folder)]
    begin = "import sys, tui.cli; sys.exit(tui.cli.main())"
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = subprocess.Popen(
        [sys.executable, "-c", begin, *given],
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", "XDG_STATE_HOME": str(folder)},
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(SECONDS)


@pytest.mark.slow
def test_a_browser_sees_the_session_and_its_keys_arrive(web: Any, tmp_path: Path) -> None:
    sessions.make(tmp_path / "main", rounds=12, clients=4)
    port = free_port()

    async def browse(address: str) -> tuple[int, str]:
        origin = {"Origin": f"http://localhost:{port}"}
        async with (
            web.ClientSession() as client,
            client.get(address),
            client.ws_connect(f"ws://localhost:{port}/ws?width=120&height=40", headers=origin) as socket,
        ):
            seen = ""

            async def until(words: str) -> None:
                nonlocal seen
                while words not in seen:
                    seen += (await asyncio.wait_for(socket.receive(), SECONDS)).data.decode()

            await socket.send_str(json.dumps(["resize", {"width": 120, "height": 40}]))
            await until("round 12/12")
            await socket.send_str(json.dumps(["stdin", "q"]))
            while (message := await asyncio.wait_for(socket.receive(), SECONDS)).type not in (
                web.WSMsgType.CLOSE,
                web.WSMsgType.CLOSED,
            ):
                assert message.data is not None
            return message.type, seen

    with served(port, tmp_path) as process:
        assert process.stderr is not None
        found = re.search(rf"http://localhost:{port}/\?token=[0-9a-f]{{48}}", process.stderr.readline())
        assert found
        _, seen = asyncio.run(browse(found[0]))
    assert "4 clients" in seen
