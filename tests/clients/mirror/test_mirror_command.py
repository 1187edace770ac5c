"""`muster mirror` and what belongs to it with wrong arguments: a sentence and an exit code."""

from pathlib import Path

import pytest

from tests.support.program import Program, bare_program

RESUMES = ("--interactive", "--resume-spawn")


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program of somebody whose home is this folder."""
    program = bare_program(tmp_path)
    program.environ["HOME"] = str(tmp_path)
    for name in ("CLAUDE_CONFIG_DIR", "MUSTER_URL", "MUSTER_MIRROR_TOKEN"):
        program.environ.pop(name, None)
    return program


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("--nope",), 2, "No such option '--nope'"),
        (("nope",), 2, "No such command 'nope'"),
        (("--interactive", "hooks", "install"), 2, "write the options after hooks"),
        (("--resume-session", "x"), 2, "go with --resume-spawn"),
        (("--resume-claude", "claude"), 2, "go with --resume-spawn"),
        ((*RESUMES, "--resume-session", "a b"), 2, "letters, digits, hyphens"),
        ((*RESUMES, "--resume-session", ""), 2, "letters, digits, hyphens"),
        ((*RESUMES, "--resume-claude", "claude 'x"), 2, "No closing quotation"),
        ((*RESUMES, "--resume-claude", ""), 2, "needs a program"),
        (("--tmux-socket", ""), 2, "needs a name or a path"),
        (("--url", "ftp://muster.example"), 78, "not an address"),
        (("--url", "http://"), 78, "not an address"),
        ((), 78, "give --token-file or set MUSTER_MIRROR_TOKEN"),
        (("--token-file", "nowhere"), 78, "No such file"),
        (("--token-file", "."), 78, "cannot read ."),
        (("--token-file", "plugin.token"), 78, "begin with mmh_"),
        (("--token-file", "mirror.token", "--resume-spawn", "--url", "x"), 78, "not an address"),
        (("hooks", "nope"), 2, "No such command 'nope'"),
        (("hooks", "install", "--settings", "."), 4, "can't be read"),
        (("hooks", "uninstall", "--settings", "."), 4, "can't be read"),
        (("unit",), 2, "Missing option '--token-file'"),
        (("unit", "--token-file", "t", "--url", "x"), 78, "not an address"),
        (("unit", "--token-file", "t", "--resume-claude", "x"), 2, "go with --resume-spawn"),
        (("mcp", "--nope"), 2, "No such option '--nope'"),
    ],
)
def test_a_wrong_argument_is_told(
    program: Program, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    """Each is told in words on stderr, with the exit code of its kind and nothing on stdout."""
    (tmp_path / "plugin.token").write_text("mpl_x\n")
    (tmp_path / "mirror.token").write_text("mmh_x\n")
    given = [str(tmp_path / word) if word.endswith(".token") else word for word in arguments]
    ended = program.run("mirror", *given)
    assert (ended.code, ended.out) == (code, "")
    assert said.casefold() in ended.err.casefold()
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("arguments", [(), ("Stop", "again"), ("--nope", "Stop"), ("--nope",)])
def test_a_hook_that_is_called_wrongly_stops_nothing(
    program: Program, arguments: tuple[str, ...]
) -> None:
    """It says how it is called and exits 1: for Claude Code 2 means to refuse what comes."""
    ended = program.run("mirror", "hook", *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert "muster mirror hook EVENT" in ended.err


@pytest.mark.parametrize(
    "command",
    [
        ("mirror",),
        ("mirror", "hooks"),
        ("mirror", "hooks", "install"),
        ("mirror", "hooks", "uninstall"),
        ("mirror", "hook"),
        ("mirror", "mcp"),
        ("mirror", "unit"),
    ],
)
def test_each_command_explains_itself(program: Program, command: tuple[str, ...]) -> None:
    """--help says what it does, and something of each option."""
    ended = program.run(*command, "--help")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith(f"Usage: muster {' '.join(command)}")
    for line in ended.out.splitlines():
        if line.startswith("  --"):
            name, _, told = line.strip().partition("  ")
            assert told or len(name) > 20, line


@pytest.mark.parametrize("where", ["unit", "program"])
def test_resumes_without_interactive_are_told_to_be_idle(
    program: Program, tmp_path: Path, where: str
) -> None:
    """What nothing could be typed into is not started, and that is said at once."""
    command = ["unit", "--token-file", "t"] if where == "unit" else ["--url", "http://[::1]:1"]
    ended = program.run("mirror", *command, "--resume-spawn")
    assert "does nothing without --interactive" in ended.err
