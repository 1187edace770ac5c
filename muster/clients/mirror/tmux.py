"""Every call to the real tmux program: bounded in time and output, and never through a shell.

Each call is a `tmux` client of its own, which costs about 2 ms of CPU. Rejected: control mode
(`tmux -C`), since its client has to attach to a session of the owner's: it is listed there, counts
as somebody who looks (alerts, `destroy-unattached`) and ends with that session.

Fields of a listing end in `!`, and a `!` or `%` in a value is written `%21` or `%25` by tmux itself
(`#{s/!/%21/:…}`), so that a title, a label or a folder with any character, a line end too, is read
as it is. A control character as separator would not do: tmux 3.4 prints its octal number.
"""

import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from secrets import token_hex

import attrs
import trio

from muster.clients.mirror.model import Place

CALL_SECONDS = 5.0
OUTPUT_BYTES_MAX = 8 << 20
STDERR_BYTES_MAX = 4096
CAPTURES_MAX = 50
"""How many panes one call captures."""


class TmuxError(Exception):
    """tmux did not do what it was asked; the message is its own sentence, or why there is none.

    You don't get one for an effect that came too late: a call that was cut off after 5 seconds
    may have had it.
    """


class TmuxAbsentError(TmuxError):
    """There is no tmux program, no server or no such pane, so that nothing was done."""


@attrs.frozen(kw_only=True)
class Look:
    """What can be told of a pane's screen without reading it.

    `activity` is the second of the newest output in the pane's window, by this machine's clock;
    `mark` is where the cursor stands and how long the history is.
    """

    activity: datetime
    mark: str


@attrs.frozen(kw_only=True)
class Pane:
    """One pane as tmux lists it; the texts are as their makers set them, and may hold anything.

    `typable` is false where keys would not reach the program in it, or would reach others too: a
    dead pane, one that somebody scrolls in, one whose input is off, synchronised ones.
    """

    place: Place
    window: str
    pid: int
    active: bool
    typable: bool
    look: Look
    session_name: str
    window_index: str
    window_name: str
    renamed_by_tmux: bool
    label: str
    folder: str


def _plain(name: str) -> str:
    return f"#{{s/!/%21/:#{{s/%/%25/:{name}}}}}"


_TYPABLE = (
    "#{?#{||:#{pane_dead},#{||:#{pane_in_mode},#{||:#{pane_input_off},#{pane_synchronized}}}},0,1}"
)
_ACTIVITY = "#{window_activity}"
_MARK = "#{cursor_x}.#{cursor_y}.#{history_size}"
_FIELDS = (
    "#{pid}",
    "#{window_id}",
    "#{pane_id}",
    "#{pane_pid}",
    "#{pane_active}",
    _TYPABLE,
    _ACTIVITY,
    _MARK,
    "#{automatic-rename}",
    "#{window_index}",
    _plain("session_name"),
    _plain("window_name"),
    _plain("@muster_label"),
    _plain("pane_current_path"),
)
FORMAT = "".join(f"{field}!" for field in _FIELDS)


