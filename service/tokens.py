"""Who may do what: bearer tokens, of which only SHA-256 is stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

ROLES = ("read", "push", "admin")
"""Each may do what those before it may."""
ALL = "*"
"""Instead of the name of a system."""
PREFIX = "cf_"
"""Of every token, so that tools which look for leaked secrets know one."""


@dataclass(frozen=True)
class Token:
    """What is stored of a token."""

    name: str
    digest: str
    role: str
    systems: tuple[str, ...]
    created: str
    revoked: str
    """'': it is valid."""
    used: str
    """The hour of its last use; '': never."""

    def may(self, role: str, system: str = "") -> bool:
        """``system`` '': what concerns no single one."""
        enough = ROLES.index(self.role) >= ROLES.index(role)
        return enough and (not system or ALL in self.systems or system in self.systems)


def new_token() -> str:
    return PREFIX + secrets.token_urlsafe(32)


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def identify(tokens: Sequence[Token], given: str) -> Token | None:
    """The valid token, if there is one. All are compared, each in constant time."""
    wanted, found = digest(given), None
    for one in tokens:
        if hmac.compare_digest(one.digest, wanted) and not one.revoked:
            found = one
    return found
