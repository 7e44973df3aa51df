"""Rows of text as token ids: encoded with the checkpoint's own tokenizer, or drawn where it has none, and padded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from harness.checkpoints import Checkpoint
from harness.checkpoints.files import read_json
from harness.inputs import words
from harness.model import Cell, HarnessError
from harness.tasks import GENERATION, TASKS, Kind

Ids = npt.NDArray[np.int64]

_LENGTHENINGS = 8  # of a text, a word for each token wanted at a time; most tokenizers need one
_QUESTION_WORDS = 12  # at most, and of a quarter of the row's tokens
_SIDES = ("right", "left")


@dataclass(frozen=True)
class Row:
    """One row without padding."""

    ids: Ids
    segments: Ids  # 0 of the first text, 1 of the second

    @classmethod
    def of(cls, ids: Sequence[int]) -> Row:
        """Of one text alone."""
        return cls(np.array(ids, np.int64), np.zeros(len(ids), np.int64))


class _Rows(Protocol):
    """Where rows come from."""

    def row(self, random: np.random.RandomState, length: int) -> Row:
        """A row of so many tokens. Raises HarnessError."""


class Layout:
    """How rows become a call's inputs: padded to one width, with a mask, and with segments where the model takes them."""

    def __init__(self, checkpoint: Checkpoint, width: int, *, is_prompt: bool = False) -> None:
        """`width`: tokens of a row, padding included. `is_prompt`: rows are to be continued.

        Raises HarnessError for a tokenizer that pads on no side known.
        """
        self._config = checkpoint.config
        self._width = width
        self._is_prompt = is_prompt
        # The next token must follow a real one; a decoder of its own begins anew, whatever its encoder was given.
        is_continued = is_prompt and not checkpoint.config.get("is_encoder_decoder")
        self._side = "left" if is_continued else _padding_side(checkpoint.folder)

    def inputs(self, rows: Sequence[Row]) -> dict[str, Ids]:
        """Of one call, each of shape (rows, width)."""
        inputs = {
            "input_ids": self._padded([row.ids for row in rows], _padding_id(self._config)),
            "attention_mask": self._padded([np.ones_like(row.ids) for row in rows], 0),
        }
        # RoBERTa has the table too, of one row, and no tokenizer gives the input for it.
        if self._config.get("type_vocab_size", 0) > 1 and not self._is_prompt:
            inputs["token_type_ids"] = self._padded([row.segments for row in rows], 0)
        return inputs

    def _padded(self, rows: Sequence[Ids], value: int) -> Ids:
        return np.stack([np.pad(row, self._gap(len(row)), constant_values=value) for row in rows])

    def _gap(self, length: int) -> tuple[int, int]:
        """Padding before and after a row of so many tokens."""
        missing = self._width - length
        return (missing, 0) if self._side == "left" else (0, missing)


class TextMaker:
    """Makes the slots of one workload."""

    def __init__(self, cell: Cell, checkpoint: Checkpoint, shortest: int) -> None:
        """`shortest`: tokens of the shortest row. Raises HarnessError where there can be no such rows."""
        is_prompt = cell.operation in GENERATION
        self._layout = Layout(checkpoint, cell.sequence_length, is_prompt=is_prompt)
        self._rows = _rows_of(checkpoint, cell.task, shortest)
        is_continued = TASKS[cell.task].has_decoder_inputs and not is_prompt
        self._decoder = DecoderRows(self._rows, checkpoint.config, cell.sequence_length) if is_continued else None

    def slot(self, random: np.random.RandomState, lengths: Sequence[int]) -> dict[str, Ids]:
        """One slot, whose rows have so many tokens. Raises HarnessError."""
        inputs = self._layout.inputs([self._rows.row(random, int(length)) for length in lengths])
        if self._decoder is not None:
            inputs["decoder_input_ids"] = self._decoder.draw(random, len(lengths))
        return inputs


