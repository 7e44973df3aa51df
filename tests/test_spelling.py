"""Help with misspelt words."""

from __future__ import annotations

from harness.spelling import counted, did_you_mean, listed, nearest

KNOWN = ["batch_size", "backend", "float32", "cpu"]


def test_the_nearest_word_is_found_in_spite_of_capitals() -> None:
    assert [nearest(word, KNOWN) for word in ("bach_size", "CPU", "Float-32")] == ["batch_size", "cpu", "float32"]


def test_nothing_is_suggested_where_nothing_is_near() -> None:
    assert nearest("zzz", KNOWN) is None
    assert did_you_mean("zzz", KNOWN) == ""
    assert did_you_mean("bakend", KNOWN) == "; did you mean 'backend'?"


def test_an_empty_list_of_words_is_called_none() -> None:
    assert (listed(["a", 1]), listed([])) == ("a, 1", "none")


def test_one_of_something_is_not_several() -> None:
    assert [counted(count, "result") for count in (0, 1, 2)] == ["0 results", "1 result", "2 results"]
