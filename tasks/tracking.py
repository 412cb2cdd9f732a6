"""Tracking of a target that moves."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim.checks import as_float_array, check_positive, check_positive_int
from popsim.distributions import AbstractDistribution, as_distribution
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.losses import Effort, HiddenActivity, InWindow, PositionError
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.drawn import check_drawn
from popsim.tasks.target_paths import AbstractTargetPath, SumOfSinusoids
from popsim.tasks.time_left import check_time_left
from popsim.timeline import Timeline
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.workspace import Workspace, as_workspace


def tracking_loss() -> Loss:
    """Position error, the same weight at all time steps, and small costs of effort and of activity."""
    return PositionError(profile=InWindow()) + 1e-6 * Effort() + 1e-8 * HiddenActivity()


class Tracking(AbstractTask):
    """A target moves about in the workspace, and the hand is to be where it is.

    At first the target stands still, with the hand at it and at rest. Then it sets off, and comes to the
    full speed of its path in `ramp` seconds: its path is gone through slowly first.

    | input | shape | |
    | --- | --- | --- |
    | "target" | (time, space) | m; where the target is when the step begins |

    Targets: the hand where the target is, and as fast, when the step ends. Epochs: "start" (begun by the
    event "target on"), "pursuit" (begun by "target moves"). Conditions: "mean speed", that of the target in
    its pursuit (m/s). The validation trials are `n_validation_trials` paths, drawn once for all.

    **Arguments:**

    - `workspace`: what the target does not leave.
    - `path`: how the target moves: `SumOfSinusoids`, `RandomWalk`, or a subclass of `AbstractTargetPath`.
    - `loss`: what counts as doing well.
    - `start`: how long the target stands still, in seconds; a number or a distribution.
    - `ramp`: how long it takes to come to the full speed of its path, in seconds.
    - `n_validation_trials`: how many paths the validation trials are.
    - `duration`: how long a trial lasts, in seconds.
    - `dt`: the time step in seconds, that of the model.

    **Raises:** `ValueError` if a number is not positive, the start may leave no step for the pursuit, or
    `duration` is not a multiple of `dt`.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    path: AbstractTargetPath = eqx.field(default_factory=SumOfSinusoids)
    loss: Loss = eqx.field(kw_only=True, default_factory=tracking_loss)
    start: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    ramp: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    n_validation_trials: int = eqx.field(static=True, kw_only=True, default=16)
    duration: float = eqx.field(static=True, kw_only=True, default=3.0)
    dt: float = eqx.field(static=True, kw_only=True, default=0.01)

    def __check_init__(self):
        if not isinstance(self.path, AbstractTargetPath):
            raise ValueError(f"`path` must be a path such as RandomWalk(), got {self.path!r}.")
        check_positive("ramp", self.ramp)
        check_positive_int("n_validation_trials", self.n_validation_trials)
        check_drawn("start", self.start, check_positive)
        check_time_left(self.plan, self.dt, "a time step of pursuit")

    @property
    def plan(self) -> TrialPlan:
        """From which each trial draws its timeline."""
        epochs = (
            Epoch("start", self.start, event="target on"),
            Epoch("pursuit", event="target moves"),
        )
        return TrialPlan(epochs, duration=self.duration, dt=self.dt)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        return self._pursuit(timeline, key=key_stream(key, "path"))

    def validation_trials(self) -> Trial:
        timeline = self.plan.typical()
        keys = jax.random.split(jax.random.key(0), self.n_validation_trials)
        return jax.vmap(lambda key: self._pursuit(timeline, key=key))(keys)

    def _pursuit(self, timeline: Timeline, *, key: Key[Array, ""]) -> Trial:
        elapsed, rate = self._clock(timeline)
        along = self.path(elapsed, self.workspace, key=key)
        position, velocity = along.position, rate[:, None] * along.velocity
        moves = timeline.since("target moves")
        speed = jnp.linalg.norm(velocity[1:], axis=-1)
        return Trial(
            init=HandState(position[0], jnp.zeros_like(position[0])),
            inputs={"target": position[:-1]},
            targets=HandState(position[1:], velocity[1:]),
            timeline=timeline,
            conditions={"mean speed": jnp.mean(speed, where=moves)},
        )

    def _clock(self, timeline: Timeline) -> tuple[Float[Array, " times"], Float[Array, " times"]]:
        """How far along its path the target is (s), and how fast it goes along, at the ends of all steps.

        The first of them is the beginning of the first step.
        """
        ends = jnp.arange(timeline.n_steps + 1)
        since = timeline.dt * jnp.maximum(ends - timeline.events["target moves"], 0).astype(self.ramp.dtype)
        slow = jnp.minimum(since, self.ramp)
        return since - slow + slow**2 / (2 * self.ramp), slow / self.ramp
