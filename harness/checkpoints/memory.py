"""Small facts about checkpoints, remembered from one plan to the next: digests of files, configs of commits.

Best effort: without them a plan asks again, and no plan fails because a cache cannot be written.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import cache


def recall(kind: str, about: str) -> Mapping[str, Any]:
    """What was remembered about it; {} where nothing was, or where it cannot be read."""
    try:
        known = json.loads(_place(kind, about).read_bytes())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def remember(kind: str, about: str, facts: Mapping[str, Any]) -> None:
    """Remember facts (JSON values) in place of earlier ones."""
    place = _place(kind, about)
    aside = place.with_name(f"{place.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        aside.write_text(json.dumps(facts, indent=1))
        aside.replace(place)


def _place(kind: str, about: str) -> Path:
    return cache.room("checkpoints") / kind / f"{cache.safe_name(about)}.json"
