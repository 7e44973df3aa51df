"""A second Docker engine on this machine, for tests that stop one. Never the machine's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.engine import Engine


class SecondEngine:
    """Its own files, socket and network namespace: in the first one's, it would take away the first one's bridge."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        self.host = f"unix://{folder}/engine.sock"

    @classmethod
    @contextmanager
    def started(cls) -> Iterator[SecondEngine]:
        if os.geteuid() != 0 or shutil.which("dockerd") is None:
            reason = "a second engine takes root and dockerd"
            pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
        folder = Path(tempfile.mkdtemp(prefix="engine-"))  # short: sockets' paths are limited to 107 characters
        engine = cls(folder)
        engine.start()
        try:
            yield engine
        finally:
            engine.stop()
            subprocess.run(["umount", str(folder / "data")], capture_output=True, check=False)
            shutil.rmtree(folder, ignore_errors=True)

    def start(self) -> None:
        argv = ["unshare", "--net", "--", "dockerd", "--bridge=none", "--iptables=false"]
        argv += ["--data-root", f"{self._folder}/data", "--exec-root", f"{self._folder}/exec"]
        argv += ["--pidfile", f"{self._folder}/pid", "--host", self.host]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(argv, stdout=log, stderr=log)
        give_up_at = time.monotonic() + 60
        while not Engine(self.host, "1.41").answers():
            assert time.monotonic() < give_up_at, (self._folder / "log").read_text()
            time.sleep(0.05)

    def stop(self) -> None:
        """As a machine's own service manager does it."""
        if self._process:
            self._process.terminate()
            self._process.wait(60)
            self._process = None

    def copy_image(self, source: Engine, tag: str) -> None:
        saved = subprocess.Popen(["docker", "--host", source.host, "save", tag], stdout=subprocess.PIPE)
        with saved:
            subprocess.run(["docker", "--host", self.host, "load"], stdin=saved.stdout, capture_output=True, check=True)
