"""Where results are uploaded to, and whether: only with a dataset and a token, both given on purpose.

Given are flags, the environment, or a file `.env` in the working directory; the first that tells wins. A login saved on the
machine does not count: it was not given for this. There is no flag for the token: arguments can be read by everyone on a machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import dotenv

from harness.checkpoints.hub import is_name
from harness.hub import answers
from harness.model import HarnessError

REPO, TOKEN, ENDPOINT, RESULTS = "HF_DATASET_REPO", "HF_TOKEN", "HF_ENDPOINT", "BENCHMARK_RESULTS_DIR"


@dataclass(frozen=True)
class Target:
    """A dataset of the Hub, and what opens it."""

    repo: str  # ORG/NAME
    token: str = field(repr=False)  # never shown

    def __str__(self) -> str:
        return f"the dataset {self.repo}"


@dataclass(frozen=True)
class Off:
    """Nothing is uploaded, and why."""

    reason: str


def load_env_file(folder: Path) -> None:
    """Put the four variables above that `.env` gives into this process's environment, where that has none.

    Nothing else in the file is taken. Workers inherit none of it: their environment is made from nothing. Raises HarnessError.
    """
    file = folder / ".env"
    try:
        given = dotenv.dotenv_values(file, interpolate=False) if file.is_file() else {}
    except (OSError, UnicodeDecodeError) as error:
        raise HarnessError(f"{file} cannot be read ({error}): mend it or move it away") from None
    for name in (REPO, TOKEN, ENDPOINT, RESULTS):
        if value := os.environ.get(name) or given.get(name):
            os.environ[name] = value


def target(repo: str | None, environment: Mapping[str, str]) -> Target | Off:
    """What is given: the dataset by flag or environment, the token by environment. Raises HarnessError for what is none."""
    named, token = repo or environment.get(REPO), environment.get(TOKEN, "").strip()
    if not named or not token:
        missing = [] if named else [f"no dataset is given (--repo or {REPO})"]
        missing += [] if token else [f"no token is given ({TOKEN})"]
        return Off(" and ".join(missing))
    if not is_name(named):
        raise HarnessError(f"{named!r} is no dataset's name on the Hub; give --repo or {REPO} as ORG/NAME")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise HarnessError(answers.TOKEN_UNSENT)
    return Target(named, token)
