"""What is asked of the Hub, through huggingface_hub. Whatever goes wrong ends in one sentence.

The library reads its environment variables itself: endpoint (HF_ENDPOINT), token (HF_TOKEN, else a saved login), offline mode
(HF_HUB_OFFLINE), proxies. It is imported when it is needed first: that takes a fifth of a second, and few commands ask the Hub.

No message holds a token: of the words of the libraries below, only those of the operating system are passed on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.hub import answers
from harness.hub.answers import TIMEOUT_S, HubFile
from harness.model import HarnessError


@dataclass(frozen=True)
class Snapshot(answers.Snapshot):
    """A commit of a model."""

    licence: str | None  # as the model card names it; null where it does not


def describe(model: str, revision: str, *, digests: bool = False) -> Snapshot:
    """The commit that a revision (branch, tag, commit) of ORG/NAME is now; digests of its files on request.

    Raises HarnessError.
    """
    with _explained(model):
        from huggingface_hub import HfApi

        info = HfApi().model_info(model, revision=revision, timeout=TIMEOUT_S, files_metadata=digests)
        files = {sibling.rfilename: HubFile.of(sibling) for sibling in info.siblings or ()}
        return Snapshot(str(info.sha), files, _licence(info.card_data))


def download(model: str, commit: str, file: HubFile, folder: Path) -> Path:
    """A file of a commit, in `folder` or fetched into it, its bytes those that the Hub says. Raises HarnessError."""
    with _explained(model):
        from huggingface_hub import hf_hub_download

        answers.quieten()
        path = Path(hf_hub_download(model, file.name, revision=commit, local_dir=folder))
    if not file.is_at(path):
        path.unlink()
        raise HarnessError(f"hub:{model}@{commit}: {file.name} came with other bytes than the Hub says; run it again")
    return path


def _licence(card: object) -> str | None:
    """An SPDX name; of a licence of the model's own, the name that the card gives it."""
    licence = getattr(card, "license", None)
    named = getattr(card, "license_name", None) if licence == "other" else licence
    return named if isinstance(named, str) else None


# --- what goes wrong ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _explained(model: str) -> Iterator[None]:
    """Turn what the library raises into a HarnessError. Some is of the HTTP library below, which changes with its versions."""
    try:
        yield
    except Exception as error:
        if answers.is_of_the_disk(error):
            raise
        # Not `from error`: a request hangs on it, with its token.
        raise HarnessError(f"hub:{model}: {_reason(_root(error))}") from None


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
    if answers.holds_no_header(error):
        return answers.TOKEN_UNSENT
    if answers.is_unlike_a_hub(error):
        return answers.unlike_a_hub()
    return f"{answers.failed_connection(error)}; see the network{_OR_PINNED}"
