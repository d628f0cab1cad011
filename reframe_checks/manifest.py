"""The manifest from which checks are made when ReFrame loads them."""

from __future__ import annotations

from collforge.generator import manifest, render
from collforge.generator.manifest import Manifest
from collforge.runtime.build import generated_folder
from collforge.runtime.home import home, make_folder


def _load() -> Manifest:
    path = generated_folder(home()) / "manifest.json"
    return manifest.load(path) if path.exists() else render.generate(make_folder(path.parent))


MANIFEST = _load()
