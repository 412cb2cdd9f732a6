import jax
import jax.numpy as jnp
import numpy as np

from popsim import Workspace


def test_samples_are_uniform_in_the_box(getkey):
    workspace = Workspace([-0.1, 0.2], [0.3, 0.3])
    samples = jax.vmap(lambda key: workspace.sample(key=key))(jax.random.split(getkey(), 4000))
    unit = (np.asarray(samples) - [-0.1, 0.2]) / [0.4, 0.1]
    assert unit.min() >= 0 and unit.max() <= 1
    for axis in unit.T:
        counts = np.histogram(axis, bins=10, range=(0, 1))[0]
        np.testing.assert_allclose(counts, 400, atol=5 * (4000 * 0.1 * 0.9) ** 0.5)
    assert abs(np.corrcoef(unit.T)[0, 1]) < 5 / 4000**0.5


def test_a_square_is_around_its_center():
    workspace = Workspace.around(jnp.array([0.1, 0.4]), 0.2)
    np.testing.assert_allclose(workspace.center, [0.1, 0.4], rtol=1e-6)
    np.testing.assert_allclose(workspace.half_widths, 0.1, rtol=1e-6)
    np.testing.assert_allclose(workspace.low, [0.0, 0.3], atol=1e-7)
    np.testing.assert_allclose(workspace.high, [0.2, 0.5], atol=1e-7)
