"""A real browser at the pages: Debian's Chromium, driven by Playwright.

Playwright's loop is asyncio's, so it lives in a thread of its own that does one job after the
other; a test of Trio's waits for a job as for anything else. There is one browser for the tests of
a process, started by the first that needs it, and each tab is a context of its own: it shares no
cookie with another. What a page complains of (an error of a script, something that its policy
forbids, a request to another place) fails the test at the end of its tab.

The policy of the pages stays in force. axe gets in by the debugger, which no policy binds.
"""

import contextlib
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import attrs
import pytest
import trio

if TYPE_CHECKING:
    from playwright.sync_api import Browser as Chromium
    from playwright.sync_api import ConsoleMessage, Page, Playwright, Request

T = TypeVar("T")
WAIT_MS = 10_000  # for one thing that a page should show
JOB_SECONDS_MAX = 40.0
MISSING = "Chromium is not installed (on Debian: apt-get install chromium)"
# No name but our own leads anywhere.
ARGUMENTS = ("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1",)
GRAVE = ("serious", "critical")
RUN_AXE = "axe.run(document, {resultTypes: ['violations']})"
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@attrs.define
class Tab:
    """A page and what it complained of. Its verbs wait at most WAIT_MS, and then raise."""

    _browser: "Browser"
    _page: "Page"
    complaints: list[str]

    async def do(self, job: Callable[["Page"], T]) -> T:
        """Let the page do something that none of the verbs does."""
        return await self._browser.run(partial(job, self._page))

    async def go(self, path: str) -> int:
        """Open a path of the server; the status of what it led to."""

        def job(page: "Page") -> int:
            answer = page.goto(path)
            assert answer is not None
            return answer.status

        return await self.do(job)

    async def where(self) -> str:
        """The path of the page that is shown now, with its query."""
        url = urlsplit(await self.do(lambda page: page.url))
        return url.path + (f"?{url.query}" if url.query else "")

    async def reaches(self, path: str) -> None:
        """Wait until the page at this path (and any query) is shown."""
        await self.do(lambda page: page.wait_for_url(lambda url: urlsplit(url).path == path))

    async def fill(self, label: str, text: str) -> None:
        """Type into the field of this label."""
        await self.do(lambda page: page.get_by_label(label).fill(text))

    async def press(self, name: str, *, within: str = "body") -> None:
        """Press the one button, or follow the one link, of this name."""

        def job(page: "Page") -> None:
            part = page.locator(within)
            button = part.get_by_role("button", name=name, exact=True)
            button.or_(part.get_by_role("link", name=name, exact=True)).click()

        await self.do(job)

    async def sees(self, text: str, *, within: str = "body") -> None:
        """Wait until the text stands on the page."""
        await self.do(lambda page: page.locator(within).get_by_text(text).first.wait_for())

    async def text(self, within: str = "body") -> str:
        """What a reader sees."""
        return await self.do(lambda page: page.locator(within).first.inner_text())

    async def add_authenticator(self) -> None:
        """Give the tab a device that makes passkeys and always says that its user is there."""

        def job(page: "Page") -> None:
            debugger = page.context.new_cdp_session(page)
            debugger.send("WebAuthn.enable")
            debugger.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})

        await self.do(job)

    async def find_faults(self) -> list[str]:
        """What axe finds serious or critical: the rule and the first places; needs scripts."""

        def job(page: "Page") -> Any:
            page.evaluate(f"{_axe()}\n;0")
            return page.evaluate(RUN_AXE)

        found = await self.do(job)
        return [
            f"{fault['id']} ({fault['impact']}): {[node['html'] for node in fault['nodes'][:3]]}"
            for fault in found["violations"]
            if fault["impact"] in GRAVE
        ]

    async def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        wider = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        return int(await self.do(lambda page: page.evaluate(wider)))

    async def picture(self, path: Path) -> Path:
        """A picture of the whole page, as PNG."""
        await self.do(lambda page: page.screenshot(path=path, full_page=True))
        return path


