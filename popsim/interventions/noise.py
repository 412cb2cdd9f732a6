"""Noise added to the signals of a model."""

import dataclasses
from typing import ClassVar

import equinox as eqx
import jax
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.checks import check_non_negative
from popsim.intervention import AbstractIntervention, Stage, check_parameter, name_of_parameters
from popsim.interventions.units import AbstractUnitIntervention, Units
from popsim.randomness import as_key
from popsim.states import LoopState, NetworkModelState

__all__ = ["FeedbackNoise", "InputNoise", "UnitNoise", "CommandNoise", "ForceNoise"]

Std = Float[Array, "*axes"]
State = PyTree[Array]


class AbstractSignalNoise(AbstractIntervention):
    """Noise on a signal of the state, whose standard deviation is the parameter."""

    signal: ClassVar[str]

    def check(self, parameters: Std) -> None:
        check_non_negative(name_of_parameters(self), parameters)

    def apply(self, parameters: Std, state: State, *, key: Key[Array, ""]) -> State:
        noisy = _noisy(self.name, getattr(state, self.signal), parameters, key)
        return dataclasses.replace(state, **{self.signal: noisy})


class FeedbackNoise(AbstractSignalNoise):
    """Noise on the feedback of a channel of a `SensorimotorLoop`, in addition to the channel's own noise.

    The parameter is its standard deviation in the unit of the features: one, or one per feature.

    **Arguments:**

    - `channel`: the name of the channel.
    """

    signal = "feedback"
    channel: str = eqx.field(static=True)
    name: str = eqx.field(static=True, default="feedback noise")
    after_stage: Stage = eqx.field(static=True, default="sense")

    def apply(self, parameters: Std, state: State, *, key: Key[Array, ""]) -> State:
        channels = sorted(state.feedback) if isinstance(state, LoopState) else []
        if self.channel not in channels:
            raise ValueError(
                f"`channel` of {self.name!r} must be one of the model, {channels}, got {self.channel!r}."
            )
        noisy = _noisy(self.name, state.feedback[self.channel], parameters, key)
        return dataclasses.replace(state, feedback=state.feedback | {self.channel: noisy})


class InputNoise(AbstractSignalNoise):
    """Noise on the input of the network of a `NetworkModel`.

    The parameter is its standard deviation: one, or one per input. For models with a body, see
    `FeedbackNoise`.
    """

    signal = "received"
    name: str = eqx.field(static=True, default="input noise")
    after_stage: Stage = eqx.field(static=True, default="sense")

    def apply(self, parameters: Std, state: State, *, key: Key[Array, ""]) -> State:
        if not isinstance(state, NetworkModelState) or state.received is None:
            raise ValueError(
                f"{self.name!r} needs a NetworkModel, got a {type(state).__name__}: see FeedbackNoise."
            )
        return super().apply(parameters, state, key=key)


class UnitNoise(AbstractUnitIntervention):
    """Noise on the hidden units after their update; in a `LeakyRNN`, on the activations.

    The parameter is its standard deviation: one, or one per unit. `units` is as in `ClampUnits`.
    """

    name: str = eqx.field(static=True, default="unit noise")

    def check(self, parameters: Std) -> None:
        check_non_negative(name_of_parameters(self), parameters)

    def change_units(self, parameters: Std, units: Units, *, key: Key[Array, ""]) -> Units:
        return _noisy(self.name, units, parameters, key)


class CommandNoise(AbstractSignalNoise):
    """Noise on the command, in addition to the motor noise of the model.

    The parameter is its standard deviation in the unit of the command: one, or one per command.
    """

    signal = "command"
    name: str = eqx.field(static=True, default="command noise")
    after_stage: Stage = eqx.field(static=True, default="act")


class ForceNoise(AbstractSignalNoise):
    """A random force on the hand, independent between time steps and constant over each.

    The parameter is its standard deviation in N: one, or one per axis. The impulse of a step has standard
    deviation std dt; to keep the noise the same at another dt, scale std with 1 / sqrt(dt).
    """

    signal = "external_force"
    name: str = eqx.field(static=True, default="force noise")
    after_stage: Stage = eqx.field(static=True, default="act")


def _noisy(name: str, signal: Array, std: Array, key: Key[Array, ""]) -> Array:
    check_parameter(name, std, (), signal.shape)
    return signal + std * jax.random.normal(as_key(key), signal.shape, signal.dtype)
