"""Every muscle is finite everywhere, with right gradients."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
    """By every parameter at once, activation, length and velocity, in a random direction for each point."""
    muscle = BUILD[name]()
    activation, length, velocity = points_off_kinks(getkey())
    parameters, static = eqx.partition(muscle, eqx.is_array)

    def at_point(parameters, activation, length, velocity):
        muscle = eqx.combine(parameters, static)
        state = 0.95 * length[None] if name == "compliant" else None
        outputs = muscle.force, lambda *point: muscle.fibre(*point)[1]
        point = state, activation[None], TENDON + length[None], velocity[None]
        scale = jnp.array([800.0, 1.0])
        return jnp.concatenate([output(*point) for output in outputs]) / scale

    points = activation, OPTIMAL * length, OPTIMAL * velocity
    around = jax.vmap(lambda *point: (parameters, *point))(*points)
    leaves, structure = jax.tree.flatten(around)
    keys = jax.random.split(getkey(), len(leaves))
    around = jax.tree.unflatten(structure, [_spread(leaf, len(activation)) for leaf in leaves])
    leaves = jax.tree.leaves(around)
    direction = jax.tree.unflatten(
        structure,
        [jax.random.normal(k, x.shape) * jnp.abs(x) for k, x in zip(keys, leaves, strict=True)],
    )
    h = 1e-6
    ahead, behind = (jax.tree.map(lambda x, d, s=s: x + s * h * d, around, direction) for s in (1.0, -1.0))
    value = jax.jit(jax.vmap(at_point))
    slope = (value(*ahead) - value(*behind)) / (2 * h)
    _, tangent = jax.jvp(lambda around: value(*around), (around,), (direction,))
    np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-6 * float(jnp.max(jnp.abs(slope))))
    weights = jax.random.normal(getkey(), slope.shape)
    pulled_back = jax.grad(lambda around: jnp.sum(weights * value(*around)))(around)
    products = jax.tree.map(lambda g, d: jnp.sum(g * d), pulled_back, direction)
    np.testing.assert_allclose(sum(jax.tree.leaves(products)), jnp.sum(weights * tangent), rtol=1e-9)


def _spread(leaf, n):
    return leaf if leaf.ndim else jnp.broadcast_to(leaf, (n,))
