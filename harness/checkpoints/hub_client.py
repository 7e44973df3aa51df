"""What is asked of the Hub, through huggingface_hub. Whatever goes wrong ends in one sentence.

The library reads its environment variables itself: endpoint (HF_ENDPOINT), token (HF_TOKEN, else a saved login), offline mode
(HF_HUB_OFFLINE), proxies. It is imported when it is needed first: that takes a fifth of a second, and few commands ask the Hub.

No message holds a token: of the words of the libraries below, only those of the operating system are passed on.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.cache import sha256_of
from harness.model import HarnessError

if TYPE_CHECKING:
    from huggingface_hub.hf_api import RepoSibling

TIMEOUT_S = 10.0
"""Of a request that only asks; it is made once. Downloads have the library's own limits, and are tried a few times."""


@dataclass(frozen=True)
class HubFile:
    """A file of a commit, and what the Hub says of its bytes; null where it does not say."""

    name: str
    size_bytes: int | None
    sha256: str | None  # of large files
    git_sha1: str | None  # of the others: of b"blob {size}\0" and the bytes

    def is_at(self, path: Path) -> bool:
        """Whether a file has these bytes, as far as the Hub says."""
        if self.sha256:
            return sha256_of(path) == self.sha256
        return self.git_sha1 is None or _git_sha1(path) == self.git_sha1


@dataclass(frozen=True)
class Snapshot:
    """A commit of a model."""

    commit: str  # 40 hex digits
    files: Mapping[str, HubFile]  # by name
    licence: str | None  # as the model card names it; null where it does not


def describe(model: str, revision: str, *, digests: bool = False) -> Snapshot:
    """The commit that a revision (branch, tag, commit) of ORG/NAME is now; digests of its files on request.

    Raises HarnessError.
    """
    with _explained(model):
        from huggingface_hub import HfApi

        info = HfApi().model_info(model, revision=revision, timeout=TIMEOUT_S, files_metadata=digests)
        files = {sibling.rfilename: _file(sibling) for sibling in info.siblings or ()}
        return Snapshot(str(info.sha), files, _licence(info.card_data))


def download(model: str, commit: str, file: HubFile, folder: Path) -> Path:
    """A file of a commit, in `folder` or fetched into it, its bytes those that the Hub says. Raises HarnessError."""
    with _explained(model):
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils.tqdm import disable_progress_bars

        disable_progress_bars()  # only the command line prints
        logging.getLogger("huggingface_hub").setLevel(logging.ERROR)
        path = Path(hf_hub_download(model, file.name, revision=commit, local_dir=folder))
    if not file.is_at(path):
        path.unlink()
        raise HarnessError(f"hub:{model}@{commit}: {file.name} came with other bytes than the Hub says; run it again")
    return path


def _file(sibling: RepoSibling) -> HubFile:
    return HubFile(sibling.rfilename, sibling.size, sibling.lfs.sha256 if sibling.lfs else None, sibling.blob_id)


def _licence(card: object) -> str | None:
    """An SPDX name; of a licence of the model's own, the name that the card gives it."""
    licence = getattr(card, "license", None)
    named = getattr(card, "license_name", None) if licence == "other" else licence
    return named if isinstance(named, str) else None


def _git_sha1(path: Path) -> str:
    data = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


# --- what goes wrong ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _explained(model: str) -> Iterator[None]:
    """Turn what the library raises into a HarnessError. Some is of the HTTP library below, which changes with its versions."""
    try:
        yield
    except Exception as error:
        if _is_of_the_disk(error):
            raise
        # Not `from error`: a request hangs on it, with its token.
        raise HarnessError(f"hub:{model}: {_reason(_root(error))}") from None


def _is_of_the_disk(error: Exception) -> bool:
    network = (ConnectionError, TimeoutError)
    return isinstance(error, OSError) and error.errno is not None and not isinstance(error, network)


def _root(error: Exception) -> BaseException:
    """What a download failed of: the library wraps it in an error that tells of a missing local copy."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    return error.__cause__ or error if isinstance(error, LocalEntryNotFoundError) else error


def _reason(error: BaseException) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"the Hub may not be asked, as HF_HUB_OFFLINE is set; unset it{_OR_PINNED}"
    if isinstance(error, errors.GatedRepoError):
        return "is gated; accept its terms on its page, and set HF_TOKEN to a token of that account"
    if isinstance(error, errors.RevisionNotFoundError):
        return "has no such revision; see its page for branches, tags and commits"
    if isinstance(error, errors.RepositoryNotFoundError):
        return "there is no such model on the Hub, or not for you; see its spelling, and set HF_TOKEN for a private one"
    if isinstance(error, errors.HfHubHTTPError):
        status = error.response.status_code
        return _STATUS_REASONS.get(status, f"the Hub answered with status {status}; try again later")
    return _connection_reason(error)


_STATUS_REASONS = {
    401: "the Hub does not accept the token; set HF_TOKEN to a valid one, or unset it for a public model",
    403: "the Hub does not let this token read it; set HF_TOKEN to one of an account that may",
    404: "the Hub does not have it; see its spelling and HF_ENDPOINT",
    429: "the Hub asks for fewer requests; wait some minutes, or set HF_TOKEN, whose account has a larger share",
}


_OR_PINNED = ", or name a commit that was fetched before (@ and 40 hex digits)"


def _connection_reason(error: BaseException) -> str:
    from huggingface_hub import errors

    if isinstance(error, UnicodeError) or type(error).__name__ == "LocalProtocolError":
        return "the token cannot be sent, as it holds other than plain characters; set HF_TOKEN anew"
    if isinstance(error, (errors.FileMetadataError, ValueError, LookupError, TypeError, AttributeError)):
        return f"{_host()} does not answer like a Hub; see HF_ENDPOINT and the proxy"
    told = ": ".join(filter(None, (type(error).__name__, _system_words(error))))
    return f"the connection to {_host()} failed ({told}); see the network{_OR_PINNED}"


def _host() -> str:
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
