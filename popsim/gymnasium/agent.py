"""Models whose network is replaced by an external agent."""

import dataclasses
from collections.abc import Mapping
from typing import Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from popsim._shared.checks import kind_of
from popsim.environment import Discrete, HandMovement
from popsim.models.network_model import NetworkModel
from popsim.models.sensorimotor_loop import SensorimotorLoop
from popsim.networks import AbstractNetwork
from popsim.networks.building import as_sizes
from popsim.plants import AbstractPlant, MusculoskeletalPlant
from popsim.policies import AbstractPolicy, Action
from popsim.senses import SensoryChannel, n_network_inputs
from popsim.task import AbstractTask
from popsim.trial import OutputTarget

__all__ = ["Agent", "with_agent", "agent_loop", "agent_network_model", "default_limits"]

AgentModel = SensorimotorLoop | NetworkModel
ModelType = TypeVar("ModelType", bound=SensorimotorLoop | NetworkModel)


class Agent(AbstractNetwork):
    """A placeholder network with one silent unit, whose output is `action` for any input.

    Loss terms on hidden units are therefore zero, and interventions on units have no effect.

    **Arguments:**

    - `n_inputs`, `n_outputs`: the sizes.
    """

    n_inputs: int = eqx.field(static=True)
    n_outputs: int = eqx.field(static=True)
    action: Float[Array, " output"]

    def __init__(self, n_inputs: int, n_outputs: int):
        self.n_inputs, _, self.n_outputs = as_sizes(n_inputs, 1, n_outputs)
        self.action = jnp.zeros(n_outputs)

    def init(self, *, key: Key[Array, ""]) -> Float[Array, " hidden"]:
        return jnp.zeros(1, self.action.dtype)

    def step(
        self, inputs: Float[Array, " inputs"], hidden: Float[Array, " hidden"], *, key: Key[Array, ""]
    ) -> Float[Array, " hidden"]:
        return hidden

    def read_out(self, hidden: Float[Array, " hidden"]) -> Float[Array, " output"]:
        return self.action


class GivenChoice(AbstractPolicy):
    """The policy of an agent that has chosen: the action is the only output, a whole number.

    **Arguments:**

    - `n`: the number of actions.
    """

    n: int = eqx.field(static=True)
    critic: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def n_outputs(self) -> int:
        return 1

    @property
    def actions(self) -> Discrete:
        return Discrete(self.n)

    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        zero = jnp.zeros((), output.dtype)
        return Action(self.best(output), zero, zero)

    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        return jnp.zeros((), output.dtype)

    def best(self, output: Float[Array, " output"]) -> Int[Array, ""]:
        return output[0].astype(int)

    def greedy(self) -> "GivenChoice":
        return self


def with_agent(model: ModelType) -> ModelType:
    """Return a model with its network replaced by an `Agent`, which decides for the policy as well.

    The output of the agent is the action itself: a command, a vector, or the number of a choice.
    """
    n_outputs, policy = model.network.n_outputs, None
    if model.policy is not None:
        n_outputs = model.policy.actions.n  # without the critic
        if isinstance(model.policy.actions, Discrete):
            n_outputs, policy = 1, GivenChoice(model.policy.actions.n)
    return dataclasses.replace(model, network=Agent(model.network.n_inputs, n_outputs), policy=policy)


def with_action(model: ModelType, action: Float[Array, " output"]) -> ModelType:
    """Return a model whose `Agent` outputs `action`: commands of the plant, or outputs."""
    return eqx.tree_at(lambda agent_model: agent_model.network.action, model, action)


def agent_loop(
    task: AbstractTask, plant: AbstractPlant, channels: Mapping[str, SensoryChannel], **settings: Any
) -> SensorimotorLoop:
    """Build a `SensorimotorLoop` with an `Agent` as its network.

    **Arguments:**

    - `task`: the task; the agent receives its inputs besides the feedback, and the loop has its time step.
    - `plant`, `channels`: the plant, and the sensory channels by name.
    - `settings`: other arguments of `SensorimotorLoop`, such as `motor_noise` and `scaling`.
    """
    trials = task.validation_trials()
    agent = Agent(n_network_inputs(trials, plant, channels), plant.n_commands)
    return SensorimotorLoop(agent, plant, dict(channels), **settings, dt=trials.timeline.dt)


def agent_network_model(task: AbstractTask) -> NetworkModel:
    """Build a `NetworkModel` with an `Agent` as its network, for a task without a plant.

    Its output is the action of the environment of the trials or, without one, the outputs that the task asks
    for.
    """
    trials = task.validation_trials()
    if trials.environment is not None and not isinstance(trials.environment.actions, HandMovement):
        actions = trials.environment.actions
        policy = GivenChoice(actions.n) if isinstance(actions, Discrete) else None
        n_outputs = actions.n if policy is None else policy.n_outputs
        agent = Agent(n_network_inputs(trials), n_outputs)
        return NetworkModel(agent, policy=policy, dt=trials.timeline.dt)
    targets = trials.targets.values if isinstance(trials.targets, OutputTarget) else trials.targets
    if trials.environment is not None or not eqx.is_array(targets) or targets.ndim != 3:
        raise ValueError(
            "`task` must have outputs as its targets, or an environment that takes choices or vectors, or be "
            "given with the model of a body (`agent_loop`), "
            f"got {kind_of(targets if trials.environment is None else trials.environment)}."
        )
    return NetworkModel(Agent(n_network_inputs(trials), targets.shape[-1]), dt=trials.timeline.dt)


def default_limits(model: AgentModel) -> tuple[float, float]:
    """Return default bounds of actions: 0 and 1 for excitations, -10 and 10 for torques (N m) and forces (N).

    For outputs without a plant they are -5 and 5, because a logit of 5 is a probability of .993.
    """
    if isinstance(model, NetworkModel):
        return -5.0, 5.0
    return (0.0, 1.0) if isinstance(model.plant, MusculoskeletalPlant) else (-10.0, 10.0)
