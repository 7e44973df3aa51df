"""What images start from: Python on Debian. Either the official image, or where no registry is reached one made here.

Which one is decided once, when something is built: what was asked for, else the official image where the engine has it, else the
one made here where it was made before, else the official image, pulled. A stand-in is never taken without saying so.
"""

from __future__ import annotations

import json
import shlex
import shutil
import ssl
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness import cache
from harness.engine import Engine, ImageFacts
from harness.executors.base import Progress
from harness.images.client import Client
from harness.model import HarnessError

OFFICIAL = "python:3.11-slim"

LOCAL = "backend-harness/base:bookworm"
"""Under a name of ours: the official one's means what its makers put there."""

DEBIAN_RELEASE = "bookworm"
"""Whose python3 is of the version that the official image has."""

_PACKAGES = ("python3", "python3-venv", "ca-certificates")

_UNUSED_FILES = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*")
"""What nobody reads in a worker's image."""

_DEBIANS_CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"

_OFFER = "`harness build --local-base` makes a base on this host from a Debian mirror"

_PROBE = (
    "import json, platform, sys;"
    "print(json.dumps({'python': platform.python_version(), 'libc': platform.libc_ver(), 'machine': platform.machine()}))"
)


@dataclass(frozen=True)
class Base:
    """The image that others start from."""

    name: str  # "python:3.11-slim"
    id: str
    python: tuple[int, int]  # (3, 11)
    glibc: tuple[int, int]  # (2, 36): what wheels may be built against
    machine: str  # "x86_64"


def choose(engine: Engine, client: Client, note: Progress, *, local: bool = False, offline: bool = False) -> Base:
    """The base to build from, made or fetched where it is not there. Raises HarnessError.

    `local`: the one made here, whatever else is there. `offline`: nothing is made or fetched.
    """
    found = _present(engine, note, local=local)
    if found is None and offline:
        raise HarnessError(f"the engine has no base ({OFFICIAL}), and --offline forbids to fetch one; {_OFFER}")
    if found is None:
        name = make_local(client, note) if local else pull(client, note)
        found = (name, _required(engine, name))
    name, image = found
    return _probed(client, name, image.id)


def pull(client: Client, note: Progress) -> str:
    """Fetch the official image; its name. Raises HarnessError, offering the other way."""
    note(f"pulling the base {OFFICIAL}")
    outcome = client.run(["pull", "--quiet", OFFICIAL])
    if outcome.returncode != 0:
        raise HarnessError(f"the base {OFFICIAL} cannot be pulled ({outcome.why}); {_OFFER}")
    return OFFICIAL


def make_local(client: Client, note: Progress) -> str:
    """Make a base from a Debian mirror with mmdebstrap, and import it; its name. Raises HarnessError."""
    _check_mmdebstrap()
    note(f"making the base {LOCAL} with mmdebstrap, once: about a minute")
    with cache.explained("make a base image"):
        folder = cache.room("base")
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:
            archive = Path(scratch) / "root.tar"
            _bootstrap(archive)
            outcome = client.run(import_arguments(archive))
    if outcome.returncode != 0:
        raise HarnessError(f"the engine does not import the base that mmdebstrap made: {outcome.why}")
    return LOCAL


def bootstrap_command(archive: Path, certificates: Path | None) -> list[str]:
    """The argv of mmdebstrap. The host's certificate bundle goes in: what vouches for a proxy here must do so inside."""
    upload = f"upload {shlex.quote(str(certificates))} /etc/ssl/certs/ca-certificates.crt"
    return [
        "mmdebstrap",
        "--variant=minbase",
        f"--include={','.join(_PACKAGES)}",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _UNUSED_FILES),
        *([f"--customize-hook={upload}"] if certificates else []),
        DEBIAN_RELEASE,
        str(archive),
    ]


def import_arguments(archive: Path) -> list[str]:
    """What follows `docker` to import the archive: with the settings that the official image has too."""
    changes = ("ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8", 'CMD ["python3"]')
    options = [word for change in changes for word in ("--change", change)]
    return ["import", "--message", "made by harness build --local-base", *options, str(archive), LOCAL]


def _present(engine: Engine, note: Progress, *, local: bool) -> tuple[str, ImageFacts] | None:
    """The base that the engine has, by name."""
    official = None if local else engine.image(OFFICIAL)
    if official is not None:
        return OFFICIAL, official
    made = engine.image(LOCAL)
    if made is None:
        return None
    note(f"base {LOCAL}, made here" + ("" if local else f": the engine has no {OFFICIAL}"))
    return LOCAL, made


def _required(engine: Engine, name: str) -> ImageFacts:
    image = engine.image(name)
    if image is None:
        raise HarnessError(f"the base {name} was there a moment ago and is gone: run the same command again")
    return image


def _probed(client: Client, name: str, image_id: str) -> Base:
    """The base with what it says of itself: wheels are chosen by that."""
    outcome = client.run(["run", "--rm", "--network", "none", "--entrypoint", "python3", image_id, "-c", _PROBE])
    if outcome.returncode != 0:
        raise HarnessError(
            f"the base {name} does not start python3 ({outcome.why}): tag another image so, or remove it"
        )
    told = json.loads(outcome.lines[-1])
    kind, glibc = told["libc"]
    if kind != "glibc":
        raise HarnessError(
            f"the base {name} has no glibc, and wheels for it are rare: use one on Debian, as {OFFICIAL}"
        )
    return Base(name, image_id, _two(told["python"]), _two(glibc), told["machine"])


def _two(version: str) -> tuple[int, int]:
    """(3, 11) for "3.11.7"."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)


def _check_mmdebstrap() -> None:
    if shutil.which("mmdebstrap") is None:
        raise HarnessError(
            "--local-base needs the command mmdebstrap, which is not there: `apt-get install mmdebstrap debian-archive-keyring`"
        )


def _bootstrap(archive: Path) -> None:
    done = subprocess.run(
        bootstrap_command(archive, _certificates()),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise HarnessError(f"mmdebstrap cannot make a base: {_telling(done.stderr)}")


def _telling(text: str) -> str:
    """mmdebstrap's errors begin with E:, apt's too; the first is the cause of the others."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("E:")), lines[-1] if lines else "it said nothing")


def _certificates() -> Path | None:
    """The host's bundle of certificates: what OpenSSL is told or was built with, else Debian's. None where there is neither."""
    named = ssl.get_default_verify_paths().cafile or _DEBIANS_CERTIFICATES
    return Path(named).resolve() if Path(named).is_file() else None
