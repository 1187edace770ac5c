"""Transcripts: whose they are, what they are about, and what was told in them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.clients.mirror import transcripts
from muster.clients.mirror.model import FocusSource
from muster.clients.mirror.transcripts import (
    Reader,
    clean_title,
    find_transcripts,
    first_folder,
    is_transcript,
    open_transcript,
    slug_of,
)

SESSION = "11111111-2222-4333-8444-555555555555"
AT = "2026-11-30T10:00:00.123Z"


def user(content: Any, **members: Any) -> dict[str, Any]:
    """A user's record."""
    message = {"role": "user", "content": content}
    return {
        "type": "user",
        "message": message,
        "uuid": "u1",
        "timestamp": AT,
        "cwd": "/w",
        **members,
    }


def title(text: str) -> dict[str, Any]:
    """A name that the program gave."""
    return {"type": "ai-title", "aiTitle": text, "sessionId": SESSION}


def summary(text: str, leaf: str) -> dict[str, Any]:
    """A summary of the conversation that ends with a record."""
    return {"type": "summary", "summary": text, "leafUuid": leaf}


class File:
    """A transcript that grows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.reader = Reader(path)

    def add(self, *records: Any) -> "File":
        """Add records, or texts as they are, and read them."""
        with self.path.open("a") as file:
            for each in records:
                text = each if isinstance(each, str) else json.dumps(each, separators=(",", ":"))
                file.write(text + "\n")
        self.reader.read()
        return self

    @property
    def title(self) -> str | None:
        """What it is about."""
        found = self.reader.title
        return found.title if found else None

    @property
    def prompts(self) -> list[str]:
        """What was told."""
        return [told.text for told in self.reader.prompts]


@pytest.fixture
def file(tmp_path: Path) -> File:
    """An empty transcript."""
    return File(tmp_path / f"{SESSION}.jsonl")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Claude Code's folder, with a transcript of SESSION."""
    project = tmp_path / "config" / "projects" / "-w"
    project.mkdir(parents=True)
    (project / f"{SESSION}.jsonl").write_text(json.dumps(user("Hello")) + "\n")
    return tmp_path / "config"


def test_the_newest_name_is_the_title_else_the_newest_prompt(file: File) -> None:
    """A prompt's first line is the title until the session has a name; the newest name counts."""
    assert file.add(user("First\nand more")).title == "First"
    found = file.add(user("\n  \n Second ", cwd="/w/deep")).reader.title
    assert found is not None
    assert (found.title, found.source, found.cwd) == ("Second", FocusSource.PROMPT, "/w/deep")
    found = file.add(title("Fences"), user("Third")).reader.title
    assert found is not None
    assert (found.title, found.source) == ("Fences", FocusSource.SUMMARY)
    assert file.add({"type": "custom-title", "customTitle": "My fences"}).title == "My fences"
    assert file.add(summary("Gates", "u1")).title == "Gates"


def test_a_summary_of_another_conversation_is_no_title(file: File) -> None:
    """Summaries at the top count only once the record that they end with is seen."""
    file.add(summary("Mine", "u7"), summary("Theirs", "u8"), user("Hello"))
    assert file.title == "Hello"
    assert file.add(user("More", uuid="u7")).title == "Mine"


def test_what_nobody_typed_is_no_prompt(file: File) -> None:
    """Results of tools, texts of the program's own and what other agents were told are left out."""
    result = [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]
    file.add(
        user(result),
        user("meta", isMeta=True),
        user("side", isSidechain=True),
        user("This session is being continued", isCompactSummary=True),
        user("naive", timestamp="2026-11-30T10:00:00"),
        user([{"type": "image"}]),
    )
    assert file.prompts == []
    file.add(user("<command-name>/clear</command-name>"), user([{"type": "text", "text": "yes"}]))
    assert file.title == "yes"
    file.add(user("<bash-input>ls</bash-input>"))
    assert file.title == "yes"


def test_queued_prompts_are_prompts(file: File) -> None:
    """What was typed in a running turn is found where the program keeps it."""
    queued = {"type": "queued_command", "prompt": "second"}
    file.add(
        {"type": "queue-operation", "operation": "enqueue", "content": "first", "timestamp": AT},
        {"type": "queue-operation", "operation": "dequeue", "content": "no", "timestamp": AT},
        {"type": "attachment", "attachment": queued, "timestamp": AT},
    )
    assert file.prompts == ["first", "second"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "{",
        "[]",
        '{"type":"user"}',
        '{"type":"user","message":[]}',
        '{"type":"ai-title","aiTitle":7}',
        '{"type":"user","message":{"content":{"a":1}},"timestamp":"soon"}',
        '{"type":"summary","summary":"\\u0007","leafUuid":[]}',
        "\x00\x00",
        '{"type":"user","message":' + "[" * 50_000,
    ],
)
def test_a_line_of_another_form_is_passed_over(file: File, line: str) -> None:
    """Whatever stands in a line, the next one is read."""
    assert file.add(line, user("Hello")).prompts == ["Hello"]


