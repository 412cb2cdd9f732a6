"""Reaches to several targets, to a target that jumps, and to one of two targets."""

import dataclasses
from itertools import pairwise
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim.hand import Workspace
from popsim.loss import Loss
from popsim.losses import EuclideanDistance, Hold, LateInEpochs, PositionError
from popsim.per_member import PerMember
from popsim.randomness import key_stream, seed_key
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import FINITE, POSITIVE, Drawn, Scalar
from popsim.tasks.motor.reaching import delayed_reach_loss
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.windows import Before, Timeline

__all__ = ["sequential_reach_loss", "SequentialReaches", "TargetJump", "TwoTargetReaches", "reached_target"]


def sequential_reach_loss() -> Loss:
    """Return the loss of `reach_loss`, with position errors late in each reach and a hold before them."""
    return parts.with_costs(PositionError(profile=LateInEpochs("reach")) + Hold(Before("go cue 1")))


class SequentialReaches(parts.AbstractPlannedReach):
    """Reaches to several targets in a known order; double reaches by default.

    Start and targets are drawn uniformly from the workspace. All targets are shown throughout, and each has
    its own go cue, as in Zimnik & Churchland 2021, Nat Neurosci 24:412-424 (compared with a summary only),
    with random targets.

    - Inputs: "target 1", "target 2", … (space), the positions in m; "go cue" (targets), 1 from each go cue.
    - Targets: the hand at rest at the start until "go cue 1", then at the target of the last go cue; in catch
        trials at the start.
    - Conditions: "direction 1", "direction 2", … of each target from the previous position (rad); "catch".

    The validation trials start at the centre, with the first target in eight directions, and each further one
    a quarter turn to the left or to the right of the previous one.
    """

    loss: Loss = fields.default_loss(default_factory=sequential_reach_loss)
    n_targets: int = fields.count("targets of a trial", default=2)
    delay: Drawn = fields.drawn("the time before the first go cue, in seconds", default=(0.1, 0.3))
    reach: Drawn = fields.drawn(
        "the time from each go cue to the next, in seconds; the last reach takes the rest", default=0.6
    )
    catch_probability: Scalar = fields.fraction("the fraction of trials without go cues", default=0.1)
    validation_distance: float = fields.fixed(parts.VALIDATION_DISTANCE, default=0.08)
    duration: float = fields.trial_duration(default=1.6)

    @property
    def plan(self) -> TrialPlan:
        n = self.n_targets
        durations = [*(n - 1) * [self.reach], None]
        reaches = [Epoch(f"reach {i}", each, event=f"go cue {i}") for i, each in enumerate(durations, 1)]
        epochs = (Epoch("delay", self.delay, event="targets on"), *reaches)
        return parts.plan_of(self, epochs, "go cue 1", self.catch_probability)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        names = ["start", *(f"target {i + 1}" for i in range(self.n_targets))]
        return (jnp.stack([self.workspace.sample(key=key_stream(key, name)) for name in names]),)

    def nominal(self) -> tuple[Array, ...]:
        direction, turn = parts.all_combinations(8, 2)
        turns = jnp.array([0.5 * jnp.pi, -0.5 * jnp.pi])
        return (jax.vmap(self._around)(parts.even_directions(8)[direction], turns[turn]),)

    def _around(self, direction: Float[Array, ""], turn: Float[Array, ""]) -> Float[Array, "place space"]:
        """Return the centre and the targets, each turned from the one before."""
        center, distance = self.workspace.center, self.validation_distance
        angles = [direction + i * turn for i in range(self.n_targets)]
        return jnp.stack([center, *(parts.at_direction(center, angle, distance) for angle in angles)])

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        (places,) = draws
        gone = jnp.stack([timeline.since(f"go cue {i + 1}") for i in range(self.n_targets)], axis=-1)
        goal = places[jnp.sum(gone, axis=-1)]
        shown = {
            f"target {i}": jnp.broadcast_to(place, goal.shape) for i, place in enumerate(places[1:], start=1)
        }
        ways = enumerate(pairwise(places), start=1)
        inputs = shown | {"go cue": gone.astype(places.dtype)}
        labels = {f"direction {i}": parts.direction_of(end - start) for i, (start, end) in ways}
        labels |= {"catch": ~timeline.happens("go cue 1")}
        return Trial(parts.at_rest(places[0]), inputs, parts.at_rest(goal), timeline, conditions=labels)


