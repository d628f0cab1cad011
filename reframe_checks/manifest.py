"""The manifest from which checks are made when ReFrame loads them."""

from __future__ import annotations

from collforge.toolchain import build

MANIFEST = build.current_manifest()
