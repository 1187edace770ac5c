"""Step-up in place: a form that needs a fresh sign-in brings the proof with it.

Beside its own fields it has `confirm_password`, or `confirm_passkey` with a passkey's answer. They
are looked at only when what the form asks for was refused for want of a fresh sign-in, so a form
that was shown before somebody confirmed elsewhere works as it is. A proof counts as an attempt like
one at `/step-up`, and makes the session fresh as one there does.
"""

from collections.abc import Mapping
from typing import Final

from muster.accounts import actor as accounts
from muster.accounts.operations.sessions import Visitor
from muster.accounts.rules.signing import Browser
from muster.errors import Invalid, TooMany, Unauthorized
from muster.pg.database import Database

PASSWORD: Final = "confirm_password"  # noqa: S105 - the name of a field
PASSKEY: Final = "confirm_passkey"
FIELD: Final = "confirm"  # what a fault of either is told beside
_WRONG = "That is not your password, and nothing was done. Try again."


def is_confirmed(form: Mapping[str, str]) -> bool:
    """Whether a form brings a proof, right or wrong."""
    return bool(form.get(PASSWORD) or form.get(PASSKEY))


async def confirm(
    db: Database,
    visitor: Visitor,
    form: Mapping[str, str],
    *,
    public_url: str,
    ceremony: str,
    browser: Browser,
) -> None:
    """Make the visitor's session fresh by the proof in the form.

    Raises what `/step-up` raises, with the field that it is told beside.
    """
    try:
        if form.get(PASSKEY):
            await accounts.step_up_with_passkey(
                db,
                visitor,
                public_url=public_url,
                answer=form[PASSKEY],
                cookie=ceremony,
                browser=browser,
            )
        else:
            await accounts.step_up_with_password(
                db, visitor, password=form[PASSWORD], address=browser.address
            )
    except Unauthorized as refusal:
        typed = refusal.code == "sign_in_refused" and not form.get(PASSKEY)
        sentence = _WRONG if typed else refusal.sentence
        raise Unauthorized(sentence, code=refusal.code, field=FIELD) from None
    except (Invalid, TooMany) as refusal:
        refusal.field = FIELD
        raise
