"""The runner's helper: checkpoint in, ONNX out, so that PyTorch is nowhere in the process that is measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from optimum.exporters.onnx import export as export_graph
from optimum.exporters.onnx import main_export
from optimum.exporters.tasks import TasksManager
from optimum.onnxruntime import AutoOptimizationConfig, ORTOptimizer
from transformers import AutoConfig, AutoModelForTextEncoding, PretrainedConfig

from harness.worker.helper import serve
from harness_onnxruntime.artefact import MODEL

FLOATS = {onnx.TensorProto.FLOAT: "float32", onnx.TensorProto.FLOAT16: "float16", onnx.TensorProto.BFLOAT16: "bfloat16"}
INTEGERS = {onnx.TensorProto.INT8: "int8", onnx.TensorProto.UINT8: "int8"}
PRODUCTS = ("MatMul", "Gemm", "MatMulInteger")
"""Operators whose second input is the weights, where there are any."""


def export(checkpoint: str, task: str, folder: str, threads: int, with_cache: bool) -> dict[str, Any]:
    """Write the model for one task, in float32; where an encoder-decoder extracts features, its encoder.

    `with_cache`: a decoder that takes and gives keys and values. Parity is judged later, so optimum need not validate.
    """
    torch.set_num_threads(threads)
    config = AutoConfig.from_pretrained(checkpoint, local_files_only=True)
    is_encoder_decoder = config.is_encoder_decoder
    if (
        with_cache
    ):  # afterwards optimum would merge the two graphs of an encoder-decoder's decoder; its own classes ask for none
        _export_model(checkpoint, f"{task}-with-past", folder, no_post_process=is_encoder_decoder)
    elif is_encoder_decoder and task == "feature-extraction":
        _export_encoder(checkpoint, task, Path(folder))
    else:
        _export_model(checkpoint, task, folder, monolith=True, **_traced_shapes(config))
        _free_output_shapes(Path(folder) / MODEL)
    return _described(Path(folder))


def _traced_shapes(config: PretrainedConfig) -> dict[str, int]:
    """Optimum traces a Whisper with 30 s of audio, 3000 columns of a spectrogram, whatever the one length is that it takes."""
    return {"nb_max_frames": 2 * config.max_source_positions} if config.model_type == "whisper" else {}


def _export_model(checkpoint: str, task: str, folder: str, **layout: int) -> None:
    """`monolith`: in one file, where optimum would give encoder and decoder files of their own."""
    main_export(
        checkpoint,
        folder,
        task=task,
        dtype="fp32",
        library_name="transformers",
        local_files_only=True,
        do_validation=False,
        **layout,
    )


def _free_output_shapes(file: Path) -> None:
    """Optimum traces a model that takes images of any size (ResNet) with 64 x 64 pixels and writes what came of it down as the only
    shape of its outputs: a session would refuse any other."""
    model = onnx.load(str(file), load_external_data=False)
    for output in model.graph.output:
        output.type.tensor_type.ClearField("shape")
    onnx.save(model, str(file))


def _export_encoder(checkpoint: str, task: str, folder: Path) -> None:
    """By the function beneath main_export, which would write a decoder too."""
    model = AutoModelForTextEncoding.from_pretrained(checkpoint, dtype=torch.float32, local_files_only=True).eval()
    describe = TasksManager.get_exporter_config_constructor("onnx", model, task=task, library_name="transformers")
    model.config.save_pretrained(folder)  # the optimiser reads it
    export_graph(model.get_encoder(), describe(model.config).with_behavior("encoder"), folder / MODEL)


def optimise(folder: str, level: str, into: str) -> dict[str, Any]:
    """Write an optimised copy; levels are optimum's O1, O2 and O3."""
    optimiser = ORTOptimizer.from_pretrained(folder, [file.name for file in _files(Path(folder))])
    optimiser.optimize(getattr(AutoOptimizationConfig, level)(), save_dir=into, file_suffix="")
    return _described(Path(into))


def quantise(folder: str, into: str) -> dict[str, Any]:
    """Write a copy whose products with weights are of 8-bit integers: weights once and for all, with one scale a tensor, what
    they are multiplied with in each call, by its own range. Embeddings, norms and the products of attention stay float32."""
    source, made = Path(folder) / MODEL, Path(into) / MODEL
    made.parent.mkdir(exist_ok=True)
    is_large = any(source.parent.glob("*.onnx_data"))  # more than one file may hold
    quantize_dynamic(source, made, ["MatMul"], weight_type=QuantType.QInt8, use_external_data_format=is_large)
    return _described(Path(into))


STEPS: Mapping[str, Callable[..., dict[str, Any]]] = {"export": export, "optimise": optimise, "quantise": quantise}


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.onnx"))


def _described(folder: Path) -> dict[str, Any]:
    """What can be read from the files, together; weights in files of their own stay unread."""
    models = [onnx.load(str(file), load_external_data=False) for file in _files(folder)]
    nodes = [node for model in models for node in model.graph.node]
    return {
        "dtype": "+".join(sorted({dtype for model in models for dtype in _dtypes(model.graph)})),
        "weights_bytes": sum(_bytes(weight) for model in models for weight in model.graph.initializer),
        "training_nodes": sum(map(_in_training_mode, nodes)),
        "opset": {entry.domain or "ai.onnx": entry.version for model in models for entry in model.opset_import},
        "operators": dict(Counter(node.op_type for node in nodes).most_common()),
        "peak_rss_bytes": _peak_rss_bytes(),
    }


def _dtypes(graph: onnx.GraphProto) -> set[str]:
    """Of all floating weights; where products are of integers, of what is multiplied."""
    products = {weight.data_type for weight in _multiplied(graph)}
    if products & INTEGERS.keys():
        return {(INTEGERS | FLOATS)[data_type] for data_type in products}
    return {FLOATS[weight.data_type] for weight in graph.initializer if weight.data_type in FLOATS}


def _multiplied(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The weights of products, also those that are turned around first, as an embedding is that serves as a head too."""
    weights = {weight.name: weight for weight in graph.initializer}
    turned = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "Transpose"}
    for node in graph.node:
        if node.op_type in PRODUCTS:
            name = turned.get(node.input[1], node.input[1])
            if name in weights:
                yield weights[name]


def _bytes(weight: onnx.TensorProto) -> int:
    count = 1
    for size in weight.dims:
        count *= size
    return count * onnx.helper.tensor_dtype_to_np_dtype(weight.data_type).itemsize


def _in_training_mode(node: onnx.NodeProto) -> bool:
    """Dropout takes it as a third input, batch normalisation as an attribute."""
    if node.op_type == "Dropout":
        return len(node.input) > 2 and bool(node.input[2])
    return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)


def _peak_rss_bytes() -> int:
    """Of this process, up to now."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


if __name__ == "__main__":
    serve(STEPS)
