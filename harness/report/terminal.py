"""The comparison as tables of 80 columns, and a plan as a list.

What is read first comes first: who leads a workload, by how much, and when that pays back; then the numbers; then why some
are missing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from rich.text import Text

from harness.model import Calibration, Cell, Measurements, PlannedCell, Result, Status
from harness.report import accuracy, application, generation, units
from harness.report.calibration import beside_verdicts
from harness.report.layout import Row, paragraph, plain, table, to_string
from harness.tasks import TASKS, Kind

NOTHING = "—"
BEST = "★"
RUN = "run"
LONGEST_REASON = 200
"""Characters. The whole text is in the stored result."""

Item = TypeVar("Item")


def render_results(
    results: Iterable[Result],
    width: int = 80,
    colour: bool = False,
    calibrations: Mapping[str, Calibration] | None = None,
) -> str:
    """Every workload of these results, in order of first appearance, each compared within itself.

    `calibrations`: by host_hash, what is known of the machines.
    """
    workloads = _grouped(results, _comparable)
    titles = Counter(map(_title, workloads))
    notes = _Notes()
    known = calibrations or {}
    lines = [line for each in workloads for line in _workload(each, notes, width, titles[_title(each)] > 1, known)]
    lines += accuracy.lines((result for workload in workloads for result in workload), _facts, width)
    foot = [*notes.lines(width), *_legend(workloads, width)] if workloads else [Text("No results.")]
    return to_string([*lines, *foot], width, colour)


def render_plan(cells: Iterable[PlannedCell], width: int = 80, colour: bool = False) -> str:
    """Cells by workload: short key, label, and `run` or the status with its reason; how many of each at the end."""
    groups = _grouped(cells, lambda planned: (planned.cell.model, planned.cell.workload_key))
    lines = [line for group in groups for line in _plan_group(group, width)]
    return to_string([*lines, Text(_plan_total(groups))], width, colour)


def plan_rows(cells: Iterable[PlannedCell]) -> list[dict[str, Any]]:
    """A plan as JSON values, one mapping per cell: key, label, the configuration, `status` (or `run`), `reason`."""
    return [_plan_row(planned) for planned in cells]


def _grouped(items: Iterable[Item], key: Callable[[Item], Hashable]) -> list[list[Item]]:
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


# --- one workload ---------------------------------------------------------------------------------------------------


def _comparable(result: Result) -> Hashable:
    """Only what was measured on one host under one protocol is compared."""
    hashes = result.metadata.hashes
    return result.config.workload_key, hashes.host_hash, hashes.protocol_hash


def _workload(
    results: Sequence[Result], notes: _Notes, width: int, is_ambiguous: bool, known: Mapping[str, Calibration]
) -> list[Text]:
    ranked = sorted((result for result in results if result.status is Status.OK), key=_rank)
    unranked = sorted((result for result in results if result.status is not Status.OK), key=_rank)
    rows = [*_heading(results), *_ranked_rows(ranked, notes), *_unranked_rows(unranked, notes)]
    return [
        *paragraph(_title(results)[0], width, style="bold"),
        *_details(results, width, is_ambiguous),
        *(line for sentence in _calibration(results, known) for line in paragraph(sentence, width)),
        *(line for sentence in _verdict(ranked) for line in paragraph(sentence, width, style="bold")),
        *(line for sentence in _application(ranked) for line in paragraph(sentence, width)),
        Text(),
        *table(rows, width),
        Text(),
    ]


def _rank(result: Result) -> tuple[bool, bool, float]:
    """By latency; then what has only a throughput; then what was not timed."""
    latency = result.measurements.median_latency_s
    return not _is_timed(result), latency is None, latency or 0.0


def _is_timed(result: Result) -> bool:
    return result.measurements.median_latency_s is not None or result.measurements.throughput is not None


def _with_latency(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if result.measurements.median_latency_s is not None]


# --- what is read first ---------------------------------------------------------------------------------------------


def _title(results: Sequence[Result]) -> tuple[str, str]:
    cell = results[0].config
    return plain(cell.model), _facts(cell)


def _facts(cell: Cell) -> str:
    """As `feature-extraction · batch 1 · sequence 128 · float32 · cpu · 2 threads`."""
    facts = [
        cell.task,
        "" if cell.operation == "forward" else cell.operation,
        f"batch {cell.batch_size}",
        _shape(cell),
        cell.dtype,
        cell.device,
        _counted(cell.threads, "thread"),
        *generation.asked(cell),
        f"input seed {cell.inputs.seed}" if cell.inputs.seed else "",
    ]
    return plain(" · ".join(filter(None, facts)))


def _shape(cell: Cell) -> str:
    """Of one input, as far as task and axes tell what it is: a sequence length means nothing to images."""
    if cell.image_size:
        return f"images {cell.image_size} x {cell.image_size}"
    kind = TASKS[cell.task].inputs if cell.task in TASKS else Kind.ANY
    if kind is Kind.IMAGE:
        return ""
    if kind is Kind.AUDIO or cell.audio_seconds:
        return _audio(cell)
    return f"sequence {cell.sequence_length}" + ("" if cell.padding == "none" else f" · padding {cell.padding}")


def _audio(cell: Cell) -> str:
    """Its length, and that of what a decoder is given, where they were asked for: nothing here tells whether there is one."""
    length = f"audio {cell.audio_seconds} s" if cell.audio_seconds else ""
    is_asked = cell.sequence_length != Cell.model_fields["sequence_length"].default
    return " · ".join(filter(None, [length, f"decoder sequence {cell.sequence_length}" if is_asked else ""]))


def _details(results: Sequence[Result], width: int, is_ambiguous: bool) -> list[Text]:
    texts = [_facts(results[0].config), *_basis(results), *_schedule(results)]
    if is_ambiguous:
        hashes = results[0].metadata.hashes
        told = (results[0].config.checkpoint, f"host {hashes.host_hash[:12]}", f"protocol {hashes.protocol_hash[:12]}")
        texts.append(plain(" · ".join(told)))
    return [line for text in texts for line in paragraph(text, width)]


def _basis(results: Sequence[Result]) -> Iterator[str]:
    """What the numbers rest on, and what disturbed them."""
    timed = [result.measurements for result in results if _is_timed(result)]
    if not timed:
        return
    launches = _range([numbers.launches for numbers in timed], "launch", "launches")
    confidence = next((numbers.ratio_confidence for numbers in timed if numbers.ratio_confidence), None)
    if any(numbers.verdict == "indicative" for numbers in timed):
        yield f"indicative: {launches}, no verdict"
    elif confidence is None:
        yield f"{launches}, nothing compared"
    else:
        yield f"{launches}; {_certainty(confidence)}"
    yield from _disturbances(timed)


def _range(counts: Sequence[int], word: str, words: str) -> str:
    fewest = f"{min(counts)} to " if min(counts) < max(counts) else ""
    return fewest + _counted(max(counts), word, words)


def _certainty(confidence: float) -> str:
    together = "" if math.isclose(confidence, 0.95) else " each, 95 % all together"
    return f"intervals of {100 * confidence:.4g} %{together}"


def _disturbances(timed: Sequence[Measurements]) -> Iterator[str]:
    disturbed = sum(numbers.disturbed_rounds for numbers in timed)
    if disturbed:
        rounds = sum(numbers.rounds for numbers in timed)
        yield f"{disturbed} of {rounds} rounds were disturbed: they count only where a launch has no others"


def _calibration(results: Sequence[Result], known: Mapping[str, Calibration]) -> Iterator[str]:
    """Beside verdicts only: an indication is weaker than any noise floor."""
    found = known.get(results[0].metadata.hashes.host_hash)
    if found and any(result.measurements.ratio_confidence for result in results):
        yield beside_verdicts(found)


def _schedule(results: Sequence[Result]) -> Iterator[str]:
    told = next((result.metadata for result in results if result.metadata.schedule == "sequential"), None)
    if told:
        yield plain(f"not interleaved, launches followed one another: {told.schedule_reason}")


def _application(ranked: Sequence[Result]) -> Iterator[str]:
    """Where the time of the best goes: that one is worth more work."""
    if ranked and (told := application.where_time_goes(ranked[0])):
        yield plain(told)


def _verdict(ranked: Sequence[Result]) -> Iterator[str]:
    timed = _with_latency(ranked)
    if not timed:
        yield "No backend is ranked by latency."
    elif len(timed) == 1:
        yield f"{timed[0].config.label} alone is ranked by latency."
    else:
        yield from _lead(timed[0], timed[1], _baseline(timed))


def _baseline(results: Sequence[Result]) -> Result | None:
    return next((result for result in results if result.measurements.break_even == "baseline"), None)


def _lead(best: Result, second: Result, baseline: Result | None) -> Iterator[str]:
    """The best against the baseline, or what comes second where that is the best; by the verdict, where there is one."""
    compared = second if best is baseline else best
    verdict = compared.measurements.verdict
    if baseline is None or compared.measurements.ratio_to_baseline is None:
        yield _longer(best, second)
    elif verdict in _TIES:
        yield _TIES[verdict].format(compared.config.label, baseline.config.label) + f": {_ratio(compared)}."
    elif best is baseline:
        yield _longer(best, second)
    else:
        how = "is faster" if verdict == "faster" else "leads"
        yield f"{best.config.label} {how}: {_ratio(best)} as fast as {baseline.config.label} ({_latencies(best, baseline)})."
        yield from _pay_back(best, baseline)


_TIES: Mapping[str | None, str] = {
    "equivalent": "{} and {} are equivalent",
    "no_difference_shown": "No difference is shown between {} and {}",
}


def _longer(best: Result, second: Result) -> str:
    times = units.ratio(_latency(second) / _latency(best))
    return f"{best.config.label} leads: {second.config.label} takes {times} as long ({_latencies(second, best)})."


def _ratio(result: Result) -> str:
    """As `1.84× (1.792 to 1.891)`."""
    ratio, interval = result.measurements.ratio_to_baseline, _interval(result.measurements)
    assert ratio is not None, "asked of compared results only"
    return units.ratio(ratio) + (f" ({interval})" if interval else "")


def _interval(numbers: Measurements) -> str:
    if numbers.ratio_ci_low is None or numbers.ratio_ci_high is None:
        return ""
    return units.interval(numbers.ratio_ci_low, numbers.ratio_ci_high)


def _pay_back(best: Result, baseline: Result) -> Iterator[str]:
    kind, _, calls = (best.measurements.break_even or "").partition(" ")
    interval = _break_even_interval(best.measurements)
    sentences = {
        "always": "it leads from the first call on",
        "after": f"it leads from call {_counted_calls(calls)} on" + (f" ({interval})" if interval else ""),
        "until": f"it leads up to call {_counted_calls(calls)} only",
        "never": "it never leads",
    }
    if kind in sentences:
        yield f"Cold start included{_cold_starts(best, baseline)}, {sentences[kind]}."


def _break_even_interval(numbers: Measurements) -> str:
    """As `240 to 410`, or `240 to never`; empty where not even the lower end is known."""
    low, high = numbers.break_even_ci_low_calls, numbers.break_even_ci_high_calls
    return "" if low is None else f"{units.count(low)} to {'never' if high is None else units.count(high)}"


def _cold_starts(best: Result, baseline: Result) -> str:
    mine, other = best.measurements.cold_start_s, baseline.measurements.cold_start_s
    return "" if mine is None or other is None else f" ({units.duration(mine)} against {units.duration(other)})"


def _latencies(one: Result, other: Result) -> str:
    latencies = f"{units.duration(_latency(one), 4)} against {units.duration(_latency(other), 4)}"
    return f"{latencies} {generation.call(one.config)}"


def _latency(result: Result) -> float:
    latency = result.measurements.median_latency_s
    assert latency is not None, "asked of timed results only"
    return latency


# --- the table ------------------------------------------------------------------------------------------------------


class _Notes:
    """Reasons why numbers are missing, each told once, at the foot, by number."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def mark(self, reason: str) -> str:
        number = str(len(self._reasons) + 1).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return self._reasons.setdefault(_shortened(reason), number)

    def lines(self, width: int) -> list[Text]:
        told = (f"{mark} {reason}" for reason, mark in self._reasons.items())
        return [line for text in told for line in paragraph(text, width, style="dim")]


