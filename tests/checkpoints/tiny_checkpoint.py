"""The smallest checkpoint that is one: real files of a few bytes."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CONFIG = {"model_type": "bert", "hidden_size": 8, "vocab_size": 64, "max_position_embeddings": 16}


def weights(value: int = 0) -> bytes:
    """A safetensors file of one tensor of four bytes, each of `value`."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}}).encode()
    return len(header).to_bytes(8, "little") + header + bytes([value] * 4)


def files(config: Mapping[str, Any] = CONFIG, value: int = 0) -> dict[str, bytes]:
    return {"config.json": json.dumps(config).encode(), "model.safetensors": weights(value)}


def write(folder: Path, content: Mapping[str, bytes] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in (files() if content is None else content).items():
        (folder / name).write_bytes(data)
    return folder


def wheel(
    folder: Path, members: Mapping[str, bytes], *, name: str = "tiny_model", metadata: str = "License: MIT\n"
) -> Path:
    """A wheel that pip accepts, with these members, version 1.0."""
    inside = f"{name}-1.0.dist-info"
    described = {
        f"{inside}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{metadata}".encode(),
        f"{inside}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{inside}/RECORD": b"",
    }
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for member, data in {**members, **described}.items():
            archive.writestr(member, data)
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}-1.0-py3-none-any.whl"
    file.write_bytes(packed.getvalue())
    return file


def make_nothing(spec: Path, folder: Path) -> None:
    """A maker for checkpoints whose weights are there."""
    raise AssertionError(f"no weights were to be made ({spec}, {folder})")
