"""The statistics of 2,000 timelines drawn from each plan."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import popsim
from popsim import NEVER, Epoch, TrialPlan
from popsim.distributions import Uniform

N = 2000
REACH = (
    Epoch("hold", Uniform(0.2, 0.5), event="target on"),
    Epoch("delay", 0.1, event="target off"),
    Epoch("movement", event="go cue"),
)


def plan(epochs=REACH, duration=1.0, dt=0.01, **options):
    return TrialPlan(epochs, duration=duration, dt=dt, **options)


@eqx.filter_jit
def drawn(own, keys):
    return jax.vmap(lambda key: own.draw(key=key))(keys)


def draws(own, key, n=N):
    return drawn(own, jax.random.split(key, n))


def test_durations_are_drawn_and_rounded_to_steps_and_events_come_with_their_epochs(getkey):
    timelines = draws(plan(), getkey())
    lengths = np.diff(timelines.epochs["hold"], axis=1)[:, 0]
    assert lengths.min() == 20 and lengths.max() == 50 and len(np.unique(lengths)) == 31
    counts = np.bincount(lengths)[21:50] / N  # the first and the last step are half as likely
    np.testing.assert_allclose(counts, 1 / 30, atol=4.5 * (1 / 30 / N) ** 0.5)
    np.testing.assert_array_equal(np.diff(timelines.epochs["delay"], axis=1), 10)
    for epoch in REACH:
        np.testing.assert_array_equal(timelines.events[epoch.event], timelines.epochs[epoch.name][:, 0])


def test_an_epoch_added_behind_changes_none_before_it(getkey):
    key = getkey()
    longer = (*REACH[:2], Epoch("wait", Uniform(0.0, 0.1)), *REACH[2:])
    one, other = draws(plan(), key, 20), draws(plan(longer), key, 20)
    np.testing.assert_array_equal(one.epochs["hold"], other.epochs["hold"])


CATCHING = (REACH[0], REACH[1], Epoch("movement", 0.3, event="go cue"), Epoch("end", event="reward"))


def test_in_a_catch_trial_the_event_and_what_follows_do_not_come(getkey):
    timelines = draws(plan(CATCHING, catch_event="go cue", catch_probability=0.2), getkey())
    caught = ~np.asarray(timelines.happens("go cue"))
    np.testing.assert_allclose(caught.mean(), 0.2, atol=4 * (0.16 / N) ** 0.5)
    for event in ("go cue", "reward"):
        steps = np.asarray(timelines.events[event])
        assert np.all(steps[caught] == NEVER) and np.all(steps[~caught] < 100)
    for event in ("target on", "target off"):
        assert np.all(np.asarray(timelines.events[event]) < 100)
    epochs = {name: np.asarray(bounds)[caught] for name, bounds in timelines.epochs.items()}
    assert np.all(epochs["delay"][:, 1] == 100)
    np.testing.assert_array_equal(epochs["hold"][:, 1], epochs["delay"][:, 0])
    for name in ("movement", "end"):
        assert np.all(np.diff(epochs[name], axis=1) == 0)
        within = jax.vmap(lambda own, name=name: own.in_epoch(name))(timelines)
        assert not np.any(np.asarray(within)[caught])


def test_catch_trials_do_not_change_the_others(getkey):
    """Nor is a trial more likely caught for its fore-period."""
    key = getkey()
    without, some = (
        draws(plan(CATCHING), key),
        draws(plan(CATCHING, catch_event="go cue", catch_probability=0.5), key),
    )
    caught = ~np.asarray(some.happens("go cue"))
    for name, bounds in without.epochs.items():
        np.testing.assert_array_equal(np.asarray(some.epochs[name])[~caught], np.asarray(bounds)[~caught])
    hold = np.asarray(without.epochs["hold"])[:, 1]
    assert abs(hold[caught].mean() - hold[~caught].mean()) < 4 * 30 / 12**0.5 * (4 / N) ** 0.5


def test_the_share_of_catch_trials_and_durations_may_differ_between_members(getkey):
    epochs = (Epoch("hold", popsim.PerMember([0.1, 0.3])), Epoch("movement", event="go cue"))
    own = plan(epochs, catch_event="go cue", catch_probability=popsim.PerMember([0.0, 1.0]))
    key = getkey()
    first, second = (draws(popsim.select_member(own, member), key, 50) for member in range(2))
    assert np.all(np.asarray(first.events["go cue"]) == 10) and not np.any(second.happens("go cue"))
    assert np.all(np.asarray(popsim.select_member(own, 1).nominal().epochs["hold"]) == jnp.array([0, 30]))


def test_a_typical_trial_has_epochs_of_middling_length_and_is_no_catch_trial():
    timeline = plan(catch_event="go cue", catch_probability=1.0).nominal()
    bounds = {name: steps.tolist() for name, steps in timeline.epochs.items()}
    assert bounds == {"hold": [0, 35], "delay": [35, 45], "movement": [45, 100]}
    assert bool(timeline.happens("go cue"))


def test_epochs_may_end_before_the_trial_or_last_no_time_and_an_event_at_the_end_never_comes(getkey):
    timeline = plan((Epoch("a", 0.2), Epoch("b", 0.0, event="b"), Epoch("c", 0.3))).draw(key=getkey())
    bounds = {name: steps.tolist() for name, steps in timeline.epochs.items()}
    assert bounds == {"a": [0, 20], "b": [20, 20], "c": [20, 50]}
    whole = plan((Epoch("a", 1.0), Epoch("b", event="b"))).draw(key=getkey())
    assert whole.epochs["b"].tolist() == [100, 100] and int(whole.events["b"]) == NEVER
