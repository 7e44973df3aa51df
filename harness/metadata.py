"""The part of a result that makes it defensible: who measured what, where, with which versions, under which settings."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harness import host
from harness.block import PreparedCell
from harness.executors.base import Provided
from harness.model import Cell, CellError, Hashes, LaunchRecord, Metadata, Protocol, Status
from harness.plugins import Plugins

REASONED = (Status.UNSUPPORTED, Status.SKIPPED, Status.MISMATCH, Status.UNSTABLE, Status.UNVERIFIED)
"""Statuses that carry a reason rather than an error: nothing broke."""


@dataclass(frozen=True)
class RunFacts:
    """What is the same for every result of a run."""

    run_id: str
    started_at: datetime
    executor: str
    protocol: Protocol
    environment: Mapping[str, Any]
    host_hash: str
    plugins: Plugins

    @classmethod
    def gather(cls, executor: str, protocol: Protocol, plugins: Plugins, folder: Path) -> RunFacts:
        """Read the host and the git repository around `folder` (the caller's)."""
        started_at = datetime.now(UTC)
        facts, contributed = host.host_facts(), plugins.environment()
        return cls(
            run_id=f"{started_at:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
            started_at=started_at,
            executor=executor,
            protocol=protocol,
            environment={"host": facts, "plugins": contributed, "git": host.git_facts(folder)},
            host_hash=host.host_hash(facts, contributed),
            plugins=plugins,
        )

    def hashes(self, cell: Cell, stack_hash: str | None) -> Hashes:
        return Hashes(key=cell.key, protocol_hash=self.protocol.hash, stack_hash=stack_hash, host_hash=self.host_hash)

    def of_idle_cell(self, cell: Cell, status: Status, reason: str | None, error: CellError | None = None) -> Metadata:
        """Of a cell that no worker was started for."""
        return self._metadata(cell, self.hashes(cell, None), status, reason=reason, error=error)

    def of_measured_cell(
        self,
        prepared: PreparedCell,
        provided: Provided,
        launches: Sequence[LaunchRecord],
        status: Status,
        error: CellError | None,
    ) -> Metadata:
        """Of a cell with launches; what is in effect is taken from the last launch that told it."""
        telling = next((launch for launch in reversed(launches) if launch.effective), None)
        reasoned = status in REASONED
        return self._metadata(
            prepared.cell,
            prepared.hashes,
            status,
            error=None if reasoned else error,
            reason=error.message if reasoned and error else None,
            checkpoint_sha256=prepared.checkpoint.sha256,
            licence=prepared.checkpoint.licence,
            inputs_sha256=prepared.inputs.sha256,
            **_schedule(launches),
            requested=telling.requested if telling else {},
            effective=telling.effective if telling else {},
            versions=telling.versions if telling else {},
            details=telling.details if telling else {},
            environment={**self.environment, "stack": dict(provided.facts)},
        )

    def _metadata(self, cell: Cell, hashes: Hashes, status: Status, **more: Any) -> Metadata:
        plugin = self.plugins.provenance[cell.backend]._asdict()
        environment = {**more.pop("environment", self.environment), "plugin": plugin}
        return Metadata(
            run_id=self.run_id,
            timestamp=datetime.now(UTC).isoformat(timespec="seconds"),
            harness_version=version("backend-harness"),
            executor=self.executor,
            status=status,
            hashes=hashes,
            protocol=self.protocol,
            environment=environment,
            **more,
        )


def _schedule(launches: Sequence[LaunchRecord]) -> dict[str, str | None]:
    """In effect, and why it is not the usual one; sequential where one block was."""
    told = next((launch for launch in launches if launch.schedule == "sequential"), launches[0] if launches else None)
    return {} if told is None else {"schedule": told.schedule, "schedule_reason": told.schedule_reason}
