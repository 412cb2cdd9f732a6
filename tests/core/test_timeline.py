import jax
import jax.numpy as jnp
import pytest

import popsim
from popsim import NEVER, Timeline

TIMELINE = Timeline(
    0.01,
    6,
    epochs={"hold": jnp.array([0, 2]), "movement": jnp.array([2, 6])},
    events={"go cue": jnp.array(2), "catch": jnp.array(NEVER)},
)


def test_an_epoch_ends_before_its_second_bound():
    assert TIMELINE.in_epoch("hold").tolist() == [True, True] + [False] * 4
    assert TIMELINE.in_epoch("movement").tolist() == [False, False] + [True] * 4


@pytest.mark.parametrize("delay, first", [(0.0, 2), (0.01, 3), (-0.01, 1), (-1.0, 0), (0.04, 6)])
def test_an_event_is_there_from_its_step_on(delay, first):
    assert TIMELINE.since("go cue", delay).tolist() == [step >= first for step in range(6)]


@pytest.mark.parametrize("delay", [-100.0, 0.0, 100.0])
def test_what_never_comes_has_not_begun_at_any_step(delay):
    """Nor does the number of its step overflow."""
    assert not jnp.any(TIMELINE.since("catch", delay))


def test_an_event_happens_if_it_comes_within_the_trial():
    at = {"at the start": 0, "at the last step": 5, "after it": 6, "never": NEVER}
    timeline = Timeline(0.01, 6, events={name: jnp.array(step) for name, step in at.items()})
    assert [bool(timeline.happens(name)) for name in at] == [True, True, False, False]


def test_stacked_timelines_say_which_trials_an_event_comes_in():
    timelines = jax.vmap(lambda go: Timeline(0.01, 6, events={"go cue": go}))(jnp.array([0, 5, NEVER]))
    assert timelines.happens("go cue").tolist() == [True, True, False]
    assert jax.vmap(lambda own: own.since("go cue"))(timelines).sum(axis=1).tolist() == [6, 1, 0]


def test_names_that_the_trial_does_not_have_are_refused():
    with pytest.raises(ValueError, match=r"`name` must be one of the epochs.*\['hold', 'movement'\].*'rest'"):
        TIMELINE.in_epoch("rest")
    for ask in (TIMELINE.since, TIMELINE.happens):
        with pytest.raises(ValueError, match=r"`name` must be one of the events.*got 'rest'"):
            ask("rest")


@pytest.mark.parametrize(
    "arguments, named",
    [
        ({"dt": 0.0}, "`dt`"),
        ({"dt": float("nan")}, "`dt`"),
        ({"dt": "0.01"}, "`dt` must be a Python number, got a str"),
        ({"n_steps": 0}, "`n_steps`"),
        ({"n_steps": 2.5}, "`n_steps`"),
        ({"epochs": {"hold": jnp.array(1)}}, r"`epochs\['hold'\]`"),
        ({"epochs": {"hold": jnp.array([1, 2, 3])}}, r"`epochs\['hold'\]`"),
        ({"epochs": {"hold": jnp.array([0.0, 0.1])}}, r"`epochs\['hold'\]`.*float32"),
        ({"events": {"go": jnp.array(0.1)}}, r"`events\['go'\]`.*float32"),
    ],
)
def test_a_timeline_that_cannot_be_is_refused(arguments, named, as_users_run):
    with pytest.raises(ValueError, match=named):
        Timeline(**{"dt": 0.01, "n_steps": 6} | arguments)


def test_never_is_after_any_trial():
    assert popsim.NEVER + 2**20 < 2**31  # room for delays of days
