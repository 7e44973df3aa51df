"""What tests of the real backends share: a runner led through a launch in its own stack, once per session and question."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness import cache
from harness.checkpoints import Checkpoint, identify, materialise
from harness.checkpoints.files import read_config
from harness.executors.base import LaunchSpec
from harness.executors.venv import VenvExecutor
from harness.inputs import make_inputs
from harness.model import Backend, Cell, InputSpec, Padding, digest
from harness.protocol import Job
from harness.stacks import Stacks
from harness.worker.arrays import read_inputs

HERE = Path(__file__).parent
SLOTS, BATCH, SEQUENCE = 3, 2, 24
PADDING = 5  # at the end of each slot's last row
ITEMS = {"samples": BATCH, "tokens": BATCH * SEQUENCE - PADDING, "positions": BATCH * SEQUENCE}
TIMEOUT_S = 1200
CACHE = "reusable"

SHORT_PROTOCOL: Mapping[str, Any] = {
    "blocks": 1,
    "passes": 1,
    "repeats": 0,
    "round_seconds": 0.05,
    "round_calls": 3,
    "settle_calls": 1,
    "warm_up_window_calls": 3,
    "warm_up_window_seconds": 0,
    "warm_up_tolerance": 1000,
    "probe_tolerance": 1000,
    "idle_seconds": 0,
}
"""Of runs that are not about numbers: every step once, nothing waited for."""

Outputs = list[dict[str, npt.NDArray[Any]]]


@dataclass(frozen=True)
class Question:
    """One launch to be made."""

    backend: str
    source: str
    task: str
    options: tuple[tuple[str, Any], ...] = ()
    dtype: str = "float32"
    device: str = "cpu"
    threads: int = 2
    cache_of: Question | None = None  # start from a copy of the cache that this launch has left
    compile_cache: str = "cold"
    padding: Padding | None = (
        None  # of the harness's own inputs; None: drawn here, each slot's last row ends in padding
    )
    ignores_mask: bool = False  # every token is to be read, padding too: what a model computes that forgets the mask
    operation: str = "forward"
    new_tokens: int | None = None
    do_sample: bool = False
    num_beams: int = 1
    eos_token_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class Told:
    """What came of it."""

    report: Mapping[str, Any]
    outputs: Outputs
    checkpoint_changed: bool
    cache: Path  # as the launch has left it
    raised: str | None  # the traceback of what the runner raised

    def phase_ns(self, phase: str) -> list[tuple[str, int]]:
        """Stages of a phase, as (name, nanoseconds)."""
        return [(name, elapsed) for name, elapsed in self.report["stages"].get(phase, ())]


@dataclass(frozen=True)
class _Prepared:
    """A launch that can start."""

    folder: Path
    scratch: Path
    checkpoint: Path


@dataclass
class Lab:
    """Real stacks, real checkpoints, and what was already found out with them."""

    executor: VenvExecutor
    backends: Mapping[str, Backend]
    folder: Path
    _told: dict[Question, Told] = field(default_factory=dict)

    def ask(self, question: Question) -> Told:
        """Lead the backend's runner through a launch. Raises AssertionError with what the runner raised."""
        self.ask_together([question])
        told = self._told[question]
        assert told.raised is None, told.raised
        return told

    def ask_together(self, questions: Sequence[Question]) -> None:
        """Ask several questions of one backend in one process: quicker, and enough where only outputs and facts are looked at."""
        open_questions = [question for question in questions if question not in self._told]
        if open_questions:
            self._launch(open_questions)

    def checkpoint(self, source: str) -> Path:
        """The folder that every backend reads."""
        stacks = Stacks(self.executor, self.backends, _silent)
        return materialise(identify(source), stacks.make_checkpoint, _silent).folder

    def plain_transformers(self, questions: Sequence[Question]) -> list[Outputs]:
        """What a few lines of Transformers make of the inputs of each question, in one process of the pytorch stack."""
        folders = [self._new_folder() for _ in questions]
        arguments: list[object] = []
        for question, folder in zip(questions, folders, strict=True):
            checkpoint = self.checkpoint(question.source)
            arguments += [checkpoint, question.task, self._inputs_of(question, checkpoint), folder, question.threads]
        self.run("eager", HERE / "plain_transformers.py", *arguments)
        return [_read_outputs(folder) for folder in folders]

    def outputs_of(self, backend: str, script: Path, source: str, task: str) -> Outputs:
        """The outputs that `SCRIPT CHECKPOINT TASK INPUTS.npz FOLDER` writes, in the stack of a backend."""
        out, checkpoint = self._new_folder(), self.checkpoint(source)
        self.run(backend, script, checkpoint, task, self._inputs_of(Question(backend, source, task), checkpoint), out)
        return _read_outputs(out)

    def told_by(self, backend: str, script: Path) -> Any:
        """What `SCRIPT OUT.json` writes in the stack of a backend. It is kept: of equal packages and code it is the same."""
        provided = self.executor.provide(self.backends[backend], _silent)
        text = script.read_text()
        said_by = (
            provided.stack_hash if "harness" in text else provided.facts["base"]
        )  # our code, or the packages alone
        place = cache.room("tests") / "told" / cache.safe_name(f"{script.stem} {digest([text, said_by])}")

        def make(folder: Path) -> Mapping[str, Any]:
            self.run(backend, script, folder / "told.json")
            return {}

        return json.loads((cache.keep(place, make, _silent).folder / "told.json").read_text())

    def plain_generations(self, questions: Sequence[Question], new_tokens: int, num_beams: int) -> list[Outputs]:
        """What a few lines of Transformers make of the inputs of each question, in one process of the pytorch stack."""
        return self.over_inputs(HERE / "plain_generation.py", questions, new_tokens, num_beams)

    def over_inputs(
        self, script: Path, questions: Sequence[Question], *settings: object, backend: str = "eager"
    ) -> list[Outputs]:
        """The outputs that `SCRIPT SETTINGS... {CHECKPOINT INPUTS.npz FOLDER}...` writes, in one process of a backend's stack."""
        folders = [self._new_folder() for _ in questions]
        arguments: list[object] = []
        for question, folder in zip(questions, folders, strict=True):
            checkpoint = self.checkpoint(question.source)
            arguments += [checkpoint, self._inputs_of(question, checkpoint), folder]
        self.run(backend, script, *settings, *arguments)
        return [_read_outputs(folder) for folder in folders]

    def run(self, backend: str, script: Path, *arguments: object, scratch: Path | None = None) -> None:
        """Run a script in the stack of a backend, in the environment that a worker would have."""
        out, offered = self._new_folder(), self.backends[backend]
        self.executor.provide(offered, _silent)
        launch = LaunchSpec(f"test-{out.name}", offered, folder=out, scratch=scratch or out)
        argv = self.executor.command(launch, [str(script), *map(str, arguments)])
        environment = self.executor.environment(launch)
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, f"{script.name} {arguments}: exit code {done.returncode}\n{done.stderr[-4000:]}"

    def _launch(self, questions: Sequence[Question]) -> None:
        prepared = [self._prepare(question) for question in questions]
        before = [_fingerprint(each.checkpoint) for each in prepared]
        folders = [each.folder for each in prepared]
        self.run(questions[0].backend, HERE / "drive_runner.py", *folders, scratch=prepared[0].scratch)
        for question, each, fingerprint in zip(questions, prepared, before, strict=True):
            report = json.loads((each.folder / "report.json").read_text())
            changed = _fingerprint(each.checkpoint) != fingerprint
            raised = report.get("raised")
            outputs = [] if raised else _read_outputs(each.folder)
            self._told[question] = Told(report, outputs, changed, each.scratch / CACHE, raised)

    def _prepare(self, question: Question) -> _Prepared:
        prepared = _Prepared(self._new_folder(), self._new_folder(), self.checkpoint(question.source))
        if question.cache_of:
            shutil.copytree(self.ask(question.cache_of).cache, prepared.scratch / CACHE)
        job = _job(question, self.backends[question.backend].runner, prepared)
        (prepared.folder / "job.json").write_text(json.dumps(dataclasses.asdict(job)))
        shutil.copyfile(self._inputs_of(question, prepared.checkpoint), prepared.folder / "inputs.npz")
        return prepared

    def attention_mask(self, question: Question) -> npt.NDArray[np.int64]:
        """Of (slots, batch, tokens): 0 at padding."""
        with np.load(self._inputs_of(question, self.checkpoint(question.source))) as inputs:
            mask: npt.NDArray[np.int64] = inputs["attention_mask"]
        return mask

    def _inputs_of(self, question: Question, checkpoint: Path) -> Path:
        if question.padding is None:
            return self._inputs(checkpoint)
        identity = Checkpoint(question.source, checkpoint, f"{checkpoint}", read_config(checkpoint), None)
        made = make_inputs(_cell(question, question.padding), identity, self.folder / "inputs")
        inputs = read_inputs(made.folder)
        if question.ignores_mask:
            inputs["attention_mask"] = np.ones_like(inputs["attention_mask"])
        path = self._new_folder() / "inputs.npz"
        np.savez(path, **inputs)
        return path

    def _inputs(self, checkpoint: Path) -> Path:
        """Every launch of a checkpoint gets the same."""
        config = json.loads((checkpoint / "config.json").read_text())
        path = self._new_folder() / "inputs.npz"
        np.savez(path, **(_images(config) if "num_channels" in config else _tokens(config)))
        return path

    def _new_folder(self) -> Path:
        return Path(tempfile.mkdtemp(dir=self.folder))


