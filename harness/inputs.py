"""Seeded inputs for a workload, made once on the host and read by every backend.

One `<name>.npy` per input, of shape (slots, batch, ...). Every slot has equal shape and other content, so that a cached result
cannot win. Text is drawn from the words below and encoded with the checkpoint's own tokenizer, special tokens in their
places; without a tokenizer token ids are drawn. Rows fill `sequence_length` exactly: there is no padding. Images are drawn, at
the size that the config names. An encoder-decoder gets what its encoder takes.

Random numbers come from NumPy's `RandomState`, whose stream is frozen (NEP 19), so a seed gives the same bytes everywhere.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from harness import cache
from harness.checkpoints import Checkpoint
from harness.model import Cell, HarnessError, digest, longest_sequence
from harness.worker.arrays import inputs_sha256

GENERATOR = 1
"""The `InputSpec.generator` that this module is. Raised when the same seed would give other bytes. History: 1, the first."""

Slot = Mapping[str, npt.NDArray[Any]]
"""One slot's inputs by name, each of shape (batch, ...)."""

_Ids = npt.NDArray[np.int64]
_IMAGE_SIDE = 224  # pixels, of models whose config names no size, as ResNet's
_ATTEMPTS = 100  # at an input that no slot before it had
_LENGTHENINGS = 8  # of a text, a word for each token wanted at a time; most tokenizers need one


@dataclass(frozen=True)
class Inputs:
    """The inputs of a workload, on disk."""

    folder: Path
    sha256: str  # as the worker computes it of what it has loaded
    names: tuple[str, ...]


def make_inputs(
    cell: Cell, checkpoint: Checkpoint, root: Path | None = None, progress: cache.Progress = lambda _: None
) -> Inputs:
    """The inputs of a cell's workload, found in `root` (the cache's room unless given) or made now.

    Raises HarnessError where the model has no such inputs: see `refusal`, and ask it first.
    """
    address = digest([cell.inputs.model_dump(), checkpoint.sha256, cell.task, cell.batch_size, cell.sequence_length])
    name = f"{cell.batch_size}x{cell.sequence_length}-{address[:32]}"

    def fill(folder: Path) -> Mapping[str, Any]:
        arrays = _stacked(_slots(cell, checkpoint))
        for input_name, array in arrays.items():
            np.save(folder / f"{input_name}.npy", array, allow_pickle=False)
        return {"sha256": inputs_sha256(arrays), "names": sorted(arrays)}

    entry = cache.keep((root or cache.room("inputs")) / name, fill, progress)
    return Inputs(entry.folder, entry.facts["sha256"], tuple(entry.facts["names"]))


def refusal(model_config: Mapping[str, Any], sequence_length: int) -> str | None:
    """Why a model has no inputs of this length, judged from its config.json; None where it has, or nothing is known ({})."""
    if not model_config or _takes_images(model_config):
        return None
    if not _takes_text(model_config):
        return f"a model of type {model_config.get('model_type')} takes neither text nor images, and no other inputs are made"
    longest = longest_sequence(model_config)
    if longest is not None and sequence_length > longest:
        return f"sequence_length {sequence_length} is more than the {longest} positions that the model has"
    return None


def _takes_images(model_config: Mapping[str, Any]) -> bool:
    return "num_channels" in model_config


def _takes_text(model_config: Mapping[str, Any]) -> bool:
    speech = {"conv_dim", "num_mel_bins"} & model_config.keys()  # it has a vocabulary too, of what it writes
    return "vocab_size" in model_config and not speech


# --- slots ----------------------------------------------------------------------------------------------------------


def _slots(cell: Cell, checkpoint: Checkpoint) -> list[Slot]:
    reason = refusal(checkpoint.config, cell.sequence_length)
    if reason:
        raise HarnessError(f"{cell.model}: {reason}")
    if cell.inputs.generator != GENERATOR:
        raise HarnessError(
            f"inputs of generator {cell.inputs.generator} were asked for, this harness is generator {GENERATOR}: plan anew"
        )
    draw = _drawer(cell, checkpoint)
    slots: dict[bytes, Slot] = {}
    for index in range(cell.inputs.slots):
        slot = _another(draw, f"{cell.inputs.seed}/{index}", slots)
        slots[_content(slot)] = slot
    return list(slots.values())


