"""`random:FAMILY?option=value&...`: seeded random weights for a family's config, made once by a stack that can.

Two sources that mean the same have one identity: every option is spelled out, in alphabetical order, written in one way.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.checkpoints.families import FAMILIES, Family, FamilyOption, Value, show
from harness.checkpoints.making import have_made
from harness.checkpoints.mend import mended_config
from harness.checkpoints.records import Identity, Maker, Progress
from harness.model import HarnessError
from harness.spelling import did_you_mean, listed


def identify(rest: str, source: str) -> Identity:
    """The identity and config of `FAMILY?options`. Raises HarnessError; needs no weights and no network."""
    family, values = _parse(rest, source)
    shown = "&".join(f"{name}={show(value)}" for name, value in sorted(values.items()))
    return Identity(source, f"random:{family}?{shown}", mended_config(_config(family, values)), licence=None)


def fill(identity: Identity, folder: Path, make: Maker, progress: Progress) -> str | None:
    """Have the weights made in `folder`; nobody licenses them. Raises HarnessError where they are not what was asked for."""
    family, values = _parse(identity.identity.removeprefix("random:"), identity.source)
    asked = _config(family, values)
    progress(f"making {identity.source}")
    have_made(folder, _spec(FAMILIES[family], asked, values["seed"]), asked, make, identity.source)
    return None


def _parse(rest: str, source: str) -> tuple[str, dict[str, Value]]:
    name, _, query = rest.partition("?")
    if name not in FAMILIES:
        raise HarnessError(
            f"{source!r}: there is no family {name!r}{did_you_mean(name, FAMILIES)}; families are {listed(FAMILIES)}"
        )
    values = FAMILIES[name].complete(_written(query, FAMILIES[name].options, source))
    objection = FAMILIES[name].objection(values)
    if objection:
        raise HarnessError(f"{source!r}: {objection}")
    return name, values


def _written(query: str, options: Mapping[str, FamilyOption], source: str) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for part in query.split("&") if query else ():
        name, equals, text = part.partition("=")
        if not equals:
            raise HarnessError(f"{source!r}: {part!r} is no option; write NAME=VALUE, joined by &")
        if name in values:
            raise HarnessError(f"{source!r}: {name} is given twice; give it once")
        values[name] = _value(name, text, options, source)
    return values


def _value(name: str, text: str, options: Mapping[str, FamilyOption], source: str) -> Value:
    if name not in options:
        raise HarnessError(
            f"{source!r}: there is no option {name!r}{did_you_mean(name, options)}; options are {listed(sorted(options))}"
        )
    try:
        return options[name].read(text)
    except ValueError:
        raise HarnessError(f"{source!r}: {name} is {text!r}, it must be {options[name].allowed}") from None


def _config(family: str, values: Mapping[str, Value]) -> dict[str, Any]:
    """The keys of config.json that are decided here; Transformers adds the rest."""
    table = FAMILIES[family]
    options = {
        name: list(value) if isinstance(value, tuple) else value for name, value in values.items() if name != "seed"
    }
    return {"model_type": family, "architectures": table.architectures, **table.fixed, **options}


def _spec(family: Family, config: Mapping[str, Any], seed: Value) -> dict[str, Any]:
    """What the maker reads: `harness_pytorch.random_weights` says what it does with each."""
    return {"kind": "random", "classes": [list(pair) for pair in family.classes], "config": config, "seed": seed}
