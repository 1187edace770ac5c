"""A mail server that misbehaves at each point of a sending: what is known, and what never is."""

from pathlib import Path
from typing import NamedTuple

import pytest
import trio

from muster.clients.mail.smtp import Patience
from muster.clients.plugin import SendFailedError, SendLaterError, SendUnknownError, Sent
from tests.support.scripted_smtp import (
    DOT,
    GREETING,
    TEXT,
    Fault,
    ScriptedSmtp,
    Step,
    scripted_smtp,
)
from tests.support.smtp_sink import approved, smtp_sink
from tests.support.waiting import dawdle, until

SHORT = Patience(before=0.3, text=0.3, answer=0.3, stop=0.3)
BEFORE = (GREETING, "EHLO", "MAIL", "RCPT", "DATA")
LONG_BODY = "A line of the reply.\n" * 200_000


class Case(NamedTuple):
    """One fault at one moment, and what may be said of it."""

    moment: str
    step: Step
    error: type[Exception]


NOT_YET = [
    Case(moment, step, SendLaterError)
    for moment in BEFORE
    for step in (Fault.HANG_UP, Fault.RESET, Fault.SILENT, "421 4.3.2 going down", "451 4.3.0 busy")
]
NEVER = [Case(moment, "554 5.3.0 go away", SendFailedError) for moment in BEFORE]
NO_SMTP = [
    Case(moment, "* OK IMAP4rev1 ready", SendLaterError) for moment in (GREETING, "MAIL", "DATA")
]
AFTER = [
    Case(TEXT, Fault.HANG_UP, SendUnknownError),
    Case(TEXT, Fault.RESET, SendUnknownError),
    Case(TEXT, Fault.SILENT, SendUnknownError),
    Case(TEXT, "552 5.3.4 too big", SendFailedError),
    Case(DOT, Fault.HANG_UP, SendUnknownError),
    Case(DOT, Fault.RESET, SendUnknownError),
    Case(DOT, Fault.SILENT, SendUnknownError),
    Case(DOT, "no SMTP at all", SendUnknownError),
    Case(DOT, "354 what?", SendUnknownError),
    Case(DOT, "451 4.3.0 no space now", SendLaterError),
    Case(DOT, "421 4.3.2 going down", SendFailedError),
    Case(DOT, "554 5.7.1 spam", SendFailedError),
]


async def failed(
    server: ScriptedSmtp, folder: Path, *, body: str = "Hello.", patience: Patience = SHORT
) -> Exception:
    """Send once; the error that it ended with."""
    async with smtp_sink(folder, server.as_seen(), patience=patience) as sink:
        with trio.fail_after(10):
            try:
                sent = await sink.send(approved(body))
            except (SendFailedError, SendLaterError, SendUnknownError) as error:
                return error
    raise AssertionError(sent)


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize("case", NOT_YET + NEVER + NO_SMTP)
async def test_a_fault_before_the_text(tmp_path: Path, case: Case) -> None:
    """Before the text nothing was sent: 5xx is for good, everything else may go away."""
    async with scripted_smtp() as server:
        server.script(case.moment, case.step)
        error = await failed(server, tmp_path)
        assert type(error) is case.error, error
        if isinstance(case.step, str) and case.error is not SendLaterError:
            assert case.step in str(error)
        assert (server.moments[TEXT], server.mails) == (0, [])


@pytest.mark.rule(98, 99)
@pytest.mark.parametrize("case", AFTER)
async def test_a_fault_after_the_text_began(tmp_path: Path, case: Case) -> None:
    """From the first byte of the text on only an answer of 4xx or 5xx says that it was not sent."""
    async with scripted_smtp() as server:
        server.script(case.moment, case.step)
        error = await failed(server, tmp_path)
        assert type(error) is case.error, error
        if isinstance(case.step, str) and case.error is not SendUnknownError:
            assert case.step in str(error)
        assert server.moments[TEXT] == 1


