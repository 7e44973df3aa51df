"""What the Hub and the network answer through huggingface_hub, in words of ours; and what the Hub says of a repository's files.

No message holds a token: of the words of the libraries below, only those of the operating system are passed on.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.cache import sha256_of

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

TIMEOUT_S = 10.0
"""Of a request that only asks; it is made once. Transfers have the library's own limits, and are tried a few times."""


@dataclass(frozen=True)
class HubFile:
    """A file of a commit, and what the Hub says of its bytes; null where it does not say."""

    name: str
    size_bytes: int | None
    sha256: str | None  # of large files
    git_sha1: str | None  # of the others: of b"blob {size}\0" and the bytes

    @classmethod
    def of(cls, sibling: RepoSibling) -> HubFile:
        """As huggingface_hub has it."""
        return cls(sibling.rfilename, sibling.size, sibling.lfs.sha256 if sibling.lfs else None, sibling.blob_id)

    def is_at(self, path: Path) -> bool:
        """Whether a file has these bytes, as far as the Hub says."""
        if self.sha256:
            return sha256_of(path) == self.sha256
        return self.git_sha1 is None or _git_sha1(path.read_bytes()) == self.git_sha1

    def holds(self, data: bytes) -> bool:
        """Whether the Hub says that these are its bytes."""
        if self.sha256:
            return hashlib.sha256(data).hexdigest() == self.sha256
        return _git_sha1(data) == self.git_sha1


@dataclass(frozen=True)
class Snapshot:
    """A commit of a repository."""

    commit: str  # 40 hex digits
    files: Mapping[str, HubFile]  # by name


def _git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def quieten() -> None:
    """Let the library show no progress and log errors only: only the command line prints."""
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


# --- what goes wrong ------------------------------------------------------------------------------------------------


def is_of_the_disk(error: Exception) -> bool:
    """Whether this machine's disk failed, and neither the Hub nor the network."""
    network = (ConnectionError, TimeoutError)
    return isinstance(error, OSError) and error.errno is not None and not isinstance(error, network)


def is_unlike_a_hub(error: BaseException) -> bool:
    """Whether the library could make nothing of the answer."""
    from huggingface_hub import errors

    return isinstance(error, (errors.FileMetadataError, ValueError, LookupError, TypeError, AttributeError))


def holds_no_header(error: BaseException) -> bool:
    """Whether the token was nothing that a request can carry."""
    return isinstance(error, UnicodeError) or type(error).__name__ == "LocalProtocolError"


TOKEN_UNSENT = "the token cannot be sent, as it holds other than plain characters; set HF_TOKEN anew"


def unlike_a_hub() -> str:
    """Where the answer came from, and what to look at."""
    return f"{host()} does not answer like a Hub; see HF_ENDPOINT and the proxy"


def failed_connection(error: BaseException) -> str:
    """As "the connection to the Hub at host failed (ConnectError: Connection refused)"."""
    told = ": ".join(filter(None, (type(error).__name__, _system_words(error))))
    return f"the connection to {host()} failed ({told})"


def host() -> str:
    """Of the endpoint, without what may stand before it: a name and a password."""
    from huggingface_hub import constants

    address = urlsplit(constants.ENDPOINT)
    return f"the Hub at {address.netloc.rpartition('@')[2]}"


def _system_words(error: BaseException | None) -> str | None:
    """What the operating system said, somewhere down the chain: "Connection refused"."""
    while error is not None:
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        error = error.__cause__ or error.__context__
    return None
