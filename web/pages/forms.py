"""A form that was refused: what was typed into it, and where its fault is told.

A view says on which page its form stands (`signed_in(…, page="/settings")`). When it is refused,
that page is shown again with the status of the refusal, and the form on it asks for what it held:

    {% set form = form_at("/settings/tokens") %}
    <input id="token-name" name="name" value="{{ form.typed("name") }}"
      {{- form.marks("name", "token-name", "token-hint") }}>
    {{ form.fault("name", "token-name") }}

What no form has told is told at the top of the page, so that no refusal is silent and no template
need know all of them. A secret is never sent back: its field is empty again.
"""

from collections.abc import Mapping
from typing import Final

import attrs
from markupsafe import Markup, escape
from quart import g

from muster.errors import MusterError
from web.errors import sentence_of

SECRETS: Final = frozenset(
    {"password", "confirm_password", "passkey", "confirm_passkey", "token", "auth", "p256dh"}
)
_TEXTS: Final = ("text", "body")  # what takes a while to write
_NOT_REFUSED: Final[Mapping[str, str]] = {}


@attrs.define
class RefusedForm:
    """What was sent to `action` and not done. Templates note here what they have shown of it."""

    action: str
    sent: Mapping[str, str]
    sentence: str
    code: str
    field: str | None
    is_shown: bool = False  # its form stands on the page
    is_told: bool = False  # and so does the sentence

    @property
    def lost(self) -> list[str]:
        """The texts that were written and that no form on the page holds."""
        return [] if self.is_shown else [self.sent[name] for name in _TEXTS if self.sent.get(name)]


def refused_form(action: str, form: Mapping[str, str], refusal: MusterError) -> RefusedForm:
    """What a page shows of a form that was refused; without its secrets."""
    return RefusedForm(
        action=action,
        sent=without_secrets(form),
        sentence=sentence_of(refusal),
        code=refusal.code,
        field=refusal.field,
    )


def without_secrets(form: Mapping[str, str]) -> Mapping[str, str]:
    """The fields that may be sent back."""
    return {name: value for name, value in form.items() if name not in SECRETS}


@attrs.frozen
class Form:
    """A form as a template shows it: empty, or as it was when it was refused."""

    action: str
    _refused: RefusedForm | None

    @property
    def is_refused(self) -> bool:
        """Whether it comes back."""
        return self._refused is not None

    def typed(self, name: str, otherwise: object = "") -> object:
        """What the field held; what it holds by itself, unless it was refused."""
        sent = _NOT_REFUSED if self._refused is None else self._refused.sent
        return sent.get(name, otherwise)

    @property
    def sentence(self) -> str:
        """Why it was refused, for a form that tells it in a place of its own."""
        if self._refused is None:
            return ""
        self._refused.is_told = True
        return self._refused.sentence

    def marks(self, name: str, element_id: str, hint_id: str = "") -> Markup:
        """The attributes by which a field names its hint and its fault.

        `name` is what a refusal calls the field; several names stand with spaces between them.
        """
        names = [hint_id] if hint_id else []
        wrong = self._blames(name)
        if wrong:
            names.append(f"{element_id}-fault")
        described = Markup(' aria-describedby="{}"').format(" ".join(names)) if names else Markup()
        return described + (Markup(' aria-invalid="true" autofocus') if wrong else Markup())

    def fault(self, name: str, element_id: str) -> Markup:
        """The sentence about a field, to stand beside it; nothing if the field is not to blame."""
        if self._refused is None or not self._blames(name):
            return Markup()
        self._refused.is_told = True
        return Markup('<p class="fault" role="alert" id="{}-fault">{}</p>').format(
            element_id, escape(self._refused.sentence)
        )

    def _blames(self, name: str) -> bool:
        return self._refused is not None and self._refused.field in name.split()


def form_at(action: str) -> Form:
    """The form that is sent to this path, for its template."""
    refused: RefusedForm | None = g.get("refused")
    if refused is None or refused.action != action:
        return Form(action, None)
    refused.is_shown = True
    return Form(action, refused)