def test_a_half_line_is_read_when_it_is_whole(file: File) -> None:
    """A line that is being written is not judged before its end."""
    record = user("Grüße")
    line = json.dumps(record, separators=(",", ":"), ensure_ascii=False).encode()
    for cut in range(0, len(line), 7):
        with file.path.open("ab") as out:
            out.write(line[cut : cut + 7])
        file.reader.read()
        assert file.prompts == []
    file.add("")
    assert file.prompts == ["Grüße"]
    assert not file.reader.read()


def test_only_the_end_of_a_long_file_is_read(file: File) -> None:
    """Of a long transcript the last part is read, from its first whole line on."""
    file.add(*(user(f"prompt {number}") for number in range(1000)))
    reader = Reader(file.path, back_bytes_max=1000, prompts_max=3)
    assert reader.read()
    assert [told.text for told in reader.prompts] == ["prompt 997", "prompt 998", "prompt 999"]


def test_an_endless_line_is_not_kept(file: File, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line beyond the bound is skipped, and what follows is read."""
    monkeypatch.setattr(transcripts, "CHUNK_BYTES", 100)
    monkeypatch.setattr(transcripts, "LINE_BYTES_MAX", 1000)
    assert file.add(user("x" * 5000), user("Hello")).prompts == ["Hello"]


def test_a_file_that_was_replaced_is_read_anew(file: File) -> None:
    """A shorter or another file of the name begins from its start."""
    file.add(user("First"))
    other = File(file.path.with_name("other")).add(user("Second"), user("Third"))
    other.path.replace(file.path)
    file.add()
    assert file.prompts == ["Second", "Third"]
    file.path.write_text("")
    file.add(user("Fourth"))
    assert file.prompts == ["Fourth"]


def test_a_transcript_is_found_by_its_id(config: Path) -> None:
    """It is found in whatever project it is filed; a second one of the id is found as well."""
    found = find_transcripts(config, SESSION)
    assert [each.parent.name for each in found] == ["-w"]
    assert is_transcript(config, SESSION, found[0])
    assert first_folder(found[0]) == "/w"
    other = config / "projects" / "-other"
    other.mkdir()
    (other / f"{SESSION}.jsonl").write_text("")
    assert len(find_transcripts(config, SESSION)) == 2
    assert find_transcripts(config / "none", SESSION) == ()


@pytest.mark.parametrize(
    "session", ["", "..", "../-w/x", SESSION.upper() + "A", f"{SESSION}\n", "*"]
)
def test_an_id_that_is_none_finds_nothing(config: Path, session: str) -> None:
    """Only a UUID in lower case is looked for."""
    with pytest.raises(ValueError, match="UUID"):
        find_transcripts(config, session)
    assert not is_transcript(config, session, config / "projects" / "-w" / f"{session}.jsonl")


def test_links_and_strange_places_are_no_transcripts(config: Path, tmp_path: Path) -> None:
    """Neither a link nor a linked project, a pipe or a path elsewhere is taken for one."""
    secret = tmp_path / "secret"
    secret.write_text("x")
    projects = config / "projects"
    (projects / "-linked").symlink_to(projects / "-w")
    (projects / "-file").mkdir()
    (projects / "-file" / f"{SESSION}.jsonl").symlink_to(secret)
    (projects / "-pipe").mkdir()
    os.mkfifo(projects / "-pipe" / f"{SESSION}.jsonl")
    assert [each.parent.name for each in find_transcripts(config, SESSION)] == ["-w"]
    for strange in ("-linked", "-file", "-pipe", "-w/../-w", "-none"):
        assert not is_transcript(config, SESSION, projects / strange / f"{SESSION}.jsonl")
    for unopened in ("-file", "-pipe"):
        path = projects / unopened / f"{SESSION}.jsonl"
        with pytest.raises(OSError, match=r"file|symbolic"), open_transcript(path):
            pass


@settings(deadline=None)
@given(st.text(max_size=300))
def test_a_title_is_one_line_that_can_be_shown(text: str) -> None:
    """A title has at most 120 characters, all of them seen, and is clean already."""
    cleaned = clean_title(text)
    assert len(cleaned) <= 120
    assert cleaned == clean_title(cleaned) == cleaned.strip()
    assert cleaned.isprintable() or not cleaned.isascii()
    assert not any(character in cleaned for character in "\n\r\t\x1b\x00\u200b\u202e\u2028")


def test_a_slug_is_as_claude_code_makes_it() -> None:
    """Everything but letters and digits becomes a hyphen."""
    assert slug_of("/home/ada/my_app.x") == "-home-ada-my-app-x"
