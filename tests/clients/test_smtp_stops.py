"""Stopping a plugin while a reply is on its way to a mail server."""

from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from muster.clients.mail.smtp import Patience
from muster.clients.mail.told import run_told
from muster.clients.plugin import SendFailedError, SendLaterError, SendUnknownError, Sent
from tests.support.scripted_smtp import DOT, GREETING, TEXT, Fault, ScriptedSmtp, scripted_smtp
from tests.support.smtp_sink import approved, smtp_sink
from tests.support.waiting import until

LONG_BODY = "A line of the reply.\n" * 200_000


async def stopped_at(
    server: ScriptedSmtp,
    folder: Path,
    is_time: Callable[[], object],
    *,
    body: str = "Hello.",
    stop_seconds: float = 10.0,
) -> tuple[Sent | Exception, float]:
    """Send, cancel when it is time; what the sink made of it, and how long it took to."""
    ended: list[Sent | Exception] = []

    async def send() -> None:
        patience = Patience(stop=stop_seconds)
        async with smtp_sink(folder, server.as_seen(), patience=patience) as sink:
            try:
                ended.append(await sink.send(approved(body)))
            except (SendFailedError, SendLaterError, SendUnknownError) as error:
                ended.append(error)

    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            await until(is_time)
            began = trio.current_time()
            nursery.cancel_scope.cancel()
    [what] = ended
    return what, trio.current_time() - began


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize("moment", [GREETING, "EHLO", "MAIL", "RCPT", "DATA"])
async def test_a_stop_before_the_text_ends_it_at_once(tmp_path: Path, moment: str) -> None:
    """A plugin that is stopped before the text knows that nothing went, and hangs up."""
    async with scripted_smtp() as server:
        server.script(moment, Fault.SILENT)
        error, seconds = await stopped_at(server, tmp_path, lambda: server.moments[moment])
        assert type(error) is SendLaterError
        assert str(error) == "Not sent: the plugin was stopped."
        assert seconds < 2
        await until(lambda: server.ended == 1)
        assert (server.moments[TEXT], server.mails) == (0, [])


@pytest.mark.rule(98, 99)
async def test_a_stop_while_the_answer_is_awaited_waits_for_it(tmp_path: Path) -> None:
    """A plugin that is stopped after the text still hears what became of it."""
    async with scripted_smtp() as server:
        server.answer_when = trio.Event()
        stopping = trio.Event()

        def is_time() -> bool:
            if server.moments[DOT]:
                stopping.set()
            return bool(server.moments[DOT])

        async with trio.open_nursery() as nursery:

            async def answer_after_the_stop() -> None:
                await stopping.wait()
                for _ in range(20):
                    await trio.lowlevel.checkpoint()
                assert server.answer_when is not None
                server.answer_when.set()

            nursery.start_soon(answer_after_the_stop)
            sent, _ = await stopped_at(server, tmp_path, is_time)
        assert isinstance(sent, Sent)
        assert sent.detail == "250 2.0.0 Ok: queued as Q1"
        assert len(server.mails) == 1


@pytest.mark.parametrize("moment", [TEXT, DOT])
async def test_a_stop_after_the_text_waits_within_a_bound(tmp_path: Path, moment: str) -> None:
    """A server that does not answer a plugin which is being stopped leaves it unknown."""
    async with scripted_smtp() as server:
        server.script(moment, Fault.SILENT)
        error, seconds = await stopped_at(
            server, tmp_path, lambda: server.moments[moment], stop_seconds=0.3
        )
        assert type(error) is SendUnknownError
        assert 0.25 < seconds < 5
        await until(lambda: server.ended == 1)


async def test_a_stop_in_the_middle_of_a_long_text(tmp_path: Path) -> None:
    """A text that is being written is not cut off by a stop, only by the stop's bound."""
    async with scripted_smtp() as server:
        server.features = []
        server.script("DATA", "354 go on")
        server.reads_text = False
        error, seconds = await stopped_at(
            server, tmp_path, lambda: server.moments["DATA"], body=LONG_BODY, stop_seconds=0.3
        )
        # The stop may have come before the first byte, which is known then.
        assert isinstance(error, SendUnknownError | SendLaterError)
        assert seconds < 5


async def test_a_stop_before_it_begins(tmp_path: Path) -> None:
    """A sink that is asked to send while it is cancelled already connects to nobody."""
    async with scripted_smtp() as server:
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            with trio.CancelScope() as scope:
                scope.cancel()
                with pytest.raises(SendLaterError, match="was stopped"):
                    await sink.send(approved())
            assert not scope.cancelled_caught
        assert server.moments["EHLO"] == 0


async def test_work_that_is_told_of_a_cancellation_ends_by_itself() -> None:
    """A cancellation ends the work the way it wants, and comes out at the caller's next wait."""
    told = trio.Event()

    async def working() -> str:
        await told.wait()
        return "done"

    async def failing() -> str:
        await told.wait()
        raise LookupError("its own")

    with trio.fail_after(5), trio.CancelScope() as scope:
        scope.cancel()
        assert await run_told(working, on_cancel=told.set) == "done"
        told = trio.Event()
        with pytest.raises(LookupError, match="its own"):
            await run_told(failing, on_cancel=told.set)
        await trio.lowlevel.checkpoint()
        raise AssertionError("the cancellation was lost")
    assert scope.cancelled_caught


async def test_work_that_ends_is_told_of_nothing() -> None:
    """Without a cancellation the work's return comes out, and nobody is told anything."""
    told: list[str] = []

    async def working() -> str:
        await trio.lowlevel.checkpoint()
        return "done"

    assert await run_told(working, on_cancel=lambda: told.append("x")) == "done"
    assert told == []
