"""What a matrix file may not say: each refusal names file, line, column and key, what was seen, and what is allowed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Refusal = Callable[[str], str]

HEAD = "defaults: {model: package:minilm}\n"  # line 1 of the files below


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a, b]", "m.yaml:1:1: the file is a list; it must be a mapping"),
        ("hello", "m.yaml:1:1: the file is 'hello'; it must be a mapping"),
        ("---\n", "the file is null; it must be a mapping"),
        ("name: x\n", "m.yaml:1:1: the file has no key 'matrix'; add it"),
        ("matrix: [a]\n", "m.yaml:1:1: matrix is a list; it must be a mapping"),
        ("matrix:\n", "m.yaml:1:1: matrix is null; it must be a mapping"),
        ("matrix: {}\ndefaults: [a]\n", "m.yaml:2:1: defaults is a list; it must be a mapping"),
        ("matrix: {}\nprotocol: 5\n", "m.yaml:2:1: protocol is 5; it must be a mapping"),
        ("matrix: {onnxruntime: [O1]}\n", "m.yaml:1:10: matrix.onnxruntime is a list; it must be a mapping"),
        ("matrix: {include: {dtype: float32}}\n", "m.yaml:1:10: matrix.include is a mapping; it must be a list"),
        ("matrix: {exclude: [float32]}\n", "m.yaml:1:20: matrix.exclude[0] is 'float32'; it must be a mapping"),
        ("matrix: {batch_size: {a: 1}}\n", "m.yaml:1:10: matrix.batch_size is a mapping; it must be a list"),
    ],
)
def test_a_list_or_value_where_a_mapping_belongs_and_the_reverse(refusal: Refusal, text: str, message: str) -> None:
    assert message in refusal(text)


@pytest.mark.parametrize(
    ("text", "place", "suggestion"),
    [
        ("martix: {}\n", "m.yaml:1:1: martix", "matrix"),
        ("matrix: {bach_size: [1]}\n", "m.yaml:1:10: matrix.bach_size", "batch_size"),
        ("matrix: {onnxruntme: {level: [1]}}\n", "m.yaml:1:10: matrix.onnxruntme", "onnxruntime"),
        ("matrix: {exlude: [{dtype: float32}]}\n", "m.yaml:1:10: matrix.exlude", "exclude"),
        ("matrix: {include: [{dtpye: float32}]}\n", "m.yaml:1:21: matrix.include[0].dtpye", "dtype"),
        ("matrix: {exclude: [{dtpye: float32}]}\n", "m.yaml:1:21: matrix.exclude[0].dtpye", "dtype"),
        ("matrix: {}\ndefaults: {devise: cpu}\n", "m.yaml:2:12: defaults.devise", "device"),
        ("matrix: {}\nprotocol: {block: 2}\n", "m.yaml:2:12: protocol.block", "blocks"),
        (
            "matrix: {onnxruntime: {optimisation: [O1]}}\n",
            "m.yaml:1:24: matrix.onnxruntime.optimisation",
            "optimization",
        ),
    ],
)
def test_an_unknown_key_names_the_nearest(refusal: Refusal, text: str, place: str, suggestion: str) -> None:
    message = refusal(text)
    assert message.startswith(f"{place} is no key that can stand here; did you mean {suggestion!r}? (known: ")


def test_an_unknown_key_with_nothing_near_lists_what_is_known(refusal: Refusal) -> None:
    message = refusal("matrix: {zzz: [1]}\n")
    assert "did you mean" not in message
    assert "batch_size" in message
    assert "onnxruntime" in message
    assert "include" in message


def test_include_inside_an_include_entry_is_an_unknown_key(refusal: Refusal) -> None:
    assert "matrix.include[0].include is no key" in refusal("matrix: {include: [{include: []}]}\n")


def test_a_merge_key_is_an_unknown_key(refusal: Refusal) -> None:
    assert "defaults.<< is no key" in refusal("matrix: &m {}\ndefaults: {<<: *m}\n")


def test_an_option_of_a_backend_that_declares_none_says_so(refusal: Refusal) -> None:
    assert "matrix.eager.level is no key that can stand here (known: none)" in refusal(
        "matrix: {eager: {level: [1]}}\n"
    )


@pytest.mark.parametrize(
    ("axis", "value", "must"),
    [
        ("batch_size", "0", "is 0; it must be greater than 0"),
        ("batch_size", "-8", "is -8; it must be greater than 0"),
        ("batch_size", "true", "is true; it must be a valid integer"),
        ("batch_size", "1.5", "is 1.5; it must be a valid integer"),
        ("batch_size", "'8'", "is '8'; it must be a valid integer"),
        ("batch_size", "null", "is null; it must be a valid integer"),
        ("batch_size", "[1]", "is a list; it must be one value"),
        ("sequence_length", "0", "is 0; it must be greater than 0"),
        ("padding", "half", "is 'half'; it must be 'none' or 'sampled' or be a valid number"),
        ("padding", "0", "is 0; it must be 'none' or 'sampled' or be greater than 0"),
        ("padding", "1.5", "is 1.5; it must be 'none' or 'sampled' or be less than 1"),
        ("image_size", "0", "is 0; it must be greater than 0"),
        ("threads", "0", "is 0; it must be greater than 0"),
        ("input_seed", "-1", "is -1; it must be greater than or equal to 0"),
        ("model", "5", "is 5; it must be a valid string"),
        (
            "dtype",
            "float33",
            "is 'float33'; it must be one of 'float32', 'bfloat16', 'float16', 'int8'; did you mean 'float32'?",
        ),
        ("dtype", "32", "is 32; it must be one of 'float32', 'bfloat16', 'float16', 'int8'"),
        ("device", "CPU", "is 'CPU'; it must be one of 'cpu', 'cuda'; did you mean 'cpu'?"),
        ("task", "fill_mask", "did you mean 'fill-mask'?"),
        ("operation", "forwards", "did you mean 'forward'?"),
        ("compile_cache", "hot", "is 'hot'; it must be one of 'cold', 'warm'"),
        ("backend", "onnxruntim", "it must be one of 'eager', 'onnxruntime'; did you mean 'onnxruntime'?"),
    ],
)
def test_a_wrong_value_is_refused_wherever_it_stands(refusal: Refusal, axis: str, value: str, must: str) -> None:
    in_list = refusal(f"{HEAD}matrix:\n  {axis}: [{value}]\n")
    assert in_list.startswith(f"m.yaml:3:{len(axis) + 6}: matrix.{axis}[0] ")
    assert must in in_list
    in_defaults = refusal(f"matrix: {{}}\ndefaults:\n  {axis}: {value}\n")
    assert in_defaults.startswith(f"m.yaml:3:3: defaults.{axis} ")
    assert must in in_defaults
    in_include = refusal(f"{HEAD}matrix:\n  include:\n    - {axis}: {value}\n")
    assert in_include.startswith(f"m.yaml:4:7: matrix.include[0].{axis} ")
    assert must in in_include


@pytest.mark.parametrize(
    ("option", "value", "must"),
    [
        ("optimization", "O4", "is 'O4'; it must be one of 'O1', 'O2', 'O3'"),
        ("optimization", "1", "is 1; it must be one of 'O1', 'O2', 'O3'"),
        ("level", "two", "is 'two'; it must be a valid integer"),
        ("level", "null", "is null; it must be a valid integer"),
        ("level", "true", "is true; it must be a valid integer"),
        ("scale", "big", "is 'big'; it must be a valid number"),
        ("fold", "1", "is 1; it must be a valid boolean"),
        ("fold", "no", "is 'no'; it must be a valid boolean"),
    ],
)
def test_an_option_of_another_type_than_declared_is_refused(
    refusal: Refusal, option: str, value: str, must: str
) -> None:
    message = refusal(f"{HEAD}matrix:\n  onnxruntime: {{{option}: [{value}]}}\n")
    assert message.startswith("m.yaml:3:")
    assert f"matrix.onnxruntime.{option}[0] {must}" in message


def test_an_axis_given_as_one_value_says_to_write_a_list(refusal: Refusal) -> None:
    message = refusal(f"{HEAD}matrix:\n  batch_size: 8\n")
    assert message == "m.yaml:3:3: matrix.batch_size is 8; it must be a list: write [8]"
    assert "write [package:minilm]" in refusal("matrix: {model: package:minilm}\n")


@pytest.mark.parametrize("key", ["batch_size", "include", "exclude", "backend"])
def test_an_empty_axis_is_refused(refusal: Refusal, key: str) -> None:
    message = refusal(f"{HEAD}matrix:\n  {key}: []\n")
    assert message == f"m.yaml:3:3: matrix.{key} is an empty list; give it a value, or leave the key out"


@pytest.mark.parametrize("key", ["include", "exclude"])
def test_an_entry_that_says_nothing_is_refused(refusal: Refusal, key: str) -> None:
    message = refusal(f"{HEAD}matrix: {{{key}: [{{}}]}}\n")
    assert message.endswith(f"matrix.{key}[0] says nothing; name at least one axis")


@pytest.mark.parametrize("value", ["5", "[a]", "''", "null"])
@pytest.mark.parametrize("key", ["name", "description"])
def test_name_and_description_are_text(refusal: Refusal, key: str, value: str) -> None:
    assert refusal(f"{key}: {value}\nmatrix: {{}}\n").startswith(f"m.yaml:1:1: {key} is ")


@pytest.mark.parametrize(
    ("field", "value", "must"),
    [
        ("blocks", "0", "is 0; it must be greater than 0"),
        ("blocks", "true", "is true; it must be a valid integer"),
        ("blocks", "2.0", "is 2.0; it must be a valid integer"),
        ("round_seconds", "soon", "is 'soon'; it must be a valid number"),
        ("round_seconds", "-1", "is -1; it must be greater than 0"),
        ("settle_seconds", "[1]", "is a list; it must be one value"),
        ("phase_timeout_seconds", "1e300", "is 1e+300; it must be less than or equal to 86400"),
        ("half_width", "1e-300", "is 1e-300; it must be greater than or equal to 0.000001"),
        ("margin", "5", "is 5; it must be less than 1"),
        ("monitor_interval_seconds", "1e-9", "is 1e-09; it must be greater than or equal to 0.01"),
        ("reference", "eagre", "is 'eagre'; it must be one of 'eager', 'onnxruntime'; did you mean 'eager'?"),
        ("baseline", "flax", "is 'flax'; it must be one of 'eager', 'onnxruntime'"),
        ("baseline", "1", "is 1; it must be one of 'eager', 'onnxruntime'"),
    ],
)
def test_a_wrong_protocol_setting_is_refused(refusal: Refusal, field: str, value: str, must: str) -> None:
    message = refusal(f"{HEAD}matrix: {{}}\nprotocol:\n  {field}: {value}\n")
    assert message.startswith(f"m.yaml:4:3: protocol.{field} {must}")


def test_the_first_of_several_faults_is_reported(refusal: Refusal) -> None:
    assert "matrix.batch_size[1] is 0" in refusal(f"{HEAD}matrix:\n  batch_size: [1, 0, -1]\n  dtype: [x]\n")


def test_long_text_is_cut_in_messages(refusal: Refusal) -> None:
    assert len(refusal(f"matrix: {{dtype: ['{'x' * 5000}']}}\n")) < 300
