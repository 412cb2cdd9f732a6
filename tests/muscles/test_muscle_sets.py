"""The sets of six muscles, and what is refused."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim import muscles
from popsim.muscles import RigidTendonHillMuscle

pytestmark = pytest.mark.slow


def test_arm26_fibres_work_about_their_optimal_length(float64):
    """At every posture of reaching, 20-90 and 30-130 degrees, for both families."""
    angles = jnp.deg2rad(jnp.stack(jnp.meshgrid(jnp.linspace(20, 90, 8), jnp.linspace(30, 130, 8)), -1))
    families: list[tuple[Any, Any]] = [
        (muscles.arm26_muscles(), muscles.arm26_path()),
        (muscles.arm26_compliant_muscles(RigidTendonHillMuscle), muscles.arm26_compliant_path()),
    ]
    for built, path in families:
        lengths = jax.vmap(path.length)(angles.reshape(-1, 2))
        fibres = (lengths - built.tendon_length) / built.optimal_length
        assert jnp.all((fibres > 0.4) & (fibres < 1.6))


def test_arm26_table(float64):
    built: Any = muscles.arm26_compliant_muscles()
    rigid: Any = muscles.arm26_muscles()
    np.testing.assert_array_equal(built.max_isometric_force, [838, 1207, 1422, 1549, 414, 603])
    np.testing.assert_array_equal(built.optimal_length, [0.134, 0.140, 0.092, 0.093, 0.137, 0.127])
    np.testing.assert_array_equal(built.tendon_length, [0.070, 0.070, 0.172, 0.187, 0.204, 0.217])
    np.testing.assert_array_equal(rigid.tendon_length[:2], [0.039, 0.066])


def test_li_todorov_set_is_in_si_units(float64):
    built = muscles.li_todorov_muscles()
    np.testing.assert_allclose(built.max_isometric_force, 31.8 * np.array([22, 12, 18, 14, 5, 10]))
    np.testing.assert_allclose(built.optimal_length, [0.0732, 0.0326, 0.064, 0.0426, 0.0595, 0.0404])
