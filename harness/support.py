"""Why a cell cannot run, as far as what a backend declares and a model's config.json tell: before anything is started.

A backend's own reasons are its `supports`; what is written here no plugin has to write again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from harness.model import Backend, Cell
from harness.spelling import listed
from harness.tasks import (
    APPLICATION_TASKS,
    AUDIO_FRAMES_HZ,
    ENCODER_DECODER_TASKS,
    GENERATION,
    GENERATION_TASKS,
    TASKS,
    TOKEN_MAKERS,
    Kind,
    task_for,
)

ModelConfig = Mapping[str, Any]
"""A config.json; {} where it is not known yet, which is no reason against anything."""

READERS = {
    Kind.TEXT: ("a tokenizer", "tokenizer.json"),
    Kind.IMAGE: ("an image processor", "preprocessor_config.json"),
    Kind.AUDIO: ("a feature extractor", "preprocessor_config.json"),
}
"""What reads raw inputs of a kind, and the file of a checkpoint that tells of it."""

SPELLER = ("a vocabulary", "vocab.json")
"""What makes text of what was heard, likewise."""


def refusal(cell: Cell, backend: Backend, model_config: ModelConfig) -> str | None:
    """Why the cell cannot run, by what the backend declares and what the model is; None where nothing speaks against it."""
    return next(_backend_reasons(cell, backend, model_config), None) or model_refusal(cell, model_config)


def model_refusal(cell: Cell, model_config: ModelConfig) -> str | None:
    """Why the cell cannot be run with the model, whatever the backend."""
    return next(_cell_reasons(cell), None) or (next(_model_reasons(cell, model_config), None) if model_config else None)


def checkpoint_refusal(
    cell: Cell,
    model_config: ModelConfig,
    files: Collection[str],
    generation_config: Mapping[str, Any] = MappingProxyType({}),
) -> str | None:
    """Why the cell cannot be run with a checkpoint of these files: asked before anything is started, once they lie on this disk.

    `generation_config`: its generation_config.json, {} where it has none.
    """
    return next(_checkpoint_reasons(cell, model_config, files, generation_config), None)


def eos_token_ids(model_config: ModelConfig, generation_config: Mapping[str, Any]) -> tuple[int, ...]:
    """The tokens that end a text of a checkpoint: those that its generation_config.json names, else those of its config.json."""
    named = next((each for each in (generation_config, model_config) if each.get("eos_token_id") is not None), {})
    found = named.get("eos_token_id", [])
    return tuple(found) if isinstance(found, list) else (int(found),)


# --- what the backend declares --------------------------------------------------------------------------------------


def _backend_reasons(cell: Cell, backend: Backend, model_config: ModelConfig) -> Iterator[str]:
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
    model_type = model_config.get("model_type")
    if backend.model_types and model_config and model_type not in backend.model_types:
        yield f"model type {model_type}: {backend.name} runs {listed(backend.model_types)}"
    if model_config.get("is_encoder_decoder") and not backend.runs_encoder_decoders:
        yield f"model type {model_type}: {backend.name} runs no encoder-decoders"


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
        yield f"operation {cell.operation}: task {cell.task} generates nothing here; it is for {listed(GENERATION_TASKS)}"
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
        if cell.stop_at_eos:
            yield f"stop_at_eos true: operation {cell.operation} looks for no end-of-text; generate does"
    elif cell.do_sample and cell.num_beams > 1:
        yield f"num_beams {cell.num_beams} with do_sample: drawn beams can be held to no reference; ask for one of the two"
    elif cell.do_sample and cell.stop_at_eos:
        yield "stop_at_eos with do_sample: outputs are those of a greedy call, which do not tell how many tokens were drawn"


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
    speech = _OF_SPEECH & model_config.keys()  # it has a vocabulary too, of what it writes
    return "vocab_size" in model_config and not speech


def takes_waveforms(model_config: ModelConfig) -> bool:
    """Whether it is a model of audio as it was recorded, as Wav2Vec2 is."""
    return "conv_dim" in model_config


def takes_spectrograms(model_config: ModelConfig) -> bool:
    """Whether it is a model of log-mel spectrograms, as they are made for Whisper."""
    return model_config.get("model_type") == "whisper"


_OF_SPEECH = {"conv_dim", "num_mel_bins", "input_feat_per_channel"}
"""Keys of configs of models that listen."""


def input_kind(model_config: ModelConfig) -> Kind | None:
    """What a model takes; None where it is nothing that inputs are made of."""
    if takes_images(model_config):
        return Kind.IMAGE
    if takes_waveforms(model_config) or takes_spectrograms(model_config):
        return Kind.AUDIO
    return Kind.TEXT if takes_text(model_config) else None


def image_size(model_config: ModelConfig) -> tuple[int, int] | None:
    """Height and width in pixels of the images that a model takes; None where its config names no size."""
    size = model_config.get("image_size")
    if size is None:
        return None
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def audio_frames(model_config: ModelConfig) -> int | None:
    """Columns of the spectrograms that a model takes; None where it takes none. Its encoder makes one position of two."""
    return 2 * int(model_config.get("max_source_positions", 1500)) if takes_spectrograms(model_config) else None


def real_tokens(padding: float, sequence_length: int) -> int:
    """Of a row of which the part `padding` is padding."""
    return sequence_length - round(padding * sequence_length)


def _model_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    yield from _task_reasons(cell, model_config)
    if cell.checkpoint.startswith("random:"):  # all that it has is in the config
        yield from _checkpoint_reasons(cell, model_config, files=(), generation_config={})
    yield from _REASONS[input_kind(model_config) or Kind.TEXT](cell, model_config)


def _checkpoint_reasons(
    cell: Cell, model_config: ModelConfig, files: Collection[str], generation_config: Mapping[str, Any]
) -> Iterator[str]:
    yield from _reader_reasons(cell, model_config, files)
    if cell.stop_at_eos and not eos_token_ids(model_config, generation_config):
        yield f"stop_at_eos true: neither config.json nor generation_config.json of {cell.model} names an eos_token_id"


def _reader_reasons(cell: Cell, model_config: ModelConfig, files: Collection[str]) -> Iterator[str]:
    """About what reads raw inputs. Seeded checkpoints have none: it belongs to how weights were trained."""
    if cell.operation != "application":
        return
    readers = [READERS[input_kind(model_config) or Kind.TEXT]]
    if TASKS[cell.task].inputs is Kind.AUDIO:
        readers.append(SPELLER)
    for needed, file in readers:
        if file not in files:
            yield f"application latency needs {needed}: {cell.model} has none (there is no {file})"


def _task_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    kind, is_encoder_decoder = model_config.get("model_type"), bool(model_config.get("is_encoder_decoder"))
    task, taken = task_for(cell.task, is_encoder_decoder=is_encoder_decoder), input_kind(model_config)
    if taken is None:
        yield f"a model of type {kind} takes neither text, images nor audio of a kind that is made here"
    if not _fits(task.inputs, taken):
        yield f"task {cell.task} is for {task.inputs}: a model of type {kind} takes {taken}"
    if is_encoder_decoder and cell.task not in ENCODER_DECODER_TASKS:
        yield f"task {cell.task}: model type {kind} is an encoder-decoder, run for {listed(ENCODER_DECODER_TASKS)}"
    if task.has_decoder_inputs and not is_encoder_decoder:
        yield f"task {cell.task}: model type {kind} is no encoder-decoder"
    classes = model_config.get("architectures") or []
    if task.heads and classes and not any(head in name for head in task.heads for name in classes):
        yield f"task {cell.task}: the checkpoint is of {listed(classes)}, which has no head for it"
    if cell.operation == "application" and task.has_decoder_inputs:
        yield f"operation application: a model of type {kind} writes a token at a time, and one forward pass is no text"


def _fits(wanted: Kind, taken: Kind | None) -> bool:
    """Whether a task's inputs are what the model takes."""
    return wanted is Kind.ANY or taken is (Kind.TEXT if wanted is Kind.PAIR else wanted)


