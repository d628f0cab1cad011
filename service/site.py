"""The whole application: the endpoints of programs and of people."""

from __future__ import annotations

from starlette.applications import Starlette

from collforge.service import api, app, leasing, pages
from collforge.service.app import Endpoint, json_of
from collforge.service.service import Service


def endpoints() -> list[Endpoint]:
    """The document describes itself, too."""
    document: dict[str, object] = {}
    last = Endpoint(
        "GET", "/openapi.json", "this document", lambda service, call: json_of(document)
    )
    found = [*pages.ENDPOINTS, *api.ENDPOINTS, *leasing.ENDPOINTS, last]
    document.update(api.openapi(found))
    return found


def make(service: Service) -> Starlette:
    return app.make(service, endpoints())
