"""Every muscle is finite everywhere, with right gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from central_differences import assert_gradients_agree

from popsim.muscles import (
    BrownLoebMuscle,
    CompliantTendonHillMuscle,
    MujocoMuscle,
    ReluMuscle,
    RigidTendonHillMuscle,
    ThelenMuscle,
)

pytestmark = [pytest.mark.slow, pytest.mark.full]

OPTIMAL, TENDON = 0.13, 0.2
BUILD = {
    "relu": functools.partial(ReluMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "hill": functools.partial(RigidTendonHillMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "compliant": functools.partial(CompliantTendonHillMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "thelen": functools.partial(ThelenMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "mujoco": functools.partial(MujocoMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "li_todorov": functools.partial(BrownLoebMuscle.li_todorov, 800.0, OPTIMAL, tendon_length=TENDON),
    "fast": functools.partial(BrownLoebMuscle.fast, 800.0, OPTIMAL, tendon_length=TENDON),
    "slow": functools.partial(BrownLoebMuscle.slow, 800.0, OPTIMAL, tendon_length=TENDON),
}
ACTIVATIONS = [0.0, 1e-7, 1e-3, 0.005, 0.01, 0.3, 0.9, 1.0]
LENGTHS = [-1.6, -1.0, 0.0, 0.1, 0.4, 0.5, 0.725, 0.95, 1.0, 1.3, 1.4, 1.5, 1.66, 2.0, 2.5, 5.0, 10.0]
VELOCITIES = [-100.0, -12.7, -10.0, -5.72, -1.5, -1e-9, 0.0, 1e-9, 0.3, 1.5, 10.0, 100.0]
FIBRES = [-0.1, 0.0, 0.2, 1.0, 1.4, 1.66, 3.0, 12.0]

every_muscle = pytest.mark.parametrize("name", BUILD)


def grid(dtype, *axes):
    return [jnp.asarray(x.ravel(), dtype) for x in np.meshgrid(*axes, indexing="ij")]


def everything(muscle, state, activation, length, velocity):
    """All outputs of a muscle at one point, as one vector."""
    point = state, activation, length, velocity
    outputs = muscle.force(*point), muscle.fibre(*point), muscle.rate(*point), muscle.init(point[1], point[2])
    return jnp.concatenate(jax.tree.leaves(outputs))


@every_muscle
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_and_gradients_are_finite_at_extremes(float64, name, dtype):
    muscle = jax.tree.map(lambda leaf: leaf.astype(dtype), BUILD[name]())
    fibres = FIBRES if name == "compliant" else [1.0]
    fibre, activation, length, velocity = grid(dtype, fibres, ACTIVATIONS, LENGTHS, VELOCITIES)
    whole = TENDON + OPTIMAL * length

    def at_point(muscle, fibre, activation, whole, velocity):
        state = fibre[None] if name == "compliant" else None
        return everything(muscle, state, activation[None], whole[None], velocity[None])

    points = muscle, OPTIMAL * fibre, activation, whole, OPTIMAL * velocity
    axes = (None, 0, 0, 0, 0)
    values = jax.jit(jax.vmap(at_point, axes))(*points)
    slopes = jax.jit(jax.vmap(jax.jacrev(at_point, argnums=(0, 1, 2, 3, 4)), axes))(*points)
    assert values.dtype == dtype
    assert jnp.all(jnp.isfinite(values))
    assert jnp.all(values[:, 0] >= 0)
    for leaf in jax.tree.leaves(slopes):
        assert jnp.all(jnp.isfinite(leaf))


KINKS = [0.4, 0.5, 0.725, 0.95, 1.0, 1.3, 1.4, 1.6, 2.0]


def points_off_kinks(key, n=60):
    """Activation, length and velocity at least 0.001 from where a law changes its form."""
    keys = jax.random.split(key, 3)
    activation = jax.random.uniform(keys[0], (n,), minval=0.02, maxval=0.98)
    length = jax.random.uniform(keys[1], (n,), minval=0.55, maxval=1.9)
    velocity = jax.random.uniform(keys[2], (n,), minval=-1.4, maxval=1.4)
    near = jnp.min(jnp.abs(length[:, None] - jnp.array(KINKS)), axis=1) < 1e-3
    near |= (jnp.abs(velocity) < 1e-3) | (jnp.abs(velocity - 0.3) < 1e-3)
    near |= jnp.abs(activation - 0.3) < 1e-3
    return activation[~near], length[~near], velocity[~near]


@every_muscle
def test_gradients_agree_with_central_differences(float64, name, getkey):
    """By every parameter, activation, length and velocity."""
    activation, length, velocity = points_off_kinks(getkey())
    weights = jax.random.normal(getkey(), (2, activation.size))

    def total(inputs):
        muscle, activation, length, velocity = inputs
        state = 0.95 * length if name == "compliant" else None
        point = state, activation, TENDON + length, velocity
        outputs = jnp.stack([muscle.force(*point) / 800, muscle.fibre(*point)[1]])
        return jnp.sum(weights * outputs)

    inputs = BUILD[name](), activation, OPTIMAL * length, OPTIMAL * velocity
    assert_gradients_agree(total, inputs, getkey(), steps=(1e-4, 1e-5, 1e-6, 1e-7), rtol=1e-5, atol=1e-7)