def _shape_reasons(cell: Cell, model_config: ModelConfig, fitting: str | None = None) -> Iterator[str]:
    """About axes of other kinds of inputs than the model takes; `fitting` is the one of its own."""
    for name in ("image_size", "audio_seconds"):
        if name != fitting and (asked := getattr(cell, name)) is not None:
            taken = input_kind(model_config) or Kind.TEXT
            yield f"{name} {asked}: a model of type {model_config.get('model_type')} takes {taken}"


def _image_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    yield from _shape_reasons(cell, model_config, "image_size")
    if cell.padding != "none":
        yield f"padding {cell.padding}: images have none"
    fixed = image_size(model_config)
    if cell.image_size is not None and fixed not in (None, (cell.image_size, cell.image_size)):
        yield f"image_size {cell.image_size}: the model takes images of {fixed[0]} x {fixed[1]} pixels"


def _audio_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    yield from _shape_reasons(cell, model_config, "audio_seconds")
    if cell.padding != "none":
        yield f"padding {cell.padding}: audio has none, all rows are equally long"
    if (frames := audio_frames(model_config)) is not None:
        yield from _spectrogram_reasons(cell, frames / AUDIO_FRAMES_HZ)
    if TASKS[cell.task].inputs is Kind.AUDIO:
        yield from _transcript_reasons(cell, model_config.get("max_target_positions"))


def _spectrogram_reasons(cell: Cell, taken_s: float) -> Iterator[str]:
    """About a model that takes audio of one length."""
    if taken_s % 1:
        yield f"the model takes {taken_s:g} s of audio, and audio is counted in whole seconds here"
    if cell.audio_seconds not in (None, taken_s):
        yield f"audio_seconds {cell.audio_seconds}: the model takes {taken_s:g} s of audio"


def _transcript_reasons(cell: Cell, longest: int | None) -> Iterator[str]:
    """About what a decoder is given."""
    if longest is not None and cell.sequence_length > longest:
        yield f"sequence_length {cell.sequence_length}: the decoder has positions for {longest} tokens"


MOST_NEW_TOKENS = 1 << 16
"""Where a model's positions set no limit, as T5's. A cache of more fits into no memory, or making them takes hours: a launch would
end so, after that long."""


def _text_reasons(cell: Cell, model_config: ModelConfig) -> Iterator[str]:
    yield from _shape_reasons(cell, model_config)
    if (cell.new_tokens or 0) > MOST_NEW_TOKENS:
        yield f"new_tokens {cell.new_tokens}: {MOST_NEW_TOKENS} at most are made here, whatever the model has positions for"
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


_REASONS = {Kind.IMAGE: _image_reasons, Kind.AUDIO: _audio_reasons, Kind.TEXT: _text_reasons}
"""By what the model takes."""


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
