"""Passwords, kept as argon2id hashes.

A hash takes 64 MiB and a good part of a second of a core on purpose. So it runs in a thread, at
most two at once whatever number of people sign in, and before a transaction, never inside one.
"""

import argon2
import attrs
import trio

from muster.errors import Invalid

CHARACTERS_MIN = 8
CHARACTERS_MAX = 1024
_THREADS_MAX = 2

_HASHER = argon2.PasswordHasher()
# What is compared where there is no account or no password: no password has this hash, whose salt
# and tag are zeros, and comparing takes the same work as with any other.
NOBODYS = (
    f"$argon2id$v=19$m={_HASHER.memory_cost},t={_HASHER.time_cost},p={_HASHER.parallelism}"
    f"${'A' * 22}${'A' * 43}"
)
_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("password-threads")


async def hash_password(text: str) -> str:
    """The argon2id hash of a password of 8 to 1024 characters; Invalid for any other length.

    Every character counts, spaces at the ends too.
    """
    if not CHARACTERS_MIN <= len(text) <= CHARACTERS_MAX:
        raise Invalid(
            f"The password must be {CHARACTERS_MIN} to {CHARACTERS_MAX} characters.",
            field="password",
        )
    try:
        encoded = text.encode()
    except UnicodeEncodeError:
        raise Invalid("The password is not valid UTF-8.", field="password") from None
    return await trio.to_thread.run_sync(_HASHER.hash, encoded, limiter=_threads())


@attrs.frozen(kw_only=True)
class Verdict:
    """Whether a password is right, and its hash by today's parameters if it has older ones."""

    right: bool
    rehashed: str | None = attrs.field(default=None, repr=False)


async def verify_password(password_hash: str | None, text: str) -> Verdict:
    """Compare a password with its hash; without a hash it takes as long, and is wrong."""
    encoded = text[:CHARACTERS_MAX].encode(errors="replace")
    right = await trio.to_thread.run_sync(
        _compare, password_hash or NOBODYS, encoded, limiter=_threads()
    )
    if not right or password_hash is None or len(text) > CHARACTERS_MAX:
        return Verdict(right=False)
    if not _HASHER.check_needs_rehash(password_hash):
        return Verdict(right=True)
    return Verdict(right=True, rehashed=await hash_password(text))


def _compare(password_hash: str, encoded: bytes) -> bool:
    try:
        return _HASHER.verify(password_hash, encoded)
    except (argon2.exceptions.VerificationError, argon2.exceptions.InvalidHashError):
        return False


def _threads() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(_THREADS_MAX)
        _limiter.set(limiter)
        return limiter