@pytest.mark.parametrize("step", [Fault.HANG_UP, Fault.RESET, "250 2.0.0 Ok"])
async def test_a_line_that_breaks_in_half_of_a_long_text(tmp_path: Path, step: Step) -> None:
    """A text that is cut off while it is being written is unknown, whatever good was said of it."""
    async with scripted_smtp() as server:
        server.features = []
        server.script(TEXT, step)
        patience = Patience()
        error = await failed(server, tmp_path, body=LONG_BODY, patience=patience)
        assert type(error) is SendUnknownError
        assert "some of the reply" in str(error) or "had the reply" in str(error)


async def test_a_refusal_in_half_of_a_long_text_is_heard(tmp_path: Path) -> None:
    """A server that says no to a text which is still being written has not taken it."""
    async with scripted_smtp() as server:
        server.features = []
        server.script(TEXT, "552 5.3.4 too big")
        error = await failed(server, tmp_path, body=LONG_BODY, patience=Patience())
        assert type(error) is SendFailedError
        assert "too big" in str(error)


async def test_a_text_that_is_not_read_ends(tmp_path: Path) -> None:
    """A server that stops reading in the middle of a long text ends it after its time."""
    async with scripted_smtp() as server:
        server.features = []
        # Nothing more is read: what is on the way fills the buffers of both ends.
        server.script("DATA", "354 go on")
        server.reads_text = False
        error = await failed(server, tmp_path, body=LONG_BODY)
        assert type(error) is SendUnknownError


async def test_nobody_listens(tmp_path: Path) -> None:
    """A port where nobody listens may be open soon."""
    async with scripted_smtp() as server:
        pass
    error = await failed(server, tmp_path)
    assert type(error) is SendLaterError
    assert f"No connection to 127.0.0.1:{server.port}" in str(error)
    assert "refused" in str(error)


@pytest.mark.parametrize("host", [".in.test", "a" * 70 + ".test"])
async def test_a_host_that_is_none(tmp_path: Path, host: str) -> None:
    """A name that no host has, or can have, is told as a connection that could not be made."""
    async with scripted_smtp() as server:
        server.host = host
        error = await failed(server, tmp_path, patience=Patience())
        assert type(error) is SendLaterError
        assert host in str(error)
        server.host = "127.0.0.1"


async def test_answers_in_pieces(tmp_path: Path) -> None:
    """Answers that arrive a byte at a time are read as they are."""
    async with scripted_smtp() as server:
        server.piece_bytes = 1
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            sent = await sink.send(approved())
        assert sent.detail == "250 2.0.0 Ok: queued as Q1"
        assert len(server.mails) == 1


async def test_a_server_that_is_never_quite_silent(tmp_path: Path) -> None:
    """A byte now and then does not buy a server more time than the whole step has."""
    async with scripted_smtp() as server:
        server.piece_bytes, server.piece_seconds = 1, 0.05
        server.script(GREETING, "220 " + "x" * 1000)
        began = trio.current_time()
        error = await failed(server, tmp_path)
        assert type(error) is SendLaterError
        assert "took longer than" in str(error)
        assert trio.current_time() - began < 3


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("250-2.0.0 Ok\r\n250-and\r\n250 thanks", "250 2.0.0 Ok and thanks"),
        ("250", "250"),
        ("250 Ok\x00\x1b[31m\x9b", "250 Ok\ufffd\ufffd[31m\ufffd"),
        ("250 Gr\udcfc\udcdfe", "250 Gr\ufffd\ufffde"),
        ("\r\n".join(["250-" + "x" * 500] * 20 + ["250 end"]), None),
    ],
)
async def test_the_servers_answer_is_one_bounded_line(
    tmp_path: Path, said: str, shown: str | None
) -> None:
    """The final answer is told in one line, without controls, and cut where it is very long."""
    async with scripted_smtp() as server:
        server.script(DOT, said)
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            sent = await sink.send(approved())
        if shown is not None:
            assert sent.detail == shown
        else:
            assert sent.detail.startswith("250 xxx")
            assert (len(sent.detail), sent.detail[-1]) == (1500, "…")


