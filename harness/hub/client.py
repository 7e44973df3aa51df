"""What is asked of a dataset on the Hub, through huggingface_hub: what it holds, a file of it, one commit more, and itself made.

Whatever goes wrong is an UploadError that says whether trying again may help. No message holds the token.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.hub import answers
from harness.hub.answers import HubFile, Snapshot
from harness.hub.configuration import Target
from harness.model import HarnessError

if TYPE_CHECKING:
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError


class UploadError(HarnessError):
    """An upload that did not come about, in one sentence."""

    def __init__(self, message: str, *, may_pass: bool, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.may_pass = may_pass  # trying again may help
        self.wait_s = wait_s  # not before, says the Hub


class Dataset:
    """One dataset, asked and written with the token of its target and no other."""

    def __init__(self, target: Target) -> None:
        self.repo = target.repo
        self._token = target.token

    def create(self, *, private: bool) -> None:
        """Make the dataset where it is missing. One that is there stays as it is. Raises UploadError."""
        with self._explained():
            self._api().create_repo(self.repo, repo_type="dataset", private=private, exist_ok=True)

    def snapshot(self) -> Snapshot:
        """Its newest commit. Raises UploadError."""
        with self._explained():
            info = self._api().dataset_info(self.repo, timeout=answers.TIMEOUT_S, files_metadata=True)
            files = (HubFile.of(sibling) for sibling in info.siblings or ())
            return Snapshot(str(info.sha), {file.name: file for file in files})

    def read(self, name: str, commit: str) -> bytes:
        """A file of a commit. Raises UploadError."""
        with self._explained(), tempfile.TemporaryDirectory() as folder:
            api = self._api()
            return Path(
                api.hf_hub_download(self.repo, name, repo_type="dataset", revision=commit, local_dir=folder)
            ).read_bytes()

    def commit(self, files: Mapping[str, bytes], message: str, parent: str) -> None:
        """Add or replace files in one commit upon `parent`. Raises UploadError; where another commit came between, it may pass."""
        with self._explained():
            from huggingface_hub import CommitOperationAdd

            additions = [CommitOperationAdd(name, data) for name, data in files.items()]
            self._api().create_commit(
                self.repo, additions, repo_type="dataset", commit_message=message, parent_commit=parent
            )

    def _api(self) -> HfApi:
        """Imported when it is needed first: that takes a fifth of a second."""
        from huggingface_hub import HfApi

        answers.quieten()
        return HfApi(token=self._token)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what the library raises into an UploadError. Some is of the HTTP library below, which changes with its versions."""
        try:
            yield
        except Exception as error:
            if answers.is_of_the_disk(error):
                raise
            # Not `from error`: a request hangs on it, with its token.
            raise _explained(self.repo, _root(error)) from None


# --- what goes wrong ------------------------------------------------------------------------------------------------


def _root(error: BaseException) -> BaseException:
    """What an answer or a transfer failed of: the library wraps it in errors that name a file."""
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    wraps = (LocalEntryNotFoundError, RuntimeError, ValueError)
    while error.__cause__ and isinstance(error, wraps) and not isinstance(error, HfHubHTTPError):
        error = error.__cause__
    return error


def _explained(repo: str, error: BaseException) -> UploadError:
    from huggingface_hub import errors

    if isinstance(error, errors.OfflineModeIsEnabled):
        return UploadError(f"{repo}: the Hub may not be asked, as HF_HUB_OFFLINE is set; unset it", may_pass=False)
    if isinstance(error, errors.RepositoryNotFoundError):
        return UploadError(f"{repo}: {_NO_DATASET}", may_pass=False)
    if isinstance(error, errors.HfHubHTTPError):
        return _refused(repo, error)
    if answers.is_unlike_a_hub(error):
        return UploadError(f"{repo}: {answers.unlike_a_hub()}", may_pass=False)
    return UploadError(f"{repo}: {answers.failed_connection(error)}; {_LATER}", may_pass=True)


_LATER = "try again later"

_NO_DATASET = "there is no such dataset on the Hub, or not for this token; see its spelling, or let `harness push --create` make it"

_REASONS = {
    400: "the Hub refuses what was sent as malformed; see the metadata at the head of the dataset's README.md",
    401: "the Hub does not accept the token; set HF_TOKEN to a valid one",
    403: "the Hub does not let this token write there; set HF_TOKEN to one with write access to the dataset",
    404: f"{_NO_DATASET}; see HF_ENDPOINT too",
    409: "somebody else is changing the dataset just now",
    412: "somebody else has changed the dataset meanwhile",
    413: "the Hub refuses so much at once; push `--summarized` rows",
    429: "the Hub asks for fewer requests",
}

_MAY_PASS = (408, 409, 412, 429)


def _refused(repo: str, error: HfHubHTTPError) -> UploadError:
    status = error.response.status_code
    reason = _REASONS.get(status, f"the Hub answered with status {status}")
    if status in _MAY_PASS or status >= 500:
        return UploadError(f"{repo}: {reason}; {_LATER}", may_pass=True, wait_s=_wait_s(error.response.headers))
    return UploadError(f"{repo}: {reason}", may_pass=False)


def _wait_s(headers: Mapping[str, str]) -> float:
    """What the answer asks for; 0 where it does not, or names a date."""
    told = headers.get("retry-after", "")
    return float(told) if told.isdecimal() else 0.0
