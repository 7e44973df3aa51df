"""Energy of the processor packages, as the kernel counts it (RAPL, in /sys/class/powercap; AMD's too).

Packages only: their cores and graphics are parts of them, `psys` contains them, and memory has a domain of its own on servers
and none elsewhere, so that a sum with it would not compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

POWERCAP = Path("/sys/class/powercap")


class NoPackagesError(Exception):
    """The text says why no package's energy can be read."""


class Packages:
    """The packages' counters, summed since this object was made. `read` often enough: a counter wraps after a minute at the
    least (2^32 µJ at 60 W), and whether it did so once or twice does not show."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        """Raises NoPackagesError."""
        self._counters = [_Counter(folder) for folder in _package_folders(powercap)]
        self.names: Sequence[str] = [counter.name for counter in self._counters]

    def read(self) -> float:
        """Joules of all packages since the beginning. Raises OSError or ValueError where a counter cannot be read any more."""
        return sum(counter.advance() for counter in self._counters) / 1e6


class _Counter:
    """One package's counter, unwrapped."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "energy_uj"
        try:
            self.name = (folder / "name").read_text().strip()
            self._range_uj = int((folder / "max_energy_range_uj").read_text())
            self._last_uj = self._now_uj()
        except (OSError, ValueError) as error:
            raise NoPackagesError(f"{folder}: {getattr(error, 'strerror', None) or error}") from None
        self._sum_uj = 0

    def advance(self) -> int:
        """Microjoules since the beginning."""
        now_uj = self._now_uj()
        self._sum_uj += now_uj - self._last_uj + (self._range_uj if now_uj < self._last_uj else 0)
        self._last_uj = now_uj
        return self._sum_uj

    def _now_uj(self) -> int:
        return int(self._file.read_text())


def _package_folders(powercap: Path) -> list[Path]:
    """Those named "package-N". A laptop lists its package a second time, as `intel-rapl-mmio:0`: not that."""
    found = [folder for folder in sorted(powercap.glob("intel-rapl:*")) if _is_package(folder)]
    if not found:
        raise NoPackagesError(f"{powercap} lists no processor package, as in most virtual machines")
    return found


def _is_package(folder: Path) -> bool:
    try:
        return (folder / "name").read_text().startswith("package")
    except OSError:
        return False
