"""A result file of another tool, read but not understood yet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from harness.model import HarnessError, Origin

Shape = TypeVar("Shape", bound=BaseModel)


@dataclass(frozen=True)
class ForeignFile:
    """A file of another tool: its place, digest and content."""

    path: Path
    sha256: str
    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path) -> ForeignFile:
        """Raises HarnessError where it is not there, or no JSON object."""
        try:
            data = path.read_bytes()
            content = json.loads(data)
        except OSError as error:
            raise HarnessError(f"{path} cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise HarnessError(f"{path} is no JSON ({error}); give a result file of another tool") from None
        if not isinstance(content, dict):
            raise HarnessError(f"{path} holds no JSON object; give a result file of another tool")
        return cls(path, hashlib.sha256(data).hexdigest(), content)

    def origin(self, tool: str, version: str | None, form: str, entry: str) -> Origin:
        """Of one of its results."""
        return Origin(tool=tool, version=version, form=form, file=self.path.name, file_sha256=self.sha256, entry=entry)

    def checked(self, shape: type[Shape], value: Any, entry: str) -> Shape:
        """A part of it in the shape that the form has. Raises HarnessError naming the first field that has not."""
        try:
            return shape.model_validate(value)
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise HarnessError(f"{self.path}, entry {entry!r}, {field}: {first['msg']}; nothing was imported") from None
