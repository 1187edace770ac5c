"""The browser of the tests: what it would see of a page that is wrong."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import h11
import pytest
import trio

from tests.support import browser as support
from tests.support.browser import Browser
from tests.support.loopback import encode_answer, read_request, serving

POLICY = "default-src 'none'; script-src 'self'"
WRONG = """
<!doctype html><title>Wrong</title><html lang="en"><main>
<p id="said">plain</p><script>document.getElementById("said").textContent = "ran"</script>
<img src="http://elsewhere.test/a.png"><form method="post"><input name="word"><button>Send</button>
</form></main></html>
"""
FINE = """
<!doctype html><title>Fine</title><html lang="en"><main><h1>Fine</h1>
<label>Word <input name="word"></label></main></html>
"""


@asynccontextmanager
async def page_server(page: str) -> AsyncIterator[str]:
    """Answer every request with the page; yields the address."""

    async def answer(stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        async with stream:
            if await read_request(stream, connection) is not None:
                headers = [
                    ("content-type", "text/html; charset=utf-8"),
                    ("content-security-policy", POLICY),
                    ("connection", "close"),
                ]
                await stream.send_all(encode_answer(connection, 200, headers, page.encode()))

    async with serving(answer) as port:
        yield f"http://localhost:{port}"


async def test_what_a_page_does_wrong_is_found(browser: Browser) -> None:
    """Its policy keeps the script out and is told, and so is a field without a name."""
    faults: list[str] = []

    async def look(url: str) -> None:
        async with browser.tab(url) as tab:
            assert await tab.go("/") == 200
            assert await tab.text("#said") == "plain"
            faults.extend(await tab.find_faults())

    async with page_server(WRONG) as url:
        with pytest.raises(AssertionError) as told:
            await look(url)
        assert [fault.split()[0] for fault in faults] == ["image-alt", "label"]
        assert "inline script" in str(told.value)
        assert "a request to http://elsewhere.test/a.png" in str(told.value)


async def test_a_page_without_fault_is_let_pass(browser: Browser, tmp_path: Path) -> None:
    """A small window in the dark, without scripts, shows the page; pictures are pictures."""
    async with page_server(FINE) as url:
        async with browser.tab(url, width=360, height=800, dark=True, scripts=False) as tab:
            await tab.go("/here?a=1")
            assert await tab.where() == "/here?a=1"
            await tab.fill("Word", "a word")
            assert await tab.overflow() <= 0
            path = await tab.picture(tmp_path / "fine.png")
        assert path.read_bytes().startswith(b"\x89PNG")
        async with browser.tab(url) as tab:
            await tab.go("/")
            assert await tab.find_faults() == []


async def test_a_page_that_hangs_ends_its_browser_alone(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that never ends is given up, and whoever comes next has a new browser."""

    async def hang(url: str) -> None:
        async with browser.tab(url) as tab:
            await tab.go("/")
            monkeypatch.setattr(support, "JOB_SECONDS_MAX", 1.0)
            await tab.do(lambda page: page.evaluate("new Promise(() => {})"))

    async with page_server(FINE) as url:
        with pytest.raises(TimeoutError):
            await hang(url)
        monkeypatch.undo()
        async with browser.tab(url) as tab:
            assert await tab.go("/") == 200
