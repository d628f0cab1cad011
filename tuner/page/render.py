"""Renders the page: one HTML file with its styles, its script, the charts' library and the data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape

import collforge
from collforge.errors import CollforgeError
from collforge.tuner.page.facts import Facts, columns
from collforge.units import format_about, format_seconds, format_size

EXTRA = "pip install 'collforge[report]'"


def page(facts: Facts, title: str) -> str:
    """The HTML. Raises CollforgeError if the packages of charts are missing."""
    try:
        import vl_convert

        from collforge.tuner.page import charts
    except ImportError as error:
        raise CollforgeError(f"pages need {error.name}: {EXTRA}") from error
    folder = resources.files(__package__)
    environment = Environment(
        loader=PackageLoader(__package__, ""), autoescape=select_autoescape(default=True),
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters.update(
        size=format_size,
        about=format_about,
        seconds=format_seconds,
        ratio=_ratio,
        part="{:.1%}".format,
    )
    data = {name: columns(getattr(facts, name)) for name in ("winners", "runs", "history")}
    return environment.get_template("page.html.j2").render(
        title=title,
        made=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        version=collforge.__version__,
        facts=facts,
        charts=_embedded(charts.all_of_them()),
        data=_embedded(data),
        style=(folder / "page.css").read_text(encoding="utf-8"),
        script=(folder / "page.js").read_text(encoding="utf-8"),
        vega=_embedded_script(vl_convert.javascript_bundle()),  # type: ignore[call-arg]
    )


def _embedded(value: Mapping[str, Any] | Sequence[Any]) -> str:
    """JSON for a script element, which no text in it can end."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _embedded_script(text: str) -> str:
    """In a string of JavaScript, which alone can have it, the other spelling is the same."""
    return text.replace("</script", "<\\/script")


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} x"
