"""What is called best, ideal or optimal, against the optimum of a small case that is counted out."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm
from short_form import mostly_in_full

import popsim
from popsim import tasks
from popsim.distributions import Uniform
from popsim.session import separate_trials

KEY = jax.random.key(0)


# Probabilities of choices: over all trials that there are, each with its prior, in white noise.

KINDS = {  # the task, a condition, and the prior probability that it holds
    "go": (tasks.DelayedGoNoGo(go_probability=0.3), "go", 0.3),
    "signal": (tasks.SignalDetection(signal_probability=0.3), "signal", 0.3),
    "category match": (
        tasks.DelayedMatchToCategory(n_directions=6, match_probability=0.3, noise=0.8),
        "match",
        0.3,
    ),
    "association": (tasks.DelayedPairedAssociation(go_probability=0.3, noise=1.0), "go", 0.3),
    "dual match": (tasks.DualDelayedMatchToSample(match_probability=0.3, noise=0.7), "match 1", 0.3),
    "dual match 2": (tasks.DualDelayedMatchToSample(match_probability=0.3, noise=0.7), "match 2", 0.3),
    "economic": (tasks.EconomicChoice(noise=0.7), "choice", None),
    "multisensory": (tasks.MultisensoryIntegration(noise=(0.3, 0.6)), "choice", None),
    "direction": (tasks.DirectionCategory(noise=1.0), "choice", None),
}


@pytest.mark.parametrize(
    "name", mostly_in_full(KINDS, ("go", "signal", "dual match", "economic", "multisensory"))
)
def test_probabilities_are_counted_out_over_all_trials(name):
    task, condition, probability = KINDS[name]
    clean = dataclasses.replace(task, noise=jnp.zeros_like(task.noise)).validation_trials()
    noisy = task.validation_trials()  # of the same times and conditions
    rows = np.arange(len(noisy.timeline.epochs["fixation"]))
    if name == "multisensory":
        rows = rows[np.asarray(noisy.conditions["modality"]) == 2]  # which one sees
    means, shown = (np.asarray(each.inputs["stimulus"], float)[rows] for each in (clean, noisy))
    holds = np.asarray(noisy.conditions[condition])[rows].astype(bool)
    exponents = (
        (shown[:, None] * means - means**2 / 2).sum(2)
        * task.dt
        @ (np.broadcast_to(np.asarray(task.noise, float), means.shape[-1:]) ** -2.0)
    )
    prior = np.ones(holds.shape) if probability is None else np.where(holds, probability, 1 - probability)
    if "dual" in name:  # the first cue is seen as well, and the other test is one more condition
        cued = np.asarray(noisy.conditions["cued first"])
        exponents = np.where(cued[:, None] == cued, exponents, -np.inf)
        other = np.asarray(noisy.conditions["match 2" if condition == "match 1" else "match 1"])
        prior = prior * np.where(other, probability, 1 - probability)
    elif probability is not None:
        prior = prior / np.where(holds, holds.mean(), (~holds).mean())
    expected = logsumexp(exponents, axis=1, b=prior * holds) - logsumexp(exponents, axis=1, b=prior * ~holds)
    seen = jax.tree.map(lambda leaf: leaf[rows], noisy)
    found = tasks.choice_probabilities(task, seen, condition)
    np.testing.assert_allclose(found[:, 1], expit(expected), atol=2e-3)


# Blocks.


def stimulus_odds(task, totals, seconds):
    """The odds of the right side by the densities of both sums, added up over contrasts."""
    std = float(task.noise) * seconds**0.5
    contrasts = np.asarray(task.contrast.values, float)
    at = norm.pdf(totals[..., None], contrasts * seconds, std).mean(-1)
    null = norm.pdf(totals, 0, std)
    return at[..., 1] * null[..., 0] / (at[..., 0] * null[..., 1])


def test_block_choices_are_those_of_all_sequences_of_sides():
    # Blocks of one trial alternate: there are two sequences of them. Half of the trials have no feedback.
    task = tasks.BlockDecisions(
        n_trials=5,
        block_length=Uniform(1.0, 1.0),
        noise=0.3,
        response=tasks.GoResponse(catch_probability=0.5),
    )
    n = 40
    sessions = popsim.sample_trials(task, n, batch=0, key=KEY)
    trials = separate_trials(sessions)
    totals = np.asarray(trials.inputs["stimulus"], float).sum(1).reshape(n, 5, 2) * task.dt
    odds = stimulus_odds(task, totals, 0.3)
    by_stimulus = np.stack([1 / (1 + odds), odds / (1 + odds)], axis=-1)
    feedback = np.asarray(trials.inputs["feedback"]).sum(1).reshape(n, 5, 2)
    known = np.where(feedback.any(-1, keepdims=True), feedback, by_stimulus)
    expected = np.zeros((n, 5, 2))
    for first, *sides in itertools.product((0, 1), repeat=6):
        chance = np.ones(n)
        for at, side in enumerate(sides):
            p = 0.8 if (first + at) % 2 == side else 0.2
            expected[:, at, side] += chance * p * by_stimulus[:, at, side] / 2 ** (4 - at)
            chance = chance * p * known[:, at, side]
    choices, confidence = tasks.block_choices(task, sessions)
    right = expected[..., 1] / expected.sum(-1)
    np.testing.assert_array_equal(choices, right > 0.5)
    np.testing.assert_allclose(confidence, np.maximum(right, 1 - right), rtol=1e-4)
    choices, confidence = tasks.block_choices(task, sessions, np.full((n, 5), 0.8))
    right = 0.8 * odds / (0.8 * odds + 0.2)
    np.testing.assert_array_equal(choices, right > 0.5)
    np.testing.assert_allclose(confidence, np.maximum(right, 1 - right), rtol=1e-4)


# Choices that are paid: the tree of all that may happen.


def chances(second, paid, p):
    """How probable a reward of one of two, or none, is if the first is good, and if the second is."""
    return np.array([p if (second == k) == (paid == 1) else 1 - p for k in (0, 1)])


def value(n, good, p, h, lead):
    """The reward of `n` choices by the best policy, with the probability that the second of two is good.

    The choice leads to the second with probability `lead` or 1 - `lead`.
    """
    if n == 0:
        return 0.0
    values = []
    for to_second in {lead, 1 - lead}:
        total = 0.0
        for second, paid in itertools.product((0, 1), repeat=2):
            reached = to_second if second else 1 - to_second
            joint = chances(second, paid, p) * (1 - good, good)
            if reached * joint.sum() > 0:
                after = joint[1] / joint.sum()
                after = (1 - h) * after + h * (1 - after)
                total += reached * joint.sum() * (paid + value(n - 1, after, p, h, lead))
        values.append(total)
    return max(values)


def played(observer, n, p, h, lead, steps):
    """The mean reward of an observer in the tree of all that may happen, and of all that it may draw."""

    choose = jax.jit(lambda received, state: observer.choose(received, state, key=KEY))

    def follow(n, good, state, received):
        if n == 0:
            return 0.0
        action, state = choose(received, state)
        total = 0.0
        for second, paid in itertools.product((0, 1), repeat=2):
            reached = lead if second == int(action) else 1 - lead
            joint = chances(second, paid, p) * (1 - good, good)
            if reached * joint.sum() == 0:
                continue
            after, inner = joint[1] / joint.sum(), state
            shown = {"last action": jax.nn.one_hot(action, 2), "last reward": jnp.array([float(paid)])}
            if steps == 2:
                stage = jax.nn.one_hot(1 + second, 3)
                unpaid = {**shown, "last reward": jnp.zeros(1), "stage": stage}
                _, inner = choose(unpaid, inner)
                shown["stage"] = jax.nn.one_hot(0, 3)
            rest = follow(n - 1, (1 - h) * after + h * (1 - after), inner, shown)
            total += reached * joint.sum() * (paid + rest)
        return total

    start = {"last action": jnp.zeros(2), "last reward": jnp.zeros(1)}
    return follow(n, 0.5, observer.init(), start | ({"stage": jax.nn.one_hot(0, 3)} if steps == 2 else {}))


@pytest.mark.parametrize(("p", "h"), [(0.8, 0.1), (0.6, 0.9)])
def test_no_policy_is_paid_more_than_the_observer_of_reversals(p, h):
    observer = tasks.ReversalObserver(reward_probability=p, hazard_rate=h)
    assert played(observer, 4, p, h, 1.0, 1) == pytest.approx(value(4, 0.5, p, h, 1.0), rel=1e-6)


@pytest.mark.parametrize(("p", "h", "common"), [(0.8, 0.1, 0.7), (0.9, 0.3, 0.2)])
def test_no_policy_is_paid_more_than_the_observer_of_two_steps(p, h, common):
    task = tasks.TwoStepTask(reward_probability=p, hazard_rate=h, common_probability=common)
    expected = value(3, 0.5, p, h, common)
    assert played(tasks.TwoStepObserver(task), 3, p, h, common, 2) == pytest.approx(expected, rel=1e-6)
