import jax.numpy as jnp
import pytest

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
