"""What tasks share: how trials are drawn, and the parts of reaches, stimuli and responses."""

import abc
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

from popsim._compiled import jit, jit_fast_compile
from popsim._shared import checks
from popsim._shared.checks import kind_of
from popsim.distributions import AbstractDistribution, Choice, Constant, Uniform
from popsim.hand import HandState, Workspace
from popsim.loss import Loss
from popsim.losses import Effort, FinalVelocity, HiddenActivity, PositionError
from popsim.per_member import PerMember
from popsim.randomness import as_key, key_stream, seed_key
from popsim.task import AbstractTask
from popsim.tasks import _fields as fields
from popsim.tasks._fields import NON_NEGATIVE, Scalar
from popsim.trial import OutputTarget, Trial
from popsim.trial_plan import Epoch, TrialPlan, longest_time
from popsim.windows import FromEvent, Timeline

__all__ = ["reach_loss", "reach_trial", "center_out_trials", "GoResponse"]


DISTANCE = "the distance of the targets from the centre, in m"
VALIDATION_DISTANCE = "the distance of the targets from the centre in the validation trials, in m"


class AbstractCheckedTask(fields.DocumentedModule, AbstractTask):
    """A task that checks its fields, and says in its docstring what they are for."""


def plan_of(
    task: Any, epochs: Sequence[Epoch], catch_event: str | None = None, catch_probability: Any = 0.0
) -> TrialPlan:
    """Return the plan of epochs in a trial of a task, with its duration and time step."""
    return TrialPlan(
        tuple(epochs),
        duration=task.duration,
        dt=task.dt,
        catch_event=catch_event,
        catch_probability=catch_probability,
    )


def epochs_of(task: Any, **events: str | None) -> tuple[Epoch, ...]:
    """Return epochs with their events, as long as the fields of their names say; others take the rest."""
    named = events.items()
    return tuple(Epoch(name.replace("_", " "), getattr(task, name, None), event) for name, event in named)


def middle_of(distribution: AbstractDistribution) -> Float[Array, "*shape"]:
    """Return the midpoint of the bounds of a distribution, used in validation trials."""
    low, high = distribution.bounds()
    return (low + high) / 2


def check_time_left(plan: TrialPlan, seconds: float, needed_for: str) -> None:
    """Raise `ValueError` if the longest other epochs leave less than `seconds` for the last epoch."""
    longest = longest_time(plan.epochs[:-1])
    if longest is not None and longest + seconds > plan.duration + 1e-6:
        least = f"{longest + seconds:.4g} s"
        raise ValueError(f"`duration` must be at least {least}, for {needed_for}, got {plan.duration} s.")


def reach_loss(effort: float | PerMember = 1e-6) -> Loss:
    """Return the default loss of a reach, in the proportions of Feedbax's simple reaches, in SI units.

    It sums the position error with a late profile, the final velocity, and costs of effort and activity.

    **Arguments:**

    - `effort`: the weight of the squared command, which may differ between members.
    """
    return with_costs(PositionError(), effort)


def with_costs(position: Any, effort: float | PerMember = 1e-6) -> Loss:
    """Return a loss of the position with those of the final velocity, effort and activity in `reach_loss`."""
    return position + 0.1 * FinalVelocity() + effort * Effort() + 1e-8 * HiddenActivity()


Drawable = AbstractDistribution | int | Float[Array, ""]


