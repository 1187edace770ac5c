"""What `muster mail` and `muster mail check` make of their options."""

import json
from pathlib import Path

import attrs
import pytest

from muster.clients.mail.settings import Login, MailServer, Security
from muster.clients.state_folder import default_folder
from muster.commands.exits import Exit
from muster.commands.mail_options import MailOptions, read_plan
from muster.errors import Invalid
from tests.support.program import Ended, Program, bare_program

TOKEN = "mpl_of-the-test"
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """The program with a token, and a Maildir in its home."""
    for name in ("new", "cur", "tmp"):
        (tmp_path / "in" / name).mkdir(parents=True)
    program = bare_program(tmp_path)
    program.environ["MUSTER_PLUGIN_TOKEN"] = TOKEN
    program.environ["MUSTER_URL"] = NOWHERE
    return program


def ends(home: Path) -> list[str]:
    """Both ends as folders."""
    return ["--maildir", str(home / "in"), "--outbox", str(home / "out")]


def options(**given: object) -> MailOptions:
    """Options of which these were given."""
    nothing: dict[str, object] = dict.fromkeys(
        ("maildir", "imap", "since", "outbox", "smtp", "sender_address", "ca_file", "dns"),
    )
    nothing |= {"url": NOWHERE, "token_file": None, "state": None, "folders": ()}
    nothing |= {"authserv_ids": (), "no_dns": True, "trim_quotes": False}
    return MailOptions(**(nothing | given))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "--maildir FOLDER or --imap URL"),
        (["--maildir", "a", "--imap", "imaps://a@b"], "--maildir FOLDER or --imap URL"),
        (["--maildir", "a"], "--outbox FOLDER or --smtp URL"),
        (["--maildir", "a", "--outbox", "b", "--smtp", "smtp://b"], "--outbox FOLDER or --smtp"),
        (["--maildir", "a", "--outbox", "b", "--folder", "c"], "are for --imap"),
        (["--maildir", "a", "--outbox", "b", "--since", "all"], "are for --imap"),
        (["--maildir", "a", "--outbox", "b", "--ca-file", "c"], "is for --imap and --smtp"),
        (["--maildir", "a", "--outbox", "b", "--dns", "c", "--no-dns"], "exclude each other"),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(
    program: Program, given: list[str], told: str
) -> None:
    """Options that contradict each other, or lack one, are told by their names; so for check."""
    for command in (["mail"], ["mail", "check"]):
        ended = program.call(*command, *given)
        assert ended.code == Exit.USAGE
        assert told in ended.err


def test_options_stand_behind_check(program: Program, tmp_path: Path) -> None:
    """Options that check would not see are refused."""
    ended = program.call("mail", *ends(tmp_path), "check")
    assert ended.code == Exit.USAGE
    assert "write the options after check: muster mail check --imap …" in ended.err


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"imap": "imaps://ada:secret@mail.test"}, "MUSTER_MAIL_IMAP_PASSWORD"),
        ({"imap": "imaps://ada@mail.test"}, "o password for ada"),
        ({"imap": "imaps://mail.test"}, "a password: write imaps://user@mail.test"),
        ({"imap": "https://ada@mail.test"}, "imaps://user@mail.example.org"),
        ({"imap": "imaps://ada@mail.test/INBOX"}, "is more than"),
        ({"imap": "imaps://ada@mail.test:0x"}, "imaps://user@mail.example.org"),
        ({"smtp": "smtps://ada:secret@mail.test"}, "MUSTER_MAIL_SMTP_PASSWORD"),
        ({"smtp": "smtp+plain://ada@mail.test"}, "o password for ada"),
        ({"since": "yesterday"}, "2026-01-31"),
        (
            {"ca_file": Path("nowhere")},
            r"^Cannot read --ca-file nowhere: No such file or dir\w+\.$",
        ),
        ({"ca_file": Path("/dev/null")}, r"^--ca-file /dev/null holds no certificate\.$"),
        ({"token_file": Path("nowhere")}, r"^Cannot read nowhere: No such file or directory\.$"),
        ({"dns": "example.org", "no_dns": False}, "IP address"),
        ({"folders": ("a", "a")}, "named once"),
        ({"sender_address": "ada"}, "--from is not an address like"),
    ],
)
def test_what_cannot_be_used_is_told(given: dict[str, object], told: str) -> None:
    """A server, date, file or name that cannot be used is a bad setting; no secret is quoted."""
    environ = {"MUSTER_PLUGIN_TOKEN": TOKEN, "HOME": "nowhere"}
    if "imap" not in given:
        environ["MUSTER_MAIL_IMAP_PASSWORD"] = "other"
    given = {"imap": "imaps://ada@mail.test", "smtp": "smtps://mail.test"} | given
    with pytest.raises(Invalid, match=told) as refused:
        read_plan(options(**given), environ)
    assert refused.value.code == "bad_configuration"
    assert "secret" not in refused.value.sentence


