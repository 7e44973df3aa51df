"""torchax, imported under a PyTorch that is newer than it.

torchax 0.0.13 registers what it has for an operator under each of the operator's overloads, and names 22 of tensors with named
dimensions, which PyTorch 2.13 has no more. While torchax is imported such a name stands for itself: a key that nothing looks up.
"""

from __future__ import annotations

import re
from typing import Any

from torch._ops import OpOverloadPacket

OF_NAMED_DIMENSIONS = re.compile(r"dimname|names", re.IGNORECASE)
"""In the names of all such overloads, as `dim_Dimname`, `names_out`."""

FIND = OpOverloadPacket.__getattr__


def find_or_name(packet: OpOverloadPacket, name: str) -> Any:
    """An overload; one of named dimensions that PyTorch lacks is its own name."""
    try:
        return FIND(packet, name)
    except AttributeError:
        if not OF_NAMED_DIMENSIONS.search(name):
            raise
        return f"{packet}.{name}"


OpOverloadPacket.__getattr__ = find_or_name
try:
    import torchax.decompositions
    from torchax.ops import jaten, jtorch, jtorchvision_nms  # noqa: F401 - what torchax otherwise imports at its first use
finally:
    OpOverloadPacket.__getattr__ = FIND

__all__ = ["torchax"]
