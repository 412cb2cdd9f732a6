"""Reaches to which the task answers: it waits for the hand, moves the target, or reveals it."""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from popsim._shared.plain_values import step_at
from popsim.environment import AbstractEnvironment, HandMovement, Observation, Outcome
from popsim.hand import HandState, Workspace
from popsim.loss import Loss
from popsim.losses import InWindow, PositionError
from popsim.randomness import key_stream
from popsim.tasks import _fields as fields
from popsim.tasks import trial_parts as parts
from popsim.tasks._fields import POSITIVE, Drawn, Scalar
from popsim.trial import Trial
from popsim.trial_plan import Epoch
from popsim.windows import WholeTrial

__all__ = [
    "HeldReach",
    "HoldEnvironment",
    "MovingTargetEnvironment",
    "RevealEnvironment",
    "tracking_reach_loss",
    "GoBeforeYouKnow",
    "Interception",
]


Flags = dict[str, Array]


def tracking_reach_loss() -> Loss:
    """Return the loss of `reach_loss` with a position error that has the same weight at all time steps."""
    return parts.with_costs(PositionError(profile=InWindow(WholeTrial())))


def _is_near(hand: HandState, place: Float[Array, " space"], radius: Float[Array, ""]) -> Bool[Array, ""]:
    return jnp.sum((hand.position - place) ** 2) < radius**2


def _number(flag: Bool[Array, ""], like: Array) -> Float[Array, "1"]:
    return flag.astype(like.dtype)[None]


class AbstractReachEnvironment(AbstractEnvironment):
    """An environment that sees the hand."""

    @property
    def actions(self) -> HandMovement:
        return HandMovement()


class HoldEnvironment(AbstractReachEnvironment):
    """Gives the go cue when the cursor has been held at the start for some time without a break.

    Leaving the start before the go cue is paid -`penalty`, and the time of the hold begins anew on return.
    Arriving at the target after it is paid 1, once. It shows "go cue" (1). It records "target", a `HandState`
    at rest at the start before the go cue and at the target from then on, "go cue", and "leaves early".
    """

    start: Float[Array, "*axes space"]  # m
    target: Float[Array, "*axes space"]  # m
    hold: Int[Array, "*axes"]  # in time steps
    radius: Float[Array, "*axes"]  # m
    penalty: Float[Array, "*axes"]

    def init(self, *, key: Key[Array, ""]) -> tuple[Flags, Observation]:
        state = {
            "held": jnp.array(0),
            "is at start": jnp.array(True),
            "has gone": jnp.array(False),
            "has arrived": jnp.array(False),
        }
        return state, {"go cue": _number(jnp.array(False), self.start)}

    def step(self, state: Flags, action: HandState, *, key: Key[Array, ""]) -> tuple[Flags, Outcome]:
        at_start = _is_near(action, self.start, self.radius)
        leaves_early = ~state["has gone"] & state["is at start"] & ~at_start
        held = jnp.where(at_start, state["held"] + 1, 0)
        has_gone = state["has gone"] | (held >= self.hold)
        arrives = state["has gone"] & ~state["has arrived"] & _is_near(action, self.target, self.radius)
        after = {
            "held": held,
            "is at start": at_start,
            "has gone": has_gone,
            "has arrived": state["has arrived"] | arrives,
        }
        # The network receives the cue at the next step, and has until then to stay.
        goal = jnp.where(state["has gone"], self.target, self.start)
        record = {"target": parts.at_rest(goal), "go cue": state["has gone"], "leaves early": leaves_early}
        reward = jnp.where(leaves_early, -self.penalty, arrives.astype(goal.dtype))
        shown = {"go cue": _number(has_gone, self.start)}
        return after, Outcome(shown, reward, jnp.array(False), record)


class MovingTargetEnvironment(AbstractReachEnvironment):
    """A target that moves at a constant velocity until the cursor reaches it, which ends the trial.

    Reaching it is paid 1. It shows "target" (space), its position in m, and "velocity of target" (space), in
    m/s. It records "target", a `HandState` that moves with it.
    """

    start: Float[Array, "*axes space"]  # m
    velocity: Float[Array, "*axes space"]  # m/s
    radius: Float[Array, "*axes"]  # m
    dt: Float[Array, "*axes"]  # s

    def init(self, *, key: Key[Array, ""]) -> tuple[Float[Array, " space"], Observation]:
        return self.start, self._shown(self.start)

    def step(self, state: Array, action: HandState, *, key: Key[Array, ""]) -> tuple[Array, Outcome]:
        position = state + self.dt * self.velocity
        is_reached = _is_near(action, position, self.radius)
        record = {"target": HandState(position, self.velocity)}
        reward = is_reached.astype(position.dtype)
        return position, Outcome(self._shown(position), reward, is_reached, record)

    def _shown(self, position: Float[Array, " space"]) -> Observation:
        return {"target": position, "velocity of target": self.velocity}


