"""What a client is told when its request is refused."""

from __future__ import annotations

from collforge.errors import CollforgeError


class Refused(CollforgeError):
    """``status``: of HTTP, 4xx or 503. ``retry_after``: seconds; 0: it does not help to try again."""

    def __init__(self, status: int, words: str, retry_after: int = 0) -> None:
        super().__init__(words)
        self.status = status
        self.retry_after = retry_after
