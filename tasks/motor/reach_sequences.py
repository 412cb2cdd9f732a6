"""Reaches to several targets, and to a target that jumps."""

import dataclasses
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._checks import as_float_array, check_finite, check_fraction, check_positive, check_positive_int
from popsim._plain_values import plain_number
from popsim.distributions import AbstractDistribution, Choice, Uniform, as_distribution
from popsim.hand import HandState, Workspace, as_workspace
from popsim.loss import Loss
from popsim.losses import Effort, FinalVelocity, HiddenActivity, Hold, LateInEpochs, PositionError
from popsim.per_member import PerMember
from popsim.randomness import key_stream, seed_key
from popsim.task import AbstractTask
from popsim.tasks.trial_parts import (
    at_direction,
    check_directions,
    check_drawn,
    check_time_left,
    direction_of,
    even_directions,
    middle_of,
    random_direction,
    reach_loss,
    wrap_angle,
)
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Before, Timeline

__all__ = ["sequential_reach_loss", "SequentialReaches", "TargetJump"]


def sequential_reach_loss() -> Loss:
    """Return the loss of `reach_loss`, with position errors late in each reach and a hold before them."""
    reaches = PositionError(profile=LateInEpochs("reach"))
    return (
        reaches + Hold(Before("go cue 1")) + 0.1 * FinalVelocity() + 1e-6 * Effort() + 1e-8 * HiddenActivity()
    )


