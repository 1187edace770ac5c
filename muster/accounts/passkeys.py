"""Passkeys: what an authenticator is asked, and whether its answer is right (WebAuthn level 3).

A passkey lives on the authenticator (resident key) and is used only by somebody whom the
authenticator has recognised (user verification), so it stands for a name and a password. It belongs
to one host, that of MUSTER_PUBLIC_URL, and to the exact origin of that URL.

The challenge is made of a random cookie that only the browser holds, and a row that is taken away
when it is used: an answer that is seen by others is of no use to them, and of none a second time.
The library does the cryptography; nothing here looks at a clock or a database.
"""

from typing import Final
from urllib.parse import urlsplit

import attrs
import webauthn
from webauthn.helpers import (
    parse_authentication_credential_json,
    parse_registration_credential_json,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AttestationConveyancePreference,
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from muster.accounts.rules.signing import NewPasskey
from muster.errors import Invalid, Unauthorized
from muster.ids import digest

ANSWER_CHARACTERS_MAX: Final = 16 * 1024
TIMEOUT_MS: Final = 5 * 60 * 1000
# What the library lets through of an answer that is no answer.
_MALFORMED: Final = (
    WebAuthnException,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
)


@attrs.frozen(kw_only=True)
class Site:
    """Whose passkeys these are: the host, and the exact origin of our pages."""

    host: str
    origin: str


def site_of(public_url: str) -> Site:
    """The site of a public URL; a browser spells a default port out of its origins."""
    parts = urlsplit(public_url)
    host = (parts.hostname or "").lower()
    default = {"http": 80, "https": 443}[parts.scheme]
    port = "" if parts.port in (None, default) else f":{parts.port}"
    return Site(host=host, origin=f"{parts.scheme}://{host}{port}")


def challenge_of(cookie: str) -> bytes:
    """What the browser with this cookie is to have signed."""
    return digest(f"muster passkey challenge {cookie}")


def creation_options(
    site: Site, *, challenge: bytes, handle: bytes, name: str, known: tuple[bytes, ...]
) -> str:
    """The JSON by which a browser makes a passkey, on none that has one of `known` already."""
    options = webauthn.generate_registration_options(
        rp_id=site.host,
        rp_name="muster",
        user_id=handle,
        user_name=name,
        user_display_name=name,
        challenge=challenge,
        timeout=TIMEOUT_MS,
        attestation=AttestationConveyancePreference.NONE,
        authenticator_selection=AuthenticatorSelectionCriteria(
            resident_key=ResidentKeyRequirement.REQUIRED,
            require_resident_key=True,
            user_verification=UserVerificationRequirement.REQUIRED,
        ),
        exclude_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
    )
    return webauthn.options_to_json(options)


def check_creation(site: Site, *, challenge: bytes, answer: str) -> NewPasskey:
    """The passkey that a browser made; Invalid for an answer that is not right in every part."""
    _check_size(answer)
    try:
        made = webauthn.verify_registration_response(
            credential=parse_registration_credential_json(answer),
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            require_user_verification=True,
        )
    except _MALFORMED as error:
        raise Invalid("The passkey was not made as it must be.", field="passkey") from error
    return NewPasskey(
        credential_id=made.credential_id,
        public_key=made.credential_public_key,
        sign_count=made.sign_count,
    )


def request_options(site: Site, *, challenge: bytes, known: tuple[bytes, ...] = ()) -> str:
    """The JSON by which a browser asks for a passkey: any of this site's, or one of `known`."""
    options = webauthn.generate_authentication_options(
        rp_id=site.host,
        challenge=challenge,
        timeout=TIMEOUT_MS,
        allow_credentials=[PublicKeyCredentialDescriptor(id=one) for one in known],
        user_verification=UserVerificationRequirement.REQUIRED,
    )
    return webauthn.options_to_json(options)


def credential_id_of(answer: str) -> bytes:
    """Which passkey an answer says that it is of, before anything is proven."""
    _check_size(answer)
    try:
        return parse_authentication_credential_json(answer).raw_id
    except _MALFORMED as error:
        raise refused() from error


@attrs.frozen(kw_only=True)
class StoredPasskey:
    """What is known of a passkey: `handle` is its owner's."""

    id: int
    public_key: bytes = attrs.field(repr=False)
    sign_count: int
    handle: bytes


def check_answer(site: Site, *, challenge: bytes, answer: str, stored: StoredPasskey) -> int:
    """The new sign count; Unauthorized for an answer that is not right in every part.

    A count that does not grow is a copy of the passkey, unless the authenticator never counts.
    """
    try:
        credential = parse_authentication_credential_json(answer)
        if credential.response.user_handle != stored.handle:
            raise refused()
        proven = webauthn.verify_authentication_response(
            credential=credential,
            expected_challenge=challenge,
            expected_rp_id=site.host,
            expected_origin=site.origin,
            credential_public_key=stored.public_key,
            credential_current_sign_count=stored.sign_count,
            require_user_verification=True,
        )
    except _MALFORMED as error:
        raise refused() from error
    return proven.new_sign_count


def refused() -> Unauthorized:
    """What is said of any passkey that does not open the account, whatever the reason."""
    return Unauthorized("This passkey opens no account here.", code="sign_in_refused")


def _check_size(answer: str) -> None:
    if not 0 < len(answer) <= ANSWER_CHARACTERS_MAX:
        raise Invalid("There is no answer of a passkey here.", field="passkey")
