"""What can't be asked of a storm is a usage error, before anything is started."""

import pytest

from bench import dovecot
from bench.__main__ import main


@pytest.mark.parametrize(
    "words",
    [
        "nonsense",
        "--kills -1",
        "--kills 0",
        "--messages 0",
        "--messages many",
        "--minutes 0",
        "--minutes nan",
        "--against nobody",
        "--against queue --mail",
        "--mail --kills 3",
        "--mail --messages 3",
    ],
)
def test_what_cannot_be_is_a_usage_error(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The program ends with 2 and a line that names what is wrong."""
    with pytest.raises(SystemExit) as ending:
        main(["chaos", *words.split()])
    assert ending.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert words.split(maxsplit=1)[0] in said.err.splitlines()[-1]


def test_where_there_is_no_dovecot_a_sentence_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A storm over mail needs a dovecot, and says which package that is."""
    monkeypatch.setattr(dovecot, "DOVECOT", dovecot.DOVECOT / "nowhere")
    assert main(["chaos", "--mail", "--seed", "1"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines()[-1] == "dovecot is not installed (Debian: dovecot-imapd)"
