import jax
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials

from popsim.tasks import FlipFlop


def last_signs(pulses):
    held, signs = pulses[0], []
    for now in pulses:
        held = np.where(now != 0, now, held)
        signs.append(held)
    return np.array(signs)


def test_outputs_should_hold_the_sign_of_the_last_pulse_of_their_own_channel(getkey):
    trials = many_trials(FlipFlop(n_bits=4), getkey(), 50)
    for pulses, values in zip(trials.inputs["pulses"], trials.targets.values, strict=True):
        np.testing.assert_array_equal(values, last_signs(pulses))
    assert trials.targets.values.shape == (50, 100, 4) and np.all(trials.targets.counts == 1)


def test_pulses_come_on_each_channel_alone_with_the_probability_and_either_sign(getkey):
    pulses = many_trials(FlipFlop(), getkey()).inputs["pulses"]
    assert np.all(abs(pulses[:, 0]) == 1)
    later = pulses[:, 1:]
    n = later[..., 0].size
    assert set(np.unique(later)) == {-1.0, 0.0, 1.0}
    np.testing.assert_allclose((later != 0).mean(axis=(0, 1)), 0.06, atol=share_error(0.06, n))
    np.testing.assert_allclose(later[later != 0].mean(), 0, atol=5 / (0.18 * n) ** 0.5)
    correlation = np.corrcoef((later != 0).reshape(-1, 3).T)
    np.testing.assert_allclose(correlation, np.eye(3), atol=5 / n**0.5)
    following = np.mean((later[:, 1:] != 0) & (later[:, :-1] != 0))
    np.testing.assert_allclose(following, 0.06**2, atol=share_error(0.0036, 3 * n))


def test_first_bits_are_the_first_pulses_and_all_come_in_validation(getkey):
    trials = many_trials(FlipFlop(), getkey())
    np.testing.assert_array_equal(trials.conditions["first bits"], trials.inputs["pulses"][:, 0] > 0)
    np.testing.assert_allclose(trials.conditions["first bits"].mean(0), 0.5, atol=share_error(0.5, 2000))
    validation = validation_trials(FlipFlop())
    assert len({tuple(bits) for bits in validation.conditions["first bits"]}) == 8
    np.testing.assert_array_equal(validation.conditions["first bits"], validation.inputs["pulses"][:, 0] > 0)
    assert np.any(validation.inputs["pulses"][0, 1:] != validation.inputs["pulses"][1, 1:])


@pytest.mark.parametrize("probability, n_pulses", [(0.0, 3), (1.0, 300)])
def test_no_pulse_or_all(probability, n_pulses):
    trial = FlipFlop(pulse_probability=probability).trial(batch=0, key=jax.random.key(0))
    assert np.count_nonzero(trial.inputs["pulses"]) == n_pulses
