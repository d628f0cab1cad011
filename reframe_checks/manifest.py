"""The manifest from which checks are made when ReFrame loads them."""

from __future__ import annotations

import collforge
from collforge.errors import CollforgeError
from collforge.generator import manifest, render
from collforge.generator.manifest import Manifest
from collforge.runtime.build import generated_folder
from collforge.runtime.home import home, make_folder


def _load() -> Manifest:
    """The one below `home()`; generated there when it is missing or of another version."""
    folder = generated_folder(home())
    try:
        found = manifest.load(folder / "manifest.json")
        if found.version == collforge.__version__:
            return found
    except CollforgeError:
        pass
    return render.generate(make_folder(folder))


MANIFEST = _load()
