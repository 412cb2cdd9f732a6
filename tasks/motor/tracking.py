"""Tracking and postural tasks."""

import abc
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._shared import checks
from popsim.hand import HandState, Workspace
from popsim.loss import Loss
from popsim.losses import Effort, HiddenActivity, InWindow, PositionError
from popsim.randomness import as_key, key_stream, seed_key
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import POSITIVE, Drawn, Number, Scalar
from popsim.trial import Trial
from popsim.trial_plan import TrialPlan
from popsim.windows import Timeline

__all__ = ["AbstractTargetPath", "SumOfSinusoids", "RandomWalk", "tracking_loss", "Tracking", "PosturalHold"]


Times = Float[Array, " time"]


class AbstractTargetPath(eqx.Module):
    """The path of a target through a workspace, drawn in each trial. Subclasses define `__call__`.

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
    def __call__(self, elapsed: Times, workspace: Workspace, *, key: Key[Array, ""]) -> HandState:
        """Return the position (m) and velocity (m/s) of the target, within the workspace, at given times.

        **Arguments:**

        - `elapsed`: the times since movement onset in seconds, non-decreasing from zero.
        """


class SumOfSinusoids(fields.DocumentedModule, AbstractTargetPath):
    """A sum of sinusoids on each axis: x = center + h Σ_k a_k sin(2 π f_k t + φ_k).

    h is half the width of the workspace. The phases φ are uniform and independent across axes and sinusoids.
    Such paths measure gain and phase of tracking at each frequency (Yang, Cowan & Haith 2021, eLife
    10:e62578). The default frequencies are the four lowest of their x axis (checked in a reimplementation).
    """

    frequencies: Float[Number, " sinusoid"] = fields.positive(
        "the frequencies f, in Hz", default=(0.1, 0.25, 0.55, 0.85), kw_only=False
    )
    amplitudes: Float[Number, " sinusoid"] = fields.non_negative(
        "the amplitudes a, as fractions of h, together at most 1, so that the target stays within",
        default=(0.4, 0.3, 0.2, 0.1),
        kw_only=False,
    )

    def __check_init__(self):
        if self.frequencies.ndim != 1 or self.frequencies.shape != self.amplitudes.shape:
            raise ValueError(
                f"`amplitudes` must be one for each of the frequencies, {self.frequencies.shape}, "
                f"got {self.amplitudes.shape}."
            )
        if jnp.sum(self.amplitudes) > 1 + 1e-5:
            raise ValueError(f"`amplitudes` must be together at most one, got {self.amplitudes}.")

    def __call__(self, elapsed: Times, workspace: Workspace, *, key: Key[Array, ""]) -> HandState:
        half = workspace.half_widths
        shape = (self.frequencies.size, half.size)
        phases = jax.random.uniform(as_key(key), shape, half.dtype, maxval=2 * jnp.pi)
        turning = 2 * jnp.pi * self.frequencies[:, None]
        angles = turning * elapsed[:, None, None] + phases
        shares = jnp.sum(self.amplitudes[:, None] * jnp.sin(angles), axis=1)
        rates = jnp.sum(self.amplitudes[:, None] * turning * jnp.cos(angles), axis=1)
        return HandState(workspace.center + half * shares, half * rates)


class RandomWalk(fields.DocumentedModule, AbstractTargetPath):
    """A smooth random walk on each axis that turns back at the edge: x = center + h sin θ, dθ/dt = ω.

    h is half the width of the workspace. θ starts at rest, uniformly on the circle. ω is white noise passed
    through two low-pass filters, so that the velocity h cos θ ω is continuous:
    τ dω = (u - ω) dt, τ du = -u dt + sqrt(2 τ) s dW, with s = 2 `speed` / h. In the stationary state the
    velocity has the root mean square `speed` and, apart from the edges, the correlation
    (1 + t/τ) exp(-t/τ).
    """

    speed: Scalar = fields.positive(
        "the root mean square of the velocity along each axis in the stationary state, in m/s",
        default=0.08,
        kw_only=False,
    )
    correlation_time: Scalar = fields.positive(
        "the correlation time τ, in seconds", default=0.2, kw_only=False
    )

    def __call__(self, elapsed: Times, workspace: Workspace, *, key: Key[Array, ""]) -> HandState:
        half = workspace.half_widths
        first = jax.random.uniform(key_stream(key, "start"), half.shape, half.dtype, maxval=2 * jnp.pi)
        pushes = jax.random.normal(key_stream(key, "pushes"), (elapsed.size - 1, half.size), half.dtype)
        spread = 2 * self.speed / half

        def onward(carry, step):
            angle, turning, drive = carry
            passed, push = step
            decay = jnp.exp(-passed / self.correlation_time)
            then = drive + (turning - drive) * decay
            pushed = decay * drive + jnp.sqrt(1 - decay**2) * spread * push
            carry = angle + 0.5 * passed * (turning + then), then, pushed
            return carry, carry[:2]

        still = jnp.zeros_like(first)
        _, later = jax.lax.scan(onward, (first, still, still), (jnp.diff(elapsed), pushes))
        angles, turning = (jnp.concatenate([a[None], b]) for a, b in zip((first, still), later, strict=True))
        return HandState(workspace.center + half * jnp.sin(angles), half * jnp.cos(angles) * turning)


def tracking_loss() -> Loss:
    """Return the position error, equally weighted over time, plus small costs of effort and activity."""
    return PositionError(profile=InWindow()) + 1e-6 * Effort() + 1e-8 * HiddenActivity()


class Tracking(parts.AbstractCheckedTask):
    """Tracking of a moving target with the hand.

    The target and the hand start together at rest. After `start` seconds the target moves along its path, an
    `AbstractTargetPath`, with a rate that rises linearly to full speed in `ramp` seconds.

    - Input: "target" (space), its position in m at the start of the time step.
    - Targets: position and velocity of the target at the end of the time step.
    - Conditions: "mean speed" of the target in the pursuit (m/s).

    The validation trials are `n_validation_trials` paths drawn with a fixed seed.
    """

    workspace: Workspace = fields.region(kw_only=False)
    path: AbstractTargetPath = fields.part(
        "the path of the target, such as `RandomWalk()`", default_factory=SumOfSinusoids, kw_only=False
    )
    loss: Loss = fields.default_loss(default_factory=tracking_loss)
    start: Drawn = fields.drawn("the time before the target moves, in seconds", default=0.2, check=POSITIVE)
    ramp: Scalar = fields.positive("the time until the full speed of the path, in seconds", default=0.5)
    n_validation_trials: int = fields.count("validation trials", default=16)
    duration: float = fields.trial_duration(default=3.0)
    dt: float = fields.time_step(default=0.01)

    def __check_init__(self):
        parts.check_time_left(self.plan, self.dt, "a time step of pursuit")

    @property
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline."""
        return parts.plan_of(self, parts.epochs_of(self, start="target on", pursuit="target moves"))

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        return self._pursuit(timeline, key=key_stream(key, "path"))

    def validation_trials(self) -> Trial:
        timeline = self.plan.nominal()
        keys = jax.random.split(seed_key(0), self.n_validation_trials)
        return jax.vmap(lambda key: self._pursuit(timeline, key=key))(keys)

    def _pursuit(self, timeline: Timeline, *, key: Key[Array, ""]) -> Trial:
        elapsed, rate = self._clock(timeline)
        along = self.path(elapsed, self.workspace, key=key)
        position, velocity = along.position, rate[:, None] * along.velocity
        moves = timeline.since("target moves")
        speed = jnp.linalg.norm(velocity[1:], axis=-1)
        return Trial(
            init=parts.at_rest(position[0]),
            inputs={"target": position[:-1]},
            targets=HandState(position[1:], velocity[1:]),
            timeline=timeline,
            conditions={"mean speed": jnp.mean(speed, where=moves)},
        )

    def _clock(self, timeline: Timeline) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
        """Return the path time (s) and its rate at the start of the trial and the end of each time step."""
        ends = jnp.arange(timeline.n_steps + 1)
        since = timeline.dt * jnp.maximum(ends - timeline.events["target moves"], 0).astype(self.ramp.dtype)
        slow = jnp.minimum(since, self.ramp)
        return since - slow + slow**2 / (2 * self.ramp), slow / self.ramp


