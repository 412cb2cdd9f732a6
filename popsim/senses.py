"""Senses and sensory channels, and the number of inputs that a network gets with them."""

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields, check_one_or_each
from popsim._shared.plain_values import plain_number
from popsim.environment import Observation
from popsim.interaction import begin_environment, observation_to_come, showing
from popsim.network_input import inputs_by_name
from popsim.networks import NetworkState
from popsim.noise import AbstractNoise, NoNoise
from popsim.parameters import Constants
from popsim.plants import AbstractPlant, MuscleReadings, MusculoskeletalPlant
from popsim.plants.base import evaluate_rest
from popsim.randomness import seed_key
from popsim.session import separate_trials
from popsim.states import LoopState
from popsim.trial import Trial, check_trials

__all__ = [
    "SensoryChannel",
    "Shown",
    "vision",
    "proprioception",
    "joints",
    "muscle_stretch",
    "muscle_force",
    "spindle_firing",
    "network_input_names",
    "n_network_inputs",
]


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class SensoryChannel(eqx.Module):
    """A sense with a delay and noise.

    **Arguments:**

    - `sense`: a function `(state, plant) -> features`, such as `vision` or `proprioception`; see
        `popsim.senses`. With a third argument it is called as `sense(state, plant, inputs)`, with the inputs
        of the trial at this step: `lambda state, plant, inputs: inputs["target"] - state.cursor.position`
        senses the error.
    - `delay`: in seconds, a multiple of the loop's dt. With delay 0 the network senses the state at the start
        of the same step.
    - `noise`: added after the delay, in the unit of the sensed features.
    - `own_delay`: for members of an ensemble with different delays: that of the member, from 0 to `delay`,
        the longest of them. None for `delay`.
    """

    constants: ClassVar[Constants] = "all"
    sense: Callable[..., Float[Array, " features"]] = eqx.field(static=True)
    delay: float = eqx.field(static=True, converter=plain_number, default=0.0)
    noise: AbstractNoise = NoNoise()
    own_delay: Float[Array, ""] | None = eqx.field(converter=checks.as_float_array, default=None)

    def __check_init__(self):
        check_fields(self)
        if not checks.is_number(self.delay):
            raise ValueError(
                "`delay` must be a number of Python, the longest of all members, got "
                f"{checks.kind_of(self.delay)}: where delays differ between members, give that of each to "
                "`own_delay` in build_members."
            )
        checks.check_non_negative("delay", self.delay)
        checks.warn_of_unit("delay", self.delay, "delay")
        if self.own_delay is not None:
            check_one_or_each("own_delay", self.own_delay)
            checks.check_non_negative("own_delay", self.own_delay)
            longest = checks.concrete_value(jnp.max, self.own_delay)
            if longest is not None and longest > self.delay * (1 + 1e-6):
                given = checks.short_repr(longest)
                raise ValueError(f"`own_delay` must be at most `delay`, {self.delay} s, got {given} s.")

    @property
    def senses_inputs(self) -> bool:
        """Whether what is sensed depends on the inputs of the trial."""
        parameters = inspect.signature(self.sense).parameters.values()
        needed = [each for each in parameters if each.default is each.empty and each.kind in _POSITIONAL]
        return len(needed) > 2

    def features(
        self, state: LoopState, plant: AbstractPlant, inputs: PyTree[Array]
    ) -> Float[Array, " features"]:
        """Return what is sensed at one time step, without delay and noise."""
        return self.sense(state, plant, inputs) if self.senses_inputs else self.sense(state, plant)


def channels_by_name(channels: Any) -> dict[str, SensoryChannel]:
    """Return channels as a dictionary."""
    for name, channel in channels.items():
        if not isinstance(channel, SensoryChannel):
            raise ValueError(f"`channels[{name!r}]` must be a SensoryChannel, got {channel!r}.")
        if isinstance(channel.sense, Shown) and channel.sense.name != name:
            raise ValueError(
                f"`channels` must call what {channel.sense} senses {channel.sense.name!r}, got {name!r}: "
                "else the network also receives it without delay."
            )
    return dict(channels)


