"""What lies behind a result's summary: the record and the raw samples of each of its launches."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.model import LaunchRecord, Record, Result, RoundRecord
from harness.monitor.log import GpuReading
from harness.monitor.spans import NotSeenError
from harness.monitor.watched import WatchedLaunch
from harness.samples import NS, undisturbed
from harness.store import ResultStore


class RawArray(Record):
    """One array of a round's file, a value a call: results.md names them."""

    name: str
    values: list[int]


class RawRound(Record):
    """The raw samples of one latency round."""

    index: int
    arrays: list[RawArray]

    def array(self, name: str) -> list[int]:
        """The values of that name; none where the file has no such array."""
        return next((array.values for array in self.arrays if array.name == name), [])


class GpuLook(Record):
    """What the monitor read of the launch's GPU, once."""

    at_ns: int  # CLOCK_MONOTONIC of the machine
    utilisation: float | None  # part of the last moments in which a kernel ran
    memory_used_bytes: int | None  # by whomever
    power_w: float | None
    temperature_c: float | None
    sm_clock_hz: float | None


class RawLaunch(Record):
    """A launch: its record, the samples of its latency rounds, and what was seen of its GPU during all its rounds."""

    record: LaunchRecord
    samples: list[RawRound]
    gpu: list[GpuLook] | None  # null where no GPU was watched


def raw_launches(result: Result, store: ResultStore) -> list[RawLaunch]:
    """Of the launches that the result is made of, in its order. One whose folder is gone is left out, as is a round's lost file."""
    stored = {record.launch_id: record for record in store.launches(result.key)} if result.measurements.launches else {}
    found = (stored.get(launch.launch_id) for launch in result.measurements.per_launch)
    return [_raw(record, store) for record in found if record]


def latencies_s(launches: Sequence[RawLaunch]) -> list[float]:
    """Seconds of each call that counts, all launches: as for the latencies of a result."""
    return [ns / NS for launch in launches for ns in _steady_ns(launch)]


def _steady_ns(launch: RawLaunch) -> list[int]:
    """Without disturbed rounds, and without calls during which something was compiled."""
    counted = {r.index for r in undisturbed([r for r in launch.record.rounds if r.mode == "latency"])}
    rounds = [r for r in launch.samples if r.index in counted]
    return [
        ns
        for each in rounds
        for ns, compiled in zip(each.array("total_ns"), each.array("compiled"), strict=False)
        if not compiled
    ]


def _raw(record: LaunchRecord, store: ResultStore) -> RawLaunch:
    folder = store.launch_folder(record.hashes.key, record.launch_id)
    return RawLaunch(
        record=record, samples=_rounds(record, folder), gpu=_gpu(record, store.block_folder(record.block_id))
    )


def _gpu(record: LaunchRecord, block_folder: Path) -> list[GpuLook] | None:
    try:
        watched = WatchedLaunch.read(record, block_folder)
        uuid = watched.gpu()
    except NotSeenError:
        return None
    samples = [sample for span in watched.spans for sample in span.samples if uuid in sample.gpus]
    return [_look(sample.at_ns, sample.gpus[uuid]) for sample in samples] or None


def _look(at_ns: int, reading: GpuReading) -> GpuLook:
    read = {name: getattr(reading, name) for name in GpuLook.model_fields if name != "at_ns"}
    return GpuLook(at_ns=at_ns, **read)


def _rounds(record: LaunchRecord, folder: Path) -> list[RawRound]:
    rounds = (_round(r, folder) for r in record.rounds if r.file)
    return [each for each in rounds if each]


def _round(record: RoundRecord, folder: Path) -> RawRound | None:
    try:
        with (folder / str(record.file)).open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            named = [RawArray(name=name, values=arrays[name].tolist()) for name in arrays.files]
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    return RawRound(index=record.index, arrays=named)
