"""Results on disk. `ResultStore` is all that others need; docs/reference/results.md describes the files."""

from harness.store.local import ResultStore

__all__ = ["ResultStore"]
