"""Why a cell cannot run, as far as what a backend declares and a model's config.json tell: before anything is started.

A backend's own reasons are its `supports`; what is written here no plugin has to write again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from harness.model import Backend, Cell
from harness.spelling import listed
from harness.tasks import ENCODER_DECODER_TASKS, TASKS, Kind

ModelConfig = Mapping[str, Any]
"""A config.json; {} where it is not known yet, which is no reason against anything."""


def refusal(cell: Cell, backend: Backend, model_config: ModelConfig) -> str | None:
    """Why the cell cannot run, by what the backend declares and what the model is; None where nothing speaks against it."""
    return next(_backend_reasons(cell, backend), None) or model_refusal(cell, model_config)


def model_refusal(cell: Cell, model_config: ModelConfig) -> str | None:
    """Why the cell cannot be run with the model, whatever the backend."""
    return next(_padding_reasons(cell), None) or (
        next(_model_reasons(cell, model_config), None) if model_config else None
    )


# --- what the backend declares --------------------------------------------------------------------------------------


def _backend_reasons(cell: Cell, backend: Backend) -> Iterator[str]:
    if cell.task not in backend.tasks:
        yield f"task {cell.task}: {backend.name} runs {listed(backend.tasks)}"
    if cell.operation not in backend.operations:
        yield f"operation {cell.operation}: {backend.name} runs {listed(backend.operations)}"
    if cell.device not in backend.dtypes:
        yield f"device {cell.device}: {backend.name} runs on {listed(backend.dtypes)}"
    elif cell.dtype not in backend.dtypes[cell.device]:
        yield f"dtype {cell.dtype}: on {cell.device} {backend.name} runs {listed(backend.dtypes[cell.device])}"
    if cell.compile_cache == "warm" and not backend.has_compile_cache:
        yield f"compile_cache warm: {backend.name} keeps no compile cache and no artefact"


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


def _padding_reasons(cell: Cell) -> Iterator[str]:
    length = cell.sequence_length
    if cell.padding == "sampled" and length < 2:
        yield f"padding sampled: a row of {length} token has no room for padding"
    if isinstance(cell.padding, float) and not 0 < real_tokens(cell.padding, length) < length:
        yield f"padding {cell.padding:g}: a row of {length} tokens cannot be divided so; ask for more tokens"


def _model_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    yield from _task_reasons(cell, model_config)
    yield from _image_reasons(cell, model_config) if takes_images(model_config) else _text_reasons(cell, model_config)


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
