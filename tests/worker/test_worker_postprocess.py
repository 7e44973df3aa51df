"""What outputs mean, task by task: each row becomes one plain Python object."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from harness.tasks import APPLICATION_TASKS
from harness.worker.postprocess import (
    POSTPROCESS,
    Batch,
    Meaning,
    answers,
    classes,
    embeddings,
    filled_masks,
    next_tokens,
    token_labels,
    transcripts,
)

MEANING = Meaning({0: "calm", 1: "glad"}, lambda token: f"<{token}>", mask_id=9)
MASK = np.array([[1, 1, 1], [1, 0, 0]])
TEXT = "the old mill stands by the river"
IDS = Batch({"input_ids": np.array([[5, 9, 6], [9, 0, 0]]), "attention_mask": MASK})
NEVER = -1e9


def test_every_task_of_an_application_has_its_objects() -> None:
    assert set(POSTPROCESS) == set(APPLICATION_TASKS)


def test_features_are_the_mean_over_tokens_of_length_one() -> None:
    hidden = np.array([[[3, 0], [3, 0], [3, 12]], [[0, 2], [50, 50], [50, 50]]], np.float32)
    assert embeddings({"last_hidden_state": hidden}, IDS, MEANING) == [
        pytest.approx([0.6, 0.8]),  # of (3, 4)
        [0.0, 1.0],  # padding has no part in it
    ]


@pytest.mark.parametrize("shape", [(1, 6, 2), (1, 2, 2, 3)], ids=["places of a ViT", "places of a convolution"])
def test_features_of_images_are_the_mean_over_all_places(shape: tuple[int, ...]) -> None:
    hidden = np.zeros(shape, np.float32)
    hidden[(..., 0) if len(shape) == 3 else (0, 0)] = 4
    assert embeddings({"last_hidden_state": hidden}, Batch({"pixel_values": hidden}), MEANING) == [[1.0, 0.0]]


def test_a_transcript_is_what_the_likeliest_tokens_of_all_places_spell() -> None:
    logits = np.array([[[0, 9, 0], [0, 0, 9], [9, 0, 0]]], np.float32)
    meaning = Meaning({}, str, spell=lambda places: "".join("_ab"[token] for token in places))
    assert transcripts({"logits": logits}, Batch({}), meaning) == ["ab_"]


def test_features_of_nothing_but_zeros_are_zeros() -> None:
    assert embeddings({"last_hidden_state": np.zeros((2, 3, 2), np.float32)}, IDS, MEANING) == [[0.0, 0.0]] * 2


def test_a_class_comes_with_its_name_and_probability() -> None:
    logits = np.array([[0, math.log(3)], [1000, -1000]], np.float32)
    assert classes({"logits": logits}, IDS, MEANING) == [
        {"label": "glad", "score": pytest.approx(0.75)},
        {"label": "calm", "score": 1.0},
    ]


def test_a_class_without_a_name_is_called_as_transformers_calls_it() -> None:
    assert classes({"logits": np.array([[0, 0, 1]], np.float32)}, IDS, MEANING)[0]["label"] == "LABEL_2"


def test_each_token_has_a_label_and_padding_has_none() -> None:
    logits = np.zeros((2, 3, 2), np.float32)
    logits[0, 1, 1] = 1
    assert token_labels({"logits": logits}, IDS, MEANING) == [["calm", "glad", "calm"], ["calm"]]


def test_a_masked_token_gets_the_five_likeliest_in_order() -> None:
    logits = np.full((2, 3, 7), NEVER, np.float32)
    logits[0, 1] = [0, 6, 5, 4, 3, 2, 1]  # the mask stands second in this row, first in the other
    logits[1, 0] = [6, 5, 4, 3, 2, 1, 0]
    first, second = filled_masks({"logits": logits}, IDS, MEANING)
    assert [each["token"] for each in first] == ["<1>", "<2>", "<3>", "<4>", "<5>"]
    assert [each["token"] for each in second] == ["<0>", "<1>", "<2>", "<3>", "<4>"]
    assert first[0]["score"] == pytest.approx(math.exp(6) / sum(math.exp(power) for power in range(7)))


def spans(**peaks: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    """Logits of start and end over the tokens of a row, with one peak each."""
    logits = {name: np.zeros((1, 24), np.float32) for name in ("start_logits", "end_logits")}
    for name, place in peaks.items():
        logits[f"{name}_logits"][0, place] = 8
    return logits


def asked(text: str = TEXT) -> Batch:
    """Twenty letters of a text, a token each, after a question of four tokens."""
    offsets = [[0, 0]] * 4 + [[place, place + 1] for place in range(20)]
    return Batch({}, [text], np.array([offsets]), np.array([[False] * 4 + [True] * 20]))


def test_an_answer_is_cut_out_of_the_text() -> None:
    (found,) = answers(spans(start=8, end=11), asked(), MEANING)
    assert found["answer"] == TEXT[4:8] == "old "
    assert 0.9 < found["score"] < 1


def test_an_answer_is_never_in_the_question() -> None:
    (found,) = answers(spans(start=1, end=2), asked(), MEANING)
    assert found["answer"] != ""


def test_an_answer_does_not_end_before_it_begins() -> None:
    (found,) = answers(spans(start=12, end=6), asked(), MEANING)
    assert found["answer"] != ""
    assert found["score"] < 0.1


def test_an_answer_has_fifteen_tokens_at_most() -> None:
    (found,) = answers(spans(start=4, end=23), asked(), MEANING)
    assert 0 < len(found["answer"]) <= 15


def test_the_next_token_follows_the_last_one_that_is_no_padding() -> None:
    logits = np.zeros((2, 3, 4), np.float32)
    logits[0, 2, 3] = logits[1, 0, 2] = 1
    assert next_tokens({"logits": logits}, IDS, MEANING) == ["<3>", "<2>"]


def test_the_next_token_is_found_where_padding_stands_on_the_left() -> None:
    logits = np.zeros((2, 3, 4), np.float32)
    logits[:, 2, 1] = 1
    left = Batch({"attention_mask": MASK[:, ::-1]})
    assert next_tokens({"logits": logits}, left, MEANING) == ["<1>", "<1>"]


@pytest.mark.parametrize("task", APPLICATION_TASKS)
def test_all_that_comes_out_is_plain_python_and_one_for_each_row(task: str) -> None:
    per_token = np.random.default_rng(0).normal(size=(1, 24, 30)).astype(np.float32)
    per_row = per_token[:, 0, :2]
    outputs = {
        "last_hidden_state": per_token,
        "logits": per_row if task.endswith(("text-classification", "image-classification")) else per_token,
        **spans(start=8, end=9),
    }
    batch = asked()
    arrays = {"input_ids": np.full((1, 24), 9), "attention_mask": np.ones((1, 24), np.int64)}
    made = POSTPROCESS[task](outputs, Batch(arrays, batch.texts, batch.offsets, batch.in_text), MEANING)
    assert len(made) == 1
    assert json.loads(json.dumps(made)) == made
