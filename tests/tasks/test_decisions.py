"""Decisions and memories: what is shown when, what is right, and what counts."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, one_hot, share_error, validation_trials
from scipy.stats import norm

import popsim
from popsim import tasks
from popsim.tasks.trial_parts import ring_activity, with_noise


@pytest.mark.parametrize("dt", [0.005, 0.02])
def test_what_noise_hides_does_not_depend_on_the_time_step(dt):
    """The mean over half a second has sigma / 0.5^0.5; nothing is seen while it is not shown."""
    n_steps = round(1 / dt)
    shown = jnp.arange(n_steps) < n_steps // 2

    def seen(key):
        return with_noise(jnp.full((n_steps, 2), 0.3), jnp.asarray(0.1), shown, dt=dt, key=key)

    stimulus = np.asarray(jax.vmap(seen)(jax.random.split(jax.random.key(1), 2000)))
    assert np.all(stimulus[:, n_steps // 2 :] == 0)
    means = stimulus[:, : n_steps // 2].mean(axis=1)
    np.testing.assert_allclose(means.mean(0), 0.3, atol=5 * 0.1 / 0.5**0.5 / 2000**0.5)
    np.testing.assert_allclose(means.std(0), 0.1 / 0.5**0.5, rtol=5 / 4000**0.5)
    np.testing.assert_allclose(np.corrcoef(means.T)[0, 1], 0, atol=5 / 2000**0.5)


def test_units_on_a_ring_prefer_their_own_direction():
    activity = np.asarray(ring_activity(jnp.arange(8), 8))
    np.testing.assert_allclose(np.diag(activity), 1, rtol=1e-6)
    np.testing.assert_allclose(np.diag(np.roll(activity, 4, axis=1)), 0, atol=1e-6)
    np.testing.assert_allclose(activity, np.roll(activity, (1, 1), axis=(0, 1)), atol=1e-6)
    np.testing.assert_allclose(np.diag(np.roll(activity, 1, axis=1)), np.exp(-2), rtol=1e-4)


def a_timeline(go):
    return popsim.Timeline(0.02, 20, events={"go cue": jnp.asarray(go)})


def test_silence_until_the_go_cue_a_grace_and_then_the_response():
    response = tasks.GoResponse(grace=0.06, silence_counts=0.3)
    target = response.target(a_timeline(8), jnp.array([0.0, 1.0]))
    np.testing.assert_array_equal(target.values[:8], 0)
    np.testing.assert_array_equal(target.values[8:], np.tile([0, 1], (12, 1)))
    np.testing.assert_allclose(target.counts, [0.3] * 8 + [0] * 3 + [1] * 9, rtol=1e-6)
    np.testing.assert_array_equal(response.fixation(a_timeline(8))[:, 0], [1] * 8 + [0] * 12)
    assert not response.is_catch(a_timeline(8))


COHERENCES = np.array([-0.512, -0.256, -0.128, -0.064, -0.032, 0.032, 0.064, 0.128, 0.256, 0.512])


def evidence_for_the_second(trials):
    """The difference of the streams, or the only stream, added up over the trial."""
    stimulus = trials.inputs["stimulus"].sum(axis=1)
    return stimulus[:, 0] if stimulus.shape[1] == 1 else stimulus[:, 1] - stimulus[:, 0]


@pytest.mark.parametrize("n_streams", [1, 2])
def test_the_evidence_says_what_is_right_as_often_as_the_formula_has_it(n_streams, getkey):
    trials = many_trials(tasks.PerceptualDecision(n_streams=n_streams), getkey(), 8000)
    coherence, choice = trials.conditions["coherence"], trials.conditions["choice"]
    np.testing.assert_array_equal(choice, coherence > 0)
    is_right = (evidence_for_the_second(trials) > 0) == choice
    d = abs(COHERENCES) * (0.5 / n_streams) ** 0.5 / 0.05
    for value, p in zip(COHERENCES, norm.cdf(d), strict=True):
        here = np.isclose(coherence, value)
        np.testing.assert_allclose(here.mean(), 0.1, atol=share_error(0.1, 8000))
        np.testing.assert_allclose(is_right[here].mean(), p, atol=share_error(p, here.sum()) + 0.005)


def test_a_coherence_of_zero_speaks_for_both_directions(getkey):
    coherences = jnp.array([-0.3, -0.1, 0.0, 0.1])
    task = tasks.PerceptualDecision(n_streams=1, coherence=popsim.distributions.Choice(coherences), noise=0.1)
    trials = many_trials(task, getkey(), 50)
    found = tasks.choice_probabilities(task, jax.tree.map(jnp.asarray, trials))
    evidence = 0.05 * jnp.asarray(trials.inputs["stimulus"]).sum((1, 2))
    expected = tasks.probability_of_right(evidence, jnp.full(50, 0.5), coherences, jnp.asarray(0.1))
    np.testing.assert_allclose(found[:, 1], expected, atol=1e-3)


def test_streams_are_for_the_two_directions_and_only_during_the_stimulus(getkey):
    trials = many_trials(tasks.PerceptualDecision(noise=0.0, dt=0.02), getkey(), 20)
    coherence = trials.conditions["coherence"][:, None]
    shown = trials.inputs["stimulus"][:, 5:30]
    np.testing.assert_allclose(shown[..., 0], np.tile((1 - coherence) / 2, 25), rtol=1e-6)
    np.testing.assert_allclose(shown[..., 1], np.tile((1 + coherence) / 2, 25), rtol=1e-6)
    assert np.all(trials.inputs["stimulus"][:, :5] == 0) and np.all(trials.inputs["stimulus"][:, 30:] == 0)
    right = trials.conditions["choice"]
    np.testing.assert_array_equal(trials.targets.values[:, 30:].argmax(-1), np.tile(right[:, None], 15))
    assert np.all(trials.targets.values[:, :30] == 0)


def test_validation_has_each_coherence_once_and_zero_is_decided_by_a_coin(getkey):
    np.testing.assert_allclose(
        validation_trials(tasks.PerceptualDecision()).conditions["coherence"], COHERENCES, rtol=1e-6
    )
    even = validation_trials(tasks.PerceptualDecision(coherence=popsim.distributions.Uniform(-0.4, 0.4)))
    np.testing.assert_allclose(even.conditions["coherence"], np.linspace(-0.4, 0.4, 5), atol=1e-7)
    drawn = validation_trials(tasks.PerceptualDecision(coherence=popsim.distributions.Normal(0.0, 0.1)))
    assert len(np.unique(drawn.conditions["coherence"])) == 5
    blind = many_trials(tasks.PerceptualDecision(coherence=0.0), getkey())
    np.testing.assert_allclose(blind.conditions["choice"].mean(), 0.5, atol=share_error(0.5, 2000))


def test_streams_and_context_are_drawn_independently_and_the_stream_of_the_context_is_right(getkey):
    trials = many_trials(tasks.ContextIntegration(), getkey())
    drawn = [trials.conditions[name] for name in ("context", "motion coherence", "colour coherence")]
    choice = np.where(drawn[0] == 0, drawn[1], drawn[2]) > 0
    np.testing.assert_array_equal(trials.conditions["choice"], choice)
    np.testing.assert_array_equal(popsim.correct_choice(trials.targets), choice)
    np.testing.assert_allclose(np.corrcoef(drawn), np.eye(3), atol=5 / 2000**0.5)
    np.testing.assert_allclose(drawn[0].mean(), 0.5, atol=share_error(0.5, 2000))
    noise = trials.inputs["evidence"][:, :25] - np.stack(drawn[1:], axis=-1)[:, None]
    np.testing.assert_allclose(noise.std((0, 1)), 1.0, rtol=0.02)
    np.testing.assert_allclose(np.corrcoef(noise.reshape(-1, 2).T)[0, 1], 0, atol=5 / 50_000**0.5)


def test_what_is_shown_when_and_that_only_the_last_step_counts(getkey):
    trials = many_trials(tasks.ContextIntegration(), getkey(), 20)
    assert trials.inputs["evidence"].shape == (20, 28, 2)
    assert np.all(trials.inputs["evidence"][:, 25:] == 0)
    told = np.eye(2)[trials.conditions["context"]]
    np.testing.assert_array_equal(trials.inputs["context"], np.repeat(told[:, None], 28, axis=1))
    np.testing.assert_array_equal(trials.targets.counts, np.tile([0.0] * 27 + [1.0], (20, 1)))


def test_pairs_come_in_both_orders_and_the_faster_one_is_right(getkey):
    trials = many_trials(tasks.DelayedComparison(noise=0.0), getkey())
    f1, f2 = trials.conditions["f1"], trials.conditions["f2"]
    np.testing.assert_array_equal(trials.conditions["choice"], f1 < f2)
    pairs, counts = np.unique(np.stack([f1, f2], axis=1), axis=0, return_counts=True)
    assert len(pairs) == 10 and np.all(abs(pairs[:, 0] - pairs[:, 1]) == 8)
    np.testing.assert_allclose(counts / 2000, 0.1, atol=share_error(0.1, 2000))
    for epoch, frequency in (("f1", f1), ("f2", f2)):
        first = trials.timeline.epochs[epoch][:, 0]
        shown = trials.inputs["stimulus"][np.arange(2000), first, 0]
        np.testing.assert_allclose(shown, frequency / 34, rtol=1e-6)
    validation = validation_trials(tasks.DelayedComparison()).conditions
    assert len({*zip(validation["f1"].tolist(), validation["f2"].tolist(), strict=True)}) == 10


@pytest.mark.parametrize(("yes_to", "rotation"), [("non-match", 0), ("match", 2)])
def test_a_test_matches_as_often_as_asked_and_yes_is_said_to_what_was_asked(yes_to, rotation, getkey):
    task = tasks.DelayedMatchToSample(
        n_directions=5, rotation=rotation, yes_to=yes_to, match_probability=0.3, noise=0.0
    )
    trials = many_trials(task, getkey())
    sample, test, match = (trials.conditions[name] for name in ("sample", "test", "match"))
    np.testing.assert_array_equal((test - sample) % 5 == rotation, match)
    np.testing.assert_array_equal(trials.conditions["choice"] == 0, match == (yes_to == "match"))
    np.testing.assert_allclose(match.mean(), 0.3, atol=share_error(0.3, 2000))
    np.testing.assert_allclose(np.bincount(sample) / 2000, 0.2, atol=share_error(0.2, 2000))
    steps = np.bincount((test - sample - rotation)[~match] % 5, minlength=5)[1:] / (~match).sum()
    np.testing.assert_allclose(steps, 0.25, atol=share_error(0.25, (~match).sum()))
    for epoch, direction in (("sample", sample), ("test", test)):
        first = trials.timeline.epochs[epoch][:, 0]
        np.testing.assert_array_equal(trials.inputs["stimulus"][np.arange(2000), first].argmax(1), direction)


def test_pro_is_towards_and_anti_away_as_often_as_asked(getkey):
    trials = many_trials(tasks.DelayedResponse(anti_probability=0.25, noise=0.0, dt=0.02), getkey())
    rule, shown, choice = (trials.conditions[name] for name in ("rule", "stimulus", "choice"))
    np.testing.assert_array_equal(choice, (shown + 4 * rule) % 8)
    np.testing.assert_allclose(rule.mean(), 0.25, atol=share_error(0.25, 2000))
    np.testing.assert_allclose(np.bincount(shown) / 2000, 1 / 8, atol=share_error(1 / 8, 2000))
    np.testing.assert_array_equal(trials.inputs["rule"], np.repeat(one_hot(rule, 2)[:, None], 60, axis=1))
    np.testing.assert_array_equal(trials.inputs["stimulus"][:, 5].argmax(1), shown)
    validation = validation_trials(tasks.DelayedResponse()).conditions
    assert len({*zip(validation["rule"].tolist(), validation["stimulus"].tolist(), strict=True)}) == 16
