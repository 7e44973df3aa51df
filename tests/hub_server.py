"""A small Hub on this machine: real HTTP, the routes and headers that the real client asks for and reads.

GET       /api/models/ORG/NAME/revision/REVISION[?blobs=True]   what a commit holds
HEAD, GET /ORG/NAME/resolve/COMMIT/FILE                         a file; large ones by way of a redirect
GET       /api/datasets/ORG/NAME[?blobs=True]                   what the newest commit of a dataset holds
HEAD, GET /datasets/ORG/NAME/resolve/COMMIT/FILE                a file of it
POST      /api/repos/create                                     a new dataset
POST      /api/validate-yaml                                    a card's metadata
POST      /api/datasets/ORG/NAME/preupload/main                 which files are large
POST      /datasets/ORG/NAME.git/info/lfs/objects/batch         where these go
PUT       /large/SHA256                                         one of them
POST      /api/datasets/ORG/NAME/commit/main                    a commit, as NDJSON
"""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import huggingface_hub.utils
import pytest
from huggingface_hub import constants

TOKEN = "hf_oNlYfOrThIsMoDeL"
READER = "hf_ReAdSoNlY"  # may write nothing
ELSEWHERE = "/large"  # where large files are kept


@dataclass
class Model:
    """One repository; its one commit is a digest of its files."""

    files: dict[str, bytes]
    card: Mapping[str, Any] | None = None
    refs: tuple[str, ...] = ("main", "v1.0", "refs/pr/7")
    locked: str | None = None  # "private" or "gated": the files for TOKEN alone; a private one is not even described
    large: tuple[str, ...] = ("model.safetensors",)  # files kept elsewhere, as with Git LFS
    spoilt: dict[str, bytes] = field(default_factory=dict)  # what is sent in place of a file's own bytes

    @property
    def commit(self) -> str:
        return hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()

    def at(self, commit: str) -> Mapping[str, bytes]:
        return self.files if commit == self.commit else {}

    def described(self, *, blobs: bool) -> dict[str, Any]:
        siblings = [self._sibling(name) if blobs else {"rfilename": name} for name in self.files]
        return {"id": "any", "sha": self.commit, "siblings": siblings, "cardData": self.card, "tags": []}

    def sha256(self, name: str) -> str:
        return hashlib.sha256(self.files[name]).hexdigest()

    def git_sha1(self, name: str) -> str:
        data = self.files[name]
        return hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest()

    def _sibling(self, name: str) -> dict[str, Any]:
        sibling: dict[str, Any] = {"rfilename": name, "size": len(self.files[name]), "blobId": self.git_sha1(name)}
        if name in self.large:
            sibling |= {
                "blobId": "0" * 40,
                "lfs": {"sha256": self.sha256(name), "size": sibling["size"], "pointerSize": 1},
            }
        return sibling


@dataclass
class Dataset(Model):
    """A dataset, which grows by commits. TOKEN alone may write."""

    private: bool = False
    large_from_bytes: int = 10_000_000
    messages: list[str] = field(default_factory=list)  # of the commits
    former: dict[str, dict[str, bytes]] = field(default_factory=dict)  # files by commit
    large: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.former[self.commit] = dict(self.files)

    def at(self, commit: str) -> Mapping[str, bytes]:
        return self.former.get(commit, {})

    def add(self, files: Mapping[str, bytes], large: tuple[str, ...], message: str) -> None:
        self.files |= files
        self.large = tuple({*self.large, *large})
        self.messages.append(message)
        self.former[self.commit] = dict(self.files)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    authorization: str | None


@dataclass
class Fault:
    """What happens to the next request whose path holds `where`, once."""

    where: str
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: Literal["before", "after"] | None = None  # the connection, before or after the request has had its effect
    before: Callable[[], None] = lambda: None  # what others do just before


