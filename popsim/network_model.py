"""A network by itself, for tasks without a body."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim.checks import check_finite, check_positive, check_same_dt
from popsim.model import AbstractModel
from popsim.network_input import network_input
from popsim.networks import AbstractNetwork, NetworkState
from popsim.trial import StepInput, Trial


class NetworkModelState(eqx.Module):
    """The state of a `NetworkModel`; `network` stands where it stands in a `LoopState`."""

    network: NetworkState


class NetworkModel(AbstractModel):
    """A network that receives the trial's inputs and puts out `state.network.output`.

    **Arguments:**

    - `network`: its inputs are those of the trial, by name in alphabetical order, in one vector.
    - `dt`: the time step in seconds, that of the trials.

    **Raises:** `ValueError` if `dt` is not positive, or the network was built for another one.
    """

    network: AbstractNetwork
    dt: float = eqx.field(static=True, kw_only=True)

    def __check_init__(self):
        check_positive("dt", self.dt)
        self.network.check_dt(self.dt)

    def init(self, trial: Trial, *, key: Key[Array, ""]) -> NetworkModelState:
        hidden = self.network.init(key=key)
        return NetworkModelState(NetworkState(hidden, jnp.zeros(self.network.n_outputs, hidden.dtype)))

    def step(
        self, step_input: StepInput, state: NetworkModelState, *, key: Key[Array, ""]
    ) -> NetworkModelState:
        received = network_input(step_input.inputs, {}, {})
        hidden = self.network.step(received, state.network.hidden, key=key)
        return NetworkModelState(NetworkState(hidden, self.network.read_out(hidden)))

    def received(self, states: NetworkModelState, trial: Trial) -> Float[Array, "time inputs"]:
        """What the network received at each step of a simulated trial; arguments as for a loss term."""
        return jax.vmap(lambda inputs: network_input(inputs, {}, {}))(trial.inputs)

    def check(self, trials: Trial) -> None:
        """Refuse trials with another time step, or with inputs of another size or that are not finite.

        **Raises:** `ValueError` naming what does not fit.
        """
        check_same_dt(trials.timeline.dt, self.dt, "model")
        check_finite("inputs", network_input(trials.inputs, {}, {}))
        if trials.interventions:
            raise ValueError(f"`interventions` need a SensorimotorLoop, got {sorted(trials.interventions)}.")
        n_inputs = jax.eval_shape(self._first_input, trials).shape[0]
        if n_inputs != self.network.n_inputs:
            raise ValueError(
                f"`network` must take the {n_inputs} inputs of the trials, "
                f"got a network of {self.network.n_inputs} inputs."
            )

    def _first_input(self, trials: Trial) -> Float[Array, " inputs"]:
        return network_input(jax.tree.map(lambda leaf: leaf[0, 0], trials.inputs), {}, {})