class AbstractPlannedTask(AbstractCheckedTask):
    """A task whose trials have a timeline that is drawn from a plan, and conditions."""

    @property
    @abc.abstractmethod
    def plan(self) -> TrialPlan:
        """The plan from which each trial draws its timeline; the longest, where conditions decide on it."""

    def draws(self) -> dict[str, Drawable]:
        """Return each condition by its stream: what is drawn, of how many one is, or how often it holds."""
        return {}

    def draw_conditions(self, *, key: Key[Array, ""]) -> tuple[Array, ...]:
        """Draw the conditions of a training trial, by default those of `draws`, independently.

        A task that draws in another way must keep to the values and probabilities of `draws`, from which
        `choice_probabilities` reckons.
        """
        return tuple(_draw(condition, key_stream(key, name)) for name, condition in self.draws().items())

    def nominal(self) -> tuple[Array, ...]:
        """Return the conditions of the validation trials, by default all combinations: axis (trial,)."""
        return combinations_of(*map(all_values, self.draws().values()))

    @abc.abstractmethod
    def trial_of(self, timeline: Timeline, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        """Return the trial of a timeline and of conditions."""

    def plan_for(self, draws: tuple[Array, ...]) -> TrialPlan:
        """Return the plan of a trial with some conditions, which may say how long some epochs are."""
        return self.plan

    def trial(self, *, batch: int | Int[Array, ""], key: Key[Array, ""]) -> Trial:
        draws = self.draw_conditions(key=key)
        timeline = self.plan_for(draws).draw(key=key_stream(key, "timeline"))
        return self.trial_of(timeline, draws, key=key)

    def validation_trials(self) -> Trial:
        return trials_of_conditions(self._typical_trial, self.nominal())

    def _typical_trial(self, draws: tuple[Array, ...], *, key: Key[Array, ""]) -> Trial:
        return self.trial_of(self.plan_for(draws).nominal(), draws, key=key)


def _draw(condition: Drawable, key: Key[Array, ""]) -> Array:
    if isinstance(condition, AbstractDistribution):
        return condition.sample(key=key)
    if isinstance(condition, int):
        return jax.random.randint(key, (), 0, condition)
    return jax.random.bernoulli(key, condition)


def all_values(condition: Drawable) -> Array:
    """Return the `nominal_values` of what is drawn, all numbers below one, or both answers."""
    if isinstance(condition, AbstractDistribution):
        return nominal_values(condition)
    return jnp.arange(condition) if isinstance(condition, int) else jnp.array([False, True])


class AbstractPlannedReach(AbstractPlannedTask):
    """A task with a plan for a hand in a workspace. Its validation trials are not compiled."""

    workspace: Workspace = fields.region(kw_only=False)
    dt: float = fields.time_step(default=0.01)

    def __check_init__(self):
        check_time_left(self.plan, self.dt, f"a time step of {self.plan.epochs[-1].name}")

    def validation_trials(self) -> Trial:
        timeline, conditions = self.plan.nominal(), self.nominal()
        return jax.vmap(lambda draws: self.trial_of(timeline, draws, key=seed_key(0)))(conditions)


class AbstractFixedTimes(AbstractCheckedTask):
    """A task whose trials all have the same times."""

    duration: eqx.AbstractVar[float]
    dt: eqx.AbstractVar[float]

    def __check_init__(self):
        checks.warn_of_unit("duration", self.duration, "duration")
        _ = self.n_steps

    @property
    def n_steps(self) -> int:
        """The number of time steps of a trial."""
        return checks.n_steps_in("duration", self.duration, self.dt)

    def whole_trial(self, epoch: str) -> Timeline:
        """Return the timeline of a trial that is one epoch."""
        return Timeline(self.dt, self.n_steps, epochs={epoch: jnp.array([0, self.n_steps])})


class AbstractFixedReach(AbstractFixedTimes):
    """A task for a hand in a workspace whose trials all have the same times."""

    workspace: Workspace = fields.region(kw_only=False)
    dt: float = fields.time_step(default=0.01)


def at_rest(position: Float[Array, "*time space"]) -> HandState:
    """Return the state of a hand that does not move."""
    return HandState(position, jnp.zeros_like(position))


def reach_trial(
    start: Float[Array, " space"],
    target: Float[Array, " space"],
    *,
    n_steps: int,
    dt: float,
    direction: Float[Array, ""] | None = None,
) -> Trial:
    """Return a reach from `start` to `target` (both in m) with the target shown from the first time step.

    The input "target" is the position of the target, where the hand should be at rest. The condition
    "direction" is `direction`, or that from start to target, in rad in (-pi, pi].
    """
    direction = direction_of(target - start) if direction is None else wrap_angle(direction)
    shown = jnp.broadcast_to(target, (n_steps, *target.shape))
    return Trial(
        init=at_rest(start),
        inputs={"target": shown},
        targets=at_rest(shown),
        timeline=Timeline(dt, n_steps, {"movement": jnp.array([0, n_steps])}, {"target on": jnp.array(0)}),
        conditions={"direction": direction},
    )


def center_out_trials(
    center: Float[Array, " space"], *, distance: float, n_directions: int, n_steps: int, dt: float
) -> Trial:
    """Return stacked reaches from `center` (m) to `n_directions` evenly spaced targets at `distance` (m).

    The targets lie in the plane of the first two axes, the first one to the right.
    """
    checks.check_positive("distance", distance)
    return _center_out(center, distance, n_directions, n_steps, dt)


@jit_fast_compile
def _center_out(
    center: Float[Array, " space"], distance: float, n_directions: int, n_steps: int, dt: float
) -> Trial:
    def reach_toward(angle):
        target = at_direction(center, angle, distance)
        return reach_trial(center, target, n_steps=n_steps, dt=dt, direction=angle)

    return jax.vmap(reach_toward)(even_directions(n_directions))


def even_directions(n_directions: int | None) -> Float[Array, " direction"]:
    """Return evenly spaced directions in rad, the first to the right; eight of the whole circle, None."""
    return jnp.linspace(0.0, 2 * jnp.pi, n_directions or 8, endpoint=False)


def at_direction(
    center: Float[Array, " space"], angle: Float[Array, ""], distance: float | Float[Array, ""]
) -> Float[Array, " space"]:
    """Return the position `distance` (m) from `center` in direction `angle` (rad) of the first two axes."""
    return center.at[:2].add(distance * jnp.stack([jnp.cos(angle), jnp.sin(angle)]))


def random_direction(n_directions: int | None, *, key: Key[Array, ""]) -> Float[Array, ""]:
    """Draw one of `n_directions` evenly spaced directions (rad), or any direction if None."""
    if n_directions is None:
        return jax.random.uniform(as_key(key), maxval=2 * jnp.pi)
    return jax.random.choice(as_key(key), even_directions(n_directions))


def direction_of(toward: Float[Array, " space"]) -> Float[Array, ""]:
    """Return the `wrap_angle` direction of a vector in the plane of the first two axes, in rad."""
    return wrap_angle(jnp.arctan2(toward[1], toward[0]))


def wrap_angle(angle: Float[Array, "*axes"]) -> Float[Array, "*axes"]:
    """Return an angle wrapped to (-pi, pi] (rad), the range of all direction labels."""
    # Angles within 1e-5 rad of ±pi map to pi, so that rounding does not give one target two labels.
    turns = jnp.ceil((angle - jnp.pi - 1e-5) / (2 * jnp.pi))
    return jnp.minimum(angle - 2 * jnp.pi * turns, jnp.pi)


def nominal_values(distribution: AbstractDistribution, n: int = 5) -> Float[Array, "value ..."]:
    """Return all values of a `Choice`, `n` even ones of a `Uniform`, `n` fixed draws of any other."""
    match distribution:
        case Choice():
            return distribution.values
        case Constant():
            return distribution.value[None]
        case Uniform():
            return jnp.linspace(distribution.low, distribution.high, n)
    keys = jax.random.split(seed_key(0), n)
    return jax.vmap(lambda key: distribution.sample(key=key))(keys)


def pulses_at(timeline: Timeline, events: Sequence[str], pulse: float) -> Float[Array, "time 1"]:
    """Return an input that is 1 for `pulse` seconds after each of the events."""
    during = [FromEvent(event, duration=pulse)(timeline) for event in events]
    return jnp.any(jnp.stack(during), axis=0)[:, None].astype(float)


def all_combinations(*sizes: int) -> tuple[Int[Array, " combination"], ...]:
    """Return one index array per size, covering all combinations; the last index varies fastest."""
    return tuple(jnp.asarray(index.ravel()) for index in np.indices(sizes))


def combinations_of(*values: Shaped[Array, "_ ..."]) -> tuple[Shaped[Array, "combination ..."], ...]:
    """Return all combinations of values, an array for each of them; the last one varies fastest."""
    indices = all_combinations(*map(len, values))
    return tuple(column[index] for column, index in zip(values, indices, strict=True))


def trials_of_conditions(trial: Callable[..., Trial], *conditions: PyTree[Array]) -> Trial:
    """Return the trials `trial(*conditions, key=...)`, each with its own noise from a fixed seed."""
    keys = jax.random.split(seed_key(0), len(jax.tree.leaves(conditions)[0]))
    return _stack_trials(trial, conditions, keys)


@jit
def _stack_trials(
    trial: Callable[..., Trial], conditions: tuple[PyTree[Array], ...], keys: Key[Array, " trial"]
) -> Trial:
    return jax.vmap(lambda labels, key: trial(*labels, key=key))(conditions, keys)


def with_noise(
    stimulus: Float[Array, "*time channels"],
    noise: Float[Array, ""] | Float[Array, " channels"],
    shown: Bool[Array, " time"],
    *,
    dt: float,
    key: Key[Array, ""],
) -> Float[Array, "time channels"]:
    """Return a stimulus with white noise of sigma (in its unit times s^0.5) where it is shown, else zero."""
    stimulus = jnp.broadcast_to(stimulus, (shown.shape[0], stimulus.shape[-1]))
    # The mean over T seconds has the standard deviation sigma / sqrt(T), for any time step.
    random = jax.random.normal(as_key(key), stimulus.shape, stimulus.dtype)
    return jnp.where(shown[:, None], stimulus + noise / dt**0.5 * random, 0.0)


def ring_activity(index: Int[Array, "*axes"], n_directions: int) -> Float[Array, "*axes units"]:
    """Return the `ring_tuning` of units on a ring to a preferred direction, given by its index."""
    return ring_tuning(even_directions(n_directions)[index], n_directions)


def ring_tuning(direction: Float[Array, "*axes"], n_units: int) -> Float[Array, "*axes units"]:
    """Return the activity exp(-(8 d / pi)² / 2) of units on a ring at distance d from their preference."""
    # As in Yang et al. 2019, Nat Neurosci 22:297 (gyyang/multitask), with a peak of 1 instead of 0.8.
    away = direction[..., None] - even_directions(n_units)
    distance = jnp.abs(jnp.mod(away + jnp.pi, 2 * jnp.pi) - jnp.pi)
    return jnp.exp(-0.5 * (8 * distance / jnp.pi) ** 2)


def sign_or_coin(evidence: Float[Array, ""], *, key: Key[Array, ""]) -> Int[Array, ""]:
    """Return 1 for positive evidence, 0 for negative, and a fair coin flip for zero."""
    coin = jax.random.bernoulli(as_key(key))
    return jnp.where(evidence == 0, coin, evidence > 0).astype(int)


GO_CUE = "go cue"

YES, NO = 0, 1
"""The outputs of tasks that ask whether something is so."""


class GoResponse(fields.DocumentedModule):
    """A response after a go cue, with the fixation input of NeuroGym.

    The input "fixation" is 1 until the go cue and 0 afterwards. The target outputs are zero until the go
    cue, then those of the task. In a catch trial the go cue never comes. The grace is 0.1 s as in Yang et al.
    2019, Nat Neurosci 22:297 (checked in gyyang/multitask).
    """

    grace: float = fields.setting(
        "the time after the go cue in which errors do not count, in seconds", default=0.1, check=NON_NEGATIVE
    )
    silence_counts: Scalar = fields.non_negative(
        "the weight of a time step before the go cue, as against 1 after the grace", default=0.2
    )
    catch_probability: Scalar = fields.fraction("the fraction of catch trials", default=0.0)

    def plan(self, *epochs: Epoch, duration: float, dt: float) -> TrialPlan:
        """Return the plan of a trial: `epochs`, then the epoch "decision" from the go cue."""
        return TrialPlan(
            (*epochs, Epoch("decision", event=GO_CUE)),
            duration=duration,
            dt=dt,
            catch_event=GO_CUE,
            catch_probability=self.catch_probability,
        )

    def check(self, plan: TrialPlan) -> None:
        """Check that a plan always leaves time to respond."""
        checks.n_steps_in("grace", self.grace, plan.dt)
        check_time_left(plan, self.grace + plan.dt, "the grace after the go cue and a time step")

    def fixation(self, timeline: Timeline) -> Float[Array, "time 1"]:
        """Return the input "fixation": 1 until the go cue, then 0."""
        return (~timeline.since(GO_CUE))[:, None].astype(float)

    def target(self, timeline: Timeline, values: Float[Array, " outputs"]) -> OutputTarget:
        """Return the target outputs: zero until the go cue, then `values`."""
        responds = timeline.since(GO_CUE)
        counts = jnp.where(timeline.since(GO_CUE, self.grace), 1.0, 0.0)
        counts = jnp.where(responds, counts, self.silence_counts)
        return OutputTarget(jnp.where(responds[:, None], values, 0.0), counts)

    def is_catch(self, timeline: Timeline) -> Bool[Array, ""]:
        """Return whether the go cue never comes."""
        return ~timeline.happens(GO_CUE)


def values_of_choice(task: Any, name: str) -> Float[Array, "value ..."]:
    """Return the values of a distribution of a task; raise `ValueError` unless it is a `Choice`."""
    if not isinstance(drawn := getattr(task, name), Choice):
        raise ValueError(
            f"`{name}` of `task` must be a Choice, whose values are known, got {kind_of(drawn)}."
        )
    return drawn.values