class RevealEnvironment(AbstractReachEnvironment):
    """Shows which of two targets is the right one when the cursor has left the start.

    Arriving at the right target is paid 1, once. It shows "right target" (2), one-hot once it is revealed,
    zeros before. It records "is revealed".
    """

    start: Float[Array, "*axes space"]  # m
    targets: Float[Array, "*axes 2 space"]  # m
    second_is_right: Bool[Array, "*axes"]
    reveal_distance: Float[Array, "*axes"]  # m
    radius: Float[Array, "*axes"]  # m

    def init(self, *, key: Key[Array, ""]) -> tuple[Flags, Observation]:
        state = {"is revealed": jnp.array(False), "has arrived": jnp.array(False)}
        return state, self._shown(state["is revealed"])

    def step(self, state: Flags, action: HandState, *, key: Key[Array, ""]) -> tuple[Flags, Outcome]:
        has_left = ~_is_near(action, self.start, self.reveal_distance)
        is_revealed = state["is revealed"] | has_left
        right = jnp.where(self.second_is_right, self.targets[1], self.targets[0])
        arrives = ~state["has arrived"] & _is_near(action, right, self.radius)
        after = {"is revealed": is_revealed, "has arrived": state["has arrived"] | arrives}
        reward = arrives.astype(right.dtype)
        shown, record = self._shown(is_revealed), {"is revealed": is_revealed}
        return after, Outcome(shown, reward, jnp.array(False), record)

    def _shown(self, is_revealed: Bool[Array, ""]) -> Observation:
        right = jnp.stack([~self.second_is_right, self.second_is_right])
        return {"right target": jnp.where(is_revealed, right, False).astype(self.start.dtype)}


class HeldReach(parts.AbstractFixedReach):
    """Centre-out reaches whose go cue waits until the hand has been held still at the start.

    The environment is a `HoldEnvironment`, whose target the reach losses follow.

    - Input: "target" (space), the position of the target in m, throughout. The environment shows "go cue".
    - Targets: the hand at rest at the start, and at the target from the earliest go cue on; losses use those
        of the environment.
    - Conditions: "direction" of the target (rad); "hold" (s).

    The validation trials are one reach in each direction (eight if `n_directions` is None), at midpoints.
    """

    workspace: Workspace = fields.region(fields.FROM_CENTRE, kw_only=False)
    loss: Loss = fields.default_loss(default_factory=tracking_reach_loss)
    distance: float = fields.fixed("the distance from centre to target, in m", default=0.1)
    n_directions: int | None = fields.directions("targets", default=8)
    hold: Drawn = fields.drawn(
        "how long the hand must be held, in seconds", default=(0.2, 0.5), check=POSITIVE
    )
    radius: Scalar = fields.positive("how far from the start the cursor may be, in m", default=0.015)
    penalty: Scalar = fields.non_negative("the reward that leaving early costs", default=1.0)
    duration: float = fields.trial_duration(default=1.5)

    def __check_init__(self):
        parts.check_time_left(
            parts.plan_of(self, [Epoch("hold", self.hold), Epoch("movement")]), self.dt, "a step"
        )

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        direction = parts.random_direction(self.n_directions, key=key_stream(key, "direction"))
        return self._reach(direction, self.hold.sample(key=key_stream(key, "hold")))

    def validation_trials(self) -> Trial:
        directions = parts.even_directions(self.n_directions)
        return jax.vmap(self._reach, (0, None))(directions, parts.middle_of(self.hold))

    def _reach(self, direction: Float[Array, ""], hold: Float[Array, ""]) -> Trial:
        center, hold_steps = self.workspace.center, step_at(hold, self.dt)
        target = parts.at_direction(center, direction, self.distance)
        events = {"earliest go cue": hold_steps}
        timeline = dataclasses.replace(self.whole_trial("trial"), events=events)
        goal = jnp.where(timeline.since("earliest go cue")[:, None], target, center)
        environment = HoldEnvironment(center, target, hold_steps, self.radius, self.penalty)
        inputs = {"target": jnp.broadcast_to(target, goal.shape)}
        labels = {"direction": parts.wrap_angle(direction), "hold": hold}
        init, targets = parts.at_rest(center), parts.at_rest(goal)
        return Trial(init, inputs, targets, timeline, conditions=labels, environment=environment)


