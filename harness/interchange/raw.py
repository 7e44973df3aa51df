"""What lies behind a result's summary: the record and the raw samples of each of its launches."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from harness.model import LaunchRecord, Record, Result, RoundRecord
from harness.monitor.log import GpuReading
from harness.monitor.spans import NotSeenError
from harness.monitor.watched import WatchedLaunch
from harness.samples import NS, undisturbed
from harness.store import ResultStore


class RawArray(Record):
    """One array of a round's file, a value a call (of `mark_ns` one a stamp, call after call): results.md names them."""

    name: str
    values: list[int]


class RawRound(Record):
    """The raw samples of one latency or marked round."""

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
    """A launch: its record, the samples of its latency and marked rounds, and what was seen of its GPU during all its rounds."""

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
    return [ns / NS for each in _counted(launches, "latency") for call in _steady_ns(each, "total_ns") for ns in call]


def stamps_s(launches: Sequence[RawLaunch]) -> list[list[float]]:
    """Seconds from the start of each call that counts to each of its stamps, all launches; without calls that stamp nothing."""
    calls = [call for each in _counted(launches, "marked") for call in _steady_ns(each, "mark_ns")]
    return [[ns / NS for ns in call] for call in calls if call]


def _counted(launches: Sequence[RawLaunch], mode: str) -> Iterator[RawRound]:
    """The rounds of a mode, without disturbed ones."""
    for launch in launches:
        counted = {r.index for r in undisturbed([r for r in launch.record.rounds if r.mode == mode])}
        yield from (r for r in launch.samples if r.index in counted)


def _steady_ns(each: RawRound, name: str) -> list[list[int]]:
    """The values of each call, without calls during which something was compiled."""
    values, compiled = each.array(name), each.array("compiled")
    width = len(values) // max(len(compiled), 1)
    return [values[call * width :][:width] for call, moved in enumerate(compiled) if not moved]


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
            named = [RawArray(name=name, values=arrays[name].ravel().tolist()) for name in arrays.files]
    except (OSError, ValueError, zipfile.BadZipFile):
        return None
    return RawRound(index=record.index, arrays=named)
