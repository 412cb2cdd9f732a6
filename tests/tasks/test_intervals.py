"""Intervals: which lasted longer, what is to be produced, and how well an ideal observer can know."""

import jax.numpy as jnp
import numpy as np
import pytest
from sample_trials import many_trials, share_error, validation_trials
from short_form import every_nth_row

import popsim
from popsim import tasks
from popsim.analysis.behaviour import produced_interval
from popsim.tasks import CueSetGo, IntervalDiscrimination, OneTwoThreeGo

DT = 0.05


@pytest.mark.full
def test_the_longer_stimulus_is_right_and_counting_time_steps_finds_it(getkey):
    response = popsim.tasks.GoResponse(catch_probability=0.2)
    trials = many_trials(IntervalDiscrimination(response=response), getkey())
    first, second, order, choice = (trials.conditions[n] for n in ("first", "second", "order", "choice"))
    for epoch, seconds in (("first", first), ("second", second)):
        np.testing.assert_allclose(DT * np.diff(trials.timeline.epochs[epoch])[:, 0], seconds, rtol=1e-5)
    np.testing.assert_array_equal(choice == order, first > second)
    np.testing.assert_array_equal(tasks.longer_stimulus(jnp.asarray(trials.inputs["stimulus"])), choice)
    np.testing.assert_allclose(choice.mean(), 0.5, atol=share_error(0.5, 2000))
    np.testing.assert_allclose(trials.conditions["catch"].mean(), 0.2, atol=share_error(0.2, 2000))
    asked = popsim.correct_choice(trials.targets)
    np.testing.assert_array_equal(asked, np.where(trials.conditions["catch"], -1, choice))
    # Who knows only the first guesses that the other one is on the side where most of them are.
    from_first = np.where(first > 0.45, order, 1 - order)
    bound = tasks.accuracy_from_one_interval(4)
    assert bound == pytest.approx(10 / 12)
    np.testing.assert_allclose(np.mean(from_first == choice), bound, atol=share_error(bound, 2000))


def test_validation_compares_all_pairs_in_both_orders():
    conditions = validation_trials(IntervalDiscrimination()).conditions
    kinds = {*zip(*(conditions[name].tolist() for name in ("first", "second", "order")), strict=True)}
    assert len(kinds) == 24 and np.all(conditions["first"] != conditions["second"])


@pytest.mark.parametrize(
    ("task", "start", "n_pulses"),
    every_nth_row([(CueSetGo(catch_probability=0.2), "set", 1), (OneTwoThreeGo(), "three", 3)], 2),
)
def test_the_ramp_reaches_one_after_the_interval(task, start, n_pulses, getkey):
    trials = many_trials(task, getkey(), 500)
    begins, interval = trials.timeline.events[start], trials.conditions["interval"]
    comes = ~trials.conditions["catch"]
    values = trials.targets.values[..., 0]
    produced = produced_interval(jnp.asarray(values[comes]), jnp.asarray(begins[comes]), dt=DT)
    np.testing.assert_allclose(produced, interval[comes], atol=1e-3)
    np.testing.assert_allclose(
        DT * (trials.timeline.events["go"] - begins)[comes], interval[comes], atol=1e-3
    )
    counted = np.floor(begins + 1.2 * np.round(interval / DT) + 1e-4) + 1
    np.testing.assert_array_equal(trials.targets.counts.sum(1)[comes], counted[comes])
    assert not values[~comes].any() and np.all(trials.targets.counts[~comes] == 1)
    pulses = trials.inputs["set" if start == "set" else "pulses"][..., 0]
    np.testing.assert_allclose(DT * pulses.sum(1)[comes], n_pulses * task.pulse, rtol=1e-5)
    assert np.all(pulses[np.flatnonzero(comes), begins[comes]] == 1) and not pulses[:, 0].any()


def test_the_cue_names_the_interval_until_the_end(getkey):
    task = CueSetGo(catch_probability=0.3)
    trials = many_trials(task, getkey())
    cue, shown = trials.inputs["cue"][..., 0], trials.timeline.events["cue on"]
    np.testing.assert_array_equal(cue[:, -1], trials.conditions["interval"])
    np.testing.assert_array_equal((cue > 0).sum(1), trials.timeline.n_steps - shown)
    np.testing.assert_allclose(trials.conditions["catch"].mean(), 0.3, atol=share_error(0.3, 2000))
    waited = DT * (trials.timeline.events["set"] - shown)[~trials.conditions["catch"]]
    np.testing.assert_allclose([waited.min(), waited.max()], [1.0, 3.0], atol=0.06)
    np.testing.assert_allclose(validation_trials(task).conditions["interval"], [0.8, 1.5])


@pytest.mark.full
def test_the_best_estimate_of_a_shown_interval_has_the_error_that_is_computed(getkey):
    task, n = OneTwoThreeGo(), 8000
    trials = many_trials(task, getkey(), n)
    events, interval = trials.timeline.events, trials.conditions["interval"]
    n_shown = np.stack([events["two"] - events["one"], events["three"] - events["two"]], axis=1)
    for index, name in enumerate(("first shown", "second shown")):
        np.testing.assert_allclose(DT * n_shown[:, index], trials.conditions[name], rtol=1e-5)
    squared = (np.asarray(tasks.estimate_interval(task, jnp.asarray(n_shown))) - interval) ** 2
    none, one, both = (tasks.interval_error(task, n_intervals=k) for k in (0, 1, 2))
    assert none == pytest.approx(0.02**0.5) and none > 1.5 * one > 1.8 * both
    np.testing.assert_allclose(squared.mean(), both**2, atol=4 * squared.std() / n**0.5)
    assert np.mean((DT * n_shown.mean(1) - interval) ** 2) > 1.2 * both**2
    exact = OneTwoThreeGo(weber_fraction=0.0)
    assert tasks.interval_error(exact) == 0
    np.testing.assert_allclose(tasks.estimate_interval(exact, jnp.array([[14, 14]])), 0.7, rtol=1e-6)
