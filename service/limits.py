"""How much a client may ask for: bytes, and requests in a time."""

from __future__ import annotations

import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from collforge.service.refusal import Refused

MOST_BODY = 4 << 20
"""Bytes of a push's body as it is sent."""
MOST_DOCUMENT = 16 << 20
"""Bytes of it unpacked."""
MOST_VALUES = 1_000_000
"""Of a document: two of its bytes may become 70 in memory."""
MOST_SMALL = 256 << 10
"""Bytes of any other body, sent or unpacked."""
BODY_SECONDS = 30
"""In which a body must have come."""
MOST_KNOWN = 10_000
"""Clients that are remembered."""


async def read_body(chunks: AsyncIterator[bytes], most: int = MOST_BODY) -> bytes:
    """Raises Refused as soon as it is too long."""
    found = bytearray()
    async for chunk in chunks:
        found += chunk
        if len(found) > most:
            raise Refused(413, f"a body has at most {most} bytes: push less at a time")
    return bytes(found)


def unpack(data: bytes, encoding: str, most: int = MOST_DOCUMENT) -> bytes:
    """The document of a body, plain or gzip. Raises Refused; never makes more than `most` bytes."""
    found = _unpacked(data, encoding, most)
    if found.count(b",") > MOST_VALUES:
        raise Refused(413, f"a document has at most {MOST_VALUES} values: push less at a time")
    return found


def _unpacked(data: bytes, encoding: str, most: int) -> bytes:
    if encoding in ("", "identity"):
        return data
    if encoding != "gzip":
        raise Refused(415, f"Content-Encoding {encoding[:50]!r}: send gzip or plain")
    reader = zlib.decompressobj(wbits=31)
    try:
        found = reader.decompress(data, most)
    except zlib.error as error:
        raise Refused(400, f"the body is no gzip: {error}") from error
    if reader.unconsumed_tail:
        raise Refused(413, f"a document has at most {most} bytes: push less at a time")
    if not reader.eof or reader.unused_data:
        raise Refused(400, "the body is no gzip: it ends too early, or too late")
    return found


@dataclass
class Rate:
    """Buckets that fill again: `most` requests at once, then `each` a second, for each client."""

    most: float
    each: float
    clock: Callable[[], float] = time.monotonic
    _left: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """Client -> what was left, and when."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, client: str) -> None:
        """Raises Refused (429) where nothing is left."""
        with self._lock:
            now = self.clock()
            left, then = self._left.pop(client, (self.most, now))
            left = min(self.most, left + (now - then) * self.each)
            self._left[client] = max(0.0, left - 1), now
            if len(self._left) > MOST_KNOWN:
                self._left.popitem(last=False)
            if left < 1:
                wait = int((1 - left) / self.each) + 1
                raise Refused(429, f"too many requests: try again in {wait} s", wait)