class Interception(parts.AbstractFixedReach):
    """Interception: catch a target that moves past in front of the hand, which ends the trial.

    The target moves along the first axis, from the left or from the right, at a constant speed, and is
    straight ahead of the hand at the time `passing_time`. The environment is a `MovingTargetEnvironment`,
    whose target the reach losses follow until it is caught.

    - Inputs: none. The environment shows "target" (space), its position in m, and "velocity of target"
        (space), in m/s.
    - Targets: the moving target.
    - Conditions: "speed" (m/s); "from left".

    The validation trials are five speeds from each side.
    """

    workspace: Workspace = fields.region("; the hand starts at its centre", kw_only=False)
    loss: Loss = fields.default_loss(default_factory=tracking_reach_loss)
    distance: float = fields.fixed("the distance of the path from the start, in m", default=0.08)
    speed: Drawn = fields.drawn("the speed of the target, in m/s", default=(0.05, 0.2), check=POSITIVE)
    passing_time: float = fields.fixed("when the target is straight ahead, in seconds", default=0.5)
    radius: Scalar = fields.positive("the distance at which the target is caught, in m", default=0.01)
    duration: float = fields.trial_duration(default=1.0)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        from_left = jax.random.bernoulli(key_stream(key, "side"))
        return self._catch(self.speed.sample(key=key_stream(key, "speed")), from_left)

    def validation_trials(self) -> Trial:
        from_left, speeds = parts.combinations_of(jnp.array([False, True]), parts.nominal_values(self.speed))
        return jax.vmap(self._catch)(speeds, from_left)

    def _catch(self, speed: Float[Array, ""], from_left: Bool[Array, ""]) -> Trial:
        center = self.workspace.center
        velocity = jnp.zeros_like(center).at[0].set(jnp.where(from_left, speed, -speed))
        ahead = parts.at_direction(center, jnp.asarray(jnp.pi / 2, center.dtype), self.distance)
        start = ahead - self.passing_time * velocity
        times = self.dt * jnp.arange(1.0, self.n_steps + 1)  # at the end of each step, as states are
        path = start + times[:, None] * velocity
        dt = jnp.asarray(self.dt, center.dtype)
        environment = MovingTargetEnvironment(start, velocity, self.radius, dt)
        return Trial(
            init=parts.at_rest(center),
            inputs=(),
            targets=HandState(path, jnp.broadcast_to(velocity, path.shape)),
            timeline=self.whole_trial("movement"),
            conditions={"speed": speed, "from left": from_left},
            environment=environment,
        )


class GoBeforeYouKnow(parts.AbstractFixedReach):
    """Go before you know: reach while two targets are possible, and learn on the way which one is right.

    Which target is right is shown when the cursor has left the start, by a `RevealEnvironment`, as in Chapman
    et al. 2010, Cognition 116:168 (compared with the abstract). Until then one best moves between the two.

    - Inputs: "target 1", "target 2" (space), their positions in m, throughout. The environment shows "right
        target" (2), one-hot once it is revealed.
    - Targets: the hand at rest at the right target.
    - Conditions: "direction" of the middle between the targets (rad); "right target", 1 or 2.

    The validation trials are each of the two targets in each direction (eight if `n_directions` is None).
    """

    workspace: Workspace = fields.region(fields.FROM_CENTRE, kw_only=False)
    loss: Loss = fields.default_loss(default_factory=parts.reach_loss)
    distance: float = fields.fixed(parts.DISTANCE, default=0.1)
    separation: float = fields.setting(
        "the angle between the targets, in rad", default=1.0, check=fields.check_angle
    )
    n_directions: int | None = fields.directions("directions of the middle between the targets", default=8)
    reveal_distance: Scalar = fields.positive("how far from the start the target is told, in m", default=0.02)
    radius: Scalar = fields.positive("how near to the target the cursor is paid, in m", default=0.01)
    duration: float = fields.trial_duration(default=1.2)

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        direction = parts.random_direction(self.n_directions, key=key_stream(key, "direction"))
        return self._reach(direction, jax.random.bernoulli(key_stream(key, "right target")))

    def validation_trials(self) -> Trial:
        directions = parts.even_directions(self.n_directions)
        return jax.vmap(self._reach)(*parts.combinations_of(directions, jnp.array([False, True])))

    def _reach(self, direction: Float[Array, ""], second_is_right: Bool[Array, ""]) -> Trial:
        center, half = self.workspace.center, self.separation / 2
        places = [parts.at_direction(center, direction + side, self.distance) for side in (half, -half)]
        right = jnp.where(second_is_right, places[1], places[0])
        shape = (self.n_steps, *center.shape)
        goal = jnp.broadcast_to(right, shape)
        labels = {"direction": parts.wrap_angle(direction), "right target": 1 + second_is_right.astype(int)}
        return Trial(
            parts.at_rest(center),
            {f"target {i}": jnp.broadcast_to(place, shape) for i, place in enumerate(places, 1)},
            parts.at_rest(goal),
            self.whole_trial("movement"),
            conditions=labels,
            environment=RevealEnvironment(
                center, jnp.stack(places), second_is_right, self.reveal_distance, self.radius
            ),
        )
