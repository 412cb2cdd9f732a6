"""A model of a network without a body."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from popsim._argument_shapes import check_fields
from popsim._checks import check_finite, check_positive, check_same_dt
from popsim._plain_values import plain_number
from popsim.hand import HandState
from popsim.intervention import (
    AbstractIntervention,
    as_interventions,
    check_interventions,
    check_scheduled,
    intervene,
    prepare,
)
from popsim.model import AbstractModel
from popsim.network_input import network_input
from popsim.networks import AbstractNetwork, NetworkState
from popsim.networks.base import advice_for_dt, check_methods, check_network
from popsim.states import NetworkModelState
from popsim.trial import StepInput, Trial, is_bare

__all__ = ["NetworkModel"]

STAGES = ("sense", "think")


class NetworkModel(AbstractModel):
    """A network that receives the trial's inputs. A time step has two stages, followed by the readout:

    - *sense*: the trial's inputs are concatenated into one vector;
    - *think*: the units are updated.

    The output is `state.network.output`.

    **Arguments:**

    - `network`: its inputs are the trial's inputs, sorted by name, in one vector.
    - `interventions`: the interventions that trials of this model may schedule.
    - `dt`: the time step in seconds, that of the trials.
    """

    network: AbstractNetwork
    interventions: tuple[AbstractIntervention, ...] = eqx.field(converter=as_interventions, default=())
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True)

    def __check_init__(self):
        check_network(self.network)
        check_fields(self)
        check_positive("dt", self.dt)
        check_interventions(self.interventions)
        for intervention in self.interventions:
            if intervention.after_stage not in STAGES:
                raise ValueError(
                    f"`interventions` of a NetworkModel must follow one of {STAGES}, "
                    f"got {intervention.name!r}, which follows {intervention.after_stage!r} of a "
                    "SensorimotorLoop."
                )
        self.network.check_dt(self.dt)

    def with_dt(self, dt: float) -> "NetworkModel":
        """Return the model and its network for trials of another time step (s)."""
        return dataclasses.replace(self, network=self.network.with_dt(dt), dt=dt)

    def init(self, trial: Trial, *, key: Key[Array, ""]) -> NetworkModelState:
        state = NetworkModelState(NetworkState.initial_state(self.network, key=key))
        if any(i.after_stage == "sense" and i.name in trial.interventions for i in self.interventions):
            first = network_input(jax.tree.map(lambda leaf: leaf[0], trial.inputs), {}, {})
            state = dataclasses.replace(state, received=jnp.zeros_like(first))
        return prepare(self.interventions, trial.interventions, state, model=self)

    def step(
        self, step_input: StepInput, state: NetworkModelState, *, key: Key[Array, ""]
    ) -> NetworkModelState:
        received = network_input(step_input.inputs, {}, {})
        if state.received is not None:
            state = dataclasses.replace(state, received=received)
        no_input = jax.tree.map(jnp.zeros_like, state.unit_input)  # stays None if no trial schedules one
        state = dataclasses.replace(state, unit_input=no_input)
        state = intervene(self.interventions, "sense", step_input.interventions, state, model=self, key=key)
        network = self.network.with_unit_input(state.unit_input)
        received = received if state.received is None else state.received
        hidden = network.step(received, state.network.hidden, key=key)
        state = dataclasses.replace(state, network=state.network.with_hidden(hidden))
        state = intervene(self.interventions, "think", step_input.interventions, state, model=self, key=key)
        hidden = state.network.hidden
        return dataclasses.replace(state, network=NetworkState(hidden, self.network.read_out(hidden)))

    def network_inputs(self, states: NetworkModelState, trial: Trial) -> Float[Array, "time inputs"]:
        """Return the network's inputs at each step of a simulated trial; arguments as for a loss term."""
        if states.received is not None:
            return states.received
        return jax.vmap(lambda inputs: network_input(inputs, {}, {}))(trial.inputs)

    def check(self, trials: Trial) -> None:
        """Check the time step, the inputs, the targets and the interventions of trials."""
        if isinstance(trials.init, HandState):
            raise ValueError(
                "`model` must be one with a body, such as a SensorimotorLoop, for a task whose trials start "
                "with a hand, got a NetworkModel."
            )
        check_same_dt(trials.timeline.dt, self.dt, "model", advice_for_dt(trials.timeline.dt))
        for leaf in jax.tree.leaves(trials.inputs):
            check_finite("inputs", leaf)
        check_scheduled(self.interventions, trials)
        self._check_bare_targets(trials)
        inputs = jax.eval_shape(self._first_input, trials)
        if inputs.shape != (self.network.n_inputs,):
            raise ValueError(
                f"`network` must take the {inputs.shape[0]} inputs of the trials, "
                f"got a network of {self.network.n_inputs} inputs."
            )
        check_methods(self.network, inputs)

    def _check_bare_targets(self, trials: Trial) -> None:
        """Raise `ValueError` for a single array of targets that would be broadcast against the output."""
        if is_bare(trials.targets) and trials.targets.shape[2:] != (self.network.n_outputs,):
            axes = ", ".join(["time", *map(str, trials.targets.shape[2:])])
            raise ValueError(
                f"`targets` of a trial that are one array must be as wide as the network's output, "
                f"{self.network.n_outputs}, got ({axes}). To be compared otherwise, put them into a dict."
            )

    def _first_input(self, trials: Trial) -> Float[Array, " inputs"]:
        return network_input(jax.tree.map(lambda leaf: leaf[0, 0], trials.inputs), {}, {})