@pytest.mark.parametrize(
    "said",
    [
        "250 " + "x" * 20_000,
        "\r\n".join(["250-" + "x" * 1000] * 200 + ["250 end"]),
        "250-one\r\n550 two",
        "99 x",
    ],
)
async def test_an_answer_without_bounds_is_no_answer(tmp_path: Path, said: str) -> None:
    """An answer that has no end, two codes or no code is not believed, also when it is 250."""
    async with scripted_smtp() as server:
        server.script(DOT, said)
        assert type(await failed(server, tmp_path, patience=Patience())) is SendUnknownError
        server.script("MAIL", said)
        assert type(await failed(server, tmp_path, patience=Patience())) is SendLaterError


async def test_an_answer_that_comes_too_early_is_not_believed(tmp_path: Path) -> None:
    """A 250 that was said before the text is not taken for the answer to the text."""
    async with scripted_smtp() as server:
        server.script("DATA", "354 go on\r\n250 2.0.0 Ok: queued")
        error = await failed(server, tmp_path)
        assert type(error) is SendLaterError
        assert server.moments[TEXT] == 0


async def test_a_slow_server_is_waited_for(tmp_path: Path) -> None:
    """The bound before the text is one for all its steps, and the answer has its own."""
    async with scripted_smtp() as server:
        server.script("RCPT", Fault.SILENT)
        error = await failed(server, tmp_path)
        assert "took longer than" in str(error)
    assert Patience().before < 30, "the text must begin within the lease"
    assert Patience().answer == 600


async def test_a_server_from_before_extensions(tmp_path: Path) -> None:
    """Where EHLO is not known, HELO does, and nothing is taken to be offered."""
    async with scripted_smtp() as server:
        server.script("EHLO", "502 5.5.1 not implemented")
        async with smtp_sink(tmp_path, server.as_seen()) as sink:
            await sink.send(approved())
        assert server.heard[1] == "HELO [127.0.0.1]"
        assert server.heard[2] == "MAIL FROM:<ada@home.test>"


async def test_the_answer_has_more_time_than_the_text(tmp_path: Path) -> None:
    """A server that takes its time with a whole mail is waited for longer than for the text."""
    patience = Patience(text=0.3, answer=20)
    async with scripted_smtp() as server, trio.open_nursery() as nursery:
        server.answer_when = answering = trio.Event()

        async def answer_late() -> None:
            await until(lambda: server.moments[DOT])
            await dawdle(0.5, because="the text's own time must be over")
            answering.set()

        nursery.start_soon(answer_late)
        async with smtp_sink(tmp_path, server.as_seen(), patience=patience) as sink:
            assert isinstance(await sink.send(approved()), Sent)


async def test_no_recipient_is_asked_for_after_a_farewell(tmp_path: Path) -> None:
    """A server that closes at a recipient is told no other, and what it said is told."""
    async with scripted_smtp() as server:
        server.script("RCPT", "421 4.3.2 going down")
        to = ("bo@in.test", "cy@in.test")
        async with smtp_sink(tmp_path, server.as_seen(), to=to) as sink:
            with pytest.raises(SendLaterError, match=r"421 4\.3\.2 going down"):
                await sink.send(approved())
        assert (server.moments["RCPT"], server.moments["RSET"]) == (1, 0)


async def test_a_broken_goodbye_changes_nothing(tmp_path: Path) -> None:
    """What the server does after its answer to the mail is of no interest."""
    for step in (Fault.RESET, Fault.SILENT, "500 what?"):
        async with scripted_smtp() as server:
            server.script("QUIT", step)
            async with smtp_sink(tmp_path, server.as_seen()) as sink:
                assert isinstance(await sink.send(approved()), Sent)


async def test_no_goodbye_in_the_middle_of_a_text(tmp_path: Path) -> None:
    """A line that is given up while an answer is owed is closed without another word."""
    async with scripted_smtp() as server:
        server.script(DOT, Fault.SILENT)
        await failed(server, tmp_path)
        assert "QUIT" not in server.heard