def _break_even(words: str) -> str:
    """`after 1234` is `1,234`: the column is about nothing else."""
    kind, _, calls = words.partition(" ")
    if kind == "baseline":
        return NOTHING
    if kind == "after":
        return _counted_calls(calls)
    return f"{kind}\n{_counted_calls(calls)}" if calls else kind


def _counted_calls(calls: str) -> str:
    return units.count(int(calls)) if calls.isdecimal() else calls


_COLUMNS: tuple[tuple[str, Callable[[Any], str]], ...] = (
    ("load_s", units.duration),
    ("prepare_s", units.duration),
    ("compile_s", units.duration),
    ("first_call_s", units.duration),
    ("median_latency_s", lambda seconds: units.duration(seconds, 4)),
    ("throughput", units.rate),
    ("ratio_to_baseline", units.ratio),
    ("break_even", _break_even),
    ("parity_max_abs", units.difference),
)

_OF_RANKED = ("ratio_to_baseline", "break_even")
"""Columns that say who is ahead: of what is not ranked nobody can."""


def _heading(results: Sequence[Result]) -> Iterator[Row]:
    """None where no row has numbers."""
    if not any(map(_is_timed, results)):
        return
    unit = next((r.measurements.throughput_unit for r in results if r.measurements.throughput_unit), "items/s")
    latency = generation.LATENCY_HEADINGS.get(results[0].config.operation, "steady\nlatency")
    names = ("\nload", "pre-\npare", "com-\npile", "first\ncall", latency, unit.replace("/", "\n/"))
    yield Row("\nbackend", (*names, "\nratio", "break-\neven", "\nparity", "\nstatus"), style="bold")


