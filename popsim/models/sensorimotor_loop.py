"""A model of a network that controls a body through delayed, noisy senses."""

import dataclasses
from collections.abc import Collection
from typing import Any, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim._compiled import jit_fast_compile
from popsim._shared import checks
from popsim._shared.argument_shapes import check_fields
from popsim._shared.plain_values import plain_number, step_at
from popsim.environment import ActionSpace, Box, Discrete, HandMovement, Observation
from popsim.hand import HandState
from popsim.interaction import (
    act,
    check_contract,
    check_has_environment,
    observation_to_come,
    respond,
    start_interaction,
)
from popsim.intervention import (
    AbstractIntervention,
    Stage,
    check_interventions,
    check_scheduled,
    external_load,
    intervene,
    kinds_of_load,
    prepare,
)
from popsim.model import AbstractModel, DelayBuffer
from popsim.network_input import Scaling, inputs_by_name, network_input
from popsim.networks import AbstractNetwork, NetworkState
from popsim.networks.base import Inputs, advice_for_dt, check_network, check_takes_trials
from popsim.noise import AbstractNoise, NoNoise
from popsim.plants import AbstractPlant, MusculoskeletalPlant, advance
from popsim.plants.base import check_feels_load, evaluate_rest
from popsim.plants.simulate import check_damping
from popsim.policies import AbstractPolicy, Deterministic, check_policy
from popsim.randomness import key_stream
from popsim.senses import SensoryChannel, channels_by_name, network_input_names
from popsim.states import LoopState, continue_state
from popsim.trial import StepInput, Trial

__all__ = ["SensorimotorLoop"]


