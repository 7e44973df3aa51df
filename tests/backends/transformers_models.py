"""`python -I transformers_models.py OUT.json`: what the installed Transformers says about the model types it can load."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_TEXT_ENCODING_MAPPING,
    MODEL_MAPPING,
)


def classes(mapping: Any) -> Iterator[tuple[str, Any]]:
    """Model type and class, where Transformers has the class that it names."""
    for config in mapping:
        try:
            found = mapping[config]
        except ValueError:
            continue
        yield config.model_type, found[0] if isinstance(found, tuple) else found


both = [*classes(MODEL_MAPPING), *classes(MODEL_FOR_CAUSAL_LM_MAPPING)]
told = {
    "without_sdpa": sorted({name for name, found in both if not getattr(found, "_supports_sdpa", True)}),
    "encoders": sorted(config.model_type for config in MODEL_FOR_TEXT_ENCODING_MAPPING if config().is_encoder_decoder),
    "conv1d": sorted({name for name, found in both if hasattr(sys.modules.get(found.__module__), "Conv1D")}),
}
Path(sys.argv[1]).write_text(json.dumps(told))
