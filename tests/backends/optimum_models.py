"""`python -I optimum_models.py OUT.json`: the model types that the installed optimum says it can export and optimise."""

import json
import sys
from pathlib import Path

import optimum.exporters.onnx.model_configs  # noqa: F401 - registers the exporters
from optimum.exporters.tasks import TasksManager
from optimum.onnxruntime.utils import ORTConfigManager

from harness.tasks import TASKS

exportable = {task: sorted(TasksManager.get_supported_model_type_for_task(task, exporter="onnx")) for task in TASKS}
Path(sys.argv[1]).write_text(json.dumps({"exportable": exportable, "optimisable": sorted(ORTConfigManager._conf)}))