def _job(question: Question, runner: str, prepared: _Prepared) -> Job:
    cache = prepared.scratch / CACHE
    cache.mkdir(exist_ok=True)
    return Job(
        runner=runner,
        backend=question.backend,
        task=question.task,
        operation=question.operation,
        checkpoint=str(prepared.checkpoint),
        inputs="",
        folder=str(prepared.folder),
        scratch=str(prepared.scratch),
        cache=str(cache),
        dtype=question.dtype,
        device=question.device,
        threads=question.threads,
        batch_size=BATCH,
        sequence_length=SEQUENCE,
        compile_cache=question.compile_cache,
        new_tokens=question.new_tokens,
        do_sample=question.do_sample,
        num_beams=question.num_beams,
        eos_token_ids=list(question.eos_token_ids),
        options=dict(question.options),
    )


def _cell(question: Question, padding: Padding) -> Cell:
    return Cell(
        model=question.source,
        checkpoint=question.source,
        task=question.task,
        operation=question.operation,
        new_tokens=question.new_tokens,
        do_sample=question.do_sample,
        num_beams=question.num_beams,
        batch_size=BATCH,
        sequence_length=SEQUENCE,
        padding=padding,
        threads=question.threads,
        inputs=InputSpec(slots=SLOTS),
        backend=question.backend,
    )


