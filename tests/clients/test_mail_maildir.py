"""Maildirs: what is read of an inbox, and an outbox that holds each draft once."""

import errno
import os
from pathlib import Path

import pytest

from muster.clients.mail import maildir as module
from muster.clients.mail.maildir import (
    deliver,
    find_delivered,
    list_mail,
    make_outbox,
    read_mail,
)


@pytest.fixture
def box(tmp_path: Path) -> Path:
    """Make an empty Maildir."""
    make_outbox(tmp_path / "box", maildir=tmp_path / "in")
    return tmp_path / "box"


def test_new_and_cur_are_listed_by_name(box: Path) -> None:
    """Both folders are one list in the order of names; flags are no part of a name."""
    (box / "new" / "3").write_bytes(b"c")
    (box / "cur" / "1:2,S").write_bytes(b"a")
    (box / "new" / "2").write_bytes(b"b")
    assert [file.key for file in list_mail(box)] == ["1", "2", "3"]


def test_what_is_no_mail_is_not_listed(box: Path) -> None:
    """Half-written files in tmp, hidden files and folders are left alone."""
    (box / "tmp" / "1").write_bytes(b"half")
    (box / "new" / ".hidden").write_bytes(b"x")
    (box / "new" / "folder").mkdir()
    os.mkfifo(box / "new" / "pipe")
    (box / "new" / "gone").symlink_to(box / "nowhere")
    assert list(list_mail(box)) == []


def test_a_folder_that_is_no_maildir_is_told(tmp_path: Path) -> None:
    """A folder without new and cur is refused by name."""
    with pytest.raises(NotADirectoryError, match="is no Maildir"):
        list(list_mail(tmp_path))


def test_a_mail_is_read_with_its_sum(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mail within the limit is read whole; of a larger one the sum still covers everything."""
    path = box / "new" / "1"
    path.write_bytes(b"abc")
    whole = read_mail(path)
    assert whole is not None
    assert (whole.beginning, whole.size_bytes, whole.is_whole) == (b"abc", 3, True)
    monkeypatch.setattr(module, "READ_BYTES_MAX", 2)
    part = read_mail(path)
    assert part is not None
    assert (part.beginning, part.size_bytes, part.is_whole) == (b"ab", 3, False)
    assert part.sha256 == whole.sha256
    assert read_mail(box / "new" / "2") is None


def test_a_delivery_is_whole_and_alone(box: Path) -> None:
    """A delivered mail lies in new under its name, and nothing is left in tmp."""
    deliver(box, "draft-1", b"mail")
    assert (box / "new" / "draft-1").read_bytes() == b"mail"
    assert list((box / "tmp").iterdir()) == []
    assert find_delivered(box, "draft-1") == box / "new" / "draft-1"
    assert find_delivered(box, "draft-2") is None


@pytest.mark.parametrize("moved", ["new/draft-1", "cur/draft-1", "cur/draft-1:2,S"])
def test_a_name_is_delivered_once(box: Path, moved: str) -> None:
    """While the first delivery lies in the outbox, a second is an error and changes nothing."""
    deliver(box, "draft-1", b"first")
    (box / "new" / "draft-1").rename(box / moved)
    with pytest.raises(FileExistsError):
        deliver(box, "draft-1", b"second")
    assert (box / moved).read_bytes() == b"first"
    assert find_delivered(box, "draft-1") == box / moved


def test_a_leftover_in_tmp_is_no_delivery(box: Path) -> None:
    """A file cut off in tmp by a kill proves nothing and does not stand in the way."""
    (box / "tmp" / "draft-1").write_bytes(b"ha")
    assert find_delivered(box, "draft-1") is None
    deliver(box, "draft-1", b"whole")
    assert (box / "new" / "draft-1").read_bytes() == b"whole"


def test_a_file_system_without_links_is_served(box: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where hard links are not allowed the delivery is a rename."""

    def no_links(source: object, target: object) -> None:
        raise OSError(errno.EPERM, "no links", source, None, target)

    monkeypatch.setattr(os, "link", no_links)
    deliver(box, "draft-1", b"mail")
    assert (box / "new" / "draft-1").read_bytes() == b"mail"
    assert list((box / "tmp").iterdir()) == []
