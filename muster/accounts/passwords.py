"""Passwords, kept as argon2id hashes.

A hash takes 64 MiB and a good part of a second of a core on purpose. So it runs in a thread, at
most two at once whatever number of people sign in, and before a transaction, never inside one.
"""

import argon2
import trio

from muster.errors import Invalid

CHARACTERS_MIN = 8
CHARACTERS_MAX = 1024
_THREADS_MAX = 2

_HASHER = argon2.PasswordHasher()
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


def _threads() -> trio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(_THREADS_MAX)
        _limiter.set(limiter)
        return limiter
