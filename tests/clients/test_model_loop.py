"""The loop around a model: rounds, tools, and what the model gets wrong; with both protocols."""

import json
from pathlib import Path

import attrs
import pytest
import trio

from muster.clients.agent.backend import ToolAnswer, TurnError, Usage
from muster.clients.agent.tool_loop import FAULTY_CALLS_MAX, INSTRUCTIONS
from muster.clients.agent.transcript import FromModel
from tests.support.model_protocols import ANTHROPIC, OPENAI, Says
from tests.support.model_server import Raw, tool_names
from tests.support.model_stage import Stage, stage

DRAFT = {"message_id": 7, "body": "Noon works."}
BOTH = pytest.mark.parametrize("path", [OPENAI, ANTHROPIC])


def results(on: Stage, request: int = -1) -> list[tuple[str, bool]]:
    """The tool results that a request held since the model's last answer: (text, is an error)."""
    asked = on.server.asked[request]
    messages = asked.body["messages"]
    if asked.path == OPENAI:
        at = max(at for at, each in enumerate(messages) if each["role"] == "assistant")
        texts = [each["content"] for each in messages[at + 1 :] if each["role"] == "tool"]
        return [(text.removeprefix("Error: "), text.startswith("Error: ")) for text in texts]
    return [
        (block.get("content", ""), block.get("is_error", False))
        for block in messages[-1]["content"]
        if block["type"] == "tool_result"
    ]


@BOTH
async def test_a_turn_goes_round_until_no_tool_is_called(path: str, tmp_path: Path) -> None:
    """The model drafts, reads the result, says its last word, and every token of it is counted."""
    async with stage(path, tmp_path) as on:
        on.server.plays(
            Says(text="I will draft.", calls=[("reply_draft", DRAFT)], cached_tokens=40),
            Says(text="A reply is drafted.", output_tokens=5),
        )
        assert await on.turn("| lunch?") == "A reply is drafted."
        assert on.tools.called == [("reply_draft", DRAFT)]
        assert results(on) == [("reply_draft done", False)]
        assert on.heard == "I will draft.A reply is drafted."
        model = on.counted[0].model
        assert on.counted == [
            Usage(model=model, input_tokens=100, cached_input_tokens=40, output_tokens=10),
            Usage(model=model, input_tokens=100, output_tokens=5),
        ]


@BOTH
async def test_the_request_is_what_the_turn_holds(path: str, tmp_path: Path) -> None:
    """Instructions, text and muster's tools go to the model, with the key in its own header."""
    async with stage(path, tmp_path) as on:
        turn = attrs.evolve(on.give("| lunch?"), instructions="Be brief.")
        await on.backend.turn(turn, on.tools)
        await on.turn("again", label="b")
        asked = on.server.asked[0]
        assert asked.path == path
        assert tool_names(asked) == ["reply_draft", "look"]
        if path == OPENAI:
            assert asked.headers["authorization"].startswith("Bearer sk-test-")
            system, user = asked.body["messages"]
            assert (system["content"], user["content"]) == ("Be brief.", "| lunch?")
            assert on.server.asked[1].body["messages"][0]["content"] == INSTRUCTIONS
        else:
            assert asked.headers["x-api-key"].startswith("sk-test-")
            assert asked.headers["anthropic-version"] == "2023-06-01"
            assert asked.body["system"][0]["text"] == "Be brief."
            assert asked.body["system"][0]["cache_control"] == {"type": "ephemeral"}
            (block,) = asked.body["messages"][0]["content"]
            assert (block["text"], "cache_control" in block) == ("| lunch?", True)
            assert on.server.asked[1].body["system"][0]["text"] == INSTRUCTIONS


@BOTH
async def test_several_calls_are_carried_out_in_order(path: str, tmp_path: Path) -> None:
    """Each call of an answer is carried out, one after the other, and has its own result."""
    async with stage(path, tmp_path) as on:
        on.tools.answers["look"] = ToolAnswer(text="nothing here", is_error=False)
        on.server.plays(Says(calls=[("look", {}), ("reply_draft", DRAFT), ("look", {"far": True})]))
        await on.turn("go")
        assert on.tools.called == [("look", {}), ("reply_draft", DRAFT), ("look", {"far": True})]
        assert [text for text, _ in results(on)] == [
            "nothing here",
            "reply_draft done",
            "nothing here",
        ]


