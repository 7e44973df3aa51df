"""`python docs/hooks.py`: writes docs/reference/hooks.md from harness/hookspecs.py. A test compares the two."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from harness import hookspecs

PAGE = Path(__file__).parent / "reference" / "hooks.md"

HEAD = """\
# Hooks

Made from `harness/hookspecs.py` by `python docs/hooks.py`: change the text there. They are used in
[how to add a backend](../how-to/add-a-backend.md); [versions.md](versions.md) says what of them may change, and how.

"""

_GROUP = re.compile(r"^# --- (.+?) -+$", re.MULTILINE)


def render() -> str:
    """The page."""
    source = Path(hookspecs.__file__).read_text(encoding="utf-8")
    module = ast.parse(source)
    intro = ast.get_docstring(module) or ""
    groups = [(source.count("\n", 0, found.start()), found[1]) for found in _GROUP.finditer(source)]
    parts = [intro]
    for number, (line, title) in enumerate(groups):
        end = groups[number + 1][0] if number + 1 < len(groups) else source.count("\n") + 1
        hooks = [node for node in module.body if isinstance(node, ast.FunctionDef) and line < node.lineno <= end]
        parts += [f"## {title[0].upper()}{title[1:]}", *map(section, hooks)]
    return HEAD + "\n\n".join(parts) + "\n"


def section(hook: ast.FunctionDef) -> str:
    """One hook: its signature as a plugin would write it, and all that is said of it."""
    returns = ast.unparse(hook.returns) if hook.returns else "None"
    signature = f"@hookimpl\ndef {hook.name}({ast.unparse(hook.args)}) -> {returns}: ..."
    return f"### {hook.name}\n\n```python\n{signature}\n```\n\n{ast.get_docstring(hook)}"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
