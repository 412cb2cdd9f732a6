"""Paths of moving targets."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from popsim.checks import as_float_array, check_non_negative, check_positive, is_traced
from popsim.hand import HandState
from popsim.per_member import has_per_member
from popsim.randomness import key_stream
from popsim.workspace import Workspace


class AbstractTargetPath(eqx.Module):
    """How a target moves through a workspace, drawn anew in each trial. A subclass supplies `__call__`.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp, popsim
        >>> class Sideways(popsim.tasks.AbstractTargetPath):
        ...     "From the left edge to the right in ten seconds."
        ...     def __call__(self, elapsed, workspace, *, key):
        ...         width = 2 * workspace.half_widths * jnp.array([1.0, 0.0])
        ...         start = workspace.center - width / 2
        ...         position = start + jnp.outer(jnp.minimum(elapsed / 10, 1.0), width)
        ...         return popsim.HandState(position, jnp.outer((elapsed < 10) / 10, width))
        >>> workspace = popsim.Workspace.around(jnp.zeros(2), 0.2)
        >>> task = popsim.tasks.Tracking(workspace, Sideways())
        >>> [round(x, 3) for x in task.trial(batch=0, key=jax.random.key(0)).init.position.tolist()]
        [-0.1, 0.0]

        ```
    """

    @abc.abstractmethod
    def __call__(
        self, elapsed: Float[Array, " time"], workspace: Workspace, *, key: Key[Array, ""]
    ) -> HandState:
        """Where the target is (m) and how it moves (m/s) at given times.

        **Arguments:**

        - `elapsed`: the seconds since the target set off; the first is zero, none is before the last.
        - `workspace`: what the path must not leave.
        - `key`: from which the path is drawn.
        """


class SumOfSinusoids(AbstractTargetPath):
    """A sum of sinusoids on each axis: x = center + h Σ_k a_k sin(2 π f_k t + φ_k).

    h is half the width of the workspace, and the phases φ are drawn evenly, for each axis and sinusoid. As
    used to measure gain and phase of tracking at each frequency, after Yang, Cowan & Haith 2021, eLife
    10:e62578 (cited from memory; the default frequencies are four of the lower ones there).

    **Arguments:**

    - `frequencies`: f, in Hz.
    - `amplitudes`: a, as shares of h; together at most one, so that the target stays in the workspace.

    **Raises:** `ValueError` if a frequency is not positive, an amplitude is negative, they are together more
    than one, or there are not as many of both.
    """

    frequencies: Float[Array, " sinusoid"] = eqx.field(
        converter=as_float_array, default_factory=lambda: jnp.array([0.1, 0.25, 0.55, 0.85])
    )
    amplitudes: Float[Array, " sinusoid"] = eqx.field(
        converter=as_float_array, default_factory=lambda: jnp.array([0.4, 0.3, 0.2, 0.1])
    )

    def __check_init__(self):
        check_positive("frequencies", self.frequencies)
        check_non_negative("amplitudes", self.amplitudes)
        if has_per_member((self.frequencies, self.amplitudes)):
            return
        if self.frequencies.ndim != 1 or self.frequencies.shape != self.amplitudes.shape:
            raise ValueError(
                f"`amplitudes` must be one for each of the frequencies, {self.frequencies.shape}, "
                f"got {self.amplitudes.shape}."
            )
        if not is_traced(self.amplitudes) and float(np.sum(self.amplitudes)) > 1 + 1e-5:
            raise ValueError(f"`amplitudes` must be together at most one, got {self.amplitudes}.")

    def __call__(
        self, elapsed: Float[Array, " time"], workspace: Workspace, *, key: Key[Array, ""]
    ) -> HandState:
        half = workspace.half_widths
        shape = (self.frequencies.size, half.size)
        phases = jax.random.uniform(key, shape, half.dtype, maxval=2 * jnp.pi)
        turning = 2 * jnp.pi * self.frequencies[:, None]
        angles = turning * elapsed[:, None, None] + phases
        shares = jnp.sum(self.amplitudes[:, None] * jnp.sin(angles), axis=1)
        rates = jnp.sum(self.amplitudes[:, None] * turning * jnp.cos(angles), axis=1)
        return HandState(workspace.center + half * shares, half * rates)


class RandomWalk(AbstractTargetPath):
    """A smooth random walk on each axis that turns back at the edge: x = center + h sin θ, dθ/dt = ω.

    h is half the width of the workspace. θ sets off from anywhere on the circle, at rest; ω is white noise
    that went through two filters, so that the velocity h cos θ ω has no jumps:
    τ dω = (u - ω) dt, τ du = -u dt + sqrt(2 τ) s dW, with s = 2 `speed` / h. Once the target is on its way
    the velocity has the root mean square `speed`, and the correlation (1 + t/τ) exp(-t/τ) but for the edges.

    **Arguments:**

    - `speed`: the root mean square of the velocity along each axis, in m/s, once the target is on its way.
    - `correlation_time`: τ, in seconds.

    **Raises:** `ValueError` if a number is not positive.
    """

    speed: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.08)
    correlation_time: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.2)

    def __check_init__(self):
        check_positive("speed", self.speed)
        check_positive("correlation_time", self.correlation_time)

    def __call__(
        self, elapsed: Float[Array, " time"], workspace: Workspace, *, key: Key[Array, ""]
    ) -> HandState:
        half = workspace.half_widths
        first = jax.random.uniform(key_stream(key, "start"), half.shape, half.dtype, maxval=2 * jnp.pi)
        pushes = jax.random.normal(key_stream(key, "pushes"), (elapsed.size - 1, half.size), half.dtype)
        spread = 2 * self.speed / half

        def onward(carry, step):
            angle, turning, drive = carry
            passed, push = step
            kept = jnp.exp(-passed / self.correlation_time)
            then = drive + (turning - drive) * kept
            pushed = kept * drive + jnp.sqrt(1 - kept**2) * spread * push
            carry = angle + 0.5 * passed * (turning + then), then, pushed
            return carry, carry[:2]

        still = jnp.zeros_like(first)
        _, later = jax.lax.scan(onward, (first, still, still), (jnp.diff(elapsed), pushes))
        angles, turning = (jnp.concatenate([a[None], b]) for a, b in zip((first, still), later, strict=True))
        return HandState(workspace.center + half * jnp.sin(angles), half * jnp.cos(angles) * turning)