@attrs.frozen(kw_only=True)
class Tmux:
    """The tmux server of one socket: its name (`-L`), or its path if that holds a slash (`-S`).

    Without either it is the one that a plain `tmux` would find.
    """

    program: str = "tmux"
    socket: str | None = None

    async def call(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run one tmux command and return what it printed.

        Raises TmuxError after 5 seconds, for more than 8 MiB, and when tmux says no.
        """
        ended: _Ended | str = f"{arguments[0]} took longer than {CALL_SECONDS:g} s"
        with trio.move_on_after(CALL_SECONDS):
            ended = await _run([self.program, *self._server(), *arguments], stdin)
        if isinstance(ended, str):
            raise TmuxError(ended)
        if ended.returncode is None:
            raise TmuxAbsentError(f"{self.program} cannot be run: {ended.refusal}")
        if ended.returncode != 0:
            raise _refused(ended.refusal or f"{arguments[0]} failed")
        return ended.said

    async def panes(self) -> tuple[Pane, ...]:
        """All panes of the server, each once, in tmux's order; raises TmuxError."""
        return read_panes(await self.call("list-panes", "-a", "-F", FORMAT))

    async def capture(self, panes: Sequence[str]) -> dict[str, str]:
        """The visible text of each pane, by its id; raises TmuxError if one of them is gone."""
        texts: dict[str, str] = {}
        for start in range(0, len(panes), CAPTURES_MAX):
            some = panes[start : start + CAPTURES_MAX]
            end = token_hex(16)
            asked: list[str] = []
            for pane in some:
                asked += ["capture-pane", "-p", "-t", pane, ";", "display-message", "-p", end, ";"]
            said = await self.call(*asked[:-1])
            texts.update(zip(some, said.split(f"{end}\n"), strict=False))
        return texts

    async def look_at(self, pane: str) -> tuple[Pane, str]:
        """One pane and its visible text, both of one moment; raises TmuxError."""
        end = token_hex(16)
        said = await self.call(
            "list-panes", "-t", pane, "-F", FORMAT, ";",
            "display-message", "-p", end, ";",
            "capture-pane", "-p", "-t", pane,
        )  # fmt: skip
        listed, _, text = said.partition(f"{end}\n")
        found = next((each for each in read_panes(listed) if each.place.pane == pane), None)
        if found is None:
            raise TmuxAbsentError(f"can't find pane: {pane}")
        return found, text

    async def load(self, buffer: str, text: str) -> None:
        """Keep `text` as the paste buffer of this name; nothing reaches a terminal."""
        await self.call("load-buffer", "-b", buffer, "-", stdin=text.encode())

    async def unload(self, buffer: str) -> None:
        """Forget the buffer, which may be gone already."""
        try:
            await self.call("delete-buffer", "-b", buffer)
        except TmuxError:
            return

    async def paste(self, buffer: str, pane: Pane, *, silent: bool) -> bool:
        """Paste the buffer and forget it; False when the pane is not as it was listed.

        That is judged by the tmux server in the same step: the same process, nothing typed or
        printed that moved its cursor, and keys that reach it alone; with `silent`, no output at all
        in its window in a later second than the listed one. A TmuxError leaves open whether it was
        pasted.
        """
        # Both ends of the brackets, kept line ends, and the buffer gone with it.
        what = f"paste-buffer -p -d -r -b {buffer} -t {pane.place.pane}"
        return await self._do_if_same(what, pane, (_MARK, _ACTIVITY) if silent else (_MARK,))

    async def enter(self, pane: Pane, *, settled: bool) -> bool:
        """Press Enter in the pane; False when it is not as it was listed.

        Judged as in `paste`, where the cursor counts only with `settled`. A TmuxError leaves open
        whether it was pressed.
        """
        what = f"send-keys -t {pane.place.pane} Enter"
        return await self._do_if_same(what, pane, (_MARK,) if settled else ())

    async def _do_if_same(self, what: str, pane: Pane, marks: Sequence[str]) -> bool:
        listed = {_MARK: pane.look.mark, _ACTIVITY: f"{pane.look.activity.timestamp():.0f}"}
        wanted = " ".join(
            [f"{pane.place.tmux_pid} {pane.pid} 1", *(listed[each] for each in marks)]
        )
        now = " ".join(["#{pid} #{pane_pid}", _TYPABLE, *marks])
        same = f"#{{==:{now},{wanted}}}"
        done = f"{what} ; display-message -p done"
        target = ("-t", pane.place.pane)
        said = await self.call("if-shell", *target, "-F", same, done, "display-message -p moved")
        return said.strip() == "done"

    def _server(self) -> tuple[str, ...]:
        if self.socket is None:
            return ("-u",)
        return ("-u", "-S" if "/" in self.socket else "-L", self.socket)


def read_panes(said: str) -> tuple[Pane, ...]:
    """Read a listing in `FORMAT`; TmuxError when it is none."""
    cells = said.split("!")
    count = len(_FIELDS)
    if len(cells) % count != 1 or cells[-1].strip():
        raise TmuxError("list-panes printed something that can't be read")
    found: dict[str, Pane] = {}
    for start in range(0, len(cells) - 1, count):
        try:
            pane = _pane(cells[start : start + count])
        except (ValueError, OverflowError):
            raise TmuxError("list-panes printed something that can't be read") from None
        # A window that is linked into several sessions is listed once for each.
        found.setdefault(pane.place.pane, pane)
    return tuple(found.values())


def _pane(cells: Sequence[str]) -> Pane:
    (pid, window, pane, pane_pid, active, typable, activity, mark, renames, index, *texts) = cells
    session, name, label, folder = (text.replace("%21", "!").replace("%25", "%") for text in texts)
    return Pane(
        place=Place(tmux_pid=int(pid), pane=pane),
        window=window,
        pid=int(pane_pid),
        active=active == "1",
        typable=typable == "1",
        look=Look(activity=datetime.fromtimestamp(int(activity), UTC), mark=mark),
        session_name=session,
        window_index=index,
        window_name=name,
        renamed_by_tmux=renames == "1",
        label=label,
        folder=folder,
    )


@attrs.frozen(kw_only=True)
class _Ended:
    """How a call ended; without a return code it did not begin."""

    returncode: int | None
    said: str = ""
    refusal: str = ""


async def _run(command: Sequence[str], stdin: bytes) -> _Ended | str:
    ended: _Ended | str = f"{command[0]} printed too much"
    begin = partial(
        trio.run_process,
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        check=False,
    )
    try:
        async with trio.open_nursery() as nursery:
            process: trio.Process = await nursery.start(begin)
            said = await _read(process.stdout, OUTPUT_BYTES_MAX)
            refusal = await _read(process.stderr, STDERR_BYTES_MAX)
            if said is None or refusal is None:
                nursery.cancel_scope.cancel()
            else:
                ended = _Ended(returncode=await process.wait(), said=said, refusal=refusal.strip())
    except* OSError as errors:
        ended = _Ended(returncode=None, refusal=str(errors.exceptions[0]))
    return ended


async def _read(stream: trio.abc.ReceiveStream | None, bytes_max: int) -> str | None:
    """All that comes, None if that is too much."""
    assert stream is not None, "it was asked for as a pipe"
    read = bytearray()
    async with stream:
        async for some in stream:
            read += some
            if len(read) > bytes_max:
                return None
    return read.decode(errors="replace")


def _refused(sentence: str) -> TmuxError:
    absent = ("no server running", "error connecting", "can't find pane", "can't find window")
    kind = TmuxAbsentError if sentence.startswith(absent) else TmuxError
    return kind(sentence[:200])