@BOTH
@pytest.mark.parametrize("wish", ["bash", "read_file", "muster drafts approve 1", "x" * 200, ""])
async def test_a_model_that_wants_more_finds_no_such_tool(
    path: str, wish: str, tmp_path: Path
) -> None:
    """A shell, a file and the command line are no tools: the model is told so, nothing is run."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Says(calls=[(wish, {"command": "muster drafts approve 1"})]))
        assert await on.turn("go") == "Nothing more to say."
        ((text, is_error),) = results(on)
        assert is_error
        assert "There is no tool" in text
        assert "reply_draft, look" in text
        assert on.tools.called == []
        # A name that no provider takes back would spoil the conversation for good.
        await on.turn("again")


@BOTH
@pytest.mark.parametrize(
    "broken",
    ['{"message_id": 7, "bo', "[1, 2]", '"text"', '{"message_id": NaN}', '{"body": "\\ud800"}'],
)
async def test_broken_arguments_are_told_and_may_be_mended(
    path: str, broken: str, tmp_path: Path
) -> None:
    """A call whose arguments are no JSON object is not carried out; the model tries again."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Says(calls=[("reply_draft", broken)]), Says(calls=[("reply_draft", DRAFT)]))
        await on.turn("go")
        ((text, is_error),) = results(on, 1)
        assert is_error
        assert "no JSON object" in text
        assert on.tools.called == [("reply_draft", DRAFT)]


@BOTH
async def test_an_id_that_comes_again_is_another(path: str, tmp_path: Path) -> None:
    """A provider that counts its calls anew each time is not sent the same id twice."""
    async with stage(path, tmp_path) as on:
        for _turn in range(2):
            again = Says(thinks="Hm.", calls=[("look", {})], call_id="call_1")
            on.server.plays(again, again, Says(text="Done."))
            assert await on.turn("go") == "Done."
        turns = await on.conversations.recall("a")
        entries = [entry for turn in turns for entry in turn if isinstance(entry, FromModel)]
        assert len({call.call_id for entry in entries for call in entry.calls}) == 4


@BOTH
async def test_no_arguments_are_an_empty_object(path: str, tmp_path: Path) -> None:
    """A call without any arguments is a call with none."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Says(calls=[("look", "")]))
        await on.turn("go")
        assert on.tools.called == [("look", {})]


@BOTH
async def test_a_model_that_only_errs_is_stopped(path: str, tmp_path: Path) -> None:
    """After some faulty calls in a row the turn fails instead of going on for ever."""
    async with stage(path, tmp_path) as on:
        on.server.plays(*[Says(calls=[("bash", {})])] * 20)
        with pytest.raises(TurnError, match="5 faulty tool calls in a row; lastly: There is no"):
            await on.turn("go")
        assert len(on.server.asked) == FAULTY_CALLS_MAX


@BOTH
async def test_a_call_that_works_begins_the_count_anew(path: str, tmp_path: Path) -> None:
    """Faulty calls are counted in a row alone."""
    async with stage(path, tmp_path) as on:
        wrong, right = Says(calls=[("bash", {})]), Says(calls=[("look", {})])
        on.server.plays(*[wrong] * 4, right, *[wrong] * 4, Says(text="Done."))
        assert await on.turn("go") == "Done."


@BOTH
async def test_a_refusal_reaches_the_model(path: str, tmp_path: Path) -> None:
    """Muster's no to a tool is an error to the model, which may do better."""
    async with stage(path, tmp_path) as on:
        on.tools.answers["reply_draft"] = ToolAnswer(text="Leave out the link.", is_error=True)
        on.server.plays(Says(calls=[("reply_draft", DRAFT)]))
        await on.turn("go")
        assert results(on) == [("Leave out the link.", True)]


@BOTH
async def test_a_lost_tool_answer_ends_the_turn(path: str, tmp_path: Path) -> None:
    """A tool whose answer is lost is not called again: the turn fails and the memory says why."""
    async with stage(path, tmp_path) as on:
        on.tools.lost.add("reply_draft")
        on.server.plays(Says(calls=[("reply_draft", DRAFT), ("look", {})]))
        with pytest.raises(TurnError, match="the answer was lost"):
            await on.turn("go")
        assert on.tools.called == [("reply_draft", DRAFT)]
        await on.turn("what happened?")
        assert "reply_draft (no answer came, so it may have run)" in str(on.server.asked[-1].body)


@BOTH
async def test_rounds_are_bounded(path: str, tmp_path: Path) -> None:
    """A model that calls tools for ever is stopped."""
    async with stage(path, tmp_path) as on:
        on.backend = attrs.evolve(on.backend, rounds_max=3)
        on.server.plays(*[Says(calls=[("look", {})])] * 9)
        with pytest.raises(TurnError, match="still called tools after 3 rounds"):
            await on.turn("go")
        assert len(on.tools.called) == 3


@BOTH
async def test_a_long_result_is_cut(path: str, tmp_path: Path) -> None:
    """A tool's answer is bounded on its way to the model, and says that it was cut."""
    async with stage(path, tmp_path) as on:
        on.tools.answers["look"] = ToolAnswer(text="y" * 60_000, is_error=False)
        on.server.plays(Says(calls=[("look", {})]))
        await on.turn("go")
        ((text, _),) = results(on)
        assert text == "y" * 50_000 + "\n[cut: 60000 characters in all]"


