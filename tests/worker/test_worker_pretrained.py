"""What every backend does alike with a model of Transformers; the models here are small doubles."""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from harness.tasks import TASKS
from harness.worker.api import Unsupported
from harness.worker.pretrained import in_effect, read_model, set_threads, task_classes, weights_bytes


class Parameter:
    def __init__(self, dtype: str = "float32", device: str = "cpu", numbers: int = 10, size: int = 4) -> None:
        self.dtype, self.device = f"torch.{dtype}", SimpleNamespace(type=device)
        self.numel, self.element_size = lambda: numbers, lambda: size


class Model:
    """As Transformers makes it: in training mode, with a cache."""

    missing: tuple[str, ...] = ()

    def __init__(self, *parameters: Parameter) -> None:
        self.asked: dict[str, Any] = {}
        self.config = SimpleNamespace(use_cache=True)
        self.parameters = lambda: iter(parameters)
        self.training = [True, True]

    @classmethod
    def from_pretrained(cls, checkpoint: str, **asked: Any) -> tuple[Model, dict[str, Any]]:
        model = cls()
        model.asked = {"checkpoint": checkpoint, **asked}
        return model, {"missing_keys": set(cls.missing)}

    def eval(self) -> Model:
        self.training = [False, False]
        return self

    def modules(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(training=training) for training in self.training]


class Headless(Model):
    missing = ("classifier.weight",)


def test_a_model_is_read_from_this_disk_to_evaluate_without_a_cache() -> None:
    model = read_model(Model, "/folder", dtype="float32")
    assert model.asked == {
        "checkpoint": "/folder",
        "dtype": "float32",
        "local_files_only": True,
        "output_loading_info": True,
    }
    assert (model.config.use_cache, in_effect(model)["eval_mode"]) == (False, True)


def test_a_model_whose_checkpoint_lacks_its_head_is_refused() -> None:
    with pytest.raises(Unsupported, match="Headless needs 1 weights that the checkpoint lacks"):
        read_model(Headless, "/folder")


def test_every_task_has_the_class_that_the_module_handed_over_has_for_it() -> None:
    transformers: Any = ModuleType("transformers")
    for task in TASKS.values():
        setattr(transformers, task.auto_class, f"the class {task.auto_class}")
    classes = task_classes(transformers)
    assert classes.keys() == TASKS.keys()
    assert classes["fill-mask"] == "the class AutoModelForMaskedLM"


def test_what_is_in_effect_is_that_of_all_parameters_and_modules() -> None:
    model = Model(Parameter(), Parameter("bfloat16", "cuda"), Parameter())
    assert in_effect(model) == {"device": "cpu+cuda", "dtype": "bfloat16+float32", "eval_mode": False}
    model.training = [False, True]
    assert in_effect(model)["eval_mode"] is False
    assert in_effect(model.eval())["eval_mode"] is True


@pytest.mark.parametrize(("interop", "made"), [(4, ["within 3", "beside 1"]), (1, ["within 3"])])
def test_operators_run_one_after_the_other_on_so_many_threads_which_is_said_once_a_process(
    interop: int, made: list[str]
) -> None:
    said: list[str] = []
    torch: Any = SimpleNamespace(
        get_num_interop_threads=lambda: interop,
        set_num_threads=lambda threads: said.append(f"within {threads}"),
        set_num_interop_threads=lambda threads: said.append(f"beside {threads}"),
    )
    set_threads(torch, 3)
    assert said == made


def test_weights_are_counted_in_bytes() -> None:
    assert weights_bytes(Model(Parameter(numbers=10, size=4), Parameter(numbers=3, size=2))) == 46
