"""Makes a checkpoint mean the same to both generations of Transformers, 4.57 and 5.

Each generation writes files that the other misreads without an error (shared facts, found by comparing outputs):

- 5 writes `rope_parameters` and no `rope_theta`; 4.57 then uses theta 10000. Both keys are written.
- 5 names the class `TokenizersBackend`, which 4.57 does not have; `PreTrainedTokenizerFast` is the same class to both.
- 5 writes `extra_special_tokens` as a list, which 4.57 cannot load; `additional_special_tokens` means the same to both.

Only what is missing is added. Where a file contradicts itself, nobody can know what was meant, and it is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.checkpoints.files import CONFIG, read_json
from harness.model import HarnessError

_TOKENIZER_CONFIG = "tokenizer_config.json"


def mend_folder(folder: Path) -> None:
    """Mend the files of a folder of our own; one that needs nothing keeps its bytes."""
    _rewrite(folder / CONFIG, mended_config)
    if (folder / _TOKENIZER_CONFIG).exists():
        _rewrite(folder / _TOKENIZER_CONFIG, mended_tokenizer_config)


def mended_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json with the rotary settings under both generations' keys, those of sub-models (`text_config`) too."""
    mended = {
        name: mended_config(value) if name.endswith("_config") and isinstance(value, Mapping) else value
        for name, value in config.items()
    }
    if isinstance(config.get("rope_parameters"), Mapping):
        return _with_old_keys(mended, config["rope_parameters"])
    # Two thetas (Gemma 3) have a shape of their own in 5, which it derives itself; a single one it also finds below.
    if config.get("rope_theta") is not None and "rope_local_base_freq" not in config:
        mended["rope_parameters"] = _parameters(config)
    return mended


def mended_tokenizer_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """A tokenizer_config.json that both generations load."""
    mended = dict(config)
    if mended.get("tokenizer_class") == "TokenizersBackend":
        mended["tokenizer_class"] = "PreTrainedTokenizerFast"
    if isinstance(mended.get("extra_special_tokens"), list):
        mended.setdefault("additional_special_tokens", mended.pop("extra_special_tokens"))
    return mended


def _parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    """What 5 makes of the keys of 4.57."""
    scaling = config.get("rope_scaling") or {}
    parameters = {"rope_theta": config["rope_theta"], "rope_type": scaling.get("type", "default"), **scaling}
    if "partial_rotary_factor" in config:
        parameters["partial_rotary_factor"] = config["partial_rotary_factor"]
    return parameters


def _with_old_keys(config: dict[str, Any], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What 4.57 reads: theta and the part turned at the top, a scaling (if any) in `rope_scaling`."""
    everywhere = parameters.get("full_attention", parameters)  # per kind of layer in Gemma 3, else flat
    local = parameters.get("sliding_attention")
    _add(config, "rope_theta", everywhere.get("rope_theta"))
    _add(config, "partial_rotary_factor", everywhere.get("partial_rotary_factor"))
    _add(config, "rope_local_base_freq", local.get("rope_theta") if local else None)
    if everywhere.get("rope_type", "default") != "default" and not config.get("rope_scaling"):
        apart = ("rope_theta", "partial_rotary_factor")
        config["rope_scaling"] = {name: value for name, value in everywhere.items() if name not in apart}
    return config


def _add(config: dict[str, Any], name: str, value: Any) -> None:
    if value is None:
        return
    if config.setdefault(name, value) != value:
        raise HarnessError(
            f"config.json says {name}={config[name]} and, in rope_parameters, {value}: Transformers 4 would take the one "
            "and 5 the other; make them equal"
        )


def _rewrite(path: Path, mended: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
    before = read_json(path)
    after = mended(before)
    if after != before:
        path.write_text(json.dumps(after, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
