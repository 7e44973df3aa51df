"""Reading the file: what is no YAML, no text or no file is refused in one sentence that says where."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.matrix.source import MAX_BYTES, Node, read
from harness.model import HarnessError

Write = Callable[[str], Path]


def refused(path: Path) -> str:
    with pytest.raises(HarnessError) as error:
        read(path)
    return str(error.value)


def plain(node: Node) -> object:
    if isinstance(node.content, dict):
        return {key: plain(child) for key, child in node.content.items()}
    if isinstance(node.content, list):
        return [plain(child) for child in node.content]
    return node.content


def test_a_missing_file_names_the_nearest_in_the_same_folder(write: Write) -> None:
    write("matrix: {}")
    Path("n.yaml").touch()
    Path("quick.yaml").touch()
    assert refused(Path("quik.yaml")) == "no such matrix file: quik.yaml; did you mean quick.yaml?"


def test_a_missing_file_names_the_nearest_in_the_folder_matrices(write: Write) -> None:
    write("matrix: {}")
    Path("matrices").mkdir()
    Path("matrices/quick.yaml").touch()
    assert refused(Path("quick")) == "no such matrix file: quick; did you mean matrices/quick.yaml?"


def test_a_missing_file_with_no_near_name_lists_what_is_there(write: Write) -> None:
    write("matrix: {}")
    assert refused(Path("decoder.yaml")) == "no such matrix file: decoder.yaml; there are: m.yaml"


def test_a_missing_file_in_a_folder_that_is_missing_too_is_one_sentence(write: Write) -> None:
    write("")
    Path("m.yaml").unlink()
    assert refused(Path("no/m.yaml")) == "no such matrix file: no/m.yaml; no matrix files are there either"


def test_a_file_under_a_file_is_no_such_file(write: Write) -> None:
    write("")
    assert refused(Path("m.yaml/x.yaml")).startswith("no such matrix file: m.yaml/x.yaml")


def test_a_folder_lists_the_matrix_files_in_it(write: Write) -> None:
    write("")
    assert refused(Path()) == ". is a folder, not a matrix file; there are: m.yaml"


def test_a_name_too_long_for_the_file_system_is_one_sentence(write: Write) -> None:
    write("")
    assert "cannot be read" in refused(Path("m" * 300 + ".yaml"))


def test_a_file_that_may_not_be_read_says_so(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write("matrix: {}")

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", denied)  # root may read anything, so a mode would not do
    assert "Permission denied" in refused(path)


def test_a_file_larger_than_any_matrix_is_refused_before_it_is_parsed(write: Write) -> None:
    assert str(MAX_BYTES) in refused(write("#" * (MAX_BYTES + 1)))


def test_a_pipe_is_read_like_a_file(write: Write) -> None:
    write("")
    os.mkfifo("pipe")
    writer = threading.Thread(target=lambda: Path("pipe").write_text("name: piped"))
    writer.start()
    assert plain(read(Path("pipe"))) == {"name": "piped"}
    writer.join()


def test_bytes_that_are_not_utf_8_are_refused_with_their_line(write: Write) -> None:
    path = write("")
    path.write_bytes(b"name: quick\ndescription: caf\xe9\n")
    assert refused(path) == "m.yaml:2: byte 0xe9 is not UTF-8; save the file with that encoding"


def test_a_byte_order_mark_is_no_part_of_the_text(write: Write) -> None:
    path = write("")
    path.write_bytes(b"\xef\xbb\xbfname: quick\n")
    assert plain(read(path)) == {"name": "quick"}


def test_a_character_that_yaml_does_not_allow_is_refused_with_its_line(write: Write) -> None:
    assert refused(write("name: x\nb: \x07\n")).startswith("m.yaml:2: not YAML: a character it does not allow")


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n"])
def test_an_empty_file_is_refused(write: Write, text: str) -> None:
    assert refused(write(text)) == "m.yaml: the file is empty; a matrix needs at least the key 'matrix'"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("matrix:\n  model: [a\n", "m.yaml:3:1"),
        ("matrix:\n\tmodel: a\n", "m.yaml:2:1"),
        ("a: b: c\n", "m.yaml:1:5"),
        ("a: *nowhere\n", "m.yaml:1:4"),
        ("a: 1\n---\nb: 2\n", "m.yaml:2:1"),
        ('a: "open\n', "m.yaml:2:1"),
    ],
)
def test_a_syntax_error_names_line_and_column(write: Write, text: str, place: str) -> None:
    assert refused(write(text)).startswith(f"{place}: not YAML: ")


def test_a_key_that_stands_twice_names_both_lines(write: Write) -> None:
    message = refused(write("matrix:\n  dtype: [float32]\n  dtype: [float16]\n"))
    assert message == "m.yaml:3:3: matrix.dtype is there twice, first in line 2; remove one"


@pytest.mark.parametrize("tag", ["!!python/object/apply:os.system", "!!binary", "!!set", "!own"])
@pytest.mark.parametrize("value", ["[echo]", "echo", "{echo: null}"])
def test_tags_are_refused(write: Write, tag: str, value: str) -> None:
    message = refused(write(f"name: {tag} {value}\n"))
    assert message.startswith("m.yaml:1:1: name has the tag ")


def test_a_tag_that_the_value_does_not_fit_is_refused(write: Write) -> None:
    assert refused(write("a: !!int many\n")) == "m.yaml:1:1: a is 'many'; it must be a finite number"


def test_a_number_too_large_to_be_finite_is_refused(write: Write) -> None:
    assert refused(write("a: 1e999\n")) == "m.yaml:1:1: a is '1e999'; it must be a finite number"
    assert refused(write("a: 9223372036854775808\n")).endswith("; it must be 9223372036854775807 at most")


def test_a_key_that_is_a_list_is_refused(write: Write) -> None:
    assert refused(write("a:\n  ? [b]\n  : c\n")) == "m.yaml:1:1: a has a key that is no single word"


def test_anchors_and_aliases_are_written_out(write: Write) -> None:
    assert plain(read(write("a: &sizes [1, 8]\nb: *sizes\n"))) == {"a": [1, 8], "b": [1, 8]}


def test_aliases_that_multiply_are_refused(write: Write) -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    assert "with its aliases written out the file has over 100000" in refused(write("\n".join(lines)))


def test_an_alias_inside_its_own_anchor_is_refused(write: Write) -> None:
    assert "an alias stands inside its own anchor" in refused(write("a: &a [*a]\n"))


def test_brackets_nested_without_end_are_refused(write: Write) -> None:
    assert "nested too deeply" in refused(write("a: " + "[" * 5000 + "]" * 5000))


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("010", 10),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2026-11-29", "2026-11-29"),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("-3", -3),
        ("true", True),
        ("null", None),
        ("~", None),
        ("", None),
        ("'8'", "8"),
        ("package:a==1.0", "package:a==1.0"),
        ("random:bert?hidden_size=64&seed=1", "random:bert?hidden_size=64&seed=1"),
    ],
)
def test_plain_words_are_read_by_the_rules_of_yaml_1_2(write: Write, word: str, value: object) -> None:
    content = plain(read(write(f"a: {word}\n")))
    assert content == {"a": value}
    assert type(content["a"]) is type(value)  # type: ignore[index]


def test_every_node_knows_its_line_column_and_key(write: Write) -> None:
    root = read(write("matrix:\n  include:\n    - batch_size: 8\n"))
    node = root
    for step in ("matrix", "include", 0, "batch_size"):
        node = node.content[step]  # type: ignore[index, assignment, call-overload]
    assert (node.line, node.column, node.key) == (3, 7, "matrix.include[0].batch_size")


@given(st.text(max_size=200))
def test_whatever_the_text_it_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    with contextlib.suppress(HarnessError):  # any other exception would fail the test
        assert isinstance(read(path), Node)
