"""Clamping, silencing and stimulation of network units."""

import abc
import dataclasses

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.checks import check_fraction
from popsim.intervention import AbstractIntervention, Stage, check_parameter, name_of_parameters
from popsim.model import AbstractModel
from popsim.networks.activity import UnitSelector, selected_units, unit_numbers, with_selected_units

__all__ = ["ClampUnitsParameters", "ClampUnits", "SilenceUnits", "StimulateUnits", "UnitInput"]

Units = Float[Array, " unit"]
State = PyTree[Array]


class AbstractUnitIntervention(AbstractIntervention):
    """An intervention that changes the activity of units after their update, before the readout."""

    units: UnitSelector | None = eqx.field(static=True, default=None, kw_only=True)
    after_stage: Stage = eqx.field(static=True, default="think", kw_only=True)

    @abc.abstractmethod
    def change_units(self, parameters: PyTree[Array], units: Units, *, key: Key[Array, ""]) -> Units:
        """Return the changed activity; `parameters` and `key` are those of `apply`."""

    def apply(self, parameters: PyTree[Array], state: State, *, key: Key[Array, ""]) -> State:
        return self.apply_in(None, parameters, state, key=key)

    def apply_in(
        self, model: AbstractModel | None, parameters: PyTree[Array], state: State, *, key: Key[Array, ""]
    ) -> State:
        hidden = state.network.hidden
        changed = self.change_units(parameters, selected_units(self.name, model, hidden, self.units), key=key)
        hidden = with_selected_units(self.name, model, hidden, self.units, changed)
        return dataclasses.replace(state, network=state.network.with_hidden(hidden))


class ClampUnitsParameters(eqx.Module):
    """The clamped units and their values.

    - `mask`: for each unit, 1 if it is clamped, 0 if not.
    - `values`: for each unit, the value at which it is clamped; ignored for the others.
    """

    mask: Float[Array, "*trial units"]
    values: Float[Array, "*trial units"]


class ClampUnits(AbstractUnitIntervention):
    """A clamp that sets units to given values, independent of their input; see `ClampUnitsParameters`.

    Units are clamped after their update and before the readout: in the first active step, other units still
    receive their previous values.

    **Arguments:**

    - `units`: the name of a group of units of the network, such as an area, or a function that selects a part
        of the hidden state at one time step, such as `lambda hidden: hidden[:10]`; by default
        `network.activity(hidden)`, all units. All interventions on units take it.
    """

    name: str = eqx.field(static=True, default="clamp units")

    def check(self, parameters: ClampUnitsParameters) -> None:
        check_fraction(name_of_parameters(self, ".mask"), parameters.mask)

    def change_units(self, parameters: ClampUnitsParameters, units: Units, *, key: Key[Array, ""]) -> Units:
        check_parameter(f"{self.name}: mask", parameters.mask, units.shape)
        check_parameter(f"{self.name}: values", parameters.values, units.shape)
        return (1 - parameters.mask) * units + parameters.mask * parameters.values


class SilenceUnits(AbstractUnitIntervention):
    """A lesion that sets units to zero.

    The parameter is a mask: for each unit 1 if it is silenced, 0 if not, or the fraction of activity that it
    loses. Networks of popsim start a trial with units at zero, so that silencing from the first step on
    covers the whole trial. In a `LeakyRNN` the activations are set to zero: if the nonlinearity is not zero
    there, use `ClampUnits` with an activation where it is. `units` is as in `ClampUnits`.
    """

    name: str = eqx.field(static=True, default="silence units")

    def check(self, parameters: Float[Array, "*trial units"]) -> None:
        check_fraction(name_of_parameters(self), parameters)

    def change_units(self, parameters: Units, units: Units, *, key: Key[Array, ""]) -> Units:
        check_parameter(self.name, parameters, units.shape)
        return (1 - parameters) * units


class StimulateUnits(AbstractUnitIntervention):
    """A stimulation that adds the parameter, one number per unit, to the units after their update.

    It bypasses the nonlinearity of a `GRUNetwork`; in a `LeakyRNN` it is added to the activations and decays
    with them. For an input current see `UnitInput`. `units` is as in `ClampUnits`.
    """

    name: str = eqx.field(static=True, default="stimulate units")

    def change_units(self, parameters: Units, units: Units, *, key: Key[Array, ""]) -> Units:
        check_parameter(self.name, parameters, units.shape)
        return units + parameters


class UnitInput(AbstractIntervention):
    """An input current, added before the nonlinearity of the units.

    The parameter holds one number per unit. It is added to the input current of a `LeakyRNN`, and to the
    argument of the tanh of a `GRUNetwork`'s candidate activation: see `AbstractNetwork.with_unit_input`.
    `units` is as in `ClampUnits`.
    """

    name: str = eqx.field(static=True, default="unit input")
    after_stage: Stage = eqx.field(static=True, default="sense")
    units: UnitSelector | None = eqx.field(static=True, default=None, kw_only=True)

    def prepare(self, parameters: Units, state: State) -> State:
        return self.prepare_in(None, parameters, state)

    def prepare_in(self, model: AbstractModel | None, parameters: Units, state: State) -> State:
        # The units of a group get their part of what all units receive.
        selector = None if isinstance(self.units, str) else self.units
        units = selected_units(self.name, model, state.network.hidden, selector)
        return dataclasses.replace(state, unit_input=jnp.zeros_like(units))

    def apply(self, parameters: Units, state: State, *, key: Key[Array, ""]) -> State:
        check_parameter(self.name, parameters, state.unit_input.shape)
        return dataclasses.replace(state, unit_input=state.unit_input + parameters)

    def apply_in(
        self, model: AbstractModel | None, parameters: Units, state: State, *, key: Key[Array, ""]
    ) -> State:
        if not isinstance(self.units, str):
            return self.apply(parameters, state, key=key)
        units = unit_numbers(self.name, getattr(model, "network", None), self.units)
        check_parameter(self.name, parameters, units.shape)
        return dataclasses.replace(state, unit_input=state.unit_input.at[units].add(parameters))
