"""Perplexity and rank correlation, on values that can be worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.accuracy import measures


def test_a_model_that_wavers_among_ten_equally_likely_tokens_has_a_perplexity_of_ten() -> None:
    assert measures.perplexity(np.full(7, math.log(0.1))) == pytest.approx(10)


def test_perplexity_is_the_geometric_mean_of_inverse_probabilities() -> None:
    assert measures.perplexity(np.log([0.5, 0.125])) == pytest.approx(4)


def test_a_token_held_to_be_impossible_makes_perplexity_infinite_and_nan_stays_nan() -> None:
    assert measures.perplexity(np.array([-1e6, 0.0])) == math.inf
    assert measures.perplexity(np.array([-math.inf])) == math.inf
    assert math.isnan(measures.perplexity(np.array([-1.0, math.nan])))


def test_rank_correlation_looks_at_the_order_alone() -> None:
    assert measures.rank_correlation([1, 2, 3, 4], [1, 10, 100, 1000]) == pytest.approx(1)
    assert measures.rank_correlation([1, 2, 3, 4], [0, -1, -2, -99]) == pytest.approx(-1)


def test_one_exchange_among_five_costs_what_the_formula_says() -> None:
    # 1 - 6 Σd² / (n (n² - 1)), with two ranks off by one
    assert measures.rank_correlation([1, 2, 3, 4, 5], [1, 2, 3, 5, 4]) == pytest.approx(1 - 6 * 2 / (5 * 24))


def test_equal_values_share_the_mean_of_their_ranks() -> None:
    shared = measures.rank_correlation([1, 2, 3], [0.2, 0.7, 0.7])
    assert shared == pytest.approx(np.corrcoef([1, 2, 3], [1, 2.5, 2.5])[0, 1])


@pytest.mark.parametrize("without_order", [[1.0, 1.0, 1.0], [1.0, math.nan, 2.0]])
def test_what_has_no_order_correlates_with_nothing(without_order: list[float]) -> None:
    assert math.isnan(measures.rank_correlation(without_order, [1, 2, 3]))


def test_cosine_similarity_is_of_directions_and_a_zero_vector_has_none() -> None:
    similarities = measures.cosine_similarities(
        np.array([[1.0, 0], [2, 2], [1, 0], [0, 0]]), np.array([[3.0, 0], [0, 1], [-2, 0], [1, 1]])
    )
    assert similarities[:3] == pytest.approx([1, math.sqrt(0.5), -1])
    assert math.isnan(similarities[3])