class DecoderRows:
    """What stands before the tokens of texts when a decoder is to say them: never padded, as decoders look back only."""

    def __init__(self, rows: _Rows, config: Mapping[str, Any], width: int) -> None:
        """`width`: tokens of a row. Raises HarnessError where the config does not tell how a decoder begins."""
        self._rows = rows
        self._start = _start_id(config)
        self._width = width

    @classmethod
    def of(cls, cell: Cell, checkpoint: Checkpoint) -> DecoderRows:
        """Those of a cell whose encoder is given no text. Raises HarnessError."""
        rows = _rows_of(checkpoint, cell.task, cell.sequence_length)
        return cls(rows, checkpoint.config, cell.sequence_length)

    def draw(self, random: np.random.RandomState, count: int) -> Ids:
        """So many rows: (count, width)."""
        return np.stack([self._row(random) for _ in range(count)])

    def _row(self, random: np.random.RandomState) -> Ids:
        spoken = self._rows.row(random, self._width).ids
        return np.concatenate([[self._start], spoken[:-1]]).astype(np.int64)


def _rows_of(checkpoint: Checkpoint, task: str, shortest: int) -> _Rows:
    """By the checkpoint's tokenizer, where it has one. `shortest`: tokens of the shortest row. Raises HarnessError."""
    has_tokenizer = (checkpoint.folder / "tokenizer.json").exists()
    return EncodedRows(checkpoint, task, shortest) if has_tokenizer else _DrawnRows(checkpoint.config)


# --- what the checkpoint says ---------------------------------------------------------------------------------------


def _padding_id(config: Mapping[str, Any]) -> int:
    """The config's; of a model that has none, the end's, as people who must pad it take. The attention mask hides it."""
    return next(_token_ids(config, "pad_token_id", "eos_token_id"), 0)


def _start_id(config: Mapping[str, Any]) -> int:
    """What a decoder begins with. Raises HarnessError."""
    found = next(_token_ids(config, "decoder_start_token_id", "bos_token_id", "pad_token_id"), None)
    if found is None:
        raise HarnessError(
            "the model's config.json names no decoder_start_token_id: nothing tells how its decoder begins"
        )
    return found


def _token_ids(config: Mapping[str, Any], *names: str) -> Iterator[int]:
    for value in map(config.get, names):
        yield from [value] if isinstance(value, int) else value or ()


def _padding_side(folder: Path) -> str:
    """The tokenizer's own, else right: Transformers' default."""
    side = _tokenizer_settings(folder).get("padding_side", _SIDES[0])
    if side not in _SIDES:
        raise HarnessError(f"{folder / 'tokenizer_config.json'}: padding_side is {side!r}, it must be right or left")
    return str(side)


def _tokenizer_settings(folder: Path) -> dict[str, Any]:
    """What stands beside the tokenizer; later files have the last word, as in Transformers."""
    files = (folder / name for name in ("special_tokens_map.json", "tokenizer_config.json"))
    return {name: value for file in files if file.is_file() for name, value in read_json(file).items()}


# --- rows without a tokenizer ---------------------------------------------------------------------------------------