class TargetJump(parts.AbstractPlannedReach):
    """Centre-out reaches with a target that jumps in some trials.

    A double-step task after Georgopoulos et al. 1981, J Neurophysiol 46:725 (compared with the abstract
    only). The hand should correct the ongoing reach.

    - Input: "target" (space), its current position in m, at which the hand should be at rest.
    - Conditions: "direction" of the first target from the start (rad); "jump", whether it jumps; "jump along"
        and "jump left", away from the start and to the left of the reach (m), zero without a jump.

    The validation trials have, in each direction (eight if `n_directions` is None), no jump, the lowest and
    the highest displacement, with distance and jump time at their midpoints.
    """

    workspace: Workspace = fields.region(
        "; reaches start at its centre, and targets may jump out of it, within reach of the body",
        kw_only=False,
    )
    loss: Loss = fields.default_loss(default_factory=parts.reach_loss)
    distance: Drawn = fields.drawn("the distance from centre to target, in m", default=0.1, check=POSITIVE)
    n_directions: int | None = fields.directions(default=8)
    jump_time: Drawn = fields.drawn("the time of the jump, in seconds", default=(0.1, 0.4), check=POSITIVE)
    displacement: Drawn = fields.drawn(
        "the jump along the reach and to its left, two numbers in m or a distribution of them",
        default=[[0.0, -0.03], [0.0, 0.03]],
    )
    jump_probability: Scalar = fields.fraction("the fraction of trials with a jump", default=0.5)
    duration: float = fields.trial_duration(default=1.2)

    def __check_init__(self):
        fields.check_drawn("displacement", self.displacement, FINITE, shape=(2,))

    @property
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline; its catch trials are those without a jump."""
        first = Epoch("movement", self.jump_time, event="target on")
        epochs = (first, Epoch("correction", event="target jump"))
        return parts.plan_of(self, epochs, "target jump", _complement(self.jump_probability))

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        direction = parts.random_direction(self.n_directions, key=key_stream(key, "direction"))
        distance = self.distance.sample(key=key_stream(key, "distance"))
        return direction, distance, self.displacement.sample(key=key_stream(key, "displacement"))

    def nominal(self) -> tuple[Array, ...]:
        """Return the conditions of no jump, and of the two extreme ones, in each direction."""
        directions = jnp.repeat(parts.even_directions(self.n_directions), 3)
        low, high = self.displacement.bounds()
        displacements = jnp.tile(jnp.stack([jnp.zeros_like(low), low, high]), (directions.size // 3, 1))
        return directions, jnp.broadcast_to(parts.middle_of(self.distance), directions.shape), displacements

    def validation_trials(self) -> Trial:
        never = dataclasses.replace(self.plan, catch_probability=1.0).draw(key=seed_key(0))
        draws = self.nominal()
        timelines = [never, *2 * [self.plan.nominal()]] * (len(draws[0]) // 3)
        timelines = jax.tree.map(lambda *leaves: jnp.stack(leaves), *timelines)
        return jax.vmap(lambda at, draws: self.trial_of(at, draws, key=seed_key(0)))(timelines, draws)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        center, (direction, distance, displacement) = self.workspace.center, draws
        jumps = timeline.happens("target jump")
        along, leftward = jnp.where(jumps, displacement, 0.0)
        first = parts.at_direction(center, direction, distance)
        second = parts.at_direction(first, direction, along)
        second = parts.at_direction(second, direction + 0.5 * jnp.pi, leftward)
        target = jnp.where(timeline.since("target jump")[:, None], second, first)
        labels = {"direction": parts.wrap_angle(direction), "jump": jumps}
        labels |= {"jump along": along, "jump left": leftward}
        init, goal = parts.at_rest(center), parts.at_rest(target)
        return Trial(init, {"target": target}, goal, timeline, conditions=labels)


def _complement(fraction: Float[Array, ""] | PerMember) -> Float[Array, ""] | PerMember:
    return PerMember(1 - fraction.values) if isinstance(fraction, PerMember) else 1 - fraction


CueOrder = Literal["cue first", "go first"]


class TwoTargetReaches(parts.AbstractPlannedReach):
    """Two possible targets: both are shown, later a colour says which is right, and a go cue when to reach.

    The order of events is that of Cisek & Kalaska 2005, Neuron 45:801 (compared with the abstract only): the
    two targets appear in two colours, and are remembered; then a cue without a place, the colour of one of
    them, says which is right. With `order="go first"` the go cue comes before the colour, so that the hand
    may leave while both targets are possible. Targets, colours and the right one are drawn independently.

    - Inputs: "target 1", "target 2" (space), the place of each colour while shown, else the centre, in m;
        "targets shown" (1); "color cue" (2), the colour of the right target, from "cue on"; "go cue" (1).
    - Targets: the hand at rest at the start until both the colour and the go cue have come, then at the right
        target; in catch trials, which have no colour with `order="go first"`, at the start throughout.
    - Conditions: "direction" of the right target and "other direction" of the wrong one (rad); "separation",
        counter-clockwise from target 1 to target 2 (rad); "right target", 1 or 2; "distance" (m); "catch".

    `reached_target` says which one was chosen. The validation trials are each of the two targets, in each
    direction of target 1 (eight if `n_directions` is None) and with each separation (five of a uniform
    distribution), at midpoints.
    """

    workspace: Workspace = fields.region(fields.FROM_CENTRE, kw_only=False)
    loss: Loss = fields.default_loss(default_factory=delayed_reach_loss)
    order: CueOrder = fields.setting('"cue first", or "go first"', default="cue first")
    distance: Drawn = fields.drawn(
        "the distance of the targets from the centre, in m", default=0.1, check=POSITIVE
    )
    separation: Drawn = fields.drawn(
        "the angle from target 1 to target 2, in rad, by default opposite",
        default=jnp.pi,
        check=fields.check_angle,
    )
    n_directions: int | None = fields.directions("directions of target 1", default=8)
    hold: Drawn = fields.drawn("the duration before the targets, in seconds", default=0.1, check=POSITIVE)
    targets: Drawn = fields.drawn("how long the targets are shown, in seconds", default=0.2)
    memory: Drawn = fields.drawn(
        "the time from the end of the targets to the next cue, in seconds", default=(0.1, 0.3)
    )
    cue: Drawn = fields.drawn(
        "the time between colour and go cue, in either order, in seconds", default=(0.1, 0.3)
    )
    catch_probability: Scalar = fields.fraction("the fraction of trials without a go cue", default=0.1)
    duration: float = fields.trial_duration(default=1.7)

    @property
    def plan(self) -> TrialPlan:
        first, second = ("cue on", "go cue") if self.order == "cue first" else ("go cue", "cue on")
        cue = Epoch("cue" if self.order == "cue first" else "undecided", self.cue, event=first)
        shown = parts.epochs_of(self, hold=None, targets="targets on", memory="targets off")
        epochs = (*shown, cue, Epoch("movement", event=second))
        return parts.plan_of(self, epochs, "go cue", self.catch_probability)

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        return (
            parts.random_direction(self.n_directions, key=key_stream(key, "direction")),
            self.separation.sample(key=key_stream(key, "separation")),
            jax.random.bernoulli(key_stream(key, "right target")),
            self.distance.sample(key=key_stream(key, "distance")),
        )

    def nominal(self) -> tuple[Array, ...]:
        directions = parts.even_directions(self.n_directions)
        separations = parts.nominal_values(self.separation)
        is_second = jnp.array([False, True])
        distance = parts.middle_of(self.distance)[None]
        return parts.combinations_of(directions, separations, is_second, distance)

    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        center, (direction, separation, second_is_right, distance) = self.workspace.center, draws
        angles = jnp.stack([direction, direction + separation])
        places = jnp.stack([parts.at_direction(center, angle, distance) for angle in angles])
        right = second_is_right.astype(int)
        shown = timeline.in_epoch("targets")[:, None]
        cued, gone = (timeline.since(event)[:, None] for event in ("cue on", "go cue"))
        goal = parts.at_rest(jnp.where(cued & gone, places[right], center))
        inputs = {f"target {i}": jnp.where(shown, place, center) for i, place in enumerate(places, 1)}
        inputs |= {"targets shown": shown.astype(center.dtype), "go cue": gone.astype(center.dtype)}
        inputs |= {"color cue": jnp.where(cued, jax.nn.one_hot(right, 2, dtype=center.dtype), 0.0)}
        labels = {"direction": _label(angles[right]), "other direction": _label(angles[1 - right])}
        labels |= {"separation": separation, "right target": 1 + right, "distance": distance}
        labels |= {"catch": ~timeline.happens("go cue")}
        return Trial(parts.at_rest(center), inputs, goal, timeline, conditions=labels)


def _label(angle: Float[Array, ""]) -> Float[Array, ""]:
    """Return a direction in rad, rounded so that a place has one label, of whichever colour it is."""
    return jnp.minimum(jnp.round(parts.wrap_angle(angle), 4), jnp.pi)


def reached_target(
    position: Float[Array | np.ndarray, "*axes time space"], trials: Trial
) -> Int[Array, "*axes"]:
    """Return which target the cursor is nearer to at the end of each trial, 1 or 2; 0 if it has not left.

    It has left at half of the distance of the targets.

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
