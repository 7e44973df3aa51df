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
from answers import Answers, described

from harness.checkpoints import Checkpoint, identify, materialise
from harness.checkpoints.files import read_config
from harness.executors.base import LaunchSpec
from harness.executors.venv import VenvExecutor
from harness.inputs import make_inputs
from harness.model import Backend, Cell, InputSpec, Padding
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
    threads: int = 1  # beside other tests, two of a launch wait for each other more than they work
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
    planted: tuple[tuple[str, str], ...] = ()  # texts by file, put into the copy of that cache


@dataclass(frozen=True)
class Told:
    """What came of it."""

    report: Mapping[str, Any]
    outputs: Outputs
    checkpoint_changed: bool
    cached: tuple[Path, ...]  # files that the launch has left in its cache
    left_elsewhere: tuple[Path, ...]  # and outside of it, in its scratch folder
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
    answers: Answers
    _told: dict[Question, Told] = field(default_factory=dict)
    _caches: dict[Question, Path] = field(default_factory=dict)

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
        settings = [(question.task, question.threads) for question in questions]
        return self._said("eager", HERE / "plain_transformers.py", (), questions, settings)

    def plain_generations(self, questions: Sequence[Question], new_tokens: int, num_beams: int) -> list[Outputs]:
        """The same of what they generate."""
        return self.over_inputs(HERE / "plain_generation.py", questions, new_tokens, num_beams)

    def over_inputs(
        self, script: Path, questions: Sequence[Question], *settings: object, backend: str = "eager"
    ) -> list[Outputs]:
        """The outputs that `SCRIPT SETTINGS... {CHECKPOINT INPUTS.npz FOLDER}...` writes, in one process of a backend's stack."""
        return self._said(backend, script, settings, questions, [()] * len(questions))

    def told_by(self, backend: str, script: Path, *arguments: object) -> Any:
        """What `SCRIPT OUT.json ARGUMENT...` writes in the stack of a backend."""
        asked = [*self._code_of(backend, script), [described(argument, {}) for argument in arguments]]
        folder = self.answers.of(asked, lambda folder: self.run(backend, script, folder / "told.json", *arguments))
        return json.loads((folder / "told.json").read_text())

    def run(self, backend: str, script: Path, *arguments: object, scratch: Path | None = None) -> None:
        """Run a script in the stack of a backend, in the environment that a worker would have."""
        out, offered = self._new_folder(), self.backends[backend]
        self.executor.provide(offered, _silent)
        launch = LaunchSpec(f"test-{out.name}", offered, folder=out, scratch=scratch or out)
        argv = self.executor.command(launch, [str(script), *map(str, arguments)])
        environment = self.executor.environment(launch)
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        assert done.returncode == 0, f"{script.name} {arguments}: exit code {done.returncode}\n{done.stderr[-4000:]}"

    def _said(
        self,
        backend: str,
        script: Path,
        settings: Sequence[object],
        questions: Sequence[Question],
        settings_of_each: Sequence[Sequence[object]],
    ) -> list[Outputs]:
        """The outputs that `SCRIPT SETTINGS... {CHECKPOINT INPUTS.npz FOLDER SETTINGS_OF_EACH...}...` writes."""
        folders = [self._new_folder() for _ in questions]
        arguments = list(settings)
        for question, folder, more in zip(questions, folders, settings_of_each, strict=True):
            checkpoint = self.checkpoint(question.source)
            arguments += [checkpoint, self._inputs_of(question, checkpoint), folder, *more]

        def ask(answer: Path) -> None:
            self.run(backend, script, *arguments)
            for number, folder in enumerate(folders):
                folder.rename(answer / str(number))

        written = dict.fromkeys(folders, "outputs")
        meant = [described(argument, written) for argument in arguments]
        answer = self.answers.of([*self._code_of(backend, script), meant], ask)
        return [_read_outputs(answer / str(number)) for number in range(len(questions))]

    def _code_of(self, backend: str, script: Path) -> list[Any]:
        """A script, and what it runs on: packages, and where it imports any, our code in the backend's stack."""
        provided, text = self.executor.provide(self.backends[backend], _silent), script.read_text()
        return [text, provided.stack_hash if "harness" in text else provided.facts["base"]]

    def _launch(self, questions: Sequence[Question]) -> None:
        prepared = [self._prepare(question) for question in questions]

        def ask(answer: Path) -> None:
            self._launch_now(questions, prepared)
            for number, (question, each) in enumerate(zip(questions, prepared, strict=True)):
                self._caches[question] = each.scratch / CACHE
                shutil.copytree(each.folder, answer / str(number), ignore=shutil.ignore_patterns("inputs.npz"))

        meant = [self._meant(*each) for each in zip(questions, prepared, strict=True)]
        answer = self.answers.of([*self._code_of(questions[0].backend, HERE / "drive_runner.py"), meant], ask)
        for number, question in enumerate(questions):
            self._told[question] = _read_told(answer / str(number))

    def _launch_now(self, questions: Sequence[Question], prepared: Sequence[_Prepared]) -> None:
        """Leaves in the folder of each what `_read_told` reads there."""
        before = [_fingerprint(each.checkpoint) for each in prepared]
        for question, each in zip(questions, prepared, strict=True):
            self._lay_cache(question, each.scratch / CACHE)
        folders = [each.folder for each in prepared]
        self.run(questions[0].backend, HERE / "drive_runner.py", *folders, scratch=prepared[0].scratch)
        for each, fingerprint in zip(prepared, before, strict=True):
            seen = {"changed": _fingerprint(each.checkpoint) != fingerprint, "left": _files(each.scratch)}
            (each.folder / "seen.json").write_text(json.dumps(seen))

    def _lay_cache(self, question: Question, place: Path) -> None:
        if question.cache_of:
            shutil.copytree(self._cache_left_by(question.cache_of), place)
        place.mkdir(exist_ok=True)
        for name, text in question.planted:
            (place / name).write_text(text)

    def _cache_left_by(self, question: Question) -> Path:
        """Of an answer that was kept there is none: the launch is made again."""
        if question not in self._caches:
            prepared = self._prepare(question)
            self._launch_now([question], [prepared])
            self._caches[question] = prepared.scratch / CACHE
        return self._caches[question]

    def _prepare(self, question: Question) -> _Prepared:
        prepared = _Prepared(self._new_folder(), self._new_folder(), self.checkpoint(question.source))
        job = _job(question, self.backends[question.backend].runner, prepared)
        (prepared.folder / "job.json").write_text(json.dumps(dataclasses.asdict(job)))
        shutil.copyfile(self._inputs_of(question, prepared.checkpoint), prepared.folder / "inputs.npz")
        return prepared

    def _meant(self, question: Question, prepared: _Prepared) -> list[Any]:
        """All that decides an answer but code, packages and machine."""
        job = json.loads((prepared.folder / "job.json").read_text())
        for place in ("checkpoint", "folder", "scratch", "cache"):
            del job[place]
        copied = self._meant_by_cache_of(question)
        return [
            job,
            described(prepared.checkpoint, {}),
            described(prepared.folder / "inputs.npz", {}),
            copied,
            question.planted,
        ]

    def _meant_by_cache_of(self, question: Question) -> list[Any] | None:
        return self._meant(question.cache_of, self._prepare(question.cache_of)) if question.cache_of else None

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
    return Job(
        runner=runner,
        backend=question.backend,
        task=question.task,
        operation=question.operation,
        checkpoint=str(prepared.checkpoint),
        inputs="",
        folder=str(prepared.folder),
        scratch=str(prepared.scratch),
        cache=str(prepared.scratch / CACHE),
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


def _read_told(folder: Path) -> Told:
    report, seen = (json.loads((folder / f"{name}.json").read_text()) for name in ("report", "seen"))
    left, raised = [Path(name) for name in seen["left"]], report.get("raised")
    cached, elsewhere = (tuple(f for f in left if (f.parts[0] == CACHE) is inside) for inside in (True, False))
    return Told(report, [] if raised else _read_outputs(folder), seen["changed"], cached, elsewhere, raised)


def _files(folder: Path) -> list[str]:
    """Names, from the folder on."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _fingerprint(folder: Path) -> dict[str, tuple[int, str]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(f): (f.stat().st_mtime_ns, hashlib.sha256(f.read_bytes()).hexdigest()) for f in files}


def _silent(_: str) -> None:
    """Nobody watches."""
