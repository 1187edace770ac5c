"""What an agent remembers: whole turns, bounded, over restarts, one process a folder."""

import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.clients.agent.conversations import (
    FILE_NAME,
    Bounds,
    open_conversations,
)
from muster.clients.agent.transcript import (
    Entry,
    FromModel,
    FromUser,
    ToolCall,
    ToolResult,
    decode,
    encode,
    is_whole,
)
from muster.clients.state_folder import StateFolderBusyError
from tests.support.model_protocols import ANTHROPIC, OPENAI, Says
from tests.support.model_stage import stage


def exchange(text: str, call_id: str = "c1") -> tuple[Entry, ...]:
    """A whole turn with a tool call."""
    return (
        FromUser(text=text),
        FromModel(text="", calls=(ToolCall(call_id=call_id, name="look", arguments="{}"),)),
        ToolResult(call_id=call_id, text="nothing", is_error=True),
        FromModel(text="So be it."),
    )


async def test_a_conversation_outlives_the_runner(tmp_path: Path) -> None:
    """What was kept is there for the next process, in order, and by label."""
    async with open_conversations(tmp_path) as first:
        await first.keep("a", exchange("one"))
        await first.keep("b", exchange("other"))
        await first.keep("a", exchange("two"))
    async with open_conversations(tmp_path) as second:
        assert await second.recall("a") == [exchange("one"), exchange("two")]
        assert await second.recall("b") == [exchange("other")]
        assert await second.recall("unheard of") == []


@pytest.mark.parametrize(("before", "after"), [(OPENAI, ANTHROPIC), (ANTHROPIC, OPENAI)])
async def test_a_conversation_outlives_its_model(before: str, after: str, tmp_path: Path) -> None:
    """A runner that comes back with another provider's model goes on in the same conversation."""
    async with stage(before, tmp_path) as on:
        on.server.plays(Says(text="Looking.", calls=[("look", {}), ("bash -c ls", "{")]))
        await on.turn("the first")
    async with stage(after, tmp_path) as on:
        assert await on.turn("the second") == "Nothing more to say."
        told = str(on.server.asked[0].body)
        for text in ("the first", "Looking.", "look done", "Nothing more to say.", "the second"):
            assert text in told


@pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])
async def test_labels_do_not_mix(path: str, tmp_path: Path) -> None:
    """A turn sees the earlier turns of its own conversation alone."""
    async with stage(path, tmp_path) as on:
        await on.turn("a secret", label="a")
        await on.turn("hello", label="b")
        await on.turn("again", label="a")
        assert ["a secret" in str(asked.body) for asked in on.server.asked] == [True, False, True]


async def test_turns_and_bytes_are_bounded(tmp_path: Path) -> None:
    """The oldest turns leave whole, by number and by size."""
    async with open_conversations(tmp_path, bounds=Bounds(turns_max=3, bytes_max=2_000)) as kept:
        for number in range(5):
            await kept.keep("a", exchange(f"turn {number}"))
        assert [turn[0] for turn in await kept.recall("a")] == [
            FromUser(text=f"turn {number}") for number in (2, 3, 4)
        ]
        await kept.keep("a", exchange("x" * 1_500))
        assert [len(turn) for turn in await kept.recall("a")] == [4, 4]
        assert not await kept.keep("a", exchange("x" * 2_000))
        assert len(await kept.recall("a")) == 2


async def test_labels_used_least_recently_leave(tmp_path: Path) -> None:
    """A folder holds a number of conversations; the one kept in longest ago goes first."""
    async with open_conversations(tmp_path, bounds=Bounds(labels_max=2)) as kept:
        for label in ("a", "b", "a", "c"):
            await kept.keep(label, exchange(label))
        assert [len(await kept.recall(label)) for label in "abc"] == [2, 0, 1]
    rows = sqlite3.connect(tmp_path / FILE_NAME)
    assert rows.execute("select count(*) from turns").fetchone() == (3,)
    rows.close()


async def test_shortening_keeps_the_newest(tmp_path: Path) -> None:
    """Half a conversation is forgotten for good, down to nothing."""
    async with open_conversations(tmp_path) as kept:
        for number in range(4):
            await kept.keep("a", exchange(f"turn {number}"))
        await kept.shorten("a", turns_max=1)
        assert await kept.recall("a") == [exchange("turn 3")]
        await kept.shorten("a", turns_max=0)
        assert await kept.recall("a") == []


