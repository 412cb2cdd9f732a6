"""A model of a network without a body."""

import dataclasses
from collections.abc import Collection

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.checks import check_same_dt, check_time_step
from popsim._shared.plain_values import plain_number
from popsim.environment import Discrete, HandMovement, Observation
from popsim.hand import HandState
from popsim.interaction import (
    act,
    check_contract,
    check_has_environment,
    observation_to_come,
    respond,
    start_interaction,
)
from popsim.intervention import AbstractIntervention, check_interventions, check_scheduled, intervene, prepare
from popsim.model import AbstractModel
from popsim.network_input import inputs_by_name, network_input
from popsim.networks import AbstractNetwork, NetworkState
from popsim.networks.base import Inputs, advice_for_dt, check_network, check_takes_trials
from popsim.networks.composed import check_gives_logits
from popsim.policies import AbstractPolicy, Bernoulli, Categorical, Deterministic, check_policy
from popsim.senses import network_input_names
from popsim.states import NetworkModelState, continue_state
from popsim.trial import StepInput, Trial, is_bare

__all__ = ["NetworkModel"]

STAGES = ("sense", "think")


class NetworkModel(AbstractModel):
    """A network that receives the trial's inputs. A time step has two stages, followed by the readout:

    - *sense*: the trial's inputs, and what the environment shows, are concatenated into one vector;
    - *think*: the units are updated.

    The output is `state.network.output`. In trials with an environment the policy then draws an action from
    it, to which the environment responds; see `states.interaction`.

    **Arguments:**

    - `network`: its inputs are the trial's inputs and what the environment shows, sorted by name, in one
        vector.
    - `interventions`: the interventions that trials of this model may schedule.
    - `policy`: how actions are drawn, in trials with an environment. None for the output itself, if the
        environment takes vectors.
    - `dt`: the time step in seconds, that of the trials.
    """

    network: AbstractNetwork
    interventions: tuple[AbstractIntervention, ...] = eqx.field(converter=tuple, default=())
    policy: AbstractPolicy | None = eqx.field(default=None, kw_only=True)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True)

    def __check_init__(self):
        check_network(self.network)
        check_fields(self)
        check_time_step(self.dt)
        check_interventions(self.interventions)
        for intervention in self.interventions:
            if intervention.after_stage not in STAGES:
                raise ValueError(
                    f"`interventions` of a NetworkModel must follow one of {STAGES}, "
                    f"got {intervention.name!r}, which follows {intervention.after_stage!r} of a "
                    "SensorimotorLoop."
                )
        self.network.check_dt(self.dt)
        if self.policy is not None and self.policy.n_outputs != self.network.n_outputs:
            raise ValueError(
                f"`network` must have the {self.policy.n_outputs} outputs that `policy` reads, "
                f"got {self.network.n_outputs}."
            )
        if isinstance(self.policy, Bernoulli | Categorical):
            check_gives_logits(self.network, f"the policy {type(self.policy).__name__}")

    def with_dt(self, dt: float) -> "NetworkModel":
        """Return the model and its network for trials of another time step (s)."""
        return dataclasses.replace(self, network=self.network.with_dt(dt), dt=dt)

    def init(self, trial: Trial, *, key: Key[Array, ""]) -> NetworkModelState:
        state = NetworkModelState(NetworkState.initial_state(self.network, trial, key=key))
        check_has_environment(self.policy, trial)
        if trial.environment is not None:
            output, policy = state.network.output, self._policy
            action, value = policy.best(output), policy.value(output)
            interaction = start_interaction(trial.environment, action, value, key=key)
            state = dataclasses.replace(state, interaction=interaction)
        if any(i.after_stage == "sense" and i.name in trial.interventions for i in self.interventions):
            first_inputs = jax.tree.map(lambda leaf: leaf[0], trial.inputs)
            received = self._received(first_inputs, observation_to_come(state.interaction))
            state = dataclasses.replace(state, received=jnp.zeros_like(received))
        return prepare(self.interventions, trial.interventions, state, model=self)

    def resume(
        self, trial: Trial, state: NetworkModelState, carry: Collection[str], *, key: Key[Array, ""]
    ) -> NetworkModelState:
        return continue_state(self.init(trial, key=key), state, trial, carry, key=key)

    @property
    def _policy(self) -> AbstractPolicy:
        return Deterministic(self.network.n_outputs) if self.policy is None else self.policy

    def step(
        self, step_input: StepInput, state: NetworkModelState, *, key: Key[Array, ""]
    ) -> NetworkModelState:
        received = self._received(step_input.inputs, observation_to_come(state.interaction))
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
        state = dataclasses.replace(state, network=NetworkState(hidden, self.network.read_out(hidden)))
        if step_input.environment is None or state.interaction is None:
            return state
        action, acting = act(self._policy, state.network.output, state.interaction, key=key)
        interaction = respond(step_input.environment, acting, action, key=key)
        return dataclasses.replace(state, interaction=interaction)

    def _received(self, inputs: PyTree[Array], shown: Observation) -> Inputs:
        return network_input({**inputs_by_name(inputs), **shown}, {}, {})

    def network_inputs(self, states: NetworkModelState, trial: Trial) -> Float[Array, "time inputs"]:
        """Return the network's inputs at each step of a simulated trial; arguments as for a loss term."""
        if states.received is not None:
            return states.received
        shown = {} if states.interaction is None else states.interaction.received
        return jax.vmap(self._received)(trial.inputs, shown)

    def input_sizes(self, trials: Trial) -> dict[str, int]:
        return network_input_names(trials)

    def check(self, trials: Trial) -> None:
        """Check the time step, the inputs, the targets and the interventions of trials."""
        if isinstance(trials.init, HandState):
            raise ValueError(
                "`model` must be one with a body, such as a SensorimotorLoop, for a task whose trials start "
                "with a hand, got a NetworkModel."
            )
        check_same_dt(trials.timeline.dt, self.dt, "model", advice_for_dt(trials.timeline.dt))
        check_scheduled(self.interventions, trials)
        self._check_bare_targets(trials)
        self._check_environment(trials)
        check_takes_trials(self.network, trials, self.input_sizes(trials))

    def _check_bare_targets(self, trials: Trial) -> None:
        """Raise `ValueError` for a single array of targets that would be broadcast against the output."""
        if is_bare(trials.targets) and trials.targets.shape[2:] != (self.network.n_outputs,):
            axes = ", ".join(["time", *map(str, trials.targets.shape[2:])])
            raise ValueError(
                f"`targets` of a trial that are one array must be as wide as the network's output, "
                f"{self.network.n_outputs}, got ({axes}). To be compared otherwise, put them into a dict."
            )

    def _check_environment(self, trials: Trial) -> None:
        check_has_environment(self.policy, trials)
        if trials.environment is None:
            return
        if isinstance(trials.environment.actions, HandMovement):
            raise ValueError(
                "`model` must have a body, as a SensorimotorLoop, for an environment that takes the movement "
                "of a hand, got a NetworkModel."
            )
        actions = trials.environment.actions
        if self.policy is None and isinstance(actions, Discrete):
            raise ValueError(
                "`policy` must be given for an environment with discrete actions, such as "
                f"Categorical({actions.n}), got None."
            )
        check_policy(self._policy, actions, "actions of the environment")
        check_contract(self, trials)