@BOTH
@pytest.mark.parametrize(
    ("stop", "told"),
    [
        ("length", "cut off at 8192 tokens"),
        ("refusal", "refused the turn: I would rather not"),
        ("filter", "refused the turn"),
    ],
)
async def test_an_answer_that_ends_badly_is_told(
    path: str, stop: str, told: str, tmp_path: Path
) -> None:
    """An answer that was cut, refused or filtered fails the turn, and its calls are not run."""
    async with stage(path, tmp_path) as on:
        says = Says(text="I would rather not", stop=stop)
        calls = () if stop == "refusal" else (("look", "{}"),)
        on.server.plays(attrs.evolve(says, calls=calls))
        with pytest.raises(TurnError, match=told):
            await on.turn("go")
        assert on.tools.called == []
        assert [usage.output_tokens for usage in on.counted] == [10]


@BOTH
async def test_text_is_said_in_bites(path: str, tmp_path: Path) -> None:
    """A long text goes out in some hundred characters at a time, whole and in order."""
    async with stage(path, tmp_path) as on:
        text = "".join(f"{number:06d} " for number in range(600))
        on.server.plays(Says(text=text))
        began = trio.current_time()
        assert await on.turn("go") == text.strip()
        assert on.heard == text
        # A slow machine has one more a second.
        assert len(on.said) <= len(text) / 400 + 3 + trio.current_time() - began


@BOTH
async def test_a_silent_model_ends_the_turn_too(path: str, tmp_path: Path) -> None:
    """An empty answer is an ending, and does not spoil the turns that follow."""
    async with stage(path, tmp_path) as on:
        on.server.plays(Says())
        assert await on.turn("go") == "The model ended the turn without a word."
        await on.turn("again")


async def test_thinking_goes_back_while_the_turn_lasts(tmp_path: Path) -> None:
    """A model's thinking stands in the next round's request, and in no later turn's."""
    async with stage(ANTHROPIC, tmp_path) as on:
        on.server.plays(Says(thinks="Who is Ada?", text="Hm. ", calls=[("look", {})]))
        await on.turn("go")
        first = on.server.asked[1].body["messages"][1]["content"]
        assert [block["type"] for block in first] == ["thinking", "text", "tool_use"]
        assert first[0]["thinking"] == "Who is Ada?"
        assert "Who is Ada?" not in on.heard
        await on.turn("again")
        assert "thinking" not in str(on.server.asked[-1].body)


def _piece(**function: object) -> dict[str, object]:
    return {"function": function}


QUIRKS = {
    "no ids, no indexes, arguments as objects": [
        [_piece(name="look", arguments={"at": 1})],
        [_piece(name="look", arguments={"at": 2})],
    ],
    "every call is number 0, and whole": [
        [{"index": 0, "id": "", **_piece(name="look", arguments='{"at": 1}')}],
        [{"index": 0, "id": "", **_piece(name="look", arguments='{"at": 2}')}],
    ],
    "every call is number 0, with ids": [
        [{"index": 0, "id": "a", **_piece(name="look", arguments='{"at": 1}')}],
        [{"index": 0, "id": "b", **_piece(name="look", arguments='{"at": 2}')}],
    ],
    "one id for both": [
        [
            {"index": 0, "id": "same", **_piece(name="look", arguments='{"at": 1}')},
            {"index": 1, "id": "same", **_piece(name="look", arguments='{"at": 2}')},
        ]
    ],
    "the name in every piece": [
        [{"index": 0, "id": "a", **_piece(name="look", arguments="")}],
        [{"index": 0, "id": "a", **_piece(name="look", arguments='{"at"')}],
        [{"index": 0, "id": None, **_piece(name="look", arguments=": 1}")}],
        [{"index": 0, "id": None, **_piece(name="look", arguments="")}],
        [{"index": 1, "id": "b", **_piece(name="look", arguments='{"at": 2}')}],
    ],
    "pieces without an index": [
        [{"id": "a", **_piece(name="look", arguments="")}],
        [_piece(arguments='{"at": ')],
        [_piece(arguments="1}")],
        [{"id": "b", **_piece(name="look", arguments='{"at": 2}')}],
    ],
}


@pytest.mark.parametrize("quirk", QUIRKS)
async def test_odd_openai_servers_are_understood(quirk: str, tmp_path: Path) -> None:
    """Tool calls without ids, indexes or in odd pieces are two calls with results of their own."""
    async with stage(OPENAI, tmp_path) as on:
        deltas: list[object] = [None, {}, {"content": None}]
        deltas += [{"tool_calls": pieces} for pieces in QUIRKS[quirk]]
        chunks = [_chunk(delta) for delta in deltas]
        on.server.plays(
            Raw(chunks=[": hello\r\n\r\n", *chunks, 'data: {"choices": null}\n\n', END])
        )
        await on.turn("go")
        assert on.tools.called == [("look", {"at": 1}), ("look", {"at": 2})]
        assert len(results(on)) == 2


END = "data: [DONE]\n\n"


def _chunk(delta: object) -> str:

    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\r\n\r\n"
