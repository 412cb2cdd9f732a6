"""Lyapunov exponents: how fast nearby states move apart."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from popsim._compiled import jit
from popsim._shared.checks import WholeNumber, check_non_negative_int
from popsim.analysis._arrays import AnyArray, as_float64, check_within, finite_float64
from popsim.analysis.dynamics import linearization
from popsim.analysis.dynamics.linearization import Constants, Dynamics, Inputs, States, network_dynamics

__all__ = ["LyapunovSpectrum", "lyapunov_spectrum", "kaplan_yorke_dimension"]

N_BLOCKS = 10  # of the time steps, for the standard error


class LyapunovSpectrum(NamedTuple):
    """The Lyapunov exponents of a trajectory, the largest first.

    - `exponent`: in 1/s. Two states that are near move apart by e in the time 1 / exponent. A network is
        chaotic if the largest is above 0. -inf, or near it, for deviations that vanish within a time step.
    - `standard_error`: of the exponent, over ten equal parts of the trajectory; NaN where that is -inf.
    """

    exponent: Float[np.ndarray, "member point exponent"]
    standard_error: Float[np.ndarray, "member point exponent"]


def lyapunov_spectrum(
    ensemble: eqx.Module,
    states: States,
    n_steps: WholeNumber,
    *,
    dt: float,
    n_exponents: WholeNumber | None = None,
    n_transient: WholeNumber = 0,
    inputs: Inputs | None = None,
    dynamics: Dynamics = network_dynamics,
) -> LyapunovSpectrum:
    """Return the Lyapunov exponents of members along trajectories, with constant inputs and without noise.

    Small deviations are moved along with each state by the Jacobian of a time step, and made orthogonal by a
    QR decomposition after each step. The mean logarithm of the diagonal of R, divided by dt, is the exponent
    (Benettin, Galgani, Giorgilli & Strelcyn 1980, Meccanica 15:9-20).

    **Arguments:**

    - `ensemble`, `inputs`, `dynamics`: as for `find_fixed_points`.
    - `states`: initial states, the same number per member.
    - `n_steps`: the number of time steps over which the exponents are means, at least ten. Those that ten
        equal parts leave over are added to `n_transient`.
    - `n_exponents`: how many are computed, from the largest on; by default all.
    - `n_transient`: the number of time steps before these, for the state and the deviations to settle.
    """
    check_within("n_steps", n_steps, N_BLOCKS, 2**31 - 1)
    linearization.check_dt_of(ensemble, dynamics, dt)
    check_non_negative_int("n_transient", n_transient)
    size = finite_float64("states", states, "member point state").shape[-1]
    count = size if n_exponents is None else n_exponents
    check_within("n_exponents", count, 1, size)
    with jax.enable_x64(True):
        arguments = linearization.to_double_precision(dynamics, ensemble, "states", states, inputs)
        unblocked = int(n_steps) % N_BLOCKS
        growth = _growth(dynamics, *arguments, int(n_steps), int(n_transient) + unblocked, int(count))
    in_blocks = np.asarray(growth) / dt
    with np.errstate(invalid="ignore"):  # -inf less -inf
        error = in_blocks.std(axis=2, ddof=1) / np.sqrt(N_BLOCKS)
    # Means over a finite time of exponents that are near may be in another order.
    exponent = in_blocks.mean(axis=2)
    order = np.argsort(-exponent, axis=-1, kind="stable")
    return LyapunovSpectrum(*(np.take_along_axis(values, order, axis=-1) for values in (exponent, error)))


@jit
def _growth(
    dynamics: Dynamics,
    ensemble: Any,
    states: Array,
    inputs: Constants | None,
    n_steps: int,
    n_transient: int,
    count: int,
) -> Float[Array, "member point block exponent"]:
    def follow_point(model, start, received):
        def step(carry, _):
            state, deviations = carry

            def push(deviation):
                return jax.jvp(
                    lambda h: linearization.one_step(dynamics, model, h, received), (state,), (deviation,)
                )

            following, pushed = jax.vmap(push, in_axes=1, out_axes=(None, 1))(deviations)
            orthogonal, sizes = jnp.linalg.qr(pushed)
            return (following, orthogonal), jnp.log(jnp.abs(jnp.diagonal(sizes)))

        def block(carry, _):
            carry, logs = jax.lax.scan(step, carry, length=n_steps // N_BLOCKS)
            return carry, logs.mean(axis=0)

        deviations = jnp.eye(start.size, count, dtype=start.dtype)
        carry, _ = jax.lax.scan(step, (start, deviations), length=n_transient)
        return jax.lax.scan(block, carry, length=N_BLOCKS)[1]

    def follow_member(model, points, received):
        return jax.vmap(lambda start: follow_point(model, start, received))(points)

    return linearization.map_members(follow_member, ensemble, states, inputs)


def kaplan_yorke_dimension(exponent: Float[AnyArray, "*axes exponent"]) -> Float[np.ndarray, "*axes"]:
    """Return the dimension of an attractor from its Lyapunov exponents.

    D = j + (λ_1 + … + λ_j) / |λ_{j+1}|, where j is the largest number of exponents whose sum is not negative;
    0 if all are negative (Kaplan & Yorke 1979, Lect Notes Math 730:204-227). NaN if the sum of all that are
    given is not negative: then there are too few of them.
    """
    values = as_float64("exponent", exponent, "... exponent")
    if not np.all(values[..., 1:] <= values[..., :-1]):  # also if one is NaN
        raise ValueError("`exponent` must be numbers in order, the largest first.")
    sums = np.cumsum(values, axis=-1)
    j = np.sum(np.logical_and.accumulate(sums >= 0, axis=-1), axis=-1)
    is_too_short = j == values.shape[-1]
    following = np.take_along_axis(values, np.minimum(j, values.shape[-1] - 1)[..., None], axis=-1)[..., 0]
    before = np.take_along_axis(sums, np.maximum(j - 1, 0)[..., None], axis=-1)[..., 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        dimension = np.where(j == 0, 0.0, j + before / np.abs(following))
    return np.where(is_too_short, np.nan, dimension)
