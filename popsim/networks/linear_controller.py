"""A linear controller with a filter, played as a network."""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import as_float_array
from popsim.networks.base import AbstractNetwork, Inputs, Output, Units
from popsim.parameters import Constants

__all__ = ["LinearControllerState", "LinearController"]


class LinearControllerState(eqx.Module):
    """The state of a `LinearController`.

    - `estimate`: ẑ, of the state that is controlled.
    - `shown`: F r, the part of the command that the inputs of the trial give.
    - `step`: how many steps were made.
    """

    estimate: Float[Array, "*axes state"]
    shown: Float[Array, "*axes output"]
    step: Float[Array, "*axes"]


class LinearController(AbstractNetwork):
    """A linear controller that estimates the state z of what it controls: u = F r - L ẑ.

    The estimate is ẑ = z⁻ + K (y - H z⁻), with y what is sensed, and A ẑ + B u is z⁻ at the next step. The
    inputs of the network are r, the inputs of the trial, and then y. Gains are those of each time step, the
    last also of later ones. `analysis.optimal_control` makes optimal ones, of which
    `LinearOptimum.controller` is a network. The activity of its units is ẑ. Nothing of it is learned.

    **Arguments:**

    - `control_gains`: L.
    - `input_gains`: F.
    - `filter_gains`: K.
    - `A`, `B`, `H`: the system.
    - `start`: z before the first step.
    """

    constants: ClassVar[Constants] = "all"
    control_gains: Float[Array, "*members time output state"] = eqx.field(converter=as_float_array)
    input_gains: Float[Array, "*members time output input"] = eqx.field(converter=as_float_array)
    filter_gains: Float[Array, "*members time state feature"] = eqx.field(converter=as_float_array)
    A: Float[Array, "*members state state"] = eqx.field(converter=as_float_array)
    B: Float[Array, "*members state output"] = eqx.field(converter=as_float_array)
    H: Float[Array, "*members feature state"] = eqx.field(converter=as_float_array)
    start: Float[Array, "*members state"] = eqx.field(converter=as_float_array)

    n_inputs: int = eqx.field(static=True, init=False)
    n_outputs: int = eqx.field(static=True, init=False)

    def __post_init__(self):
        self.n_inputs = self.input_gains.shape[-1] + self.H.shape[-2]
        self.n_outputs = self.B.shape[-1]

    def init(self, *, key: Key[Array, ""]) -> LinearControllerState:
        nothing = jnp.zeros(self.n_outputs, self.start.dtype)
        return LinearControllerState(self.start, nothing, jnp.zeros((), self.start.dtype))

    def step(
        self, inputs: Inputs, hidden: LinearControllerState, *, key: Key[Array, ""]
    ) -> LinearControllerState:
        n_shown = self.input_gains.shape[-1]
        predicted = self.A @ hidden.estimate + self.B @ self.read_out(hidden)
        predicted = jnp.where(hidden.step == 0, self.start, predicted)
        at = self._row(hidden.step)
        estimate = predicted + self.filter_gains[at] @ (inputs[n_shown:] - self.H @ predicted)
        return LinearControllerState(estimate, self.input_gains[at] @ inputs[:n_shown], hidden.step + 1)

    def read_out(self, hidden: LinearControllerState) -> Output:
        return hidden.shown - self.control_gains[self._row(hidden.step - 1)] @ hidden.estimate

    def _row(self, step: Float[Array, ""]) -> Int[Array, ""]:
        return jnp.clip(step.astype(int), 0, len(self.control_gains) - 1)

    def activity(self, hidden: LinearControllerState) -> Units:
        return hidden.estimate

    def with_activity(self, hidden: LinearControllerState, rates: Units) -> LinearControllerState:
        """Return the state with another estimate."""
        return eqx.tree_at(lambda state: state.estimate, hidden, rates)
