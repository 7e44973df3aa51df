"""`python -I optimum_models.py OUT.json`: the model types that the installed optimum says it can export and optimise."""

import json
import sys
from pathlib import Path

import optimum.exporters.onnx.model_configs  # noqa: F401 - registers the exporters
from optimum.exporters.tasks import TasksManager
from optimum.onnxruntime.utils import ORTConfigManager

from harness.tasks import GENERATION_TASKS, TASKS


def exportable(task: str) -> list[str]:
    return sorted(TasksManager.get_supported_model_type_for_task(task, exporter="onnx"))


told = {
    "exportable": {task: exportable(task) for task in TASKS},
    "with_cache": {task: exportable(f"{task}-with-past") for task in GENERATION_TASKS},
    "optimisable": sorted(ORTConfigManager._conf),
}
Path(sys.argv[1]).write_text(json.dumps(told))
