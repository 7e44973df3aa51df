"""Which files of a folder or a wheel are the checkpoint, and whether they are whole.

Only these are ever handed to a backend. Weights come as safetensors alone: every stack reads it, and reading it runs no code,
unlike a pickled `pytorch_model.bin`. Code that lies beside a checkpoint (`trust_remote_code`) is left where it is.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from harness.model import HarnessError

CONFIG = "config.json"
GENERATION_CONFIG = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # names the files of weights that come in several

_COMPANIONS = frozenset(
    {
        "added_tokens.json",
        "chat_template.jinja",
        GENERATION_CONFIG,
        "merges.txt",
        "preprocessor_config.json",
        "processor_config.json",
        "sentencepiece.bpe.model",
        "special_tokens_map.json",
        "spiece.model",
        "tokenizer.json",
        "tokenizer.model",
        "tokenizer_config.json",
        "vocab.json",
        "vocab.txt",
    }
)
_LARGEST_HEADER_BYTES = 100_000_000  # the format's own limit

_ADVICE = "name one that save_pretrained() of Transformers wrote"

Read = Callable[[str], bytes]
"""The bytes of one file, by name."""


def require_checkpoint(names: Collection[str], where: str) -> None:
    """Raises HarnessError, naming `where`, unless a config and weights as safetensors are among the names."""
    if CONFIG not in names:
        raise HarnessError(f"{where} is no checkpoint: it has no {CONFIG}; {_ADVICE}")
    if WEIGHTS in names or INDEX in names:
        return
    if "pytorch_model.bin" in names:
        raise HarnessError(
            f"{where} has its weights in pytorch_model.bin, which not every backend reads and which runs code when read: "
            f"save the model as {WEIGHTS}, with save_pretrained() of Transformers, and name that folder"
        )
    raise HarnessError(f"{where} is no checkpoint: it has no {WEIGHTS}; {_ADVICE}")


def select(names: Collection[str], read: Read, where: str) -> list[str]:
    """The names that make the checkpoint, sorted. Raises HarnessError, naming `where`, if there is none."""
    require_checkpoint(names, where)
    weights = [WEIGHTS] if WEIGHTS in names else [INDEX, *_parts(read(INDEX), where)]
    missing = sorted(set(weights) - set(names))
    if missing:
        raise HarnessError(
            f"{where} is no whole checkpoint: {INDEX} names {missing[0]}, which is not there; fetch it again"
        )
    return sorted({CONFIG, *weights, *(_COMPANIONS & set(names))})


def read_config(folder: Path) -> dict[str, Any]:
    """A folder's config.json. Raises HarnessError where it is none."""
    return parse_config((folder / CONFIG).read_bytes(), str(folder / CONFIG))


def read_generation_config(folder: Path) -> dict[str, Any]:
    """A folder's generation_config.json; {} where it has none. Raises HarnessError where it is no object of JSON."""
    path = folder / GENERATION_CONFIG
    return read_json(path) if path.is_file() else {}


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises HarnessError where there is none, saying which line."""
    return _parse_json(path.read_bytes(), str(path))


def parse_config(text: bytes, where: str) -> dict[str, Any]:
    """A config.json that came from `where`. Raises HarnessError where it is none."""
    config = _parse_json(text, where)
    if "model_type" not in config:
        raise HarnessError(f'{where} names no model_type: add the one of the model\'s family, as "bert"')
    return config


def check(folder: Path) -> None:
    """Raises HarnessError unless the folder holds a checkpoint whose weights have the length that they claim."""
    names = {path.name for path in folder.iterdir() if path.is_file()}
    for name in select(names, lambda name: (folder / name).read_bytes(), str(folder)):
        if name.endswith(".safetensors"):
            _check_length(folder / name)


def _parse_json(text: bytes, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise HarnessError(f"{where} is not JSON: {error.msg} in line {error.lineno}; fetch it again") from None
    except UnicodeDecodeError:
        raise HarnessError(f"{where} is not JSON: it is not UTF-8; fetch it again") from None
    if not isinstance(value, dict):
        raise HarnessError(f"{where} holds no JSON object but {type(value).__name__}; fetch it again")
    return value


def _parts(index: bytes, where: str) -> list[str]:
    """The files that an index names: plain names of safetensors only, so that none leads out of the folder."""
    try:
        parts = sorted(set(json.loads(index)["weight_map"].values()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HarnessError(f"{where}: {INDEX} has no weight_map of tensors to files; fetch it again") from None
    for part in parts:
        if not isinstance(part, str) or "/" in part or "\\" in part or not part.endswith(".safetensors"):
            raise HarnessError(f"{where}: {INDEX} names {part!r}, which is no safetensors file of the same folder")
    return parts


def _check_length(path: Path) -> None:
    try:
        expected = _claimed_bytes(path)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise HarnessError(f"{path} is no safetensors file (a pointer to one, perhaps): fetch it again") from None
    size = path.stat().st_size
    if size != expected:
        raise HarnessError(f"{path} has {size} bytes, its header says {expected}: fetch it again")


def _claimed_bytes(path: Path) -> int:
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
        if header_bytes > _LARGEST_HEADER_BYTES:
            raise ValueError(header_bytes)
        header = json.loads(file.read(header_bytes))
    ends = [tensor["data_offsets"][1] for name, tensor in header.items() if name != "__metadata__"]
    return 8 + header_bytes + int(max(ends, default=0))
