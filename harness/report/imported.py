"""Results of other tools, apart from ours and ranked with nothing: what each tool says, and what it lacks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from harness.model import ImportedResult, Origin
from harness.report import units
from harness.report.layout import paragraph, plain, to_string
from harness.spelling import counted

UNKNOWN = "?"


def render_imported(results: Sequence[ImportedResult], width: int = 80, colour: bool = False) -> str:
    """By tool and file, under a heading that says what they are; nothing where there are none."""
    if not results:
        return ""
    files = groupby(results, key=lambda each: (each.origin.tool, each.origin.file, each.origin.file_sha256))
    lines = [line for _, group in files for line in _file(list(group), width)]
    return to_string([*paragraph(_HEADING, width, style="bold"), Text(), *lines], width, colour)


_HEADING = "Measured by other tools, in other ways: not ranked, and not to be compared with the results above."


def _file(results: Sequence[ImportedResult], width: int) -> Iterator[Text]:
    yield from paragraph(_source(results[0].origin), width, style="bold")
    for result in results:
        yield from paragraph(plain(_what(result)), width, "  ")
        yield from paragraph(_numbers(result), width, "    ")
    yield from paragraph("What they lack:", width, "  ", "dim")
    for sentence in dict.fromkeys(sentence for each in results for sentence in each.lacks):
        yield from paragraph(f"· {plain(sentence)}", width, "    ", "dim")
    yield Text()


def _source(origin: Origin) -> str:
    """As "optimum-benchmark 0.6.0: benchmark.json"."""
    tool = f"{origin.tool} {origin.version}" if origin.version else origin.tool
    return plain(f"{tool}: {origin.file}")


def _numbers(result: ImportedResult) -> str:
    """As "6 calls, 134.5ms a call (median), unverified"."""
    latency_s, samples = result.measurements.median_latency_s, result.measurements.samples
    median = "no latency" if latency_s is None else f"{units.duration(latency_s, 4)} a call (median)"
    return f"{counted(samples, 'call')}, {median}, {result.status}"


def _what(result: ImportedResult) -> str:
    config = result.config
    options = ", ".join(f"{name}={value}" for name, value in config.options.items())
    named = f"{config.backend or UNKNOWN}{f'[{options}]' if options else ''}"
    shape = f"batch {config.batch_size or UNKNOWN} · sequence {config.sequence_length or UNKNOWN}"
    tokens = f" · {config.new_tokens} new tokens" if config.new_tokens else ""
    return f"{named} · {config.model or UNKNOWN} · {config.operation or UNKNOWN} · {shape}{tokens}"
