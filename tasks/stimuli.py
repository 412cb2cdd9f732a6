"""Stimuli of cognitive tasks: noise that does not depend on the time step, what it says, directions."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim.tasks.reach import even_directions


def with_noise(
    stimulus: Float[Array, "time channels"],
    noise: Float[Array, ""],
    shown: Bool[Array, " time"],
    *,
    dt: float,
    key: Key[Array, ""],
) -> Float[Array, "time channels"]:
    """A stimulus while it is shown, with white noise; zero while it is not.

    Each step has noise of standard deviation sigma / sqrt(dt), so that the mean over T seconds has
    sigma / sqrt(T), whatever the time step is.

    **Arguments:**

    - `stimulus`: what would be seen without noise.
    - `noise`: sigma, in units of the stimulus times s^0.5.
    - `shown`: when it is shown.
    - `dt`: the time step in seconds.
    - `key`: from which the noise is drawn, for each channel its own.
    """
    random = jax.random.normal(key, stimulus.shape, stimulus.dtype)
    return jnp.where(shown[:, None], stimulus + noise / dt**0.5 * random, 0.0)


def ring_activity(index: Int[Array, "*axes"], n_directions: int) -> Float[Array, "*axes units"]:
    """What units on a ring say of a direction: exp(-(8 d / pi)² / 2), d from the one that each prefers.

    The tuning of Yang et al. 2019, Nat Neurosci 22:297 (cited from memory), with a peak of 1.

    **Arguments:**

    - `index`: the number of the direction, of `n_directions` evenly around the circle.
    - `n_directions`: also the number of units; each prefers one of the directions.
    """
    directions = even_directions(n_directions)
    away = directions[index][..., None] - directions
    distance = jnp.abs(jnp.mod(away + jnp.pi, 2 * jnp.pi) - jnp.pi)
    return jnp.exp(-0.5 * (8 * distance / jnp.pi) ** 2)


def sign_or_coin(evidence: Float[Array, ""], *, key: Key[Array, ""]) -> Int[Array, ""]:
    """1 if the evidence is positive, 0 if negative; of none a fair coin decides."""
    coin = jax.random.bernoulli(key)
    return jnp.where(evidence == 0, coin, evidence > 0).astype(int)
