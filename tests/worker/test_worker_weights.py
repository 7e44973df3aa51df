"""Weights that a checkpoint lacks."""

from __future__ import annotations

import pytest

from harness.worker.api import Unsupported
from harness.worker.weights import refuse_missing


class BertModel:
    """What a library would have made."""


def test_a_model_without_the_weights_of_its_head_is_refused_in_a_sentence() -> None:
    with pytest.raises(Unsupported, match=r"BertModel needs 2 weights that the checkpoint lacks, as classifier\.bias"):
        refuse_missing(["classifier.weight", "classifier.bias"], BertModel())


def test_a_pooler_that_nothing_compared_depends_on_may_lack() -> None:
    refuse_missing(["pooler.dense.weight", "pooler.dense.bias"], BertModel())


def test_a_pooler_within_a_model_with_a_head_is_needed() -> None:
    with pytest.raises(Unsupported, match=r"as bert\.pooler\.dense\.weight"):
        refuse_missing(["bert.pooler.dense.weight"], BertModel())
