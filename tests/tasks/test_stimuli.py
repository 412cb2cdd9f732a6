import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.tasks.trial_parts import ring_activity, sign_or_coin, with_noise


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


def test_a_fair_coin_decides_where_nothing_speaks_for_either():
    keys = jax.random.split(jax.random.key(2), 2000)
    for evidence, expected in ((0.1, 1.0), (-0.1, 0.0)):
        choices = jax.vmap(lambda key, evidence=evidence: sign_or_coin(jnp.asarray(evidence), key=key))(keys)
        assert np.all(np.asarray(choices) == expected)
    coin = np.asarray(jax.vmap(lambda key: sign_or_coin(jnp.asarray(0.0), key=key))(keys))
    np.testing.assert_allclose(coin.mean(), 0.5, atol=5 * (0.25 / 2000) ** 0.5)
