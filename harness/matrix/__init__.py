"""Matrix files: YAML in the style of GitHub Actions matrices -> cells -> groups.

`source` reads the file into nodes that know file, line and key; `schema` says what may stand where and turns nodes into
typed settings; `combinations` applies the rules of axes, include and exclude; `expansion` makes cells of them, asks the
backends what they support, and groups what is to be compared. Every error is a HarnessError that names file, line and key.
"""

from harness.matrix.expansion import Identity, expand

__all__ = ["Identity", "expand"]