class Browser:
    """One Chromium; `run` does what Playwright is asked for in its own thread."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._thread: ThreadPoolExecutor | None = None
        self._playwright: Playwright | None = None
        self._chromium: Chromium | None = None

    async def run(self, job: Callable[[], T]) -> T:
        """Do one job; TimeoutError when it hangs, and then the browser is ended."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="browser")
        return await trio.to_thread.run_sync(self._wait, self._thread.submit(job))

    @asynccontextmanager
    async def tab(
        self,
        url: str,
        *,
        width: int = 1280,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        session: str | None = None,
    ) -> AsyncIterator[Tab]:
        """A new tab at the server `url`; `session` is the cookie of somebody signed in."""
        complaints: list[str] = []

        def job() -> "Page":
            context = self._started().new_context(
                base_url=url,
                viewport={"width": width, "height": height},
                color_scheme="dark" if dark else "light",
                java_script_enabled=scripts,
                locale="en-GB",
            )
            context.set_default_timeout(WAIT_MS)
            if session is not None:
                context.add_cookies([{"name": "muster_session", "value": session, "url": url}])
            page = context.new_page()
            _listen(page, url, complaints)
            return page

        tab = Tab(self, await self.run(job), complaints)
        thread = self._thread
        try:
            yield tab
        finally:
            # A tab of a browser that had to be ended is gone with it.
            if self._thread is thread:
                with trio.CancelScope(shield=True):
                    await tab.do(lambda page: page.context.close())
        assert not complaints, complaints

    def end(self) -> None:
        """End the browser and its thread; nothing if there is none."""
        if self._thread is not None:
            self._wait(self._thread.submit(self._stop))
            self._thread.shutdown()
            self._thread = None

    def _started(self) -> "Chromium":
        if self._chromium is None:
            # Half a second, which the tests without a browser need not spend.
            from playwright.sync_api import sync_playwright  # noqa: PLC0415

            self._playwright = sync_playwright().start()
            self._chromium = self._playwright.chromium.launch(
                executable_path=self._program,
                args=ARGUMENTS,
                # Chromium refuses to build its sandbox as root.
                chromium_sandbox=os.geteuid() != 0,
                handle_sigint=False,
                handle_sigterm=False,
                handle_sighup=False,
            )
        return self._chromium

    def _stop(self) -> None:
        if self._chromium is not None:
            self._chromium.close()
        if self._playwright is not None:
            self._playwright.stop()
        self._chromium = self._playwright = None

    def _wait(self, future: Future[T]) -> T:
        try:
            return future.result(JOB_SECONDS_MAX)
        except TimeoutError:
            if not future.done():
                self._break_off()
            raise

    def _break_off(self) -> None:
        """End Playwright's own process, and Chromium with it; the next tab starts new ones."""
        assert self._thread is not None
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == os.getpid() and b"run-driver" in (process / "cmdline").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)
        self._thread.shutdown(wait=False)
        self._thread = self._playwright = self._chromium = None


def find_chromium() -> str | None:
    """Where the program is; Debian's wrapper script only adds to its start."""
    return shutil.which("/usr/lib/chromium/chromium") or shutil.which("chromium")


@pytest.fixture(scope="session")
def _browsers() -> Iterator[Browser | None]:
    program = find_chromium()
    browser = None if program is None else Browser(program)
    yield browser
    if browser is not None:
        browser.end()


@pytest.fixture
def browser(_browsers: Browser | None) -> Browser:
    """The browser of this process, or a skip where none is installed."""
    if _browsers is None:
        pytest.skip(MISSING)
    return _browsers


def _listen(page: "Page", url: str, complaints: list[str]) -> None:
    def said(message: "ConsoleMessage") -> None:
        # That an answer was 404 or 409 is what tests ask for.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            complaints.append(message.text)

    def asked(request: "Request") -> None:
        if urlsplit(request.url).netloc != urlsplit(url).netloc and "data:" not in request.url[:5]:
            complaints.append(f"a request to {request.url}")

    page.on("console", said)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", asked)


def _axe() -> str:
    return (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
