import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials
from scipy.stats import norm

import popsim
from popsim.tasks import PerceptualDecision

COHERENCES = np.array([-0.512, -0.256, -0.128, -0.064, -0.032, 0.032, 0.064, 0.128, 0.256, 0.512])


def evidence_for_the_second(trials):
    """The difference of the streams, or the only stream, added up over the trial."""
    stimulus = trials.inputs["stimulus"].sum(axis=1)
    return stimulus[:, 0] if stimulus.shape[1] == 1 else stimulus[:, 1] - stimulus[:, 0]


@pytest.mark.parametrize("n_streams", [1, 2])
def test_the_evidence_says_what_is_right_as_often_as_the_formula_has_it(n_streams, getkey):
    trials = many_trials(PerceptualDecision(n_streams=n_streams), getkey(), 8000)
    coherence, choice = trials.conditions["coherence"], trials.conditions["choice"]
    np.testing.assert_array_equal(choice, coherence > 0)
    is_right = (evidence_for_the_second(trials) > 0) == choice
    d = abs(COHERENCES) * (0.5 / n_streams) ** 0.5 / 0.05
    np.testing.assert_allclose(is_right.mean(), norm.cdf(d).mean(), atol=share_error(0.85, 8000))
    for value, p in zip(COHERENCES, norm.cdf(d), strict=True):
        here = np.isclose(coherence, value)
        np.testing.assert_allclose(here.mean(), 0.1, atol=share_error(0.1, 8000))
        np.testing.assert_allclose(is_right[here].mean(), p, atol=share_error(p, here.sum()) + 0.005)


def test_streams_are_for_the_two_directions_and_only_during_the_stimulus(getkey):
    trials = many_trials(PerceptualDecision(noise=0.0, dt=0.02), getkey(), 20)
    coherence = trials.conditions["coherence"][:, None]
    shown = trials.inputs["stimulus"][:, 5:30]
    np.testing.assert_allclose(shown[..., 0], np.tile((1 - coherence) / 2, 25), rtol=1e-6)
    np.testing.assert_allclose(shown[..., 1], np.tile((1 + coherence) / 2, 25), rtol=1e-6)
    assert np.all(trials.inputs["stimulus"][:, :5] == 0) and np.all(trials.inputs["stimulus"][:, 30:] == 0)
    right = trials.conditions["choice"]
    np.testing.assert_array_equal(trials.targets.values[:, 30:].argmax(-1), np.tile(right[:, None], 15))
    assert np.all(trials.targets.values[:, :30] == 0)


def test_drawn_epochs_move_stimulus_and_go_cue(getkey):
    task = PerceptualDecision(
        stimulus=popsim.distributions.Uniform(0.2, 0.6),
        delay=popsim.distributions.Uniform(0.0, 0.2),
        duration=1.1,
        dt=0.02,
    )
    trials = many_trials(task, getkey(), 300)
    n_shown = np.any(trials.inputs["stimulus"] != 0, axis=2).sum(1)
    assert n_shown.min() <= 12 and n_shown.max() >= 28
    np.testing.assert_array_equal(n_shown, np.diff(trials.timeline.epochs["stimulus"])[:, 0])
    np.testing.assert_array_equal(trials.inputs["fixation"].sum((1, 2)), trials.timeline.events["go cue"])


def test_validation_has_each_coherence_once_and_zero_is_decided_by_a_coin(getkey):
    np.testing.assert_allclose(
        validation_trials(PerceptualDecision()).conditions["coherence"], COHERENCES, rtol=1e-6
    )
    even = validation_trials(PerceptualDecision(coherence=popsim.distributions.Uniform(-0.4, 0.4)))
    np.testing.assert_allclose(even.conditions["coherence"], np.linspace(-0.4, 0.4, 5), atol=1e-7)
    drawn = validation_trials(PerceptualDecision(coherence=popsim.distributions.Normal(0.0, 0.1)))
    assert len(np.unique(drawn.conditions["coherence"])) == 5
    blind = many_trials(PerceptualDecision(coherence=0.0), getkey())
    np.testing.assert_allclose(blind.conditions["choice"].mean(), 0.5, atol=share_error(0.5, 2000))


def test_the_noise_may_differ_between_members(getkey):
    import equinox as eqx

    from popsim.evaluation import validation_trials as of_members

    task = eqx.tree_at(
        lambda task: task.noise, PerceptualDecision(dt=0.02), popsim.PerMember(jnp.array([0.0, 0.1]))
    )
    stimulus = np.asarray(of_members(task, 2).inputs["stimulus"])[:, :, 5:30]
    assert np.all(stimulus[0].std(axis=1) < 1e-6)
    np.testing.assert_allclose(stimulus[1].std(axis=1).mean(), 0.1 / 0.02**0.5, rtol=0.05)