def test_a_password_comes_from_the_setting_or_its_file(tmp_path: Path) -> None:
    """The password is what the setting or its file says, and both together are a fault."""
    file = tmp_path / "password"
    file.write_text("pass word\n")
    given = options(imap="imap://ada%40x.test@mail.test", smtp="smtp://b@mail.test")
    environ = {
        "MUSTER_PLUGIN_TOKEN": TOKEN,
        "HOME": str(tmp_path),
        "MUSTER_MAIL_IMAP_PASSWORD_FILE": str(file),
        "MUSTER_MAIL_SMTP_PASSWORD": "other",
    }
    plan = read_plan(given, environ)
    assert plan.incoming.server.login.user == "ada@x.test"  # type: ignore[union-attr]
    assert plan.incoming.server.login.password == "pass word"  # type: ignore[union-attr]
    assert plan.outgoing.server.login.password == "other"  # type: ignore[union-attr]
    assert "pass word" not in repr(plan)
    assert TOKEN not in repr(plan)
    file.rename(tmp_path / "secret")
    with pytest.raises(
        Invalid, match="the file that MUSTER_MAIL_IMAP_PASSWORD_FILE names: No su"
    ) as no:
        read_plan(given, environ)
    assert str(file) not in no.value.sentence
    with pytest.raises(Invalid, match="are both set"):
        read_plan(given, environ | {"MUSTER_MAIL_IMAP_PASSWORD": "x"})


def test_each_account_and_server_has_a_state_folder_of_its_own(tmp_path: Path) -> None:
    """Two servers, two accounts and two Maildirs never share what they remember; a port does."""
    environ = {"MUSTER_PLUGIN_TOKEN": TOKEN, "HOME": str(tmp_path)}
    environ |= {"XDG_STATE_HOME": str(tmp_path), "MUSTER_MAIL_IMAP_PASSWORD": "x"}
    outbox = {"outbox": tmp_path / "out"}

    def folder(**given: object) -> Path:
        return read_plan(options(**outbox, **given), environ).state_folder

    account = folder(imap="imaps://ada@mail.test")
    assert folder(imap="imaps://ada@mail.test:993") == account
    # The folder of an older muster's: what was read before must stay known.
    older = default_folder(environ, "mail", url=NOWHERE, whose="imap ada@mail.test:993")
    assert account == older
    others = {
        account,
        folder(imap="imaps://bo@mail.test"),
        folder(imap="imaps://ada@mail.test", url="http://127.0.0.1:10"),
        folder(maildir=tmp_path / "in"),
        folder(maildir=tmp_path / "other"),
    }
    assert len(others) == 5
    assert folder(maildir=tmp_path / "in" / ".." / "in") in others


def test_check_tells_each_part(program: Program, tmp_path: Path) -> None:
    """Each end, DNS and muster have a line; what does not work makes the exit code 1."""

    def check(*more: str) -> Ended:
        return program.call("mail", "check", *ends(tmp_path), "--no-dns", *more)

    ended = check("--json")
    assert ended.code == Exit.FAILED
    told = {one["subject"]: one["verdict"] for one in json.loads(ended.out)}
    parts = {"maildir": "well", "outbox": "well", "dns": "warning", "muster": "fault"}
    assert told == parts | {"from": "warning"}
    ended = check("--json", "--from", "ada@x.test")
    assert {one["subject"]: one["verdict"] for one in json.loads(ended.out)} == parts
    assert f"The Maildir {tmp_path}/in holds 0 mails." in check().out
    for one in json.loads(check("--json").out):
        assert one["sentence"][0].isupper()
        assert one["sentence"].endswith(".")
    assert "Cannot reach http://127.0.0.1:9: connection refused." in check().out
    assert all(len(line) <= 80 for line in check().out.splitlines() if "  from " in line)
    (tmp_path / "in" / "cur").rmdir()
    assert f"The folder {tmp_path}/in is no Maildir" in check().out


def test_a_user_with_an_at_reads_well() -> None:
    """An account whose user is an address is shown with one @ a name."""
    login = Login(user="ada@in.test", password="x")
    server = MailServer(host="127.0.0.1", port=143, security=Security.TLS, login=login)
    assert server.shown() == "ada@in.test at 127.0.0.1:143"
    assert attrs.evolve(server, login=None).shown() == "127.0.0.1:143"
