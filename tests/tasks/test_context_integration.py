import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials
from scipy.stats import norm

import popsim
from popsim.tasks import ContextIntegration


def relevant(trials):
    both = np.stack([trials.conditions["motion coherence"], trials.conditions["colour coherence"]])
    context = trials.conditions["context"]
    return both[context, np.arange(context.size)], both[1 - context, np.arange(context.size)]


def test_who_adds_up_the_relevant_stream_is_as_good_as_the_formula_and_with_the_other_at_chance(getkey):
    trials = many_trials(ContextIntegration(), getkey(), 8000)
    choice = popsim.correct_choice(trials.targets)
    np.testing.assert_array_equal(choice, relevant(trials)[0] > 0)
    np.testing.assert_array_equal(choice, trials.conditions["choice"])
    added_up = trials.inputs["evidence"].sum(axis=1)
    for context, stream, p in ((0, 0, 0.8079), (1, 1, 0.8079), (0, 1, 0.5), (1, 0, 0.5)):
        here = trials.conditions["context"] == context
        is_right = (added_up[:, stream] > 0) == np.asarray(choice)
        np.testing.assert_allclose(is_right[here].mean(), p, atol=share_error(p, here.sum()))
    np.testing.assert_allclose(norm.cdf(5 * np.array([0.06, 0.12, 0.25, 0.5])).mean(), 0.8079, atol=1e-4)


def test_streams_and_context_are_drawn_independently(getkey):
    trials = many_trials(ContextIntegration(), getkey())
    drawn = [trials.conditions[name] for name in ("context", "motion coherence", "colour coherence")]
    np.testing.assert_allclose(np.corrcoef(drawn), np.eye(3), atol=5 / 2000**0.5)
    np.testing.assert_allclose(drawn[0].mean(), 0.5, atol=share_error(0.5, 2000))
    noise = trials.inputs["evidence"][:, :25] - np.stack(drawn[1:], axis=-1)[:, None]
    np.testing.assert_allclose(noise.std((0, 1)), 1.0, rtol=0.02)
    np.testing.assert_allclose(np.corrcoef(noise.reshape(-1, 2).T)[0, 1], 0, atol=5 / 50_000**0.5)


def test_what_is_shown_when_and_that_only_the_last_step_counts(getkey):
    trials = many_trials(ContextIntegration(), getkey(), 20)
    assert trials.inputs["evidence"].shape == (20, 28, 2)
    assert np.all(trials.inputs["evidence"][:, 25:] == 0)
    told = np.eye(2)[trials.conditions["context"]]
    np.testing.assert_array_equal(trials.inputs["context"], np.repeat(told[:, None], 28, axis=1))
    np.testing.assert_array_equal(trials.targets.counts, np.tile([0.0] * 27 + [1.0], (20, 1)))


@pytest.mark.full
def test_two_outputs_ask_for_the_same_choice(getkey):
    key = getkey()
    one, two = (many_trials(ContextIntegration(n_outputs=n), key, 50) for n in (1, 2))
    assert two.targets.values.shape == (50, 28, 2)
    np.testing.assert_array_equal(popsim.correct_choice(one.targets), popsim.correct_choice(two.targets))


def test_validation_has_all_combinations_once():
    conditions = validation_trials(ContextIntegration()).conditions
    names = ("context", "motion coherence", "colour coherence")
    assert len({tuple(row) for row in np.stack([conditions[name] for name in names], axis=1)}) == 128
