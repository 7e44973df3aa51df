"""A container engine that only tells of itself: real HTTP on a Unix socket, as the real client asks it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingMixIn, UnixStreamServer
from typing import Any


class _Server(ThreadingMixIn, UnixStreamServer):
    daemon_threads = True


@contextmanager
def engine_that_tells(folder: Path, **info: Any) -> Iterator[str]:
    """The address of an engine, with its socket in `folder`, that answers every question with `info`."""
    answer = json.dumps({"ApiVersion": "1.41", **info}).encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with _Server(str(folder / "engine.sock"), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"unix://{folder}/engine.sock"
        server.shutdown()
        thread.join()
