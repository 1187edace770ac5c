"""What a provider's no means: try again, make it shorter, or tell a person what to mend.

Providers agree on the status codes and on little else, so the words of an error are read for two
things alone: that the context is too long, and that the account is empty. No sentence made here
holds the key: a provider may quote it, so it is cut out of what the provider said.
"""

import re
from collections.abc import Mapping

import attrs
import msgspec

from muster.clients.agent.backend import TurnError
from muster.clients.agent.model import TooLong, TryAgain
from muster.clients.agent.sse import AGAIN, ErrorAnswer
from muster.clients.urls import read_http_url

SAID_CHARACTERS_MAX = 300

_TOO_LONG = re.compile(
    r"prompt is too long|maximum context length|context[_ ](length|size|window|limit)"
    r"|exceed_context_size|request_too_large|request too large|exceeds the maximum (allowed )?size"
    r"|too many (input )?tokens|input is too long",
    re.IGNORECASE,
)
_NO_CREDIT = re.compile(r"insufficient_quota|billing_error|credit balance", re.IGNORECASE)

# Errors that come as an event of a stream have a type in place of a status.
_STATUS_OF = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


@attrs.frozen(kw_only=True)
class Provider:
    """Whom a fault is told about: its address, the model asked for, and where the key comes from.

    `key_name` is a setting's name; `key` is only known to be left out.
    """

    url: str
    model: str
    key_name: str
    key: str | None = attrs.field(repr=False)

    def fault(self, answer: ErrorAnswer) -> TryAgain | TooLong | TurnError:
        """Read an answer that is no stream."""
        return self._fault(answer.status, answer.body, answer.retry_after_seconds)

    def fault_in_stream(self, body: str) -> TryAgain | TooLong | TurnError:
        """Read an error that came as an event in the middle of an answer."""
        error = _error_of(body.encode())
        code, kind = error.get("code"), error.get("type")
        status = _STATUS_OF.get(kind, 500) if isinstance(kind, str) else 500
        if isinstance(code, int) and 400 <= code < 600:
            status = code
        return self._fault(status, body.encode(), None)

    def _fault(
        self, status: int, body: bytes, retry_after: float | None
    ) -> TryAgain | TooLong | TurnError:
        said = self._said(body)
        words = body.decode("utf-8", "replace")
        if _NO_CREDIT.search(words):
            return TurnError(f"The account behind {self.key_name} has no credit left: {said}")
        too_long = status in {400, 422, 429, 500} and _TOO_LONG.search(words)
        if too_long or status == 413:
            return TooLong(said)
        if status in AGAIN:
            return TryAgain(f"HTTP {status}: {said}", retry_after_seconds=retry_after)
        return TurnError(self._sentence(status, said))

    def _sentence(self, status: int, said: str) -> str:
        match status:
            case 401 if self.key is None:
                return (
                    f"The model's server at {self.url} wants a key: put one into {self.key_name}."
                )
            case 401:
                return (
                    f"The model's server at {self.url} refuses the key in {self.key_name}: "
                    "put a valid one there."
                )
            case 402 | 403:
                return (
                    f"The key in {self.key_name} may not use the model {self.model!r} "
                    f"at {self.url}: {said}"
                )
            case 404:
                return (
                    f"There is no model {self.model!r} at {self.url}: "
                    f"choose another model, or mend the address ({said})"
                )
            case _:
                return f"The model's server at {self.url} answered HTTP {status}: {said}"

    def _said(self, body: bytes) -> str:
        error = _error_of(body)
        message = error.get("message")
        said = message if isinstance(message, str) else body.decode("utf-8", "replace")
        if self.key:
            said = said.replace(self.key, "***")
        said = " ".join(said.split())
        return said[:SAID_CHARACTERS_MAX] or "without a word"


def is_address(_holder: object, _attribute: object, value: str) -> None:
    """Validate the address of a provider; ValueError when it is none."""
    if read_http_url(value) is None:
        raise ValueError("The model's URL is not an address like https://api.example.com/v1.")


def is_key(_holder: object, _attribute: object, value: str | None) -> None:
    """Validate a key, since one that no header takes would be quoted in an error; ValueError."""
    if value is not None and not (value.isascii() and value.isprintable() and " " not in value):
        raise ValueError("The model's key holds a space or a letter that no key has.")


def _error_of(body: bytes) -> Mapping[str, object]:
    """The error's members; there are `{"error": {…}}`, `{"error": "…"}` and `{"message": …}`."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    if not isinstance(decoded, dict):
        return {}
    error = decoded.get("error")
    if isinstance(error, dict):
        return error
    return {"message": error} if isinstance(error, str) else decoded
