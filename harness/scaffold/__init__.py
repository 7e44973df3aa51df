"""Writes the package of a new backend. `template/` is one that works as it stands; a new one is it under another name."""

from harness.scaffold.writing import new_package, package_files

__all__ = ["new_package", "package_files"]