def _tokens(config: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    """Random ones; the last row of each slot ends in padding."""
    shape = (SLOTS, BATCH, SEQUENCE)
    mask = np.ones(shape, np.int64)
    mask[:, -1, -PADDING:] = 0
    inputs = {
        "input_ids": np.random.default_rng(7).integers(0, config["vocab_size"], shape),
        "attention_mask": mask,
    }
    return {**inputs, "token_type_ids": np.zeros(shape, np.int64)} if config["model_type"] == "bert" else inputs


def _images(config: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
    size = config.get("image_size", 64)  # ResNet takes any
    pixels = np.random.default_rng(7).uniform(-1, 1, (SLOTS, BATCH, config["num_channels"], size, size))
    return {"pixel_values": pixels.astype(np.float32)}


def largest_difference(some: Outputs, others: Outputs) -> float:
    """Over all slots and outputs, which must have the same names and shapes."""
    assert [_shapes(slot) for slot in some] == [_shapes(slot) for slot in others]
    pairs = zip(some, others, strict=True)
    return max(float(np.abs(slot[name] - other[name]).max()) for slot, other in pairs for name in slot)


def third_token(outputs: Outputs) -> int:
    """Of the first row: where it ends texts, that row ends early at least."""
    return int(outputs[0]["tokens"][0, 2])


def ended(outputs: Outputs, end: int) -> list[Any]:
    """The tokens of all slots, where `end` ends texts: up to it, and it again until a row is full."""
    tokens = np.stack([slot["tokens"] for slot in outputs])
    return np.where(np.maximum.accumulate(tokens == end, axis=-1), end, tokens).tolist()


def _shapes(slot: Mapping[str, npt.NDArray[Any]]) -> dict[str, Sequence[int]]:
    return {name: array.shape for name, array in slot.items()}


def _read_outputs(folder: Path) -> Outputs:
    return [dict(np.load(folder / f"slot-{slot}.npz")) for slot in range(SLOTS)]


def _fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(f): (f.stat().st_mtime_ns, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files}


def _silent(_: str) -> None:
    """Nobody watches."""
