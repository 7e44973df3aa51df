"""A small Hub on this machine: real HTTP, the routes and headers that the real client asks for and reads.

GET       /api/models/ORG/NAME/revision/REVISION[?blobs=True]   what a commit holds
HEAD, GET /ORG/NAME/resolve/COMMIT/FILE                         a file; large ones by way of a redirect
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_oNlYfOrThIsMoDeL"
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


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    authorization: str | None


class Hub(AbstractContextManager["Hub"]):
    """Serves `models` by ORG/NAME while it is entered. Set `status` and every request is answered with that and `body`."""

    def __init__(self) -> None:
        self.models: dict[str, Model] = {}
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

    def asked_for(self) -> list[str]:
        """The names of the files that were sent."""
        paths = (request.path for request in self.requests if request.method == "GET")
        return [path.rpartition("/")[2] for path in paths if "/resolve/" in path]


class _Server(ThreadingHTTPServer):
    def __init__(self, hub: Hub) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.hub = hub


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        hub = self.server.hub
        hub.requests.append(Request(self.command, self.path, self.headers.get("authorization")))
        if hub.is_silent:
            hub.wait_until_gone()
        elif hub.status:
            self._answer(hub.status, body=hub.body)
        elif self.path.startswith("/api/models/"):
            self._describe()
        elif "/resolve/" in self.path:
            self._send_file()
        else:
            self._answer(404)

    do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

    def _describe(self) -> None:
        name, _, revision = unquote(urlsplit(self.path).path).removeprefix("/api/models/").partition("/revision/")
        model = self.server.hub.models.get(name)
        if model is None or (model.locked == "private" and not self._is_allowed()):
            self._answer(401, {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"})
        elif revision not in (*model.refs, model.commit):
            self._answer(404, {"X-Error-Code": "RevisionNotFound"})
        else:
            self._answer(200, body=json.dumps(model.described(blobs="blobs=" in self.path)).encode())

    def _send_file(self) -> None:
        name, _, rest = self.path.removeprefix(ELSEWHERE).lstrip("/").partition("/resolve/")
        commit, _, file = rest.partition("/")
        model = self.server.hub.models[name]
        if model.locked and not self._is_allowed():
            self._answer(403, {"X-Error-Code": "GatedRepo"})
        elif commit != model.commit or file not in model.files:
            self._answer(404, {"X-Error-Code": "EntryNotFound"})
        elif file in model.large and not self.path.startswith(ELSEWHERE):
            self._redirect(model, file)
        else:
            headers = {"X-Repo-Commit": commit, "ETag": f'"{model.git_sha1(file)}"'}
            self._answer(200, headers, model.spoilt.get(file, model.files[file]))

    def _redirect(self, model: Model, file: str) -> None:
        linked = {"X-Linked-Etag": f'"{model.sha256(file)}"', "X-Linked-Size": str(len(model.files[file]))}
        location = f"{self.server.hub.endpoint}{ELSEWHERE}{self.path}"
        self._answer(302, {"X-Repo-Commit": model.commit, "Location": location, **linked})

    def _is_allowed(self) -> bool:
        return self.headers.get("authorization") == f"Bearer {TOKEN}"

    def _answer(self, status: int, headers: Mapping[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests look at `requests`."""
