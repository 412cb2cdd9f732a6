"""What holds for all times, epochs, distributions and values of members."""

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import popsim
from popsim import Epoch, PerMember, Timeline, TrialPlan
from popsim._shared.plain_values import is_on_grid, step_at
from popsim.distributions import TruncatedExponential, Uniform
from popsim.per_member import member_values, with_member_values
from popsim.windows import Between, FromEvent

settings.register_profile("popsim", max_examples=30, deadline=None, derandomize=True, database=None)
settings.load_profile("popsim")

DT = st.sampled_from([0.001, 0.005, 0.01, 0.02, 1 / 60, 0.1])
STEPS = st.integers(-500, 500)
NUMBERS = st.floats(-100.0, 100.0, width=32, allow_subnormal=False)
KEYS = st.integers(0, 2**31 - 1).map(jax.random.key)


@given(DT, STEPS, st.floats(-0.49, 0.49))
def test_a_time_is_at_the_nearest_step_and_half_a_step_counts_up(dt, n, off):
    assert step_at(n * dt, dt) == step_at((n + off) * dt, dt) == n
    assert step_at((n + 0.5) * dt, dt) == n + 1
    assert is_on_grid(n * dt, dt) and not is_on_grid((n + 0.5) * dt, dt)
    times = jnp.asarray([n * dt, (n + off) * dt, (n + 0.5) * dt], jnp.float32)
    np.testing.assert_array_equal(step_at(times, dt), [n, n, n + 1])


@given(DT, st.lists(st.integers(1, 60), min_size=1, max_size=6))
def test_epochs_follow_one_another_and_do_not_drift(dt, quarters):
    """Durations are in quarters of a step: only where an epoch ends is rounded, since the trial began."""
    n_steps = sum(quarters) // 4 + 2
    epochs = [Epoch(f"epoch {i}", n * dt / 4 + dt) for i, n in enumerate(quarters)]
    plan = TrialPlan([*epochs, Epoch("rest")], duration=(n_steps + len(epochs)) * dt, dt=dt)
    ends = np.floor(np.cumsum(quarters) / 4 + 0.5).astype(int) + np.arange(1, len(quarters) + 1)
    for timeline in (plan.nominal(), plan.draw(key=jax.random.key(0))):
        bounds = np.stack([*timeline.epochs.values()])
        assert bounds[0, 0] == 0 and bounds[-1, 1] == plan.n_steps
        np.testing.assert_array_equal(bounds[1:, 0], bounds[:-1, 1])
        np.testing.assert_array_equal(bounds[:-1, 1], ends)


@given(st.integers(-10, 30), st.sampled_from([1, 2, 2.5, 7, 12.5]))
def test_a_window_has_the_same_number_of_steps_at_every_delay(delay, length):
    timeline = Timeline(0.01, 60, events={"go cue": jnp.array(15)})
    first, n_steps = 15 + delay, int(length + 0.5)
    steps = np.flatnonzero(FromEvent("go cue", delay * 0.01, length * 0.01)(timeline))
    assert steps.tolist() == [step for step in range(first, first + n_steps) if 0 <= step < 60]


@given(st.lists(st.integers(0, 240), min_size=2, max_size=6, unique=True).map(sorted))
def test_windows_that_adjoin_in_time_adjoin_in_steps(quarters):
    edges = [quarter * 0.0025 for quarter in quarters]
    pairs = [pair for pair in zip(edges[:-1], edges[1:], strict=True) if pair[1] - pair[0] >= 0.01]
    edges = [pair[0] for pair in pairs] + [pairs[-1][1]] if pairs else []
    timeline = Timeline(0.01, 61)
    masks = [np.asarray(Between(*pair)(timeline)) for pair in zip(edges[:-1], edges[1:], strict=True)]
    if masks:
        assert np.sum(masks, axis=0).max() <= 1
        np.testing.assert_array_equal(np.any(masks, axis=0), Between(edges[0], edges[-1])(timeline))


@given(NUMBERS, st.floats(0.0, 50.0, width=32), st.floats(0.015625, 10.0, width=32), KEYS)
def test_draws_are_within_their_bounds(low, width, scale, key):
    for own in (Uniform(low, low + width), TruncatedExponential(low, low + width, scale)):
        bounds = own.bounds()
        assert bounds[0] - 1e-5 <= own.sample(key=key) <= bounds[1] + 1e-5


@given(st.lists(NUMBERS, min_size=1, max_size=5), NUMBERS, st.data())
def test_values_of_members_are_multiplied_split_off_and_put_back(values, factor, data):
    own = PerMember(values)
    index = data.draw(st.integers(0, len(values) - 1))
    expected = np.float32(values) * np.float32(factor)
    for product in (own * factor, factor * own, own * PerMember([factor] * len(values))):
        np.testing.assert_allclose(product.values, expected, rtol=1e-6, atol=1e-30)
    tree = {"a": own, "b": jnp.ones(2), "c": [own * 2]}
    split = member_values(tree, len(values), "tree")
    of_member = jax.tree.map(lambda leaf: leaf[index], split)
    alone = popsim.select_member(tree, index)
    jax.tree.map(np.testing.assert_array_equal, with_member_values(tree, of_member), alone)
    assert alone["a"] == np.float32(values[index])