class SensorimotorLoop(AbstractModel):
    """A network in a closed loop with a body. A time step has four stages:

    - *sense*: each channel delivers the features of `delay` seconds ago, with noise;
    - *think*: the network receives the trial's inputs with what the environment shows, and then the feedback,
      both scaled and sorted by name, and its units are updated;
    - *act*: the units are read out, and motor noise is added to the command;
    - *move*: the body is integrated over dt, and the hand and the cursor are updated.

    In trials with an environment it then responds, to the movement or to the command; see
    `states.interaction`. What it shows enters the network at the next step, or, where a channel of the same
    name senses it (`popsim.senses.Shown`), with the delay and the noise of that channel.

    Each intervention follows one stage. A trial starts with the body at rest at `trial.init`, a `HandState`;
    the delay buffers are filled with the features there, without noise.

    **Arguments:**

    - `network`: with as many inputs as `n_network_inputs` returns, and one output per command of the body.
    - `plant`: the body.
    - `channels`: the senses, by name.
    - `motor_noise`: added to the command, in the command's unit.
    - `scaling`: scalings of trial inputs and channels, by name; without one, they enter in SI units.
    - `interventions`: the interventions that trials of this model may schedule; those after the same stage
        act in the order given.
    - `policy`: how commands are drawn from the output of the network, such as `Gaussian(2, std=0.1)`; None
        for the output itself. Networks learn from reward by the probability of commands.
    - `dt`: the time step in seconds, that of the trials.

    **Warns:** if the plant has muscles, which take excitations from 0 to 1, and `output_fn` of the network is
    None: outputs outside that range are clipped, and have no gradient.
    """

    network: AbstractNetwork
    plant: AbstractPlant
    channels: dict[str, SensoryChannel] = eqx.field(converter=channels_by_name)
    motor_noise: AbstractNoise = NoNoise()
    scaling: dict[str, Scaling] = eqx.field(converter=dict, default_factory=dict)
    interventions: tuple[AbstractIntervention, ...] = eqx.field(converter=tuple, default=())
    policy: AbstractPolicy | None = eqx.field(default=None, kw_only=True)
    dt: float = eqx.field(static=True, converter=plain_number, kw_only=True)

    def __check_init__(self):
        check_network(self.network)
        checks.check_instance("plant", self.plant, AbstractPlant, "a body such as PointMass()")
        checks.check_instance("motor_noise", self.motor_noise, AbstractNoise, "a noise such as MotorNoise")
        check_fields(self)
        checks.check_time_step(self.dt)
        for name, channel in self.channels.items():
            self._delay_steps(name)
            if channel.own_delay is not None and not checks.is_traced(channel.own_delay):
                for delay in np.ravel(channel.own_delay):
                    checks.n_steps_in(f"channels[{name!r}].own_delay", delay, self.dt)
        if self.policy is not None:
            check_policy(self.policy, Box(self.plant.n_commands), "commands of the plant")
        n_outputs = self._policy.n_outputs
        if self.network.n_outputs != n_outputs:
            what = "one for each command of the plant" if self.policy is None else "which `policy` reads"
            raise ValueError(
                f"`network` must have {n_outputs} outputs, {what}, got {self.network.n_outputs}."
            )
        check_interventions(self.interventions)
        self.network.check_dt(self.dt)
        bounds = (getattr(self.network, "output_fn", "own"), getattr(self.policy, "mean_fn", None))
        if isinstance(self.plant, MusculoskeletalPlant) and bounds == (None, None):
            checks.warn_caller_once(
                "`network` should have outputs from 0 to 1 for a body with muscles, as with "
                "`output_fn=jax.nn.sigmoid, output_bias=-3.0`, got `output_fn=None`: excitations are clipped "
                "to that range, and beyond it nothing is learned."
            )

    def with_dt(self, dt: float) -> "SensorimotorLoop":
        """Return the model for trials of another time step (s), with the network that its `with_dt` returns.

        The body and the delays are in seconds and stay. So do the standard deviations of noise on senses and
        command, which is drawn anew in each step.
        """
        return dataclasses.replace(self, network=self.network.with_dt(dt), dt=dt)

    def _delay_steps(self, name: str) -> int:
        return checks.n_steps_in(f"channels[{name!r}].delay", self.channels[name].delay, self.dt)

    def init(self, trial: Trial, *, key: Key[Array, ""]) -> LoopState:
        network = NetworkState.initial_state(self.network, trial, key=key)
        # The state of a scan cannot change its structure: what some step will fill has its arrays from the
        # start.
        state = LoopState.at_rest(*evaluate_rest(self.plant, trial.init.position), network)
        check_has_environment(self.policy, trial)
        if self.policy is not None:  # the network may have more outputs than the body has commands
            state = dataclasses.replace(state, command=network.output[: self.plant.n_commands])
        if trial.environment is not None:
            action, value = _action_of(trial.environment.actions, state), self._policy.value(network.output)
            interaction = start_interaction(trial.environment, action, value, key=key)
            state = dataclasses.replace(state, interaction=interaction)
        state = self._with_senses_at_rest(state, trial)
        if "torque" in kinds_of_load(self.interventions, trial.interventions):
            no_torque = jnp.zeros_like(self.plant.coordinates(state.plant)[0])
            state = dataclasses.replace(state, external_torque=no_torque)
        return prepare(self.interventions, trial.interventions, state, model=self)

    def resume(
        self, trial: Trial, state: LoopState, carry: Collection[str], *, key: Key[Array, ""]
    ) -> LoopState:
        continued = continue_state(self.init(trial, key=key), state, trial, carry, key=key)
        # Again, since an environment that continues may show something else than at its beginning.
        return self._with_senses_at_rest(continued, trial)

    def _with_senses_at_rest(self, state: LoopState, trial: Trial) -> LoopState:
        inputs = jax.tree.map(lambda leaf: leaf[0], trial.inputs)
        sensed = {
            name: channel.features(state, self.plant, inputs) for name, channel in self.channels.items()
        }
        delays = {
            name: DelayBuffer.filled(value, n_steps) if (n_steps := self._delay_steps(name)) else None
            for name, value in sensed.items()
        }
        return dataclasses.replace(state, feedback=sensed, delays=delays)

    @property
    def _policy(self) -> AbstractPolicy:
        return Deterministic(self.plant.n_commands) if self.policy is None else self.policy

    def step(self, step_input: StepInput, state: LoopState, *, key: Key[Array, ""]) -> LoopState:
        scheduled = step_input.interventions
        stages = (self._sense, self._think, self._act, self._move)
        for name, stage in zip(get_args(Stage), stages, strict=True):
            state = stage(step_input, state, key)
            # After each stage, not at the end: the next stage must see what the intervention changed.
            state = intervene(self.interventions, name, scheduled, state, model=self, key=key)
        if step_input.environment is None or state.interaction is None:
            return state
        action = _action_of(step_input.environment.actions, state)
        interaction = respond(step_input.environment, state.interaction, action, key=key)
        return dataclasses.replace(state, interaction=interaction)

    def _sense(self, step_input: StepInput, state: LoopState, key: Key[Array, ""]) -> LoopState:
        feedback, delays = {}, {}
        for name, channel in self.channels.items():
            arriving = channel.features(state, self.plant, step_input.inputs)
            buffer = state.delays[name]
            if buffer is not None:
                n_back = None if channel.own_delay is None else step_at(channel.own_delay, self.dt)
                arriving, buffer = buffer.push(arriving, n_back)
            # After the delay: the buffer holds what the body did, and starts from rest without noise.
            feedback[name] = channel.noise(arriving, key=key_stream(key, f"channel {name}"))
            delays[name] = buffer
        # Cleared before the interventions of this step, which add to it.
        no_force = jnp.zeros_like(state.external_force)
        state = dataclasses.replace(state, feedback=feedback, delays=delays, external_force=no_force)
        no_input = jax.tree.map(jnp.zeros_like, state.unit_input)  # stays None if no trial schedules one
        return dataclasses.replace(state, unit_input=no_input)

    def _think(self, step_input: StepInput, state: LoopState, key: Key[Array, ""]) -> LoopState:
        received = self._received(step_input.inputs, state.feedback, observation_to_come(state.interaction))
        network = self.network.with_unit_input(state.unit_input)
        hidden = network.step(received, state.network.hidden, key=key_stream(key, "network"))
        return dataclasses.replace(state, network=state.network.with_hidden(hidden))

    def _act(self, step_input: StepInput, state: LoopState, key: Key[Array, ""]) -> LoopState:
        network = NetworkState(state.network.hidden, self.network.read_out(state.network.hidden))
        command, interaction = network.output, state.interaction
        if interaction is not None:
            command, interaction = act(self._policy, network.output, interaction, key=key)
        command = self.motor_noise(command, key=key_stream(key, "motor noise"))
        return dataclasses.replace(state, network=network, command=command, interaction=interaction)

    def _move(self, step_input: StepInput, state: LoopState, key: Key[Array, ""]) -> LoopState:
        load = external_load(self.interventions, step_input.interventions, state.external_force)
        # The load is a function of the body, evaluated at each stage of the solver: a force that depends on
        # velocity, held over a step, would lag by it.
        body = advance(self.plant, state.plant, state.command, load, dt=self.dt)
        hand = self.plant.hand(body)
        # Recorded at the start of the step, before the hand moves below.
        state = dataclasses.replace(state, external_force=load.hand_force(state.hand))
        if load.on_coordinates is not None:
            torque = load.on_coordinates(*self.plant.coordinates(state.plant))
            state = dataclasses.replace(state, external_torque=torque)
        # The cursor follows the hand until an intervention after this stage, such as a rotation, moves it.
        return dataclasses.replace(state, plant=body, hand=hand, cursor=hand)

    def _received(self, inputs: PyTree[Array], feedback: Observation, shown: Observation) -> Inputs:
        direct = {name: values for name, values in shown.items() if name not in self.channels}
        return network_input({**inputs_by_name(inputs), **direct}, feedback, self.scaling)

    def network_inputs(self, states: LoopState, trial: Trial) -> Float[Array, "time inputs"]:
        """Return the network's inputs at each step of a simulated trial; arguments as for a loss term."""
        shown = {} if states.interaction is None else states.interaction.received
        return jax.vmap(self._received)(trial.inputs, states.feedback, shown)

    def input_sizes(self, trials: Trial) -> dict[str, int]:
        return network_input_names(trials, self.plant, self.channels)

    def check(self, trials: Trial) -> None:
        """Check the time step, the hand, the inputs and the interventions of trials."""
        if self.plant.workspace.low.ndim != 1:
            raise ValueError(
                "`model` must be a single model, got an ensemble: "
                "say `ensembled=True`, or use evaluate_ensemble."
            )
        if not isinstance(trials.init, HandState):
            raise ValueError(f"`init` of a trial must be a HandState, got {checks.kind_of(trials.init)}.")
        checks.check_same_dt(trials.timeline.dt, self.dt, "model", advice_for_dt(trials.timeline.dt))
        check_damping(self.plant, self.dt)
        for name, channel in self.channels.items():
            if self._delay_steps(name) >= trials.timeline.n_steps:
                raise ValueError(
                    f"`channels[{name!r}].delay` must be shorter than a trial, "
                    f"{trials.timeline.n_steps * self.dt:.3g} s, got {channel.delay} s."
                )
        self._check_hand("init", trials.init)
        if not checks.is_traced(trials.init.velocity) and np.any(np.asarray(trials.init.velocity) != 0):
            raise ValueError("`init.velocity` of a trial must be zero: a body starts at rest.")
        if isinstance(trials.targets, HandState):
            self._check_hand("targets", trials.targets)
        self._check_environment(trials)
        names = self.input_sizes(trials)
        if unknown := set(self.scaling) - set(names):
            raise ValueError(
                f"`scaling` must name what the network receives, {sorted(names)}, got {sorted(unknown)}."
            )
        check_takes_trials(self.network, trials, names)
        check_scheduled(self.interventions, trials)
        first = jax.eval_shape(lambda trials: jax.tree.map(lambda leaf: leaf[0], trials), trials)
        for kind in eqx.filter_eval_shape(kinds_of_load, self.interventions, first.interventions):
            check_feels_load(self.plant, kind)

    def _check_environment(self, trials: Trial) -> None:
        check_has_environment(self.policy, trials)
        if trials.environment is None:
            return
        actions = trials.environment.actions
        if isinstance(actions, Discrete) or (isinstance(actions, Box) and actions.n != self.plant.n_commands):
            raise ValueError(
                f"`environment` of trials for a body must take HandMovement() or the commands, "
                f"Box({self.plant.n_commands}), got {actions}."
            )
        check_contract(self, trials)

    def _check_hand(self, name: str, hand: HandState) -> None:
        """Raise `ValueError` if a `HandState` does not fit the plant, is not finite, or is out of reach."""
        space = self.plant.workspace.low.shape[-1]
        for field, values in (("position", hand.position), ("velocity", hand.velocity)):
            if values.shape[-1] != space:
                raise ValueError(
                    f"`{name}.{field}` of a trial must have {space} coordinates, got {values.shape[-1]}."
                )
            checks.check_finite(f"{name}.{field}", values)
        if checks.is_traced(self.plant, hand.position):
            return
        flat = np.asarray(hand.position).reshape(-1, space)
        positions = flat[np.sort(np.unique(flat, axis=0, return_index=True)[1])]
        n_padded = max(8, 1 << (len(positions) - 1).bit_length())  # so that one program checks many trials
        padded = np.concatenate([positions, np.repeat(positions[-1:], n_padded - len(positions), axis=0)])
        reachable = checks.concrete_value(_reachable, self.plant, padded)
        if reachable is not None and not reachable.all():
            worst = checks.short_repr(padded[reachable.argmin()])
            raise ValueError(f"`{name}.position` of a trial must be within the plant's reach, got {worst} m.")


def _action_of(actions: ActionSpace, state: LoopState) -> Any:
    """Return what an environment with these actions takes of a loop: the movement, or the command."""
    return getattr(state, actions.of) if isinstance(actions, HandMovement) else state.command


@jit_fast_compile
def _reachable(plant: AbstractPlant, positions: Float[Array, "position space"]) -> Bool[Array, "..."]:
    with checks.explain_errors(f"`is_reachable` of {type(plant).__name__}", "(position)"):
        return jax.vmap(plant.is_reachable)(jnp.asarray(positions))