class _DrawnRows:
    """Any token ids but the special ones that the config names; the second half of a row is a second segment."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._ordinary = np.setdiff1d(np.arange(config["vocab_size"]), list(_special_ids(config)))
        if not len(self._ordinary):
            raise HarnessError(
                f"the model's {config['vocab_size']} tokens are all special ones: no input can be drawn from them"
            )

    def row(self, random: np.random.RandomState, length: int) -> Row:
        ids = self._ordinary[random.randint(0, len(self._ordinary), length)]
        return Row(ids.astype(np.int64), np.repeat([0, 1], [length // 2, length - length // 2]))


def _special_ids(config: Mapping[str, Any]) -> Iterator[int]:
    return _token_ids(config, *(name for name in config if name.endswith("_token_id")))


# --- rows of a tokenizer --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Filled:
    """A row, and what it was encoded of."""

    question: str | None  # None: there is one text alone
    text: str  # longer than what is left of it in the row
    encoding: Any  # of `tokenizers`


class EncodedRows:
    """Encoded English, cut off so that it fills its row: one text, or a question and a text that may answer it."""

    def __init__(self, checkpoint: Checkpoint, task: str, shortest: int) -> None:
        self._is_pair = TASKS[task].inputs is Kind.PAIR
        self._tokenizer = read_tokenizer(checkpoint.folder / "tokenizer.json")
        self.mask_id = _mask_id(self._tokenizer, checkpoint.folder) if task == "fill-mask" else None
        self._vocabulary: int = checkpoint.config["vocab_size"]
        specials = self._tokenizer.num_special_tokens_to_add(is_pair=self._is_pair)
        if shortest <= specials + self._is_pair:
            raise HarnessError(
                f"the shortest row has {shortest} tokens, and no room for text beside the {specials} special ones; "
                "ask for a longer sequence_length"
            )

    def row(self, random: np.random.RandomState, length: int) -> Row:
        encoding = self.filled(random, length).encoding
        ids = np.array(encoding.ids, np.int64)
        if self.mask_id is not None:
            ids[random.choice(np.flatnonzero(np.array(encoding.special_tokens_mask) == 0))] = self.mask_id
        return Row(ids, np.array(encoding.type_ids, np.int64))

    def filled(self, random: np.random.RandomState, length: int) -> Filled:
        """A row of so many tokens, of a text that is long enough to be cut off. Raises HarnessError."""
        question = words.question(random, self._question_words(length)) if self._is_pair else None
        text = ""
        for _ in range(_LENGTHENINGS):
            text += words.sentences(random, words=length)
            encoding = self._encoded(question, text, length)
            if len(encoding.ids) == length:
                self._check_known(encoding.ids)
                return Filled(question, text, encoding)
        raise HarnessError(
            f"the tokenizer makes {len(encoding.ids)} tokens of {len(text.split())} English words: it is not of use here"
        )

    def encode(self, question: str | None, text: str) -> Any:
        """All of it, however long."""
        self._tokenizer.no_truncation()
        return self._tokenizer.encode(text) if question is None else self._tokenizer.encode(question, text)

    def _check_known(self, ids: Sequence[int]) -> None:
        if max(ids) >= self._vocabulary:
            raise HarnessError(
                f"the tokenizer gives token {max(ids)}, the model has {self._vocabulary}: they are not of one checkpoint"
            )

    def token(self, token_id: int) -> str:
        """How a token is written."""
        written: str | None = self._tokenizer.id_to_token(token_id)
        assert written is not None, f"token {token_id} came from this tokenizer"
        return written

    @staticmethod
    def _question_words(length: int) -> int:
        return max(min(_QUESTION_WORDS, length // 4), 1)

    def _encoded(self, question: str | None, text: str, length: int) -> Any:
        """Cut off at the end of the text."""
        try:
            if question is None:
                self._tokenizer.enable_truncation(max_length=length, direction="right")
                return self._tokenizer.encode(text)
            self._tokenizer.enable_truncation(max_length=length, direction="right", strategy="only_second")
            return self._tokenizer.encode(question, text)
        except Exception as error:  # the library raises nothing narrower
            raise HarnessError(
                f"the checkpoint's tokenizer cannot encode English in {length} tokens ({error}): it is not of use here"
            ) from error


def read_tokenizer(file: Path) -> Tokenizer:
    """It pads nothing, whatever its file says."""
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # the library raises nothing narrower
        raise HarnessError(f"{file} cannot be read as a tokenizer ({error}); fetch the checkpoint again") from error
    tokenizer.no_padding()
    return tokenizer


def _mask_id(tokenizer: Tokenizer, folder: Path) -> int:
    """The token that stands for one to be filled in. Raises HarnessError."""
    named = _tokenizer_settings(folder).get("mask_token")
    word = named["content"] if isinstance(named, Mapping) else named
    found: int | None = None if word is None else tokenizer.token_to_id(word)
    if found is None:
        raise HarnessError(
            f"task fill-mask: the tokenizer in {folder} has no mask token; name it in tokenizer_config.json, or take another task"
        )
    return found
