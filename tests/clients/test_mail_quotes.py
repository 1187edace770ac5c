"""Quoted history at a mail's end: what is cut on request, what is kept, and what is said of it."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.clients.mail.maildir import RawMail
from muster.clients.mail.parse import parse
from muster.clients.mail.quotes import trim_quotes
from muster.clients.mail.reading import Reading

OUTLOOK = "From: Bo <bo@home.test>\nSent: Monday, 2 March 2026 10:00\nTo: Ada\nSubject: Noon\n"
LONG_TO = "From: Bo\nDate: Monday\nTo: Ada <a@x.test>;\n Cy <c@x.test>\nCc: Di\nSubject: Noon\n"
RULE = "_" * 32

CUT = [
    "On Mon, 2 Mar 2026 at 10:00, Bo <bo@home.test> wrote:\n> Noon?\n> Or one?",
    "On Mon, 2 Mar 2026 at 10:00, Bo <bo@home.test>\nwrote:\n\n> Noon?\n\n> Or one?\n>\n",
    "On Mon, 2 Mar 2026 at 10:00, Bo\n<bo@a-rather-long-host.home.test>\nwrote:\n> Noon?",
    "Am 02.03.26 um 10:00 schrieb Bo:\n> Mittag?\n>> Wann?",
    "Le lun. 2 mars 2026 à 10:00, Bo a écrit :\n> Midi ?",
    "> Noon?",
    " > Noon?\n >> When?",
    f"-----Original Message-----\n{OUTLOOK}\nNoon?\n\nBo",
    f"-----Ursprüngliche Nachricht-----\n{OUTLOOK}\nMittag?",
    f"{RULE}\n{OUTLOOK}\nNoon?",
    f"{OUTLOOK}\nNoon?",
    f"{LONG_TO}\nNoon?",
    "*From:* Bo\n*Sent:* Monday\n*To:* Ada\n*Subject:* Noon\n\nNoon?",
    f"-----Original Message-----\n{OUTLOOK}\nYes.\n\n> Noon?",
]


@pytest.mark.parametrize("history", CUT)
def test_history_at_the_end_is_cut(history: str) -> None:
    """A trailing block with what introduces it goes, and one line says how much and where it is."""
    text, note = trim_quotes(f"Noon is fine.\n\nAda\n\n{history}\n", subject="Re: x", place="/m/1")
    assert text == "Noon is fine.\n\nAda"
    lines = sum(bool(line.strip()) for line in history.split("\n"))
    characters = len(history.rstrip("\n"))
    assert note == (
        f"[{lines:,} lines of quoted history ({characters:,} characters) at the end of this mail "
        "are left out; the whole mail lies at /m/1]"
    )


KEPT = [
    "Noon is fine.",
    "",
    "\n\n",
    "> Noon?\n\nYes.",
    "On 2 Mar 2026 Bo wrote:\n> Noon?\nYes.\n> And tea?\nNo.",
    "> Noon?\nYes.\n\n> And tea?",
    "On 2 Mar 2026 Bo wrote:\n> Noon?\n> And tea?\n\n-- \nAda",
    "> nothing but history\n> at all",
    "On 2 Mar 2026 Bo wrote:\n> nothing but history",
    f"-----Original Message-----\n{OUTLOOK}\nnothing but history",
    f"\n\n{OUTLOOK}\nnothing but history",
    f"Look:\n\n---------- Forwarded message ---------\n{OUTLOOK}\nNoon?",
    f"Look:\n\nBegin forwarded message:\n\n{OUTLOOK}\nNoon?",
    "Fine.\n-----Original Message-----\nis what they all say.",
    f"Fine.\n{RULE}\nAda Lovelace\nFrom: London",
    "Fine.\nFrom: London\nTo: Paris\nSubject: travel",
    "Fine.\nTo: Paris\nSubject: travel\nSent: now\nFrom: London",
    "The sign -> means so.\na > b",
]


@pytest.mark.parametrize("text", KEPT)
def test_the_rest_is_kept_whole(text: str) -> None:
    """Answers between quoted lines, forwarded mail, and what is nothing but history stay."""
    assert trim_quotes(text, subject="Re: x", place="here") == (text, "")


@pytest.mark.parametrize("subject", ["Fwd: Noon", "FW: Noon", "WG: Mittag", " fw: x"])
def test_a_forwarded_mail_is_kept_whole(subject: str) -> None:
    """A mail that is sent on for its history keeps it."""
    text = f"See below.\n\n{OUTLOOK}\nNoon?"
    assert trim_quotes(text, subject=subject, place="here") == (text, "")


def test_an_introduction_is_a_sentence_about_who_and_when() -> None:
    """A line above the quote that says neither stays with the text."""
    text, _ = trim_quotes("Fine.\n\nMy answer to:\n> Noon?", subject="", place="here")
    assert text == "Fine.\n\nMy answer to:"
    long = "x" * 400 + " 10:00:"
    assert trim_quotes(f"{long}\n> Noon?", subject="", place="here")[0] == long


async def test_only_a_setting_cuts() -> None:
    """Reading cuts when it is told to; otherwise the whole mail is the body."""
    raw = b"From: a@x.test\nSubject: Re: x\n\nFine.\n\nOn 2 Mar 2026 Bo wrote:\n> Noon?\n> Tea?\n"
    mail = RawMail(beginning=raw, size_bytes=len(raw), sha256="0" * 64)
    whole = await Reading().read(mail, place="/m/1")
    assert whole.message.body == "Fine.\n\nOn 2 Mar 2026 Bo wrote:\n> Noon?\n> Tea?"
    cut = await Reading(trim_quotes=True).read(mail, place="/m/1")
    assert cut.message.body.endswith("left out; the whole mail lies at /m/1]\n\nFine.")
    assert cut.message.body.startswith("[3 lines of quoted history (38 characters)")
    assert cut.message.external_id == whole.message.external_id
    assert cut.reply == whole.reply


def test_a_long_history_leaves_room_for_the_answer() -> None:
    """A short answer over 40 KiB of history is whole in the body once the history is cut."""
    raw = b"From: a@x.test\n\nFine.\n\n" + b"> and so on and so on\n" * 2000
    body = parse(raw, place="here", without_quotes=True).message.body
    assert body.endswith("\n\nFine.")


PIECES = st.sampled_from(
    [
        *("> a", ">", "", "Yes.", "On 2 Mar 2026 Bo wrote:", "-----Original Message-----", RULE),
        *OUTLOOK.split("\n"),
    ]
)


@given(lines=st.lists(PIECES | st.text(max_size=5), max_size=30))
def test_what_is_kept_is_the_beginning(lines: list[str]) -> None:
    """The text that stays is always a beginning of the mail's, and never nothing."""
    text = "\n".join(lines)
    kept, note = trim_quotes(text, subject="", place="here")
    assert text.startswith(kept)
    assert bool(note) == (kept != text)
    assert kept.strip() or not text.strip()


@pytest.mark.parametrize(
    "line", ["> a", RULE, "From: x", "", " " * 50, "-----Original Message-----"]
)
def test_many_lines_take_no_time(line: str) -> None:
    """Trimming a mail of 200,000 lines of anything is quick."""
    began = time.process_time()
    trim_quotes("Yes.\n" + f"{line}\n" * 200_000, subject="", place="here")
    assert time.process_time() - began < 8