def _ranked_rows(ranked: Sequence[Result], notes: _Notes) -> Iterator[Row]:
    is_contest = len(_with_latency(ranked)) > 1
    for position, result in enumerate(ranked):
        is_best = is_contest and position == 0
        status = f"{result.status} {BEST}" if is_best else str(result.status)
        yield Row(plain(result.config.label), (*_numbers(result, notes), status), style="bold green" if is_best else "")
        yield from _certain(result.measurements)
        yield from _generated(result)


def _certain(numbers: Measurements) -> Iterator[Row]:
    """Verdict and intervals, in a line below the numbers."""
    interval, break_even = _interval(numbers), _break_even_interval(numbers)
    if numbers.verdict and interval:
        words = f"{numbers.verdict.replace('_', ' ')}: {interval}"
        yield Row("", remark=words + (f" · break-even: {break_even}" if break_even else ""), style="dim")


def _generated(result: Result) -> Iterator[Row]:
    if told := generation.remark(result):
        yield Row("", remark=told, style="dim")


def _unranked_rows(unranked: Sequence[Result], notes: _Notes) -> Iterator[Row]:
    """What was timed keeps its numbers, with the reason below; of the others the reason is all there is."""
    for result in unranked:
        label, style = plain(result.config.label), "dim" if result.status.is_fine else "yellow"
        if _is_timed(result):
            yield Row(label, (*_numbers(result, notes, but=_OF_RANKED), _broken(result.status)), style=style)
            yield from _generated(result)
            label = ""
        yield Row(label, remark=_ending(result), style=style)


