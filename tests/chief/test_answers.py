"""What is kept of what an agent says, and what open pages are told of it."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from muster.chief.answers import ANSWER_BYTES_MAX, PACE_SECONDS, Answer, LiveAnswer, Piece
from muster.chief.turns import Heard

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def hear(*pieces: str, done: str | None = None) -> Heard:
    """What is kept of these."""
    answer = Answer()
    for piece in pieces:
        answer.heard(piece)
    if done is not None:
        answer.done(done)
    return answer.whole


def test_the_last_word_is_not_kept_twice() -> None:
    """A done that repeats the end of what was heard adds nothing; another one is added."""
    assert hear("Lunch", " at noon.\n", done="Lunch at noon.").text == "Lunch at noon.\n"
    assert hear("Looking.\n\nNoon.", done="Noon.").text == "Looking.\n\nNoon."
    for heard in ("Looking.", "Looking.\n", "Looking.\n\n"):
        assert hear(heard, done="Drafted.").text == "Looking.\n\nDrafted."
    assert hear(done="Drafted.").text == "Drafted."
    assert hear("Looking.", done="").text == "Looking."
    assert hear() == Heard(text="", left_out=0)


def test_what_cannot_be_stored_is_replaced() -> None:
    """A NUL becomes U+FFFD, in what is kept and in what is passed on."""
    assert hear("a\0b", done="\0").text == "a\ufffdb\n\n\ufffd"


def test_no_more_than_the_limit_is_kept() -> None:
    """What is over the limit is counted in bytes, and no character is cut in two."""
    assert hear("x" * ANSWER_BYTES_MAX).left_out == 0
    heard = hear("x" * (ANSWER_BYTES_MAX - 1), "é", "more", done="last")
    assert heard == Heard(text="x" * (ANSWER_BYTES_MAX - 1), left_out=6)


@given(st.lists(TEXT), st.integers(0, 5))
def test_what_is_kept_is_the_beginning(pieces: list[str], times: int) -> None:
    """Whatever is said, what is kept is its beginning within the limit, and the rest is counted."""
    grown = [piece * (30_000 if times == number else 1) for number, piece in enumerate(pieces)]
    said = "".join(grown).replace("\0", "\ufffd")
    heard = hear(*grown)
    assert said.startswith(heard.text)
    assert len(heard.text.encode()) <= ANSWER_BYTES_MAX
    assert len(heard.text.encode()) + heard.left_out == len(said.encode())


async def test_pages_are_told_in_pieces_that_follow_each_other(autojump_clock: object) -> None:
    """The first piece goes at once, the others together when the pause is over, all in places."""
    told: list[tuple[float, Piece]] = []

    def tell(piece: Piece) -> bool:
        told.append((trio.current_time() - begun, piece))
        return True

    async with trio.open_nursery() as nursery:
        begun = trio.current_time()
        answer = LiveAnswer(owner_id=1, turn_id=5, conversation_id=8, tell=tell, nursery=nursery)
        for word in ("é", "two", "three"):
            answer.heard(word)
        await trio.sleep(PACE_SECONDS * 1.5)
        answer.heard("four")
        await trio.sleep(PACE_SECONDS * 5)
        answer.heard("five")
    assert [(round(at / PACE_SECONDS, 2), piece.at, piece.text) for at, piece in told] == [
        (0, 0, "é"),
        (1, 1, "twothree"),
        (2, 9, "four"),
        (6.5, 13, "five"),
    ]
    assert answer.whole.text == "étwothreefourfive"


async def test_without_a_listener_nothing_is_held_or_begun() -> None:
    """While no page is open no task runs, and a page that opens gets later pieces with places."""
    told: list[Piece] = []
    listening = False

    def tell(piece: Piece) -> bool:
        told.append(piece)
        return listening

    async with trio.open_nursery() as nursery:
        answer = LiveAnswer(owner_id=1, turn_id=5, conversation_id=8, tell=tell, nursery=nursery)
        answer.heard("one")
        assert not nursery.child_tasks
        listening = True
        answer.heard("two")
        assert [(piece.at, piece.text) for piece in told] == [(0, "one"), (3, "two")]
        assert len(nursery.child_tasks) == 1
        nursery.cancel_scope.cancel()


async def test_no_page_is_told_of_what_is_not_kept() -> None:
    """Past the limit nothing is passed on."""
    told: list[Piece] = []

    def tell(piece: Piece) -> bool:
        told.append(piece)
        return False

    async with trio.open_nursery() as nursery:
        answer = LiveAnswer(owner_id=1, turn_id=5, conversation_id=8, tell=tell, nursery=nursery)
        answer.heard("x" * (ANSWER_BYTES_MAX + 5))
        answer.heard("more")
    assert sum(len(piece.text) for piece in told) == ANSWER_BYTES_MAX