def _another(draw: Callable[[np.random.RandomState], Slot], seed: str, slots: Mapping[bytes, Slot]) -> Slot:
    for attempt in range(_ATTEMPTS):
        slot = draw(_random(f"{seed}/{attempt}"))
        if _content(slot) not in slots:
            return slot
    raise HarnessError(
        f"no more than {len(slots)} different inputs of this shape were found: ask for more tokens or rows"
    )


def _random(seed: str) -> np.random.RandomState:
    return np.random.RandomState(np.frombuffer(hashlib.sha256(seed.encode()).digest(), dtype="<u4"))


def _content(slot: Slot) -> bytes:
    return b"".join(slot[name].tobytes() for name in sorted(slot))


def _stacked(slots: Sequence[Slot]) -> dict[str, npt.NDArray[Any]]:
    return {name: np.stack([slot[name] for slot in slots]) for name in slots[0]}


def _drawer(cell: Cell, checkpoint: Checkpoint) -> Callable[[np.random.RandomState], Slot]:
    """What draws one slot of the model's kind of inputs."""
    config = checkpoint.config
    shape = (cell.batch_size, cell.sequence_length)
    if _takes_images(config):
        return lambda random: _pixels(random, (cell.batch_size, config["num_channels"], *_image_size(config)))
    if (checkpoint.folder / "tokenizer.json").exists():
        tokenizer = _tokenizer(checkpoint.folder / "tokenizer.json", cell.sequence_length)
        return lambda random: _encoded(random, shape, tokenizer, config)
    return lambda random: _drawn(random, shape, config)


def _pixels(random: np.random.RandomState, shape: tuple[int, ...]) -> Slot:
    """Evenly between -1 and 1, where normalised images lie."""
    return {"pixel_values": (random.random_sample(shape) * 2 - 1).astype(np.float32)}


def _image_size(config: Mapping[str, Any]) -> tuple[int, int]:
    size = config.get("image_size", _IMAGE_SIDE)
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def _drawn(random: np.random.RandomState, shape: tuple[int, int], config: Mapping[str, Any]) -> Slot:
    """Any token ids but the special ones that the config names; the second half of a row is a second segment."""
    ordinary = np.setdiff1d(np.arange(config["vocab_size"]), _special_ids(config))
    if not len(ordinary):
        raise HarnessError(
            f"the model's {config['vocab_size']} tokens are all special ones: no input can be drawn from them"
        )
    ids = ordinary[random.randint(0, len(ordinary), shape)].astype(np.int64)
    segments = np.zeros(shape, np.int64)
    segments[:, shape[1] // 2 :] = 1
    return _text_inputs(ids, segments, config)


def _special_ids(config: Mapping[str, Any]) -> list[int]:
    named = [value for name, value in config.items() if name.endswith("_token_id")]
    flat = [item for value in named for item in (value if isinstance(value, list) else [value])]
    return [item for item in flat if isinstance(item, int)]


def _text_inputs(ids: _Ids, segments: _Ids, config: Mapping[str, Any]) -> Slot:
    inputs = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    # RoBERTa has the table too, of one row, and no tokenizer gives the input for it.
    return {**inputs, "token_type_ids": segments} if config.get("type_vocab_size", 0) > 1 else inputs


# --- text -----------------------------------------------------------------------------------------------------------


def _tokenizer(file: Path, length: int) -> Tokenizer:
    """The checkpoint's tokenizer, cutting off at `length` and not padding, whatever its file says."""
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise HarnessError(f"{file} cannot be read as a tokenizer ({error}); fetch the checkpoint again") from error
    specials = tokenizer.num_special_tokens_to_add(is_pair=False)
    if length <= specials:
        raise HarnessError(
            f"sequence_length {length} has no room for text beside the {specials} special tokens; ask for more"
        )
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=length, direction="right")
    return tokenizer


def _encoded(
    random: np.random.RandomState, shape: tuple[int, int], tokenizer: Tokenizer, config: Mapping[str, Any]
) -> Slot:
    rows = [_row(random, tokenizer, shape[1]) for _ in range(shape[0])]
    ids = np.array([row.ids for row in rows], np.int64)
    if ids.max() >= config["vocab_size"]:
        raise HarnessError(
            f"the tokenizer gives token {ids.max()}, the model has {config['vocab_size']}: they are not of one checkpoint"
        )
    return _text_inputs(ids, np.array([row.type_ids for row in rows], np.int64), config)


