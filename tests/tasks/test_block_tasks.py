"""Sessions in blocks: their trials, and observers that know or infer the block."""

import itertools

import jax
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.distributions import TruncatedExponential, Uniform
from popsim.session import separate_trials
from popsim.tasks import BlockDecisions, HierarchicalReasoning
from popsim.tasks.blocks.block_decisions import second_kind_before


def sessions_of(task, n, key):
    """Sessions, and their conditions as numpy arrays."""
    sessions = popsim.sample_trials(task, n, batch=0, key=key)
    return sessions, {name: np.asarray(label) for name, label in sessions.conditions.items()}


def single_trials(sessions):
    return jax.tree.map(np.asarray, separate_trials(sessions))


def calibrated(right, confidence):
    """Whether choices are right as often as their probabilities say, within four standard errors."""
    difference = (right - confidence).mean(1)
    return abs(difference.mean()) < 4 * difference.std() / len(right) ** 0.5


@pytest.fixture(scope="module")
def decisions():
    task = BlockDecisions(n_trials=120, n_unbiased=10, response=tasks.GoResponse(catch_probability=0.1))
    return task, *sessions_of(task, 100, jax.random.key(1))


def test_blocks_have_their_lengths_and_alternate(decisions):
    _, _, labels = decisions
    right, position = labels["right probability"], labels["trial in block"]
    np.testing.assert_array_equal(right[:, :10], 0.5)
    np.testing.assert_allclose(np.unique(right[:, 10:]), [0.2, 0.8], rtol=1e-6)
    starts = (position == 0)[:, 11:]
    np.testing.assert_array_equal(starts, np.diff(right[:, 10:], axis=1) != 0)
    ages = position[:, 11:][starts[:, 1:].nonzero()[0], starts[:, 1:].nonzero()[1]] + 1
    first_lengths = np.array([np.flatnonzero(row)[0] + 1 for row in starts if row.any()])
    assert ages.min() >= 20 and first_lengths.min() >= 20 and first_lengths.max() <= 100
    np.testing.assert_allclose(first_lengths.mean(), 51, atol=5 * 22 / len(first_lengths) ** 0.5)
    side = labels["choice"]
    np.testing.assert_allclose((side - right).mean(), 0, atol=5 * 0.42 / side.size**0.5)
    zero = (labels["contrast"] == 0).mean()
    np.testing.assert_allclose(zero, 1 / 9, atol=5 * (8 / 81 / side.size) ** 0.5)


def test_the_stimulus_is_on_its_side_and_feedback_shows_it_after_the_choice(decisions):
    _, sessions, _ = decisions
    trials = single_trials(sessions)
    side, is_catch = trials.conditions["choice"], trials.conditions["catch"]
    each = np.arange(side.size)
    shown = trials.inputs["stimulus"][:, 1:4].mean(1)
    difference = shown[each, side] - shown[each, 1 - side] - trials.conditions["contrast"]
    np.testing.assert_allclose(difference.mean(), 0, atol=5 * (2 / 0.3 / side.size) ** 0.5 * 0.08)
    np.testing.assert_allclose(difference.std(), 0.08 * (2 / 0.3) ** 0.5, rtol=0.05)
    feedback = trials.inputs["feedback"]
    assert not feedback[:, :6].any()
    np.testing.assert_array_equal(feedback[each, 6, side], ~is_catch)
    assert not feedback[each, :, 1 - side].any()
    np.testing.assert_array_equal(popsim.correct_choice(trials.targets), np.where(is_catch, -1, side))
    assert not trials.targets.counts[~is_catch][:, 6:].any()


@pytest.mark.parametrize(
    "lengths", [Uniform(2.0, 4.0), Uniform(3.0, 3.0), TruncatedExponential(1.0, 4.0, 2.0)]
)
def test_the_filter_of_blocks_is_the_sum_over_all_sequences_of_blocks(lengths):
    task = BlockDecisions(block_length=lengths)
    n, random = 6, np.random.default_rng(0)
    likelihoods = random.uniform(0.2, 1.0, (1, n, 2))
    low, high = float(lengths.low), float(lengths.high)
    if low == high:
        shares = {int(low): 1.0}
    else:
        within = (np.clip(np.arange(1.0, 7), low, high) - low) / (high - low)
        if isinstance(lengths, TruncatedExponential):
            within = np.expm1(-within * 3 / 2) / np.expm1(-3 / 2)
        shares = dict(zip(range(1, 6), np.diff(within), strict=True))
    weights = np.zeros((n, 2))
    for first in (0, 1):
        for sequence in itertools.product([length for length in shares if shares[length] > 0], repeat=n):
            kinds = np.repeat((first + np.arange(n)) % 2, sequence)[:n]
            probability = np.prod([shares[length] for length in sequence])
            before = np.cumprod([1.0, *likelihoods[0, np.arange(n), kinds][:-1]])
            weights[np.arange(n), kinds] += probability * before
    expected = weights[:, 1] / weights.sum(axis=1)
    np.testing.assert_allclose(second_kind_before(task, likelihoods)[0], expected, rtol=1e-6)


@pytest.mark.full
def test_the_correct_side_follows_interval_and_rule_and_the_ideal_observer_is_as_right_as_it_thinks():
    task = HierarchicalReasoning(n_trials=40)
    sessions, labels = sessions_of(task, 150, jax.random.key(2))
    side, rule, choice, is_long = (labels[name] for name in ("side", "rule", "choice", "is long"))
    np.testing.assert_array_equal(choice == side, is_long == (rule == 1))
    off = abs(labels["interval"] - 0.85) > 0.01
    np.testing.assert_array_equal(is_long[off], labels["interval"][off] > 0.85)
    np.testing.assert_allclose(is_long[~off].mean(), 0.5, atol=2.5 / (~off).sum() ** 0.5)
    ratio = labels["shown interval"] / labels["interval"]
    np.testing.assert_allclose(
        ratio.std(), (0.0987**2 + 0.08**2 / 12 * np.mean(labels["interval"] ** -2.0)) ** 0.5, rtol=0.05
    )
    trials = single_trials(sessions)
    np.testing.assert_array_equal(trials.inputs["flashes"].sum(1).argmax(1).reshape(side.shape), side)
    np.testing.assert_array_equal(trials.inputs["flashes"].sum((1, 2)), 2)
    inferred, confidence = tasks.rule_choices(task, sessions)
    known, _ = tasks.rule_choices(task, sessions, rule)
    assert calibrated(inferred == choice, confidence)
    assert 0.7 < np.mean(inferred == choice) < np.mean(known == choice) - 0.03
