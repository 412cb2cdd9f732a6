"""Environments: what answers to the network within a trial."""

import abc
from typing import Any, ClassVar, Literal

import equinox as eqx
from jaxtyping import Array, Bool, Float, Key, PyTree

from popsim._shared.argument_shapes import check_fields
from popsim._shared.plain_values import plain_number
from popsim.parameters import Constants

__all__ = ["AbstractEnvironment", "ActionSpace", "Box", "Discrete", "HandMovement", "Outcome"]

Observation = dict[str, Float[Array, " _"]]


class Discrete(eqx.Module):
    """The actions 0 to n - 1, one of which is taken at each time step."""

    n: int = eqx.field(static=True, converter=plain_number)


class Box(eqx.Module):
    """Actions that are vectors of `n` numbers.

    The environment gets numbers beyond the bounds clipped to them; the body of a loop gets its command as it
    is.

    **Arguments:**

    - `n`: how many numbers an action has.
    - `low`, `high`: the bounds of each number, in the unit of the action; None for no bound.
    """

    n: int = eqx.field(static=True, converter=plain_number)
    low: float | None = eqx.field(static=True, default=None)
    high: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_fields(self)
        if self.low is not None and self.high is not None and self.low >= self.high:
            raise ValueError(f"`low` must be below `high`, {self.high}, got {self.low}.")


class HandMovement(eqx.Module):
    """The movement of a body: the action is the `HandState` of the cursor, or of the hand, after the step.

    An environment with these actions needs no policy, and is for a `SensorimotorLoop`.

    **Arguments:**

    - `of`: "cursor", which visual perturbations move, or "hand".
    """

    of: Literal["cursor", "hand"] = eqx.field(static=True, default="cursor")

    def __check_init__(self):
        check_fields(self)


ActionSpace = Discrete | Box | HandMovement


class Outcome(eqx.Module):
    """What an environment returns for an action.

    - `observation`: what the network receives at the next time step, by name.
    - `reward`: what the action is paid.
    - `done`: whether the trial is over. Later time steps count in no loss.
    - `record`: anything to be recorded in `states.interaction.record`. A dict with a `HandState` called
        "target" replaces the target of the trial in losses on the hand.
    """

    observation: Observation
    reward: Float[Array, ""]
    done: Bool[Array, ""]
    record: PyTree[Array] = None


class AbstractEnvironment(eqx.Module):
    """Base class of environments, which answer to what a network does within a trial.

    A trial carries its environment in `Trial.environment`. The fields of an environment are arrays of that
    trial, such as the probability of reward of each arm, so that tasks draw them and members may differ in
    them; a static field is the same in all trials. Subclasses define `actions`, which is a property where it
    depends on the shapes of fields, and implement `init` and `step`. Both are pure, and run in the compiled
    simulation, so that conditions on arrays are `jnp.where`.

    At each time step the network receives the observation with the inputs of the trial, and acts; then the
    environment steps. The next observation enters the network at the next time step. What the network should
    know of its last action and reward is a part of the observation.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp
        >>> from popsim.environment import AbstractEnvironment, Discrete, Outcome
        >>> class Bandit(AbstractEnvironment):
        ...     probabilities: jax.Array
        ...     actions = Discrete(2)
        ...     def init(self, *, key):
        ...         return (), {"reward": jnp.zeros(1)}
        ...     def step(self, state, action, *, key):
        ...         reward = jax.random.bernoulli(key, self.probabilities[action]).astype(float)
        ...         return state, Outcome({"reward": reward[None]}, reward, jnp.array(False))
        >>> bandit = Bandit(jnp.array([0.0, 1.0]))
        >>> _, outcome = bandit.step((), jnp.array(1), key=jax.random.key(0))
        >>> float(outcome.reward)
        1.0

        ```
    """

    constants: ClassVar[Constants] = "all"

    @property
    @abc.abstractmethod
    def actions(self) -> ActionSpace:
        """The actions that the environment takes; an attribute of the class will do."""

    @abc.abstractmethod
    def init(self, *, key: Key[Array, ""]) -> tuple[PyTree[Array], Observation]:
        """Return the state at the start of a trial, and the first observation.

        **Arguments:**

        - `key`: for random initial states.
        """

    @abc.abstractmethod
    def step(
        self, state: PyTree[Array], action: Any, *, key: Key[Array, ""]
    ) -> tuple[PyTree[Array], Outcome]:
        """Return the next state, of the same structure, and what the network sees of it and is paid.

        **Arguments:**

        - `state`: the state before the action.
        - `action`: a whole number of `Discrete`, a vector of `Box`, or the `HandState` of `HandMovement`.
        - `key`: for the randomness of this step.

        It is also called after the end of the trial, where its results are not used; where it has
        derivatives, they must be finite there, too.
        """

    def resume(self, state: PyTree[Array], *, key: Key[Array, ""]) -> tuple[PyTree[Array], Observation]:
        """Return the state and the observation at the start of the next trial of a session.

        By default those of `init`: trials of a session are then independent.

        **Arguments:**

        - `state`: the state at the end of the trial before.
        - `key`: for random states.
        """
        return self.init(key=key)
