"""What is called best, ideal or optimal, against the optimum of a small case that is counted out."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm, poisson, truncnorm
from short_form import every_nth_row, mostly_in_full

import popsim
from popsim import tasks
from popsim.distributions import Choice, Uniform
from popsim.session import separate_trials

KEY = jax.random.key(0)


# Log odds: over all trials that there are, each with its prior probability, in white noise.

KINDS = {  # the task, its log odds, the condition that they are of, and the prior probability that it holds
    "go": (tasks.DelayedGoNoGo(go_probability=0.3), tasks.go_log_odds, "go", 0.3),
    "signal": (tasks.SignalDetection(signal_probability=0.3), tasks.signal_log_odds, "signal", 0.3),
    "category match": (
        tasks.DelayedMatchToCategory(n_directions=6, match_probability=0.3, noise=0.8),
        tasks.category_match_log_odds,
        "match",
        0.3,
    ),
    "association": (
        tasks.DelayedPairedAssociation(go_probability=0.3, noise=1.0),
        tasks.association_log_odds,
        "go",
        0.3,
    ),
    "dual match": (
        tasks.DualDelayedMatchToSample(match_probability=0.3, noise=0.7),
        lambda task, inputs: tasks.dual_match_log_odds(task, inputs)[0],
        "match 1",
        0.3,
    ),
    "economic": (tasks.EconomicChoice(noise=0.7), tasks.economic_choice_log_odds, "choice", None),
    "multisensory": (
        tasks.MultisensoryIntegration(noise=(0.3, 0.6)),
        tasks.multisensory_log_odds,
        "choice",
        None,
    ),
    "direction": (
        tasks.DirectionCategory(noise=1.0),
        lambda task, inputs: tasks.direction_category_log_odds(task, inputs["stimulus"]),
        "choice",
        None,
    ),
}


IN_SHORT = ("dual match", "economic", "direction")  # test_choice_tasks plays the observers of the others


@pytest.mark.parametrize("name", mostly_in_full(KINDS, IN_SHORT))
def test_log_odds_are_counted_out_over_all_trials(name):
    task, log_odds, condition, probability = KINDS[name]
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
    found = jax.vmap(lambda inputs: log_odds(task, inputs))(
        jax.tree.map(lambda leaf: leaf[rows], noisy.inputs)
    )
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize(("d_prime", "probability"), [(0.3, 0.5), (1.5, 0.8)])
def test_no_criterion_detects_a_signal_more_often(d_prime, probability):
    noise = np.linspace(-9, 9, 1501)
    normal = norm.pdf(noise) * (noise[1] - noise[0])
    # Of the evidence at one time, or at two of which one has the signal: the larger of both joint densities.
    one = np.maximum(probability * norm.pdf(noise - d_prime), (1 - probability) * norm.pdf(noise))
    single = one.sum() * (noise[1] - noise[0])
    assert tasks.discrimination_accuracy(d_prime, probability) == pytest.approx(single, rel=1e-4)
    ratio = np.exp(d_prime * noise - d_prime**2 / 2)
    either = probability * (ratio + ratio[:, None]) / 2
    double = np.sum(np.maximum(either, 1 - probability) * normal * normal[:, None])
    assert tasks.detection_accuracy(d_prime, 2, probability) == pytest.approx(double, rel=3e-4)


# Blocks.


def stimulus_odds(task, totals, seconds):
    """The odds of the right side by the densities of both sums, added up over contrasts."""
    std = float(task.noise) * seconds**0.5
    contrasts = np.asarray(task.contrast.values, float)
    at = norm.pdf(totals[..., None], contrasts * seconds, std).mean(-1)
    null = norm.pdf(totals, 0, std)
    return at[..., 1] * null[..., 0] / (at[..., 0] * null[..., 1])


@pytest.mark.parametrize(("prior", "contrast"), [(0.8, None), (0.95, 0.125)])
def test_no_observer_of_both_sides_is_right_more_often(prior, contrast):
    task, seconds = tasks.BlockDecisions(), 0.3
    std = 0.08 * seconds**0.5
    contrasts = np.asarray(task.contrast.values, float)
    sums = np.arange(-6 * std, 0.3 + 6 * std, std / 40)
    of_side = norm.pdf(sums[:, None], contrasts * seconds, std).mean(1)
    counted = of_side if contrast is None else norm.pdf(sums, contrast * seconds, std)
    null = norm.pdf(sums, 0, std)
    chooses_right = prior * of_side[:, None] * null > (1 - prior) * null[:, None] * of_side
    right = np.where(chooses_right, prior * counted[:, None] * null, (1 - prior) * null[:, None] * counted)
    expected = right.sum() * (sums[1] - sums[0]) ** 2
    assert tasks.accuracy_with_prior(task, prior, seconds, contrast=contrast) == pytest.approx(
        expected, abs=1e-4
    )


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


# Reaction times: two time steps, counted out.


@pytest.mark.parametrize(
    ("coherences", "noise"), every_nth_row([((-0.5, 0.0, 0.5), 0.1), ((-1.0, -0.003, 0.003, 1.0), 0.001)], 2)
)
def test_the_best_bound_of_two_time_steps(coherences, noise):
    task = tasks.ReactionTimeDecision(
        coherence=Choice(coherences), noise=noise, duration=0.2, waiting_cost=1.0
    )
    c, dt, std = np.array(coherences), 0.05, noise * 0.05**0.5
    z = np.linspace(-7, 7, 281)
    share = norm.pdf(z) / norm.pdf(z).sum()

    def weights(x, n):
        log = norm.logpdf(x[..., None], c * n * dt, std * n**0.5)
        return np.exp(log - logsumexp(log, axis=-1, keepdims=True))

    def responding(x, n):
        right = weights(x, n) @ ((np.sign(c) + 1) / 2)
        return np.maximum(right, 1 - right)

    first = c[:, None] * dt + std * z
    later = first[..., None, None] + c[:, None] * dt + std * z
    waiting = np.sum(weights(first, 1) * (responding(later, 2) @ share), axis=-1) - dt
    expected = np.mean(np.maximum(responding(first, 1), waiting) @ share)
    best = tasks.optimal_decisions(task)
    assert best.mean_reward == pytest.approx(expected, abs=5e-5)
    respond = np.abs(first) >= float(best.player.bounds[0])
    assert np.mean(np.where(respond, responding(first, 1), waiting) @ share) == pytest.approx(
        expected, abs=5e-5
    )


def test_the_best_bound_is_computed_for_small_noise_or_refused():
    task = tasks.ReactionTimeDecision(noise=0.005)
    best = tasks.optimal_decisions(task)
    assert best.mean_reward == pytest.approx(0.99780, abs=2e-5)  # by a grid that is finer by ten
    trials = popsim.sample_trials(task, 4000, batch=0, key=KEY)
    reward = np.asarray(tasks.play(best.player, trials, key=KEY).reward, float).sum(1)
    assert abs(reward.mean() - best.mean_reward) < 4 * reward.std() / 4000**0.5
    with pytest.raises(ValueError, match="`noise` of `task` must be at least"):
        tasks.optimal_decisions(tasks.ReactionTimeDecision(noise=1e-4))


def test_the_best_bound_of_two_time_steps_of_clicks():
    ratios = (-2.0, -0.2, 0.0, 0.2, 2.0)
    task = tasks.ReactionTimeClicks(
        log_ratio=Choice(ratios), duration=0.2, waiting_cost=2.0, error_payoff=-1.0
    )
    ratios, counts = np.array(ratios), np.arange(26)
    rates = 40 * 0.05 * np.stack([expit(-ratios), expit(ratios)])
    one, two = (poisson.pmf(counts, n * rates[..., None]) for n in (1, 2))  # (side, ratio, count)

    def responding(pmf):
        joint = pmf[0][:, :, None] * pmf[1][:, None, :]
        right = np.tensordot((np.sign(ratios) + 1) / 2, joint, 1) / joint.sum(0)
        return -1 + 2 * np.maximum(right, 1 - right)

    first, second = responding(one), responding(two)
    later = np.zeros((len(ratios), 13, 13))
    for left, right in itertools.product(range(13), repeat=2):
        more = one[0, :, :13, None] * one[1, :, None, :13]
        later[:, left, right] = np.sum(more * second[left : left + 13, right : right + 13], axis=(1, 2))
    joint = one[0][:, :13, None] * one[1][:, None, :13]
    waiting = np.sum(joint * later, axis=0) / joint.sum(0) - 0.1
    expected = np.mean(np.sum(joint * np.maximum(first[:13, :13], waiting), axis=(1, 2)))
    best = tasks.optimal_clicks(task)
    assert best.mean_reward == pytest.approx(expected, abs=1e-4)
    left, right = np.indices((13, 13))
    respond = np.abs(right - left) >= np.asarray(best.player.bounds)[0, left + right]
    played = np.mean(np.sum(joint * np.where(respond, first[:13, :13], waiting), axis=(1, 2)))
    assert played == pytest.approx(expected, abs=1e-4)


# Choices that are paid: the tree of all that may happen.


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
            likely = np.array([p if (second == k) == (paid == 1) else 1 - p for k in (0, 1)])
            joint = likely * (1 - good, good)
            if reached * joint.sum() > 0:
                after = joint[1] / joint.sum()
                after = (1 - h) * after + h * (1 - after)
                total += reached * joint.sum() * (paid + value(n - 1, after, p, h, lead))
        values.append(total)
    return max(values)


def played(observer, n, p, h, lead, steps):
    """The mean reward of an observer in the tree of all that may happen, and of all that it may draw."""

    def follow(n, good, state, received):
        if n == 0:
            return 0.0
        action, state = observer.choose(received, state, key=KEY)
        total = 0.0
        for second, paid in itertools.product((0, 1), repeat=2):
            reached = lead if second == int(action) else 1 - lead
            joint = np.array([p if (second == k) == (paid == 1) else 1 - p for k in (0, 1)]) * (
                1 - good,
                good,
            )
            if reached * joint.sum() == 0:
                continue
            after, inner = joint[1] / joint.sum(), state
            shown = {"last action": jax.nn.one_hot(action, 2), "last reward": jnp.array([float(paid)])}
            if steps == 2:
                stage = jax.nn.one_hot(1 + second, 3)
                unpaid = {**shown, "last reward": jnp.zeros(1), "stage": stage}
                _, inner = observer.choose(unpaid, inner, key=KEY)
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


def test_the_best_reward_of_three_choices_in_two_contexts():
    task = tasks.ChangingEnvironment(n_choices=3, hazard_rate=0.05)
    c, std = np.asarray(task.coherence.values, float), float(task.noise_std)
    evidence = (c[:, None] + std * np.linspace(-6, 6, 201)).ravel()
    log = norm.logpdf(evidence[:, None], c, std)
    right = np.exp(log - logsumexp(log, axis=1, keepdims=True)) @ ((np.sign(c) + 1) / 2)
    sure = np.maximum(right, 1 - right)
    share = np.tile(norm.pdf(np.linspace(-6, 6, 201)), len(c))
    share /= share.sum()

    def best(n, second):
        if n == 0:
            return np.zeros(np.shape(second))
        values = []
        for chosen in (second, 1 - second):
            paid = np.multiply.outer(chosen, sure)
            after = (chosen[..., None] - paid) / np.maximum(1 - paid, 1e-300)
            if n == 1:
                values.append(paid @ share)
                continue
            later = best_on_grid(n - 1)
            unpaid = np.interp(0.95 * after + 0.05 * (1 - after), GRID, later)
            values.append((paid * (1 + np.interp(0.95, GRID, later)) + (1 - paid) * unpaid) @ share)
        return np.maximum(*values)

    def best_on_grid(n):
        return best(n, GRID)

    GRID = np.linspace(0, 1, 401)
    assert tasks.reward_in_changing_environment(task) == pytest.approx(
        float(best(3, np.array([0.5]))[0]) / 3, abs=3e-5
    )


# Intervals.


def test_the_mean_of_an_interval_is_integrated_however_small_its_noise_is():
    t, measured = np.linspace(0.5, 0.9, 100_001), np.array([0.45, 0.52, 0.7, 0.85, 1.0])
    for weber_fraction in (0.001, 0.02, 0.3):
        log = norm.logpdf(measured[:, None], t, weber_fraction * t)
        expected = np.exp(log - logsumexp(log, axis=1, keepdims=True)) @ t
        found = tasks.bayes_least_squares(jnp.array(measured), Uniform(0.5, 0.9), weber_fraction)
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_intervals_of_time_steps_are_counted_out():
    def table(values, weber_fraction, dt, last):
        edges = (np.arange(last + 1) - 0.5)[:, None] * dt
        below = truncnorm.cdf((edges - values) / (weber_fraction * values), -3, 3)
        return np.diff(below, axis=0)

    task, values = tasks.OneTwoThreeGo(), np.array([0.6, 0.7, 0.8, 0.9, 1.0])
    single = table(values, 0.1, 0.05, 40)
    joint = single[:, None] * single / 5
    mean = joint @ values / np.maximum(joint.sum(-1), 1e-300)
    error = np.sum(joint * (values - mean[..., None]) ** 2) ** 0.5
    assert tasks.interval_error(task) == pytest.approx(error, rel=1e-4)
    np.testing.assert_allclose(
        tasks.estimate_interval(task, jnp.array([[13, 16], [20, 17]])), mean[[13, 20], [16, 17]], rtol=1e-5
    )
    reasoning = tasks.HierarchicalReasoning()
    values = np.asarray(reasoning.interval.values, float)
    of_steps = table(values, 0.1, 0.08, 40) / len(values)
    is_long = np.where(np.isclose(values, 0.85), 0.5, values > 0.85)
    right = np.maximum(of_steps @ is_long, of_steps @ (1 - is_long)).sum()
    assert tasks.accuracy_with_rule(reasoning) == pytest.approx(right, rel=1e-4)
