"""Connections of uvicorn that do not wait for ever."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

FIRST_SECONDS = 20.0
"""In which the first request of a connection must have begun: uvicorn itself limits the later ones only."""


class Connection(H11Protocol):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        asyncio.get_running_loop().call_later(FIRST_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()