class PosturalHold(parts.AbstractPlannedReach):
    """Holding the hand still against perturbations.

    The position is drawn uniformly from the workspace, or is `place`. The task only sets the time of a pulse;
    the pulse is an intervention, such as one of `load_pulses()`.

    - Input: "target" (space), the position to hold, in m, where the hand starts.
    - Conditions: "place direction" (rad, 0 at the centre itself) and "place distance" (m) of the position
        from the centre of the workspace.

    The validation trials are nine positions on a square half as wide as the workspace, or `place` alone,
    with durations at their midpoints.
    """

    loss: Loss = fields.default_loss(default_factory=tracking_loss)
    hold: Drawn = fields.drawn("the time before the pulse, in seconds", default=(0.2, 0.5), check=POSITIVE)
    pulse: Drawn = fields.drawn("the duration of the pulse, in seconds", default=0.1, check=POSITIVE)
    duration: float = fields.trial_duration(default=1.2)
    place: Float[Array, "*members space"] | None = fields.number(
        "the position that is held in all trials, in m; None for any in the workspace", default=None
    )

    def __check_init__(self):
        if self.place is not None and self.place.shape[-1:] != self.workspace.low.shape[-1:]:
            raise ValueError(
                f"`place` must have {self.workspace.low.shape[-1]} coordinates, as `workspace` has, "
                f"got {checks.short_repr(self.place)}."
            )

    @property
    def plan(self) -> TrialPlan:
        return parts.plan_of(self, parts.epochs_of(self, hold=None, pulse="pulse on", recovery="pulse off"))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        if self.place is not None:
            return (self.place,)
        return (self.workspace.sample(key=key_stream(key, "place")),)

    def nominal(self) -> tuple[Array, ...]:
        if self.place is not None:
            return (self.place[None],)
        center, half = self.workspace.center, self.workspace.half_widths
        shares = jnp.array(list(itertools.product((-0.5, 0.0, 0.5), repeat=2)), half.dtype)
        return (jax.vmap(lambda share: center.at[:2].add(share * half[:2]))(shares),)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (place,) = draws
        shown = jnp.broadcast_to(place, (timeline.n_steps, place.size))
        from_center = place - self.workspace.center
        labels = {
            "place direction": parts.direction_of(from_center),
            "place distance": jnp.linalg.norm(from_center),
        }
        init, targets = parts.at_rest(place), parts.at_rest(shown)
        return Trial(init, {"target": shown}, targets, timeline, conditions=labels)
