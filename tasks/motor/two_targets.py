"""Reaches to one of two targets, of which a cue says which is right."""

import functools
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._checks import as_float_array, check_non_negative, check_positive, warn_of_unit
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Uniform, as_distribution
from popsim.hand import HandState, Workspace, as_workspace
from popsim.loss import Loss
from popsim.losses import EuclideanDistance
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.motor.reaching import delayed_reach_loss
from popsim.tasks.trial_parts import (
    all_combinations,
    at_direction,
    check_directions,
    check_drawn,
    check_time_left,
    even_directions,
    middle_of,
    nominal_values,
    random_direction,
    wrap_angle,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Timeline

__all__ = ["TwoTargetReaches", "reached_target"]

CueOrder = Literal["cue first", "go first"]


class TwoTargetReaches(AbstractTask):
    """Two possible targets: both are shown, later a colour says which is right, and a go cue when to reach.

    The order of events is that of Cisek & Kalaska 2005, Neuron 45:801 (compared with the abstract only): the
    two targets appear in two colours, and are remembered; then a cue without a place, the colour of one of
    them, says which is right. Times are those of no experiment. With `order="go first"` the go cue comes
    before the colour, so that the hand may leave while both targets are possible; `GoBeforeYouKnow` is such a
    task in which the movement itself reveals the target. Whoever does not know the colour reaches the right
    target in half of the trials: targets, colours and the right one are drawn independently.

    | input | shape | |
    | --- | --- | --- |
    | "target 1", "target 2" | (time, space) | m; the place of each colour while shown, else the centre |
    | "targets shown" | (time, 1) | 1 in the epoch "targets", else 0 |
    | "color cue" | (time, 2) | one-hot: the colour of the right target, from "cue on"; 0 before |
    | "go cue" | (time, 1) | 1 from "go cue", 0 before and in catch trials |

    Targets: the hand at rest at the start until both the colour and the go cue have come, then at rest at the
    right target; in catch trials at the start throughout. Epochs: "hold", "targets" (begun by the event
    "targets on"), "memory" (by "targets off"), "cue" (by "cue on") and "movement" (by "go cue"); with
    `order="go first"` instead of these two "undecided" (by "go cue") and "movement" (by "cue on"). Catch
    trials then have no colour either. Conditions: "direction" of the right target and "other direction" of
    the wrong one (rad); "separation" of the two, counter-clockwise from target 1 to target 2 (rad); "right
    target", 1 or 2; "distance" of both from the start (m); "catch", whether it is a catch trial.
    `reached_target` says which one was chosen. The validation trials are each of the two targets, in each
    direction of target 1 (eight if `n_directions` is None) and with each separation (five of a uniform
    distribution), without catch trials, with durations and distance at their midpoints.

    **Arguments:**

    - `workspace`: the workspace; reaches start at its centre.
    - `loss`: the loss to train with.
    - `order`: "cue first", or "go first".
    - `distance`: the distance of the targets from the centre, in m; a number or a distribution.
    - `separation`: the angle from target 1 to target 2, in rad, by default opposite; as `distance`.
    - `n_directions`: the number of directions of target 1; None for the whole circle.
    - `hold`: the duration before the targets, in seconds; as `distance`.
    - `targets`: how long the targets are shown, in seconds; as `distance`.
    - `memory`: the duration between the targets and the next cue, in seconds; as `distance`.
    - `cue`: the duration between colour and go cue, in either order, in seconds; as `distance`.
    - `catch_probability`: the fraction of trials without a go cue.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=delayed_reach_loss)
    order: CueOrder = eqx.field(static=True, kw_only=True, default="cue first")
    distance: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    separation: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=jnp.pi)
    n_directions: int | None = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    hold: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    targets: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.2)
    memory: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.3)
    )
    cue: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.3)
    )
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.7)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        if self.order not in ("cue first", "go first"):
            raise ValueError(f'`order` must be "cue first" or "go first", got {self.order!r}.')
        check_drawn("distance", self.distance, check_positive)
        check_drawn("separation", self.separation, check_positive)
        check_drawn("separation", self.separation, functools.partial(warn_of_unit, kind="angle"))
        check_directions(self.n_directions)
        for name in ("hold", "targets", "cue"):
            check_drawn(name, getattr(self, name), check_positive)
        check_drawn("memory", self.memory, check_non_negative)
        check_time_left(self.plan, self.dt, "a time step of movement")

    @property
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline."""
        first, second = ("cue on", "go cue") if self.order == "cue first" else ("go cue", "cue on")
        epochs = (
            Epoch("hold", self.hold),
            Epoch("targets", self.targets, event="targets on"),
            Epoch("memory", self.memory, event="targets off"),
            Epoch("cue" if self.order == "cue first" else "undecided", self.cue, event=first),
            Epoch("movement", event=second),
        )
        return TrialPlan(
            epochs,
            duration=self.duration,
            dt=self.dt,
            catch_event="go cue",
            catch_probability=self.catch_probability,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        return self._reach(
            random_direction(self.n_directions, key=key_stream(key, "direction")),
            self.separation.sample(key=key_stream(key, "separation")),
            jax.random.bernoulli(key_stream(key, "right target")),
            self.distance.sample(key=key_stream(key, "distance")),
            self.plan.draw(key=key_stream(key, "timeline")),
        )

    def validation_trials(self) -> Trial:
        timeline, distance = self.plan.nominal(), middle_of(self.distance)
        directions, separations = even_directions(self.n_directions), nominal_values(self.separation)
        direction, separation, second = all_combinations(len(directions), len(separations), 2)

        def reach(
            direction: Float[Array, ""], separation: Float[Array, ""], second: Bool[Array, ""]
        ) -> Trial:
            return self._reach(direction, separation, second, distance, timeline)

        return jax.vmap(reach)(directions[direction], separations[separation], second.astype(bool))

    def _reach(
        self,
        direction: Float[Array, ""],
        separation: Float[Array, ""],
        second_is_right: Bool[Array, ""],
        distance: Float[Array, ""],
        timeline: Timeline,
    ) -> Trial:
        center = self.workspace.center
        angles = jnp.stack([direction, direction + separation])
        places = jnp.stack([at_direction(center, angle, distance) for angle in angles])
        right = second_is_right.astype(int)
        shown = timeline.in_epoch("targets")[:, None]
        cued, gone = (timeline.since(event)[:, None] for event in ("cue on", "go cue"))
        goal = jnp.where(cued & gone, places[right], center)
        return Trial(
            init=HandState(center, jnp.zeros_like(center)),
            inputs={
                **{f"target {i}": jnp.where(shown, place, center) for i, place in enumerate(places, 1)},
                "targets shown": shown.astype(center.dtype),
                "color cue": jnp.where(cued, jax.nn.one_hot(right, 2, dtype=center.dtype), 0.0),
                "go cue": gone.astype(center.dtype),
            },
            targets=HandState(goal, jnp.zeros_like(goal)),
            timeline=timeline,
            conditions={
                "direction": _label(angles[right]),
                "other direction": _label(angles[1 - right]),
                "separation": separation,
                "right target": 1 + right,
                "distance": distance,
                "catch": ~timeline.happens("go cue"),
            },
        )


def _label(angle: Float[Array, ""]) -> Float[Array, ""]:
    """Return a direction in rad, rounded so that a place has one label, of whichever colour it is."""
    return jnp.minimum(jnp.round(wrap_angle(angle), 4), jnp.pi)


def reached_target(
    position: Float[Array | np.ndarray, "*axes time space"], trials: Trial
) -> Int[Array, "*axes"]:
    """Return which target the cursor is nearer to at the end of each trial, 1 or 2; 0 if it has not left.

    The fraction of trials in which it is `trials.conditions["right target"]` is 0.5 by chance, and 1 at best.
    It has left if it is farther from the start than half of the distance of the targets.

    **Arguments:**

    - `position`: `states.cursor.position`, in m; axes (trial, time, space), perhaps with others before them.
    - `trials`: the trials, stacked, of `TwoTargetReaches`.
    """
    conditions, length = trials.conditions, EuclideanDistance()
    moved = (position[..., -1, :] - trials.init.position)[..., :2]

    def far_from(angle: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
        place = jnp.stack([jnp.cos(angle), jnp.sin(angle)], axis=-1)
        return length(moved - conditions["distance"][..., None] * place)

    is_right = far_from(conditions["direction"]) < far_from(conditions["other direction"])
    chosen = jnp.where(is_right, conditions["right target"], 3 - conditions["right target"])
    return jnp.where(length(moved) > conditions["distance"] / 2, chosen, 0)
