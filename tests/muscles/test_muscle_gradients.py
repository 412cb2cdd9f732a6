"""Every muscle is finite everywhere, with finite gradients."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim import muscles

pytestmark = [pytest.mark.slow, pytest.mark.full]

OPTIMAL, TENDON = 0.13, 0.2
BUILD = {
    "relu": functools.partial(muscles.ReluMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "hill": functools.partial(muscles.RigidTendonHillMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "compliant": functools.partial(muscles.CompliantTendonHillMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "thelen": functools.partial(muscles.ThelenMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "mujoco": functools.partial(muscles.MujocoMuscle, 800.0, OPTIMAL, tendon_length=TENDON),
    "li_todorov": functools.partial(muscles.BrownLoebMuscle.li_todorov, 800.0, OPTIMAL, tendon_length=TENDON),
    "fast": functools.partial(muscles.BrownLoebMuscle.fast, 800.0, OPTIMAL, tendon_length=TENDON),
    "slow": functools.partial(muscles.BrownLoebMuscle.slow, 800.0, OPTIMAL, tendon_length=TENDON),
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
