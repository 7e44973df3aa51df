"""Why a cell cannot run, as far as what a backend declares and a model's config.json tell: before anything is started.

A backend's own reasons are its `supports`; what is written here no plugin has to write again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from harness.model import Backend, Cell
from harness.spelling import listed
from harness.tasks import (
    APPLICATION_TASKS,
    ENCODER_DECODER_TASKS,
    GENERATION,
    GENERATION_TASKS,
    TASKS,
    TOKEN_MAKERS,
    Kind,
)

ModelConfig = Mapping[str, Any]
"""A config.json; {} where it is not known yet, which is no reason against anything."""

READERS = {"text": ("a tokenizer", "tokenizer.json"), "images": ("an image processor", "preprocessor_config.json")}
"""What reads raw inputs of a kind, and the file of a checkpoint that tells of it."""


def refusal(cell: Cell, backend: Backend, model_config: ModelConfig) -> str | None:
    """Why the cell cannot run, by what the backend declares and what the model is; None where nothing speaks against it."""
    return next(_backend_reasons(cell, backend), None) or model_refusal(cell, model_config)


def model_refusal(cell: Cell, model_config: ModelConfig) -> str | None:
    """Why the cell cannot be run with the model, whatever the backend."""
    return next(_cell_reasons(cell), None) or (next(_model_reasons(cell, model_config), None) if model_config else None)


def checkpoint_refusal(cell: Cell, model_config: ModelConfig, files: Collection[str]) -> str | None:
    """Why the cell cannot be run with a checkpoint of these files: asked before anything is started, once they lie on this disk."""
    return next(_reader_reasons(cell, model_config, files), None)


# --- what the backend declares --------------------------------------------------------------------------------------


def _backend_reasons(cell: Cell, backend: Backend) -> Iterator[str]:
    if cell.operation not in backend.operations:
        yield f"operation {cell.operation}: {backend.name} runs {listed(backend.operations)}"
    if cell.task not in backend.tasks:
        yield f"task {cell.task}: {backend.name} runs {listed(backend.tasks)}"
    if cell.device not in backend.dtypes:
        yield f"device {cell.device}: {backend.name} runs on {listed(backend.dtypes)}"
    elif cell.dtype not in backend.dtypes[cell.device]:
        yield f"dtype {cell.dtype}: on {cell.device} {backend.name} runs {listed(backend.dtypes[cell.device])}"
    if cell.compile_cache == "warm" and not backend.has_compile_cache:
        yield f"compile_cache warm: {backend.name} keeps no compile cache and no artefact"


# --- what the cell is -----------------------------------------------------------------------------------------------


def _cell_reasons(cell: Cell) -> Iterator[str]:
    yield from _padding_reasons(cell)
    yield from _generation_reasons(cell)
    yield from _application_reasons(cell)


def _padding_reasons(cell: Cell) -> Iterator[str]:
    length = cell.sequence_length
    if cell.padding == "sampled" and length < 2:
        yield f"padding sampled: a row of {length} token has no room for padding"
    if isinstance(cell.padding, float) and not 0 < real_tokens(cell.padding, length) < length:
        yield f"padding {cell.padding:g}: a row of {length} tokens cannot be divided so; ask for more tokens"


def _generation_reasons(cell: Cell) -> Iterator[str]:
    if cell.operation in GENERATION and cell.task not in GENERATION_TASKS:
        yield f"operation {cell.operation}: task {cell.task} generates nothing; it is for {listed(GENERATION_TASKS)}"
    if cell.operation in TOKEN_MAKERS and cell.new_tokens is None:
        yield f"operation {cell.operation}: new_tokens is null; say how many to make"
    if cell.operation == "decode" and cell.new_tokens == 1:
        yield "new_tokens 1: decode is timed from the second token on; ask for 2 or more, or for prefill"
    yield from _search_reasons(cell)


def _search_reasons(cell: Cell) -> Iterator[str]:
    """About how generate chooses."""
    if cell.operation != "generate":
        if cell.num_beams > 1:
            yield f"num_beams {cell.num_beams}: operation {cell.operation} searches no beams; generate does"
        if cell.do_sample:
            yield f"do_sample true: operation {cell.operation} draws no tokens; generate does"
    elif cell.do_sample and cell.num_beams > 1:
        yield f"num_beams {cell.num_beams} with do_sample: drawn beams can be held to no reference; ask for one of the two"


def _application_reasons(cell: Cell) -> Iterator[str]:
    if cell.operation != "application":
        return
    if cell.task not in APPLICATION_TASKS:
        yield f"operation application: task {cell.task} takes more than a forward pass; it is for {listed(APPLICATION_TASKS)}"
    if cell.image_size is not None:
        yield f"image_size {cell.image_size}: of an application the checkpoint's image processor decides it"


# --- what the model is ----------------------------------------------------------------------------------------------


def takes_images(model_config: ModelConfig) -> bool:
    """Whether it is a model of images."""
    return "num_channels" in model_config


def takes_text(model_config: ModelConfig) -> bool:
    """Whether it is a model of text."""
    speech = {"conv_dim", "num_mel_bins"} & model_config.keys()  # it has a vocabulary too, of what it writes
    return "vocab_size" in model_config and not speech


def image_size(model_config: ModelConfig) -> tuple[int, int] | None:
    """Height and width in pixels of the images that a model takes; None where its config names no size."""
    size = model_config.get("image_size")
    if size is None:
        return None
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def real_tokens(padding: float, sequence_length: int) -> int:
    """Of a row of which the part `padding` is padding."""
    return sequence_length - round(padding * sequence_length)


def _model_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    yield from _task_reasons(cell, model_config)
    if cell.checkpoint.startswith("random:"):
        yield from _reader_reasons(cell, model_config, files=())
    yield from _image_reasons(cell, model_config) if takes_images(model_config) else _text_reasons(cell, model_config)


def _reader_reasons(cell: Cell, model_config: ModelConfig, files: Collection[str]) -> Iterator[str]:
    """About what reads raw inputs. Seeded checkpoints have none: it belongs to how weights were trained."""
    reader, file = READERS["images" if takes_images(model_config) else "text"]
    if cell.operation == "application" and file not in files:
        yield f"application latency needs {reader}: {cell.model} has none (there is no {file})"


def _task_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    kind, task = model_config.get("model_type"), TASKS[cell.task]
    if not takes_images(model_config) and not takes_text(model_config):
        yield f"a model of type {kind} takes neither text nor images, and no other inputs are made"
    taken = Kind.IMAGE if takes_images(model_config) else Kind.TEXT
    if task.inputs is not Kind.ANY and (task.inputs is Kind.IMAGE) != (taken is Kind.IMAGE):
        yield f"task {cell.task} is for {task.inputs}: a model of type {kind} takes {taken}"
    if model_config.get("is_encoder_decoder") and cell.task not in ENCODER_DECODER_TASKS:
        yield f"task {cell.task}: model type {kind} is an encoder-decoder, run for {listed(ENCODER_DECODER_TASKS)}"
    if task.has_decoder_inputs and not model_config.get("is_encoder_decoder"):
        yield f"task {cell.task}: model type {kind} is no encoder-decoder"
    classes = model_config.get("architectures") or []
    if task.heads and classes and not any(head in name for head in task.heads for name in classes):
        yield f"task {cell.task}: the checkpoint is of {listed(classes)}, which has no head for it"


def _image_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    if cell.padding != "none":
        yield f"padding {cell.padding}: images have none"
    fixed = image_size(model_config)
    if cell.image_size is not None and fixed not in (None, (cell.image_size, cell.image_size)):
        yield f"image_size {cell.image_size}: the model takes images of {fixed[0]} x {fixed[1]} pixels"


def _text_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    if cell.image_size is not None:
        yield f"image_size {cell.image_size}: a model of type {model_config.get('model_type')} takes text"
    longest = longest_sequence(model_config)
    if longest is not None and cell.sequence_length > longest:
        yield f"sequence_length {cell.sequence_length}: the model has positions for {longest} tokens"
    elif longest is not None and cell.new_tokens is not None:
        yield from _new_tokens_reasons(cell, longest, bool(model_config.get("is_encoder_decoder")))


def _new_tokens_reasons(cell: Cell, longest: int, is_encoder_decoder: bool) -> Iterator[str]:
    """A decoder continues the prompt; that of an encoder-decoder begins anew."""
    new_tokens = cell.new_tokens or 0
    before = 0 if is_encoder_decoder else cell.sequence_length
    if before + new_tokens > longest:
        asked = f"new_tokens {new_tokens}" + (f" after sequence_length {before}" if before else "")
        yield f"{asked}: the model has positions for {longest} tokens"


_POSITIONS = ("max_position_embeddings", "n_positions")
_POSITIONS_AFTER_PADDING = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet")
"""Model types that count positions from the one after the padding token's: their tables have that many rows more."""

_RELATIVE_POSITIONS = ("t5", "mt5", "umt5", "longt5", "switch_transformers")
"""Model types whose configs name a number of positions that limits nothing."""


def longest_sequence(model_config: ModelConfig) -> int | None:
    """Tokens that a model has positions for. None: unknown, or no limit."""
    if model_config.get("model_type") in _RELATIVE_POSITIONS:
        return None
    rows: int | None = next(
        (model_config[name] for name in _POSITIONS if isinstance(model_config.get(name), int)), None
    )
    if rows is None or model_config.get("model_type") not in _POSITIONS_AFTER_PADDING:
        return rows
    padding = model_config.get("pad_token_id")
    return rows - (1 if padding is None else padding) - 1
