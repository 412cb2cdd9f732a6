"""Protocols of adaptation to forces and visual perturbations."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from popsim._shared import checks
from popsim._shared.checks import as_float_array
from popsim._shared.plain_values import plain_number
from popsim.distributions import AbstractDistribution, as_distribution
from popsim.interventions import ForceChannelParameters
from popsim.interventions.intervention_plan import FromTrial, InterventionPlan, is_parameter_leaf
from popsim.per_member import PerMember
from popsim.randomness import key_stream
from popsim.schedules import AbstractBatchSchedule, PiecewiseSchedule
from popsim.tasks import _fields as fields
from popsim.tasks._fields import NON_NEGATIVE, Drawn
from popsim.tasks.trial_parts import at_direction, random_direction
from popsim.trial import Trial
from popsim.windows import AbstractWindow, InEpoch, WholeTrial

__all__ = [
    "ADAPTATION_PHASES",
    "phase_batches",
    "adaptation_plan",
    "DirectedVector",
    "random_forces",
    "load_pulses",
    "random_torques",
    "random_curl_fields",
    "channel_trials",
]

Phase = tuple[str, int, float]
"""A phase of a protocol: its name, number of training batches, and strength of the intervention."""

ADAPTATION_PHASES: tuple[Phase, ...] = (
    ("baseline", 100, 0.0),
    ("field", 500, 1.0),
    ("washout", 200, 0.0),
    ("field again", 500, 1.0),
)
"""Baseline, adaptation, washout and readaptation, which is faster if there are savings."""

_THROUGHOUT = WholeTrial()


def phase_batches(phases: Sequence[Phase] = ADAPTATION_PHASES) -> dict[str, tuple[int, int]]:
    """Return the first training batch of each phase, and the batch after its last, keyed by phase name."""
    names = [name for name, _, _ in phases]
    if not names or len(set(names)) < len(names):
        raise ValueError(f"`phases` must be at least one, and have different names, got {names}.")
    batches, start = {}, 0
    for name, n_batches, strength in phases:
        checks.check_positive_int(f"phases[{name!r}]", n_batches)
        checks.check_finite(f"phases[{name!r}]", strength)
        batches[name] = (start, start + n_batches)
        start += n_batches
    return batches


class PhaseStrength(AbstractBatchSchedule):
    """The strength of each phase of a protocol, which is reached in `ramp` batches, in equal steps."""

    phases: PiecewiseSchedule
    ramp: int = eqx.field(static=True, converter=plain_number, default=1)

    def __check_init__(self):
        checks.check_positive_int("ramp", self.ramp)

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        phase = self.phases.phase(batch)
        strength = self.phases.values[phase]
        before = self.phases.values[jnp.maximum(phase - 1, 0)]
        since = jnp.asarray(batch, strength.dtype) - jnp.asarray(self.phases.starts, strength.dtype)[phase]
        share_before = jnp.clip(1.0 - (since + 1.0) / self.ramp, 0.0, 1.0)
        return strength + share_before * (before - strength)


class ProbabilityWhileStrong(AbstractBatchSchedule):
    """The fraction of trials with an intervention: 1 - `catch_share`, and zero while its strength is zero."""

    strength: AbstractBatchSchedule
    catch_share: Float[Array, ""] = eqx.field(converter=as_float_array, default=0.0)

    def __check_init__(self):
        checks.check_fraction("catch_share", self.catch_share)

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        return jnp.where(self.strength(batch) == 0, 0.0, 1.0 - self.catch_share)


class GradedParameter(AbstractBatchSchedule):
    """A parameter graded from its neutral to its full value: null + strength (full - null)."""

    strength: AbstractBatchSchedule
    full: Float[Array, "*shape"] = eqx.field(converter=as_float_array)
    null: Float[Array, "*shape"] = eqx.field(converter=as_float_array, default=0.0)

    def __check_init__(self):
        checks.check_finite("parameters", self.full)
        checks.check_finite("null", self.null)

    def __call__(self, batch: int | Int[Array, ""]) -> Float[Array, "*shape"]:
        return self.null + self.strength(batch) * (self.full - self.null)


def adaptation_plan(
    name: str,
    parameters: PyTree,
    phases: Sequence[Phase] = ADAPTATION_PHASES,
    *,
    ramp: int | None = None,
    catch_share: Any = 0.0,
    null: PyTree = 0.0,
    window: AbstractWindow = _THROUGHOUT,
    unless: Sequence[str] = (),
) -> InterventionPlan:
    """Return the plan of an intervention whose strength changes over the phases of an adaptation protocol.

    `adaptation_plan("curl field", 5.0)` is force-field adaptation after Shadmehr & Mussa-Ivaldi 1994, J
    Neurosci 14:3208-3224, and `adaptation_plan("cursor rotation", jnp.pi / 6)` visuomotor rotation after
    Krakauer et al. 2000, J Neurosci 20:8916-8924 (neither compared with the paper). The validation trials are
    those without and with the intervention, at full strength, or at the final one if it is graded.

    **Arguments:**

    - `name`: the name of the intervention in the model.
    - `parameters`: the parameters of the intervention at strength 1; each leaf is a number, an array or a
        `PerMember`, or, if all strengths are 0 or 1 and there is no ramp, a value drawn per trial.
    - `phases`: name, number of batches and strength of each phase. At strength 0 the intervention is absent,
        at -1 it is reversed.
    - `ramp`: the number of batches in which a new phase reaches its strength; None for at once.
    - `catch_share`: the fraction of trials without the intervention in phases that have it. A number or a
        `PerMember`.
    - `null`: the parameters without effect, at strength 0: one number for all, or as many as `parameters`.
        Zero for fields and rotations, 1.0 for a gain.
    - `window`, `unless`: the time window, and the interventions that exclude this one, as in
        `InterventionPlan`: `unless=("force channel",)` after `channel_trials()`.
    """
    batches = phase_batches(phases)
    shortest = min(n_batches for _, n_batches, _ in phases)
    if ramp is not None:
        checks.check_positive_int("ramp", ramp)
    if ramp is not None and ramp > shortest:
        raise ValueError(f"`ramp` must be at most the shortest phase, {shortest} batches, got {ramp}.")
    starts = tuple(first for first, _ in batches.values())
    strengths = PiecewiseSchedule(starts, jnp.array([strength for _, _, strength in phases], float))
    strength = PhaseStrength(strengths, 1 if ramp is None else ramp)
    is_graded = ramp is not None or not {value for _, _, value in phases} <= {0.0, 1.0}
    return InterventionPlan(
        name,
        _grade(parameters, null, strength, is_graded),
        window=window,
        probability=ProbabilityWhileStrong(strength, catch_share),
        unless=unless,
    )


def _grade(parameters: PyTree, null: PyTree, strength: PhaseStrength, is_graded: bool) -> PyTree:
    def grade(full: Any, nothing: Any) -> Any:
        if not is_graded:
            return full
        if not isinstance(full, AbstractDistribution | FromTrial):
            return GradedParameter(strength, full, nothing)
        raise ValueError(f"`parameters` must be numbers where strengths are not 0 or 1, got {full!r}.")

    leaves, structure = jax.tree.flatten(parameters, is_leaf=is_parameter_leaf)
    nothing = jax.tree.leaves(null)
    nothing = nothing * len(leaves) if len(nothing) == 1 else nothing
    if len(nothing) != len(leaves):
        raise ValueError(f"`null` must be one number, or {len(leaves)} as `parameters`, got {null}.")
    return jax.tree.unflatten(structure, [grade(*pair) for pair in zip(leaves, nothing, strict=True)])


Share = float | Float[Array, ""] | PerMember | AbstractBatchSchedule


class DirectedVector(fields.DocumentedModule, AbstractDistribution):
    """A vector of random length and direction in the plane of the first two axes."""

    length: Drawn = fields.drawn("the length of the vector", check=NON_NEGATIVE, kw_only=False)
    n_directions: int | None = fields.directions("even directions, the first to the right", default=None)
    n_axes: int = fields.setting("the number of axes, 2 or 3", default=2, check=fields.one_of(2, 3))

    def sample(self, *, key: Key[Array, ""]) -> Float[Array, "*shape"]:
        length = self.length.sample(key=key_stream(key, "length"))
        direction = random_direction(self.n_directions, key=key_stream(key, "direction"))
        return at_direction(jnp.zeros(self.n_axes, length.dtype), direction, length)

    def bounds(self) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
        _, longest = self.length.bounds()
        high = jnp.zeros(self.n_axes, longest.dtype).at[:2].set(longest)
        return -high, high


def random_forces(
    magnitude: Any,
    *,
    n_directions: int | None = None,
    n_axes: int = 2,
    window: AbstractWindow = _THROUGHOUT,
    probability: Share = 1.0,
    cue_input: str | None = None,
) -> InterventionPlan:
    """Return the plan of a `ConstantForce` on the hand, with magnitude and direction drawn per trial.

    **Arguments:**

    - `magnitude`: the magnitude in N; a number or a distribution.
    - `n_directions`, `n_axes`: the number of evenly spaced directions, None for all, and that of the axes of
        the hand, 2 or 3; forces lie in the plane of the first two.
    - `window`, `probability`, `cue_input`: the time window, the fraction of trials, and the name of the input
        that holds the parameters, as in `InterventionPlan`.
    """
    force = DirectedVector(magnitude, n_directions=n_directions, n_axes=n_axes)
    return InterventionPlan(
        "constant force", force, window=window, probability=probability, cue_input=cue_input
    )


def load_pulses(
    magnitude: Any, *, n_directions: int | None = None, n_axes: int = 2, probability: Share = 1.0
) -> InterventionPlan:
    """Return the plan of a `ConstantForce` on the hand in the epoch "pulse" of a `PosturalHold`."""
    return random_forces(
        magnitude, n_directions=n_directions, n_axes=n_axes, window=InEpoch("pulse"), probability=probability
    )


def random_torques(
    magnitude: Any,
    *,
    n_directions: int | None = None,
    window: AbstractWindow = _THROUGHOUT,
    probability: Share = 1.0,
    cue_input: str | None = None,
) -> InterventionPlan:
    """Return the plan of a `JointTorque` on shoulder and elbow, drawn per trial as a vector of two torques.

    At direction 0 the shoulder is flexed, at pi / 2 the elbow. A load that stays on while a posture is held
    has `window=FromEvent("pulse on")` of a `PosturalHold`.

    **Arguments:**

    - `magnitude`: the length of the vector in N m; a number or a distribution.
    - `n_directions`: the number of evenly spaced directions; None for all.
    - `window`, `probability`, `cue_input`: as in `random_forces`.
    """
    torques = DirectedVector(magnitude, n_directions=n_directions)
    return InterventionPlan(
        "joint torque", torques, window=window, probability=probability, cue_input=cue_input
    )


def random_curl_fields(
    strength: Any,
    *,
    window: AbstractWindow = _THROUGHOUT,
    probability: Share = 1.0,
    cue_input: str | None = None,
) -> InterventionPlan:
    """Return the plan of a `CurlField` with a strength drawn per trial.

    **Arguments:**

    - `strength`: b, in N s/m, positive for forces to the right of the movement; a number or a distribution.
    - `window`, `probability`, `cue_input`: as in `random_forces`.
    """
    return InterventionPlan(
        "curl field", as_distribution(strength), window=window, probability=probability, cue_input=cue_input
    )


@dataclasses.dataclass(frozen=True)
class ChannelToTarget:
    """Lays a force channel from the start to the final target of a trial; along the first axis in a catch."""

    stiffness: float
    damping: float

    def __post_init__(self):
        checks.check_non_negative("stiffness", self.stiffness)
        checks.check_non_negative("damping", self.damping)

    def __call__(self, trial: Trial) -> ForceChannelParameters:
        """Return the channel of one trial."""
        start, target = trial.init.position, trial.targets.position[-1]
        any_target = start.at[0].add(1.0)
        target = jnp.where(jnp.all(target == start), any_target, target)
        return ForceChannelParameters.between(start, target, stiffness=self.stiffness, damping=self.damping)


def channel_trials(
    probability: Share = 0.1,
    *,
    stiffness: float = 2000.0,
    damping: float = 50.0,
    window: AbstractWindow = _THROUGHOUT,
    unless: Sequence[str] = (),
) -> InterventionPlan:
    """Return the plan of trials in a `ForceChannel` from start to target.

    The force against the walls measures adaptation (Scheidt et al. 2000, J Neurophysiol 84:853-862, compared
    with the abstract only). To switch a field off in these trials, plan it after the channel:
    `adaptation_plan("curl field", 5.0, unless=("force channel",))`.

    **Arguments:**

    - `stiffness`, `damping`: those of the walls, in N/m and N s/m.
    - `probability`, `window`, `unless`: the fraction of trials, the time window, and the interventions that
        exclude this one, as in `InterventionPlan`.
    """
    channel = FromTrial(ChannelToTarget(stiffness, damping))
    return InterventionPlan("force channel", channel, window=window, probability=probability, unless=unless)