class SequentialReaches(AbstractTask):
    """Reaches to several targets in a known order; double reaches by default.

    Start and targets are drawn uniformly from the workspace. All targets are shown throughout, and each has
    its own go cue, similar to the delayed double reaches of Zimnik & Churchland 2021, Nat Neurosci
    24:412-424 (compared with a summary only), with random targets.

    | input | shape | |
    | --- | --- | --- |
    | "target 1", "target 2", … | (time, space) | m; positions of the targets, in order |
    | "go cue" | (time, targets) | for each target 1 from its go cue, 0 before |

    Targets: the hand at rest at the start until "go cue 1", then at the target of the last go cue. Epochs:
    "delay" (begun by the event "targets on"), "reach 1" (begun by "go cue 1"), "reach 2", …; in catch trials
    the hand stays at the start. Conditions: "direction 1", "direction 2", … of each target from the previous
    position (rad); "catch", whether it is a catch trial. The validation trials start at the centre, with
    the first target in eight directions, and each further one at the same distance from the centre, a
    quarter turn to the left or to the right of the previous one.

    **Arguments:**

    - `workspace`: the region of starts and targets.
    - `loss`: the loss to train with.
    - `n_targets`: the number of targets of a trial.
    - `delay`: the time before the first go cue, in seconds; a number or a distribution.
    - `reach`: the time from each go cue to the next, in seconds, as `delay`; the last reach takes the rest.
    - `catch_probability`: the fraction of trials without go cues.
    - `validation_distance`: the distance of all targets from the centre in the validation trials, in m.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=sequential_reach_loss)
    n_targets: int = eqx.field(static=True, converter=plain_number, kw_only=True, default=2)
    delay: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.3)
    )
    reach: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.6)
    catch_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.1)
    validation_distance: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.08)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.6)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_positive_int("n_targets", self.n_targets)
        check_positive("validation_distance", self.validation_distance)
        check_drawn("delay", self.delay, check_positive)
        check_drawn("reach", self.reach, check_positive)
        check_time_left(self.plan, self.dt, "a time step of the last reach")

    @property
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline."""
        numbers = range(1, self.n_targets + 1)
        reaches = [
            Epoch(f"reach {i}", self.reach if i < self.n_targets else None, event=f"go cue {i}")
            for i in numbers
        ]
        return TrialPlan(
            (Epoch("delay", self.delay, event="targets on"), *reaches),
            duration=self.duration,
            dt=self.dt,
            catch_event="go cue 1",
            catch_probability=self.catch_probability,
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        names = ["start", *(f"target {i + 1}" for i in range(self.n_targets))]
        places = jnp.stack([self.workspace.sample(key=key_stream(key, name)) for name in names])
        return self._reaches(places, self.plan.draw(key=key_stream(key, "timeline")))

    def validation_trials(self) -> Trial:
        center, timeline = self.workspace.center, self.plan.nominal()
        turns = jnp.array([0.5 * jnp.pi, -0.5 * jnp.pi])
        directions, turns = (grid.ravel() for grid in jnp.meshgrid(even_directions(8), turns, indexing="ij"))

        def in_turn(direction: Float[Array, ""], turn: Float[Array, ""]) -> Trial:
            angles = [direction + i * turn for i in range(self.n_targets)]
            around = [at_direction(center, angle, self.validation_distance) for angle in angles]
            return self._reaches(jnp.stack([center, *around]), timeline)

        return jax.vmap(in_turn)(directions, turns)

    def _reaches(self, places: Float[Array, "place space"], timeline: Timeline) -> Trial:
        gone = jnp.stack([timeline.since(f"go cue {i + 1}") for i in range(self.n_targets)], axis=-1)
        goal = places[jnp.sum(gone, axis=-1)]
        shown = {
            f"target {i}": jnp.broadcast_to(place, goal.shape) for i, place in enumerate(places[1:], start=1)
        }
        ways = enumerate(pairwise(places), start=1)
        return Trial(
            init=HandState(places[0], jnp.zeros_like(places[0])),
            inputs=shown | {"go cue": gone.astype(places.dtype)},
            targets=HandState(goal, jnp.zeros_like(goal)),
            timeline=timeline,
            conditions={
                **{f"direction {i}": direction_of(end - start) for i, (start, end) in ways},
                "catch": ~timeline.happens("go cue 1"),
            },
        )


class TargetJump(AbstractTask):
    """Centre-out reaches with a target that jumps in some trials.

    A double-step task after Georgopoulos et al. 1981, J Neurophysiol 46:725 (compared with the abstract
    only). The hand should correct the ongoing reach.

    | input | shape | |
    | --- | --- | --- |
    | "target" | (time, space) | m; the current position of the target |

    Targets: the hand at rest at the current target. Epochs: "movement" (begun by the event "target on" at
    the first time step), "correction" (begun by "target jump"); without a jump the movement lasts to the
    end. Conditions: "direction" of the first target from the start (rad); "jump", whether it jumps; "jump
    along" and "jump left", the displacement away from the start and to the left of the reach (m), zero
    without a jump. The validation trials have, in each direction (eight if `n_directions` is None), no
    jump, the lowest and the highest displacement, with distance and jump time at their midpoints.

    **Arguments:**

    - `workspace`: reaches start at its centre. Targets may jump out of it, within reach of the body.
    - `loss`: the loss to train with.
    - `distance`: the distance from centre to target, in m; a number or a distribution.
    - `n_directions`: the number of directions; None for the whole circle.
    - `jump_time`: the time of the jump, in seconds; a number or a distribution.
    - `displacement`: the jump along the reach and to its left, two numbers in m or a distribution of them.
    - `jump_probability`: the fraction of trials with a jump.
    - `duration`, `dt`: the duration of a trial and the time step of the model, in seconds.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    distance: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    n_directions: int | None = eqx.field(static=True, converter=plain_number, kw_only=True, default=8)
    jump_time: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.4)
    )
    displacement: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Choice([[0.0, -0.03], [0.0, 0.03]])
    )
    jump_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    duration: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True, default=0.01)

    def __check_init__(self):
        check_fraction("jump_probability", self.jump_probability)
        check_drawn("distance", self.distance, check_positive)
        check_drawn("displacement", self.displacement, _check_displacement, shape=(2,))
        check_directions(self.n_directions)
        check_drawn("jump_time", self.jump_time, check_positive)
        check_time_left(self.plan, self.dt, "a time step of correction")

    @property
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline; its catch trials are those without a jump."""
        epochs = (
            Epoch("movement", self.jump_time, event="target on"),
            Epoch("correction", event="target jump"),
        )
        return TrialPlan(
            epochs,
            duration=self.duration,
            dt=self.dt,
            catch_event="target jump",
            catch_probability=_complement(self.jump_probability),
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        direction = random_direction(self.n_directions, key=key_stream(key, "direction"))
        distance = self.distance.sample(key=key_stream(key, "distance"))
        displacement = self.displacement.sample(key=key_stream(key, "displacement"))
        timeline = self.plan.draw(key=key_stream(key, "timeline"))
        return self._reach(direction, distance, displacement, timeline)

    def validation_trials(self) -> Trial:
        distance = middle_of(self.distance)
        directions = even_directions(self.n_directions)
        low, high = self.displacement.bounds()
        straight, jumps = self._without_jump(), self.plan.nominal()

        def toward(direction: Float[Array, ""]) -> Trial:
            cases = ((jnp.zeros_like(low), straight), (low, jumps), (high, jumps))
            trials = [self._reach(direction, distance, *case) for case in cases]
            return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trials)

        trials = jax.vmap(toward)(directions)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), trials)

    def _without_jump(self) -> Timeline:
        never = dataclasses.replace(self.plan, catch_probability=1.0)
        return never.draw(key=seed_key(0))

    def _reach(
        self,
        direction: Float[Array, ""],
        distance: Float[Array, ""],
        displacement: Float[Array, "2"],
        timeline: Timeline,
    ) -> Trial:
        center = self.workspace.center
        jumps = timeline.happens("target jump")
        along, leftward = jnp.where(jumps, displacement, 0.0)
        first = at_direction(center, direction, distance)
        second = at_direction(at_direction(first, direction, along), direction + 0.5 * jnp.pi, leftward)
        target = jnp.where(timeline.since("target jump")[:, None], second, first)
        return Trial(
            init=HandState(center, jnp.zeros_like(center)),
            inputs={"target": target},
            targets=HandState(target, jnp.zeros_like(target)),
            timeline=timeline,
            conditions={
                "direction": wrap_angle(direction),
                "jump": jumps,
                "jump along": along,
                "jump left": leftward,
            },
        )


def _check_displacement(name: str, value: Array) -> None:
    check_finite(name, value)
    if value.shape != (2,):
        raise ValueError(f"`{name}` must be two numbers, along the reach and to its left, got {value}.")


def _complement(fraction: Float[Array, ""] | PerMember) -> Float[Array, ""] | PerMember:
    return PerMember(1 - fraction.values) if isinstance(fraction, PerMember) else 1 - fraction
