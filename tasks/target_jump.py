"""Reaches whose target jumps."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim.checks import as_float_array, check_finite, check_fraction, check_positive, check_positive_int
from popsim.distributions import AbstractDistribution, Choice, Uniform, as_distribution
from popsim.hand import HandState
from popsim.loss import Loss
from popsim.per_member import PerMember
from popsim.randomness import key_stream
from popsim.task import AbstractTask
from popsim.tasks.drawn import check_drawn, middle_of
from popsim.tasks.reach import at_direction, even_directions, random_direction, reach_loss, wrapped
from popsim.tasks.time_left import check_time_left
from popsim.timeline import Timeline
from popsim.trial import Trial
from popsim.trial_plan import Epoch, TrialPlan
from popsim.workspace import Workspace, as_workspace


class TargetJump(AbstractTask):
    """Reaches from the centre of a workspace to targets around it, some of which jump on the way.

    A double-step task after Georgopoulos et al. 1981, J Neurophysiol 46:725-743 (cited from memory). The
    hand is to correct the reach that it is making.

    | input | shape | |
    | --- | --- | --- |
    | "target" | (time, space) | m; where the target is now |

    Targets: the hand at rest where the target is now. Epochs: "movement" (begun by the event "target on"
    at the first step), "correction" (begun by "target jump"); without a jump the movement lasts to the end.
    Conditions: "direction" of the first target from the start (rad); "jump", whether it jumps; "jump along"
    and "jump left", by how much it moves away from the start and to the left of the reach (m), zero without
    a jump. The validation trials have each direction (eight if `n_directions` is None) without a jump, with
    the lowest, and with the highest displacement, at the middle of the times.

    **Arguments:**

    - `workspace`: its centre is where reaches start. Targets may jump out of it: the body must reach there.
    - `loss`: what counts as doing well.
    - `distance`: from centre to target, in m; a number or a distribution.
    - `n_directions`: how many directions there are; None for the whole circle.
    - `jump_time`: when the target jumps, in seconds; a number or a distribution.
    - `displacement`: by how much, along the reach and to its left, two numbers in m; or a distribution of
        such.
    - `jump_probability`: the share of trials in which it jumps.
    - `duration`: how long a trial lasts, in seconds.
    - `dt`: the time step in seconds, that of the model.

    **Raises:** `ValueError` if a distance or time is not positive, the jump may leave no step for the
    correction, displacements are not two finite numbers, `duration` is not a multiple of `dt`, or a
    probability not from 0 to 1.
    """

    workspace: Workspace = eqx.field(converter=as_workspace)
    loss: Loss = eqx.field(kw_only=True, default_factory=reach_loss)
    distance: AbstractDistribution = eqx.field(kw_only=True, converter=as_distribution, default=0.1)
    n_directions: int | None = eqx.field(static=True, kw_only=True, default=8)
    jump_time: AbstractDistribution = eqx.field(
        kw_only=True, converter=as_distribution, default_factory=lambda: Uniform(0.1, 0.4)
    )
    displacement: AbstractDistribution = eqx.field(
        kw_only=True,
        converter=as_distribution,
        default_factory=lambda: Choice([[0.0, -0.03], [0.0, 0.03]]),
    )
    jump_probability: Float[Array, ""] = eqx.field(kw_only=True, converter=as_float_array, default=0.5)
    duration: float = eqx.field(static=True, kw_only=True, default=1.2)
    dt: float = eqx.field(static=True, kw_only=True, default=0.01)

    def __check_init__(self):
        check_fraction("jump_probability", self.jump_probability)
        check_drawn("distance", self.distance, check_positive)
        check_drawn("displacement", self.displacement, _check_displacement)
        if self.n_directions is not None:
            check_positive_int("n_directions", self.n_directions)
        check_drawn("jump_time", self.jump_time, check_positive)
        check_time_left(self.plan, self.dt, "a time step of correction")

    @property
    def plan(self) -> TrialPlan:
        """From which each trial draws its timeline; a trial without a jump is its catch trial."""
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
        directions = even_directions(8 if self.n_directions is None else self.n_directions)
        low, high = self.displacement.bounds()
        straight, jumps = self._without_jump(), self.plan.typical()

        def toward(direction: Float[Array, ""]) -> Trial:
            cases = ((jnp.zeros_like(low), straight), (low, jumps), (high, jumps))
            trials = [self._reach(direction, distance, *case) for case in cases]
            return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trials)

        trials = jax.vmap(toward)(directions)
        return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), trials)

    def _without_jump(self) -> Timeline:
        never = dataclasses.replace(self.plan, catch_probability=1.0)
        return never.draw(key=jax.random.key(0))

    def _reach(
        self,
        direction: Float[Array, ""],
        distance: Float[Array, ""],
        displacement: Float[Array, "2"],
        timeline: Timeline,
    ) -> Trial:
        center = self.workspace.center
        jumps = timeline.happens("target jump")
        along, left = jnp.where(jumps, displacement, 0.0)
        first = at_direction(center, direction, distance)
        second = at_direction(at_direction(first, direction, along), direction + 0.5 * jnp.pi, left)
        target = jnp.where(timeline.since("target jump")[:, None], second, first)
        return Trial(
            init=HandState(center, jnp.zeros_like(center)),
            inputs={"target": target},
            targets=HandState(target, jnp.zeros_like(target)),
            timeline=timeline,
            conditions={
                "direction": wrapped(direction),
                "jump": jumps,
                "jump along": along,
                "jump left": left,
            },
        )


def _check_displacement(name: str, value: Array) -> None:
    check_finite(name, value)
    if value.shape != (2,):
        raise ValueError(f"`{name}` must be two numbers, along the reach and to its left, got {value}.")


def _complement(share: Float[Array, ""] | PerMember) -> Float[Array, ""] | PerMember:
    return PerMember(1 - share.values) if isinstance(share, PerMember) else 1 - share
