"""For runners: models of Transformers, read as every backend must read them, and what of them is in effect.

Neither Transformers nor PyTorch is imported here: whoever calls has them, and hands them over.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from harness.tasks import TASKS
from harness.worker.weights import refuse_missing


def task_classes(transformers: ModuleType) -> dict[str, Any]:
    """Task -> the class of Transformers that loads a model with its head. Ask at module level: Transformers imports them then."""
    return {name: getattr(transformers, task.auto_class) for name, task in TASKS.items()}


def read_model(model_class: Any, checkpoint: str, **how: Any) -> Any:
    """The model of a checkpoint in evaluation mode, to be called without a cache. `how`: dtype and the like, for `from_pretrained`.

    Raises Unsupported where the checkpoint lacks weights that its outputs depend on.
    """
    model, info = model_class.from_pretrained(checkpoint, local_files_only=True, output_loading_info=True, **how)
    refuse_missing(info["missing_keys"], model)
    model.config.use_cache = False
    return model.eval()


def set_threads(torch: ModuleType, threads: int) -> None:
    """Of PyTorch: so many within an operator, and operators one after the other."""
    torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:  # may be set once per process
        torch.set_num_interop_threads(1)


def in_effect(model: Any) -> dict[str, Any]:
    """`device`, `dtype` and `eval_mode` of a `torch.nn.Module`, as `Facts.effective` has them.

    Devices and dtypes are those of all parameters, several joined by "+"; one module in training mode is enough to spoil outputs.
    """
    parameters = list(model.parameters())
    return {
        "device": "+".join(sorted({parameter.device.type for parameter in parameters})),
        "dtype": "+".join(sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})),
        "eval_mode": not any(module.training for module in model.modules()),
    }


def weights_bytes(model: Any) -> int:
    """Bytes of all parameters of a `torch.nn.Module`; tied ones count once."""
    return sum(parameter.numel() * parameter.element_size() for parameter in model.parameters())