def vision(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Return the position (m) and velocity (m/s) of the cursor that represents the hand."""
    return jnp.concatenate([state.cursor.position, state.cursor.velocity])


def proprioception(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Return the proprioception of the plant: `joints` of a skeleton, `muscle_stretch` with muscles."""
    return plant.proprioception(state.plant)


def joints(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Return angles (rad) and velocities (rad/s) of an arm's joints, or those of a mass (m, m/s)."""
    return jnp.concatenate(plant.coordinates(state.plant))


def muscle_stretch(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Return fibre lengths (in optimal lengths) and fibre velocities (in optimal lengths per second)."""
    readings, _ = _muscles(state, plant)
    return jnp.concatenate([readings.fibre_length, readings.fibre_velocity])


def muscle_force(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Return muscle forces, as sensed by Golgi tendon organs, in units of the maximal isometric force."""
    readings, muscled = _muscles(state, plant)
    return readings.force / muscled.muscle.max_isometric_force


def spindle_firing(state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
    """Return the firing rate of primary spindle afferents, in impulses/s, one per muscle.

    The rate is max(0, 82 + 4.3 sign(v) |v|^0.6 + 2 d + 50 a), with v the fibre velocity in mm/s, d the fibre
    length minus the optimal length in mm, and a the activation, which represents fusimotor drive (Prochazka &
    Gorassini 1998, J Physiol 507:277-291, form in the abstract; 4.3, 0.6 and 2 as in the code of DeepDraw,
    and 82 as in that of Task-driven-Proprioception, both of amathislab; the 50 was not checked against a
    second source). The power is smoothed within about 1 mm/s of v = 0, which keeps gradients finite.
    """
    readings, muscled = _muscles(state, plant)
    millimetres = 1000 * muscled.muscle.optimal_length
    velocity = readings.fibre_velocity * millimetres
    power = velocity * (velocity**2 + 1.0) ** -0.2  # |v|^0.6 with the sign of v
    beyond = (readings.fibre_length - 1) * millimetres
    return jnp.maximum(82 + 4.3 * power + 2 * beyond + 50 * readings.activation, 0.0)


@dataclasses.dataclass(frozen=True)
class Shown:
    """A sense of what the environment shows under a name: `SensoryChannel(Shown("target"), delay=0.1)`.

    The channel must have the same name, so that the network receives it from the channel alone.

    **Arguments:**

    - `name`: in the observation of the environment.
    """

    name: str

    def __call__(self, state: LoopState, plant: AbstractPlant) -> Float[Array, " features"]:
        """Return the observation at this step."""
        return observation_to_come(state.interaction)[self.name]


def _muscles(state: LoopState, plant: AbstractPlant) -> tuple[MuscleReadings, MusculoskeletalPlant]:
    if not isinstance(plant, MusculoskeletalPlant):
        raise ValueError(f"`plant` must have muscles to be sensed, got {type(plant).__name__}.")
    return plant.muscles(state.plant), plant


def network_input_names(
    trials: Trial, plant: AbstractPlant | None = None, channels: Mapping[str, SensoryChannel] | None = None
) -> dict[str, int]:
    """Return how many numbers each named input of a network has, in the order in which the network gets them.

    These are the trial's inputs with what its environment shows, and then the senses, both sorted by name:
    those of a `SensorimotorLoop` or, without a body, of a `NetworkModel`. Inputs of a trial without names are
    called "inputs". What a channel of the same name senses is not received directly.

    **Arguments:**

    - `trials`: stacked trials of the task, such as `task.validation_trials()`.
    - `plant`: the body, or None.
    - `channels`: the senses of the body, by name.
    """
    check_trials("trials", trials)
    trials = eqx.filter_eval_shape(separate_trials, trials)  # only shapes are needed
    if (plant is None) != (channels is None):
        raise ValueError("`plant` and `channels` must be given together, or none of them.")
    senses = {} if channels is None else channels_by_name(channels)

    def feedback(trial: Trial, shown: Observation, inputs: PyTree[Array]) -> dict[str, Array]:
        if plant is None:
            return {}
        idle = NetworkState(jnp.zeros(0), jnp.zeros(plant.n_commands))
        state = LoopState.at_rest(*evaluate_rest(plant, trial.init.position), idle)
        state = dataclasses.replace(state, interaction=showing(shown) if shown else None)
        return {name: channel.features(state, plant, inputs) for name, channel in senses.items()}

    def first_received(trials: Trial) -> tuple[dict[str, PyTree[Array]], Observation, dict[str, Array]]:
        first = jax.tree.map(lambda leaf: leaf[0], trials)
        at_first_step = jax.tree.map(lambda leaf: leaf[0], first.inputs)
        shown: Observation = {}
        if first.environment is not None:
            _, shown = begin_environment(first.environment, key=seed_key(0))
        for name in set(shown) & set(senses):
            if not isinstance(senses[name].sense, Shown):
                raise ValueError(
                    f"`channels[{name!r}]` must sense what the environment shows by this name, by "
                    f"popsim.senses.Shown({name!r}), or have another name."
                )
        direct = {name: values for name, values in shown.items() if name not in senses}
        return inputs_by_name(at_first_step), direct, feedback(first, shown, at_first_step)

    parts = eqx.filter_eval_shape(first_received, trials)
    if twice := set(parts[0]) & set(parts[2]):
        raise ValueError(f"`channels` must not have the names of inputs of the trial: {sorted(twice)}.")
    if twice := set(parts[0]) & set(parts[1]):
        raise ValueError(
            f"`environment` of a trial must not show what has the name of an input: {sorted(twice)}."
        )
    return {
        name: sum(leaf.size for leaf in jax.tree.leaves(part[name]))
        for part in (parts[0] | parts[1], parts[2])
        for name in sorted(part)
    }


def n_network_inputs(
    trials: Trial, plant: AbstractPlant | None = None, channels: Mapping[str, SensoryChannel] | None = None
) -> int:
    """Return the input size of the network of a `SensorimotorLoop` or, without a body, of a `NetworkModel`.

    It is the sum of `network_input_names`, with the same arguments and errors.
    """
    return sum(network_input_names(trials, plant, channels).values())
