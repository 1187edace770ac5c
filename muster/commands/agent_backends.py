"""What each backend of `muster agent run` is set to, and how it is opened.

All that is read from files is read by `prepare`, before the process lets go of its environment and
its folder.
"""

import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import click

from muster.commands.tokens import bad_setting, read_secret

if TYPE_CHECKING:
    from muster.clients.agent.backend import Backend
    from muster.clients.agent.model import Model

OpenBackend = Callable[[], AbstractAsyncContextManager["Backend"]]

SCRIPT: Final = "script"
OPENAI: Final = "openai"
ANTHROPIC: Final = "anthropic"
CLAUDE_CODE: Final = "claude-code"

_MODEL_OPTIONS = frozenset({"model", "base_url", "api_key_file", "state", "max_output_tokens"})
TAKEN: Final[Mapping[str, frozenset[str]]] = {
    SCRIPT: frozenset({"script"}),
    OPENAI: _MODEL_OPTIONS,
    ANTHROPIC: _MODEL_OPTIONS,
    CLAUDE_CODE: frozenset({"claude", "model", "state", "allow_tools"}),
}
NEEDED: Final[Mapping[str, tuple[str, str]]] = {
    SCRIPT: ("script", "FILE"),
    OPENAI: ("model", "NAME"),
    ANTHROPIC: ("model", "NAME"),
}
_TOOL = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@attrs.frozen(kw_only=True)
class BackendOptions:
    """The options that belong to one backend or another; None for one that was not given."""

    script: Path | None = None
    model: str | None = None
    base_url: str | None = None
    api_key_file: Path | None = None
    max_output_tokens: int | None = None
    claude: str | None = None
    allow_tools: str | None = None
    state: Path | None = None


@attrs.frozen(kw_only=True)
class Door:
    """The way to muster, and the environment as the runner found it.

    `holder` tells whose token it is (`tokens.name_holder`).
    """

    url: str
    token: str = attrs.field(repr=False)
    holder: str = attrs.field(repr=False)
    environ: Mapping[str, str] = attrs.field(repr=False)


def check_options(backend: str, options: BackendOptions) -> None:
    """A usage error that names the option which the backend lacks or does not take."""
    given = [name for name, value in attrs.asdict(options).items() if value is not None]
    for name in given:
        if name not in TAKEN[backend]:
            takers = " and ".join(each for each, taken in TAKEN.items() if name in taken)
            raise click.UsageError(f"{_option(name)} is for --backend {takers}, not for {backend}")
    if backend in NEEDED:
        name, metavar = NEEDED[backend]
        if name not in given:
            raise click.UsageError(f"--backend {backend} needs {_option(name)} {metavar}")
    _tools(options)


def prepare(backend: str, options: BackendOptions, door: Door) -> OpenBackend:
    """Read what the backend is set to; Invalid (exit 78) when that cannot be used."""
    match backend:
        case "script":
            return _prepare_script(options)
        case "openai":
            return _prepare_openai(options, door)
        case "anthropic":
            return _prepare_anthropic(options, door)
        case "claude-code":
            return _prepare_claude_code(options, door)
        case _:
            raise AssertionError(backend)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _tools(options: BackendOptions) -> tuple[str, ...]:
    named = tuple(options.allow_tools.split(",")) if options.allow_tools is not None else ()
    for name in named:
        if not _TOOL.fullmatch(name):
            raise click.UsageError(f"--allow-tools takes names such as Read,Grep, not {name!r}")
    return named


def _prepare_script(options: BackendOptions) -> OpenBackend:
    from muster.clients.agent import script

    assert options.script is not None
    try:
        loaded = script.load(options.script)
    except script.ScriptError as error:
        raise bad_setting(str(error), "script") from error

    @asynccontextmanager
    async def opened() -> "AsyncIterator[Backend]":
        yield loaded

    return opened


def _prepare_openai(options: BackendOptions, door: Door) -> OpenBackend:
    from muster.clients.agent import openai_chat

    key = _read_key(options, door, openai_chat.KEY_NAME)
    if key is None and options.base_url is None:
        raise _no_key(openai_chat.KEY_NAME)
    base_url = options.base_url or openai_chat.BASE_URL

    def make() -> "Model":
        assert options.model is not None
        return openai_chat.OpenAiModel(model=options.model, base_url=base_url, api_key=key)

    return _model_opener(options, door, make)


def _prepare_anthropic(options: BackendOptions, door: Door) -> OpenBackend:
    from muster.clients.agent import anthropic_messages

    key = _read_key(options, door, anthropic_messages.KEY_NAME)
    if key is None:
        raise _no_key(anthropic_messages.KEY_NAME)
    base_url = options.base_url or anthropic_messages.BASE_URL

    def make() -> "Model":
        assert options.model is not None
        return anthropic_messages.AnthropicModel(
            model=options.model, base_url=base_url, api_key=key
        )

    return _model_opener(options, door, make)


def _model_opener(options: BackendOptions, door: Door, make: "Callable[[], Model]") -> OpenBackend:
    import trio

    from muster.clients.agent.conversations import open_conversations
    from muster.clients.agent.model import OUTPUT_TOKENS_MAX
    from muster.clients.agent.tool_loop import ModelBackend

    try:
        model = make()
    except ValueError as error:
        raise bad_setting(str(error), None) from error
    folder = _state_folder(options, door)

    @asynccontextmanager
    async def opened() -> "AsyncIterator[Backend]":
        try:
            async with open_conversations(folder) as conversations:
                yield ModelBackend(
                    model=model,
                    conversations=conversations,
                    output_tokens_max=options.max_output_tokens or OUTPUT_TOKENS_MAX,
                )
        finally:
            with trio.CancelScope(shield=True):
                await model.aclose()

    return opened


def _prepare_claude_code(options: BackendOptions, door: Door) -> OpenBackend:
    from muster.clients.agent.claude_code import ClaudeCode, open_claude_code

    named = options.claude or "claude"
    program = shutil.which(named)
    if program is None:
        raise bad_setting(
            f"there is no program {named}: install Claude Code, or name it with --claude", "claude"
        )
    claude = ClaudeCode(
        program=str(Path(program).absolute()),
        url=door.url,
        token=door.token,
        environ=dict(door.environ),
        model=options.model,
        allowed_tools=_tools(options),
    )
    folder = _state_folder(options, door)
    return lambda: open_claude_code(claude, folder)


def _read_key(options: BackendOptions, door: Door, name: str) -> str | None:
    file = options.api_key_file
    secret = read_secret(name, door.environ, file=file, field="api-key-file")
    return (secret or "").strip() or None


def _no_key(name: str) -> Exception:
    return bad_setting(f"no key of the model's: give --api-key-file or set {name}", "api-key-file")


def _state_folder(options: BackendOptions, door: Door) -> Path:
    from muster.clients.state_folder import default_folder

    folder = options.state or default_folder(door.environ, "agent", url=door.url, whose=door.holder)
    return folder.absolute()
