"""The sets of six muscles, and what is refused."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import mostly_in_full

from popsim import muscles
from popsim.muscles import (
    BrownLoebMuscle,
    CompliantTendonHillMuscle,
    FirstOrderActivation,
    HillCurves,
    MujocoMuscle,
    ReluMuscle,
    RigidTendonHillMuscle,
    ThelenMuscle,
)

pytestmark = pytest.mark.slow

LAWS = {
    "relu": ReluMuscle,
    "hill": RigidTendonHillMuscle,
    "compliant": CompliantTendonHillMuscle,
    "thelen": ThelenMuscle,
    "mujoco": MujocoMuscle,
    "li_todorov": BrownLoebMuscle.li_todorov,
    "fast": BrownLoebMuscle.fast,
    "slow": BrownLoebMuscle.slow,
}
every_law = pytest.mark.parametrize("name", mostly_in_full(LAWS, ["relu", "hill", "compliant", "li_todorov"]))


def forces(muscle, length, activation=0.5, velocity=0.05):
    drive = jnp.full(length.shape, activation)
    return muscle.force(muscle.init(drive, length), drive, length, jnp.full(length.shape, velocity))


@every_law
def test_arm26_pulls_with_any_muscle(float64, name):
    built = muscles.arm26_muscles(LAWS[name])
    length = muscles.arm26_path().length(jnp.deg2rad(jnp.array([45.0, 90.0])))
    force = forces(built, length, 1.0)
    assert force.shape == (len(muscles.ARM26_MUSCLES),)
    assert jnp.all((force > 0) & (force < 2 * built.max_isometric_force))


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
    length = muscles.li_todorov_path().length(jnp.deg2rad(jnp.array([45.0, 90.0])))
    assert jnp.all(forces(built, length, 1.0) > 0)


@pytest.mark.parametrize("law", [CompliantTendonHillMuscle, BrownLoebMuscle.slow])
def test_one_call_adds_a_muscle(float64, law):
    built, one = muscles.arm26_muscles(law), law(500.0, 0.1, tendon_length=0.2)
    together = built.with_muscle(one)
    length = jnp.append(muscles.arm26_path().length(jnp.array([0.8, 1.5])), 0.31)
    expected = jnp.append(forces(built, length[:6]), forces(one, length[6:]))
    np.testing.assert_allclose(forces(together, length), expected, rtol=1e-13)
    assert eqx.tree_equal(together.activation.lowest, jnp.full(7, built.activation.lowest))


def test_a_muscle_of_another_law_is_refused():
    with pytest.raises(ValueError, match="`other`"):
        RigidTendonHillMuscle(500.0, 0.1).with_muscle(ThelenMuscle(500.0, 0.1))


@pytest.mark.parametrize(
    "options, name",
    [
        ({"max_isometric_force": 0.0}, "max_isometric_force"),
        ({"optimal_length": [0.1, -0.1]}, "optimal_length"),
        ({"tendon_length": [0.1, 0.1, 0.1]}, "tendon_length"),
        ({"activation": FirstOrderActivation(lowest=np.zeros(3))}, "activation.lowest"),
    ],
)
def test_bad_numbers_are_refused_by_name(options, name):
    good = {"max_isometric_force": [100.0, 200.0], "optimal_length": 0.1, "tendon_length": 0.2}
    with pytest.raises(ValueError, match=f"`{name}`"):
        ReluMuscle(
            **{
                key: value if key == "activation" else np.array(value)
                for key, value in (good | options).items()
            }
        )


@pytest.mark.parametrize(
    "build, name",
    [
        (lambda: HillCurves(width=0.0), "width"),
        (lambda: HillCurves(passive_limit=1.4), "passive_limit"),
        (lambda: ThelenMuscle(1.0, 1.0, plateau=1.0), "plateau"),
        (lambda: MujocoMuscle(1.0, 1.0, shortest=0.95), "shortest"),
        (lambda: CompliantTendonHillMuscle(1.0, 1.0, tendon_length=0.0), "tendon_length"),
        (lambda: RigidTendonHillMuscle([1.0, 2.0], 1.0, curves=HillCurves(width=[1.0] * 3)), "curves.width"),
        (lambda: BrownLoebMuscle.slow(1.0, 1.0, push=(1.0, 2.0)), "push"),
    ],
)
def test_bad_constants_are_refused_by_name(build, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        build()