def _row(random: np.random.RandomState, tokenizer: Tokenizer, length: int) -> Any:
    """The encoding of a text that is long enough to be cut off."""
    text = ""
    for _ in range(_LENGTHENINGS):
        text += _sentences(random, words=length)
        encoding = _encode(tokenizer, text)
        if len(encoding.ids) == length:
            return encoding
    words = len(text.split())
    raise HarnessError(
        f"the tokenizer makes {len(encoding.ids)} tokens of {words} English words: it is not of use here"
    )


def _encode(tokenizer: Tokenizer, text: str) -> Any:
    try:
        return tokenizer.encode(text)
    except Exception as error:  # the library raises nothing narrower
        raise HarnessError(
            f"the checkpoint's tokenizer cannot encode English ({error}): it is not of use here"
        ) from error


def _sentences(random: np.random.RandomState, words: int) -> str:
    """Sentences of 3 to 20 words, each followed by a space, of `words` words or a few more."""
    sentences: list[str] = []
    drawn = 0
    while drawn < words:
        count = int(random.randint(3, 21))
        sentences.append(_sentence(random, count))
        drawn += count
    return "".join(sentences)


def _sentence(random: np.random.RandomState, count: int) -> str:
    chosen = [_WORDS[index] for index in random.randint(0, len(_WORDS), count)]
    if count > 8:
        chosen[count // 2] += ","
    return " ".join(chosen).capitalize() + ".?!"[random.randint(0, 3)] + " "


_VOCABULARY = """
a about above across after again against all almost alone along already also although always among an and animal another
answer any apple are area arm around arrive as ask at autumn away baby back bad bag ball bank be beach beautiful became
because bed been before began behind believe bell below beside best better between big bird black blue board boat body
book both bottom box boy branch bread break bridge bright bring brother brought brown build burn busy but buy by call
came can captain car card care careful carry castle cat catch cause centre certain chair chance change check child
children choose circle city clean clear climb clock close cloud coast coffee cold colour come common complete cook cool
copper corner could count country course cover cross crowd cry cup cut dance dark daughter day dear decide deep did
different dinner direction do doctor does dog done door double doubt down dream dress drink drive dry during each early
earth east easy eat edge egg eight either else empty end engine enjoy enough evening ever every example eye face fact
fall family famous far farm farmer fast father feel few field fight figure fill find fine finger finish fire first fish
five floor flower fly follow food foot for forest forget form forward found four free fresh friend from front fruit full
game garden gate gave general gentle get girl give glad glass go gold gone good grass great green grey ground group grow
guess had hair half hall hand happen happy hard has hat have he head hear heart heavy help her here high hill him his
history hold hole home hope horse hot hour house how hundred hungry hurry ice idea if important in inside instead into
iron is island it its journey jump just keep kept key kind king kitchen knew know lake land language large last late
laugh lead leaf learn leave left leg less let letter library life light like line listen little live long look lost loud
love low lunch machine made make man many map mark market matter may me mean measure meet middle might mile milk mind
minute miss money month moon more morning most mother mountain mouth move much museum music must my name narrow near
need never new next night nine no noise north nose not nothing now number ocean of off office often old on once one only
open or orange other our out outside over own page paint paper part party pass past pay peace pencil people perhaps
person picture piece place plain plan plant play please point poor possible power present pretty problem pull push put
quarter question quick quiet quite rain ran reach read ready real reason red remember rest result rich ride right ring
rise river road rock roof room round rule run sad safe said sail salt same sand saw say school sea season seat second
secret see seem send sentence serve set seven several shade shall shape she ship shoe shop short should show side silence
silver simple since sing sister sit six skin sky sleep slow small smell smile snow so soft some son song soon sound
south space speak spring square stand star start station stay still stone stop store storm story straight strange
stream street strong study such sudden sugar summer sun supper sure surprise sweet swim table take talk tall teach
teacher tell ten than that the their them then there these they thing think third this those though thought thousand
three through throw time tired to today together told tomorrow too took top touch toward tower town train travel tree
trip trouble true try turn twelve twenty two uncle under until up upon us use usual valley very village visit voice
wait walk wall want war warm was wash watch water wave way we weather week weight well went were west wet what wheel
when where which while white who whole why wide wild will wind window wine winter wire wish with without woman wonder
wood word work world would write wrong yard year yellow yes yesterday yet you young your
"""
_WORDS = tuple(_VOCABULARY.split())