def _numbers(result: Result, notes: _Notes, but: Sequence[str] = ()) -> Iterator[str]:
    for field, show in _COLUMNS:
        value = getattr(result.measurements, field)
        reason = result.measurements.reasons.get(field)
        if field in but:
            yield NOTHING
        elif value is not None:
            yield show(value)
        else:
            yield NOTHING + (notes.mark(reason) if reason else "")


def _broken(status: Status) -> str:
    """In two lines where it is two words: the column is narrow."""
    first, underscore, last = status.rpartition("_")
    return f"{first}{underscore}\n{last}" if underscore else str(status)


def _ending(result: Result) -> str:
    """Status and why, as `failed (load): RuntimeError: no such kernel`."""
    error, reason = result.metadata.error, result.metadata.reason
    if error is None:
        return _shortened(f"{result.status}: {reason}" if reason else str(result.status))
    where = f" ({error.stage})" if error.stage else ""
    kind = "" if error.type in result.status else f"{error.type}: "
    return _shortened(f"{result.status}{where}: {kind}{error.message}")


def _shortened(reason: str) -> str:
    text = plain(reason)
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def _legend(workloads: Sequence[Sequence[Result]], width: int) -> list[Text]:
    results = [result for workload in workloads for result in workload]
    if not any(map(_is_timed, results)):
        return []
    names = {result.metadata.protocol.baseline for result in results}
    baseline = names.pop() if len(names) == 1 else "the baseline"
    told = (
        f"ratio: {baseline}'s steady latency over this one's, above 1 is faster · "
        f"break-even: the call from which this one is ahead of {baseline}, cold start included · "
        f"a to b: interval · "
        f"parity: largest difference from the reference · {BEST} lowest latency · {NOTHING} not applicable or not known"
    )
    return paragraph(told, width, style="dim")


# --- plans ----------------------------------------------------------------------------------------------------------


def _plan_group(group: Sequence[PlannedCell], width: int) -> list[Text]:
    cell = group[0].cell
    rows = [Row(_plan_label(each.cell), remark=_plan_words(each), style="dim" if each.status else "") for each in group]
    return [
        *paragraph(plain(cell.model), width, style="bold"),
        *paragraph(_facts(cell), width),
        *table(rows, width),
        Text(),
    ]


def _plan_label(cell: Cell) -> str:
    return f"{cell.short_key}  {plain(cell.label)} "


def _plan_words(planned: PlannedCell) -> str:
    return _shortened(": ".join(filter(None, (_plan_status(planned), planned.reason))))


def _plan_status(planned: PlannedCell) -> str:
    return str(planned.status or RUN)


def _plan_total(groups: Sequence[Sequence[PlannedCell]]) -> str:
    counts = Counter(_plan_status(planned) for group in groups for planned in group)
    told = ", ".join(f"{count} {status}" for status, count in counts.items())
    return f"{_counted(counts.total(), 'cell')}: {told or 'nothing to run'}"


def _plan_row(planned: PlannedCell) -> dict[str, Any]:
    cell = planned.cell
    return {
        "key": cell.key,
        "label": cell.label,
        **cell.model_dump(mode="json", exclude={"inputs"}),
        "input_seed": cell.inputs.seed,
        "status": _plan_status(planned),
        "reason": planned.reason,
    }


def _counted(number: int, word: str, words: str | None = None) -> str:
    return f"{number} {word if number == 1 else words or word + 's'}"
