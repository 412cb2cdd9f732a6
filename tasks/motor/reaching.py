"""Reaches to one target."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_positive
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.hand import HandState, Workspace, as_workspace
from popsim.loss import Loss
from popsim.losses import Effort, FinalVelocity, HiddenActivity, Hold, PositionError, PowerProfile
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.trial_parts import (
    AbstractFixedTimes,
    at_direction,
    center_out_trials,
    check_directions,
    check_drawn,
    check_time_left,
    even_directions,
    middle_of,
    random_direction,
    reach_loss,
    reach_trial,
    wrap_angle,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Before, InEpoch, Timeline

__all__ = ["RandomReaches", "CenterOutReaches", "delayed_reach_loss", "DelayedReaches"]


class RandomReaches(AbstractFixedTimes):
    """Reaches between two points drawn uniformly from a workspace.

    The validation trials are reaches from the centre in eight directions.

    **Arguments:**

    - `workspace`: the region of starts and targets, such as `plant.workspace`.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `validation_distance`: the distance of targets in the validation trials, in m.
    - `loss`: the loss to train with.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)
    validation_distance: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)

    def __check_init__(self):
        check_positive("validation_distance", self.validation_distance)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        start = self.workspace.sample(key=key_stream(key, "start"))
        target = self.workspace.sample(key=key_stream(key, "target"))
        return reach_trial(start, target, n_steps=self.n_steps, dt=self.dt)

    def validation_trials(self) -> Trial:
        return center_out_trials(
            self.workspace.center,
            distance=self.validation_distance,
            n_directions=8,
            n_steps=self.n_steps,
            dt=self.dt,
        )


class CenterOutReaches(AbstractFixedTimes):
    """Reaches from the centre of a workspace to targets on a circle around it.

    Training targets are drawn from `n_directions` evenly spaced directions, or from the whole circle if
    None. The validation trials are one reach in each direction (eight if None).

    **Arguments:**

    - `workspace`: the workspace; reaches start at its centre.
    - `distance`: the distance from centre to target, in m.
    - `n_directions`: the number of targets; None for the whole circle.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    - `loss`: the loss to train with.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    distance: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.1)
    n_directions: int | None = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.0)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_positive("distance", self.distance)
        check_directions(self.n_directions)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        center = self.workspace.center
        direction = random_direction(self.n_directions, key=key)
        target = at_direction(center, direction, self.distance)
        return reach_trial(center, target, n_steps=self.n_steps, dt=self.dt, direction=direction)

    def validation_trials(self) -> Trial:
        return center_out_trials(
            self.workspace.center,
            distance=self.distance,
            n_directions=8 if self.n_directions is None else self.n_directions,
            n_steps=self.n_steps,
            dt=self.dt,
        )


def delayed_reach_loss() -> Loss:
    """Return the loss of `reach_loss`, with the position error in the movement only and a hold before it."""
    reach = PositionError(profile=PowerProfile(window=InEpoch("movement")))
    return reach + Hold(Before("go cue")) + 0.1 * FinalVelocity() + 1e-6 * Effort() + 1e-8 * HiddenActivity()


class DelayedReaches(AbstractTask):
    """Centre-out reaches with an instructed delay: the target is shown before the go cue.

    The delay follows Tanji & Evarts 1976, J Neurophysiol 39:1062, and the targets Georgopoulos et al. 1982,
    J Neurosci 2:1527 (compared with the abstracts only). Times are shorter than in these experiments.

    | input | shape | |
    | --- | --- | --- |
    | "target" | (time, space) | m; the position of the target from "target on", the centre before |
    | "target shown" | (time, 1) | 1 from "target on", 0 before |
    | "go cue" | (time, 1) | 1 from "go cue", 0 before and in catch trials |

    Targets: the hand at rest at the start until "go cue", then at rest at the target; in catch trials at
    the start throughout. Epochs: "hold", "delay" (begun by the event "target on"), "movement" (begun by
    "go cue"). Conditions: "direction" (rad) and "distance" (m) of the target from the start; "catch",
    whether it is a catch trial. The validation trials are one reach in each direction (eight if
    `n_directions` is None), without catch trials, with durations and distance at their midpoints.

    **Arguments:**

    - `workspace`: the workspace; reaches start at its centre.
    - `loss`: the loss to train with.
    - `distance`: the distance from centre to target, in m; a number or a distribution.
    - `n_directions`: the number of directions; None for the whole circle.
    - `hold`, `delay`: the time before target onset and the time from it until the go cue, in seconds; numbers
        or distributions.
    - `catch_probability`: the fraction of trials without a go cue.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=delayed_reach_loss)
    distance: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    n_directions: int | None = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    hold: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.2, 0.6)
    )
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.5)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_drawn("distance", self.distance, check_positive)
        check_directions(self.n_directions)
        check_drawn("hold", self.hold, check_positive)
        check_drawn("delay", self.delay, check_positive)
        check_time_left(self.plan, self.dt, "a time step of movement")

    @property
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline."""
        epochs = (
            Epoch("hold", self.hold),
            Epoch("delay", self.delay, event="target on"),
            Epoch("movement", event="go cue"),
        )
        return TrialPlan(
            epochs,
            duration=self.duration,
            dt=self.dt,
            catch_event="go cue",
            catch_probability=self.catch_probability,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        direction = random_direction(self.n_directions, key=key_stream(key, "direction"))
        distance = self.distance.sample(key=key_stream(key, "distance"))
        return self._reach(direction, distance, self.plan.draw(key=key_stream(key, "timeline")))

    def validation_trials(self) -> Trial:
        timeline, distance = self.plan.nominal(), middle_of(self.distance)
        directions = even_directions(self.n_directions)
        return jax.vmap(lambda direction: self._reach(direction, distance, timeline))(directions)

    def _reach(self, direction: Float[Array, ""], distance: Float[Array, ""], timeline: Timeline) -> Trial:
        center = self.workspace.center
        target = at_direction(center, direction, distance)
        shown, gone = timeline.since("target on")[:, None], timeline.since("go cue")[:, None]
        goal = jnp.where(gone, target, center)
        return Trial(
            init=HandState(center, jnp.zeros_like(center)),
            inputs={
                "target": jnp.where(shown, target, center),
                "target shown": shown.astype(center.dtype),
                "go cue": gone.astype(center.dtype),
            },
            targets=HandState(goal, jnp.zeros_like(goal)),
            timeline=timeline,
            conditions={
                "direction": wrap_angle(direction),
                "distance": distance,
                "catch": ~timeline.happens("go cue"),
            },
        )
