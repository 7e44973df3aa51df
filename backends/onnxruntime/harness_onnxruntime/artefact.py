"""The exported model as a launch leaves it for others: a folder `model` and beside it `artefact.json`, which describes it.

A model is one file; but for an encoder-decoder that is to generate it is three.

The description is written last, so a model without one is not whole. It holds what the export process said of the model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DESCRIPTION = "artefact.json"

MODEL = "model.onnx"
ENCODER_DECODER = ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx")
"""As optimum names them. The second is for a decoder's first token, the third for each further one."""


@dataclass(frozen=True)
class Artefact:
    """The model that one cache folder holds, or is to hold."""

    cache: Path

    @property
    def folder(self) -> Path:
        """Of the model's files and those that belong to them."""
        return self.cache / "model"

    def state(self) -> str:
        """Of a launch that begins now: `warm` where the model is whole, `cold` where nothing is there, else `stale`."""
        if (self.cache / DESCRIPTION).is_file():
            return "warm"
        return "stale" if any(self.cache.iterdir()) else "cold"

    def describe(self, described: Mapping[str, Any]) -> None:
        """Keep what the export process said: the model is whole now."""
        (self.cache / DESCRIPTION).write_text(json.dumps(described))

    def described(self) -> Mapping[str, Any]:
        """What the export process said."""
        described: Mapping[str, Any] = json.loads((self.cache / DESCRIPTION).read_text())
        return described