async def test_half_an_exchange_is_never_kept(tmp_path: Path) -> None:
    """A call without its result can't be written down, since it would spoil what follows."""
    async with open_conversations(tmp_path) as kept:
        with pytest.raises(AssertionError):
            await kept.keep("a", exchange("one")[:2])
        assert await kept.recall("a") == []


async def test_a_file_of_another_version_is_passed_over(tmp_path: Path) -> None:
    """A turn that can't be read, and what stands before it, is as if it were forgotten."""
    async with open_conversations(tmp_path) as kept:
        await kept.keep("a", exchange("old"))
        await kept.keep("a", exchange("strange"))
        await kept.keep("a", exchange("new"))
        await kept.file.run(
            lambda db: db.execute("update turns set entries = ? where turn = 2", (b'[{"type":9}]',))
        )
        assert await kept.recall("a") == [exchange("new")]


async def test_one_process_a_folder(tmp_path: Path) -> None:
    """A second runner on the same folder is turned away with the first one's process."""
    async with open_conversations(tmp_path):
        with pytest.raises(StateFolderBusyError, match="in use by process"):
            async with open_conversations(tmp_path):
                pass


async def test_a_turn_over_the_bounds_leaves_a_note(tmp_path: Path) -> None:
    """A turn that is too big to be kept leaves its text and a note of the tools it called."""
    async with stage(OPENAI, tmp_path, bounds=Bounds(bytes_max=3_000)) as on:
        on.server.plays(Says(text="z" * 4_000, calls=[("look", {})]), Says(text="Done."))
        assert await on.turn("go") == "Done."
        ((user, note),) = await on.conversations.recall("a")
        assert user == FromUser(text="go")
        assert "too long to be remembered whole. Tools that were called: look (done)" in str(note)


async def test_a_failed_turn_leaves_no_exchange(tmp_path: Path) -> None:
    """Of a turn that failed after a tool ran, the next one knows its text, the tool and why."""
    async with stage(ANTHROPIC, tmp_path) as on:
        on.server.plays(
            Says(text="Hm.", calls=[("look", {})]), Says(text="I won't", stop="refusal")
        )
        with pytest.raises(Exception, match="refused"):
            await on.turn("go")
        ((user, note),) = await on.conversations.recall("a")
        assert (user, isinstance(note, FromModel)) == (FromUser(text="go"), True)
        assert "refused the turn: I won't Tools that were called: look (done)" in str(note)


async def test_a_memory_that_fails_is_told(tmp_path: Path) -> None:
    """A file that can't be read fails the turn in a sentence; one that can't be written is told."""
    async with stage(OPENAI, tmp_path) as on:
        await on.conversations.file.run(lambda db: db.execute("drop table conversations"))
        assert await on.turn("go") == "Nothing more to say."
        assert "could not be remembered" in on.heard
        assert "cannot be used: no such table" in on.heard
        await on.conversations.file.run(lambda db: db.execute("drop table turns"))
        with pytest.raises(Exception, match=r"The conversation cannot be read: .* no such table"):
            await on.turn("go")


TEXTS = st.text(max_size=20)
ENTRIES = st.lists(
    st.one_of(
        st.builds(FromUser, text=TEXTS),
        st.builds(
            FromModel,
            text=TEXTS,
            calls=st.lists(
                st.builds(
                    ToolCall, call_id=st.sampled_from("abc"), name=TEXTS, arguments=st.just("{}")
                ),
                max_size=2,
            ).map(tuple),
        ),
        st.builds(ToolResult, call_id=st.sampled_from("abc"), text=TEXTS, is_error=st.booleans()),
    ),
    max_size=6,
).map(tuple)


@given(entries=ENTRIES)
def test_entries_are_read_as_they_were_written(entries: tuple[Entry, ...]) -> None:
    """Any transcript survives being stored, and the same ones are whole."""
    assert decode(encode(entries)) == entries
    if is_whole(entries):
        calls = [call.call_id for e in entries if isinstance(e, FromModel) for call in e.calls]
        assert sorted(calls) == sorted(e.call_id for e in entries if isinstance(e, ToolResult))
