"""The manifest by which the checks are parametrised when ReFrame loads them."""

from __future__ import annotations

from collforge.toolchain import build

MANIFEST = build.current_manifest()