class Hub(AbstractContextManager["Hub"]):
    """Serves `models` by ORG/NAME while it is entered. Set `status` and every request is answered with that and `body`."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}
        self.datasets: dict[str, Dataset] = {}
        self.stored: dict[str, bytes] = {}  # large files by SHA-256
        self.faults: list[Fault] = []
        self.status: int | None = None
        self.body = b"{}"
        self.is_silent = False  # answers nothing, and keeps the line open
        self.requests: list[Request] = []
        self._gone = threading.Event()
        self._server = _Server(self)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Hub:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._gone.set()
        self._server.shutdown()
        self._server.server_close()

    def wait_until_gone(self) -> None:
        """Returns when the Hub is left."""
        self._gone.wait()

    def fault_for(self, path: str) -> Fault | None:
        """The next one that is meant for this request; it is spent."""
        found = next((fault for fault in self.faults if fault.where in path), None)
        if found:
            self.faults.remove(found)
        return found

    def asked_for(self) -> list[str]:
        """The names of the files that were sent."""
        paths = (request.path for request in self.requests if request.method == "GET")
        return [path.rpartition("/")[2] for path in paths if "/resolve/" in path]


def served(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Iterator[Hub]:
    """A Hub that the library asks in this process: it reads its environment once, when imported, so here its constants are set."""
    with Hub() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
        monkeypatch.setattr(
            constants, "HUGGINGFACE_CO_URL_TEMPLATE", f"{hub.endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        )
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder / "cache of the library"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(folder / "no login"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        yield hub
    huggingface_hub.utils.close_session()


class _Server(ThreadingHTTPServer):
    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    _cut = False  # hang up instead of answering

    def do_GET(self) -> None:
        hub = self.server.hub
        hub.requests.append(Request(self.command, self.path, self.headers.get("authorization")))
        if hub.is_silent:
            hub.wait_until_gone()
        elif hub.status:
            self._answer(hub.status, body=hub.body)
        else:
            self._faulty(hub.fault_for(self.path))

    do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - the names that http.server calls

    def _faulty(self, fault: Fault | None) -> None:
        """Answer, but for the fault."""
        self._cut = fault is not None and fault.cut == "after"
        if fault:
            fault.before()
        if fault and fault.cut == "before":
            self.rfile.read(min(int(self.headers.get("content-length", 0)), 1))
            self._hang_up()
        elif fault and fault.status:
            self._body()
            self._answer(fault.status, fault.headers)
        else:
            self._route()

    def _route(self) -> None:
        path = urlsplit(self.path).path
        if self.command in ("POST", "PUT"):
            self._take(path)
        elif path.startswith("/api/models/"):
            self._describe()
        elif path.startswith("/api/datasets/"):
            self._describe_dataset(path.removeprefix("/api/datasets/"))
        elif "/resolve/" in path:
            self._send_file()
        else:
            self._answer(404)

    def _take(self, path: str) -> None:
        """A request that writes."""
        body, hub = self._body(), self.server.hub
        if path.startswith(f"{ELSEWHERE}/"):
            hub.stored[path.rpartition("/")[2]] = body
            self._answer(200)
        elif not self._is_allowed():
            self._answer(403 if self.headers.get("authorization") == f"Bearer {READER}" else 401)
        elif path == "/api/validate-yaml":
            self._json({})
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path.endswith("/objects/batch"):
            self._json({"objects": [self._upload_of(each) for each in json.loads(body)["objects"]]})
        else:
            self._take_for_dataset(path.removeprefix("/api/datasets/"), body)

    def _create(self, asked: Mapping[str, Any]) -> None:
        name = f"{asked['organization']}/{asked['name']}"
        is_new = name not in self.server.hub.datasets
        dataset = Dataset({".gitattributes": b""}, private=asked.get("visibility") == "private")
        self.server.hub.datasets.setdefault(name, dataset)
        self._json({"url": f"{self.server.hub.endpoint}/datasets/{name}"}, 200 if is_new else 409)

    def _upload_of(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Where a large file goes; nowhere, if it is stored already."""
        if asked["oid"] in self.server.hub.stored:
            return dict(asked)
        href = f"{self.server.hub.endpoint}{ELSEWHERE}/{asked['oid']}"
        return {**asked, "actions": {"upload": {"href": href, "header": {}}}}

    def _take_for_dataset(self, path: str, body: bytes) -> None:
        org, name, verb, *_ = path.split("/")
        dataset = self.server.hub.datasets.get(f"{org}/{name}")
        if dataset is None:
            self._answer(404, {"X-Error-Code": "RepoNotFound"})
        elif verb == "preupload":
            self._json({"files": [_mode(each, dataset) for each in json.loads(body)["files"]]})
        else:
            self._commit(f"{org}/{name}", dataset, [json.loads(line) for line in body.splitlines()])

    def _commit(self, name: str, dataset: Dataset, lines: list[dict[str, Any]]) -> None:
        header = lines[0]["value"]
        if header.get("parentCommit", dataset.commit) != dataset.commit:
            self._answer(412)
            return
        small = {x["value"]["path"]: base64.b64decode(x["value"]["content"]) for x in lines if x["key"] == "file"}
        large = {x["value"]["path"]: self.server.hub.stored[x["value"]["oid"]] for x in lines if x["key"] == "lfsFile"}
        dataset.add({**small, **large}, tuple(large), header["summary"])
        url = f"{self.server.hub.endpoint}/datasets/{name}/commit/{dataset.commit}"
        self._json({"commitUrl": url, "commitOid": dataset.commit})

    def _describe_dataset(self, name: str) -> None:
        dataset = self.server.hub.datasets.get(name)
        if dataset is None or (dataset.private and not self._is_allowed()):
            self._answer(404, {"X-Error-Code": "RepoNotFound"})
        else:
            self._json(dataset.described(blobs="blobs=" in self.path))

    def _describe(self) -> None:
        name, _, revision = unquote(urlsplit(self.path).path).removeprefix("/api/models/").partition("/revision/")
        model = self.server.hub.models.get(name)
        if model is None or (model.locked == "private" and not self._is_allowed()):
            self._answer(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif revision not in (*model.refs, model.commit):
            self._answer(404, {"X-Error-Code": "RevisionNotFound"})
        else:
            self._json(model.described(blobs="blobs=" in self.path))

    def _send_file(self) -> None:
        name, _, rest = unquote(self.path).removeprefix(ELSEWHERE).lstrip("/").partition("/resolve/")
        commit, _, file = rest.partition("/")
        hub = self.server.hub
        model = hub.datasets[name.removeprefix("datasets/")] if name.startswith("datasets/") else hub.models[name]
        if model.locked and not self._is_allowed():
            self._answer(403, {"X-Error-Code": "GatedRepo"})
        elif file not in model.at(commit):
            self._answer(404, {"X-Error-Code": "EntryNotFound"})
        elif file in model.large and not self.path.startswith(ELSEWHERE):
            self._redirect(model, file)
        else:
            headers = {"X-Repo-Commit": commit, "ETag": f'"{model.git_sha1(file)}"'}
            self._answer(200, headers, model.spoilt.get(file, model.at(commit)[file]))

    def _redirect(self, model: Model, file: str) -> None:
        linked = {"X-Linked-Etag": f'"{model.sha256(file)}"', "X-Linked-Size": str(len(model.files[file]))}
        location = f"{self.server.hub.endpoint}{ELSEWHERE}{self.path}"
        self._answer(302, {"X-Repo-Commit": model.commit, "Location": location, **linked})

    def _is_allowed(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {TOKEN}"

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers.get("content-length", 0)))

    def _json(self, value: Any, status: int = 200) -> None:
        self._answer(status, body=json.dumps(value).encode())

    def _hang_up(self) -> None:
        self.connection.shutdown(socket.SHUT_RDWR)
        self.close_connection = True

    def _answer(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        if self._cut:
            self._hang_up()
            return
        if status >= 400:
            body = body or b'{"error": "no"}'
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests look at `requests`."""


def _mode(asked: Mapping[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Whether a file of a commit to come is large."""
    is_large = asked["size"] >= dataset.large_from_bytes
    return {"path": asked["path"], "uploadMode": "lfs" if is_large else "regular", "shouldIgnore": False}
