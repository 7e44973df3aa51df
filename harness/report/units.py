"""Numbers as people read them: a unit chosen for each value, as many digits as mean something."""

from __future__ import annotations

import math

_BYTES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
_SECONDS = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9))


def duration(seconds: float, digits: int = 3) -> str:
    """As `1.23s`, `412ms`, `38.0µs`: in the unit that puts the number above 1."""
    rounded = float(f"{seconds:.{digits - 1}e}")  # first: 0.9996 s is 1.00 s, not 1000 ms
    unit, size = next((pair for pair in _SECONDS if rounded >= pair[1]), _SECONDS[-1])
    return significant(seconds / size, digits).replace(",", "") + unit


def rate(per_second: float) -> str:
    """As `19.61`, `1,961`, `1.961M`."""
    if float(f"{per_second:.3e}") >= 1e6:
        return significant(per_second / 1e6, 4) + "M"
    return significant(per_second, 4)


def size(count_bytes: int) -> str:
    """As `512B`, `5.63MiB`: in the unit that puts the number above 1."""
    unit, each = next((pair for pair in _BYTES if count_bytes >= pair[1]), _BYTES[-1])
    return significant(count_bytes / each, 3) + unit


def ratio(value: float) -> str:
    """As `1.84×`, `123×`, `0.05×`; below a hundredth `4e-3×`."""
    if value < 0.01:
        return f"{exponent(value, 1)}×"
    return f"{significant(value, 3) if value >= 10 else f'{value:.2f}'}×"


def interval(low: float, high: float) -> str:
    """Both ends of a ratio's, as `0.996 to 1.004`: a digit more than the ratio, since 1.00 may be either side of 1."""
    return f"{_end(low)} to {_end(high)}"


def _end(value: float) -> str:
    if value < 0.01:
        return exponent(value)
    return f"{value:.3f}" if value < 10 else significant(value, 4)


def difference(value: float) -> str:
    """As `1.1e-5`, `0.52`; zero is `0`, and what is no number is called what it is."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    return significant(value, 2) if 0.01 <= value < 1e4 else exponent(value)


def exponent(value: float, digits: int = 2) -> str:
    """As `1.1e-5`."""
    mantissa, _, power = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(power)}"


def count(number: int) -> str:
    """As `12,345`; from a million on `1.2e6`."""
    return f"{number:,}" if number < 10**6 else exponent(number)


def significant(value: float, digits: int) -> str:
    """In plain notation, never cut before the point: `1.23`, `123`, `12,345` for three digits."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{digits - 1}e}")
    decimals = max(digits - 1 - math.floor(math.log10(abs(rounded))), 0)
    return f"{value:,.{decimals}f}"
