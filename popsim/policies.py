"""Policies: how actions are drawn from the output of a network."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from popsim._shared.argument_shapes import check_fields, check_one_or_each
from popsim._shared.checks import as_float_array, check_positive, kind_of
from popsim._shared.plain_values import plain_number
from popsim.distributions import bounded_logits, weigh
from popsim.environment import ActionSpace, Box, Discrete, HandMovement
from popsim.parameters import Constants, LearnedByArgument

__all__ = ["AbstractPolicy", "Action", "Bernoulli", "Categorical", "Deterministic", "Gaussian", "greedy"]

ModelType = TypeVar("ModelType", bound=eqx.Module)


class Action(eqx.Module):
    """An action that a policy has drawn.

    - `value`: the action itself: a whole number, or a vector.
    - `log_probability`: the logarithm of its probability, or of its density, in nats.
    - `entropy`: of the distribution from which it was drawn, in nats.
    """

    value: Int[Array, ""] | Float[Array, " numbers"]
    log_probability: Float[Array, ""]
    entropy: Float[Array, ""]


class AbstractPolicy(eqx.Module):
    """Base class of policies, which draw an action from the output of a network.

    A drawn action has no gradient: a network learns from it by its log-probability, see
    `popsim.losses.PolicyGradient`. Subclasses implement `n_outputs`, `actions`, `act`, `log_probability`,
    `best` and `greedy`. With a `critic`, the last output of the network estimates the sum of later rewards.

    !!! example

        ```python
        >>> import jax, jax.numpy as jnp
        >>> from popsim.policies import Categorical
        >>> policy = Categorical(2, critic=True)
        >>> policy.n_outputs
        3
        >>> action = policy.act(jnp.array([0.0, 20.0, 0.5]), key=jax.random.key(0))
        >>> int(action.value), float(policy.value(jnp.array([0.0, 20.0, 0.5])))
        (1, 0.5)

        ```
    """

    critic: eqx.AbstractVar[bool]

    def __check_init__(self):
        check_fields(self)

    @property
    @abc.abstractmethod
    def n_outputs(self) -> int:
        """The number of outputs that the network must have, that of a critic included."""

    @property
    @abc.abstractmethod
    def actions(self) -> Discrete | Box:
        """The actions that the policy takes."""

    @abc.abstractmethod
    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        """Draw an action.

        **Arguments:**

        - `output`: the output of the network.
        - `key`: for the draw.
        """

    @abc.abstractmethod
    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        """Return the logarithm of the probability, or of the density, of an action, in nats."""

    @abc.abstractmethod
    def best(self, output: Float[Array, " output"]) -> Int[Array, ""] | Float[Array, " numbers"]:
        """Return the most probable action; for a distribution of numbers, their mean."""

    @abc.abstractmethod
    def greedy(self) -> "AbstractPolicy":
        """Return the policy that always takes the best action."""

    def value(self, output: Float[Array, " output"]) -> Float[Array, ""] | None:
        """Return the estimate of the critic; None without one."""
        return output[-1] if self.critic else None


class Categorical(AbstractPolicy):
    """One of `n` actions, with the probabilities softmax(y) of the first n outputs y.

    An output of minus infinity forbids its action, whose log-probability is -1e30.

    **Arguments:**

    - `n`: the number of actions.
    - `critic`: whether one more output estimates the sum of later rewards.
    - `is_greedy`: whether the most probable action is always taken.
    """

    n: int = eqx.field(static=True, converter=plain_number)
    critic: bool = eqx.field(static=True, default=False, kw_only=True)
    is_greedy: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def n_outputs(self) -> int:
        return self.n + self.critic

    @property
    def actions(self) -> Discrete:
        return Discrete(self.n)

    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        log_probabilities = jax.nn.log_softmax(bounded_logits(output[: self.n]))
        chosen = self.best(output) if self.is_greedy else jax.random.categorical(key, log_probabilities)
        entropy = -jnp.sum(jnp.exp(log_probabilities) * log_probabilities)
        return Action(chosen, _pick(log_probabilities, chosen), entropy)

    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        return _pick(jax.nn.log_softmax(bounded_logits(output[: self.n])), action)

    def best(self, output: Float[Array, " output"]) -> Int[Array, ""]:
        return jnp.argmax(output[: self.n])

    def greedy(self) -> "Categorical":
        return dataclasses.replace(self, is_greedy=True)


def _pick(values: Float[Array, " n"], index: Int[Array, ""]) -> Float[Array, ""]:
    # Not values[index]: a gather and its gradient, a scatter, are slow for all trials at once.
    return jnp.sum(jnp.where(jnp.arange(values.shape[0]) == index, values, 0.0))


class Bernoulli(AbstractPolicy):
    """Action 1 with the probability 1 / (1 + exp(-y)) of the first output y, else action 0.

    **Arguments:**

    - `critic`, `is_greedy`: as for `Categorical`.
    """

    critic: bool = eqx.field(static=True, default=False, kw_only=True)
    is_greedy: bool = eqx.field(static=True, default=False, kw_only=True)

    @property
    def n_outputs(self) -> int:
        return 1 + self.critic

    @property
    def actions(self) -> Discrete:
        return Discrete(2)

    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        probability = jax.nn.sigmoid(output[0])
        chosen = self.best(output) if self.is_greedy else jax.random.bernoulli(key, probability).astype(int)
        of_one = weigh(probability, jax.nn.softplus(-output[0]))
        entropy = of_one + weigh(1 - probability, jax.nn.softplus(output[0]))
        return Action(chosen, self.log_probability(output, chosen), entropy)

    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        return -jax.nn.softplus(jnp.where(action == 1, -output[0], output[0]))

    def best(self, output: Float[Array, " output"]) -> Int[Array, ""]:
        return (output[0] > 0).astype(int)

    def greedy(self) -> "Bernoulli":
        return dataclasses.replace(self, is_greedy=True)


class AbstractVectorPolicy(AbstractPolicy):
    """Base class of policies whose actions are vectors of `n` numbers around the first n outputs."""

    n: eqx.AbstractVar[int]
    mean_fn: eqx.AbstractVar[Callable[[Array], Array] | None]

    @property
    def n_outputs(self) -> int:
        return self.n + self.critic

    @property
    def actions(self) -> Box:
        return Box(self.n)

    def best(self, output: Float[Array, " output"]) -> Float[Array, " numbers"]:
        mean = output[: self.n]
        return mean if self.mean_fn is None else self.mean_fn(mean)


class Gaussian(AbstractVectorPolicy):
    """A vector of `n` numbers, normally distributed around the first n outputs, and independent.

    In a `SensorimotorLoop` it is motor noise whose probability is known, so that a network learns from reward
    alone.

    **Arguments:**

    - `n`: how many numbers an action has.
    - `std`: the standard deviation in the unit of the action, one for all numbers or one for each.
    - `learns_std`: whether the logarithm of `std` is trained, by a `where_train` that selects the policy,
        such as `lambda model: (model.network, model.policy)`.
    - `mean_fn`: applied to the outputs, such as `jax.nn.sigmoid` for excitations of muscles; None for none.
    - `critic`: as for `Categorical`.
    """

    n: int = eqx.field(static=True)
    log_std: Float[Array, "*numbers"]
    learns_std: bool = eqx.field(static=True)
    mean_fn: Callable[[Array], Array] | None = eqx.field(static=True)
    critic: bool = eqx.field(static=True)

    def __init__(
        self,
        n: int,
        std: Any = 0.1,
        *,
        learns_std: bool = False,
        mean_fn: Callable[[Array], Array] | None = None,
        critic: bool = False,
    ):
        check_one_or_each("std", std, n, "numbers")
        check_positive("std", std)
        self.n, self.log_std = int(n), jnp.log(as_float_array(std))
        self.learns_std, self.mean_fn, self.critic = learns_std, mean_fn, critic

    @property
    def constants(self) -> Constants:
        """The fields that are not learned."""
        return () if self.learns_std else "all"

    @property
    def learned_by_argument(self) -> LearnedByArgument:
        """The fields that an argument says are learned."""
        return {"log_std": "learns_std=True"} if self.learns_std else {}

    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        mean = self.best(output)
        noise = jnp.exp(self.log_std) * jax.random.normal(key, mean.shape, mean.dtype)
        drawn = jax.lax.stop_gradient(mean + noise)
        entropy = jnp.sum(self._log_stds()) + 0.5 * self.n * (1 + np.log(2 * np.pi))
        return Action(drawn, self.log_probability(output, drawn), entropy)

    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        away = (action - self.best(output)) / jnp.exp(self.log_std)
        return -0.5 * jnp.sum(away**2) - jnp.sum(self._log_stds()) - 0.5 * self.n * np.log(2 * np.pi)

    def _log_stds(self) -> Float[Array, " numbers"]:
        return jnp.broadcast_to(self.log_std, (self.n,))

    def greedy(self) -> "Deterministic":
        return Deterministic(self.n, mean_fn=self.mean_fn, critic=self.critic)


class Deterministic(AbstractVectorPolicy):
    """The first `n` outputs themselves, as a vector.

    The action has the gradient of the outputs, so that a network learns through an environment that is
    differentiable. Its log-probability and its entropy are zero.

    **Arguments:**

    - `n`: how many numbers an action has.
    - `mean_fn`: as for `Gaussian`.
    - `critic`: as for `Categorical`.
    """

    n: int = eqx.field(static=True, converter=plain_number)
    mean_fn: Callable[[Array], Array] | None = eqx.field(static=True, default=None, kw_only=True)
    critic: bool = eqx.field(static=True, default=False, kw_only=True)

    def act(self, output: Float[Array, " output"], *, key: Key[Array, ""]) -> Action:
        zero = jnp.zeros((), output.dtype)
        return Action(self.best(output), zero, zero)

    def log_probability(self, output: Float[Array, " output"], action: Any) -> Float[Array, ""]:
        return jnp.zeros((), output.dtype)

    def greedy(self) -> "Deterministic":
        return self


def greedy(model: ModelType) -> ModelType:
    """Return a model, or an ensemble, whose policies always take the best action."""
    return jax.tree.map(
        lambda node: node.greedy() if isinstance(node, AbstractPolicy) else node,
        model,
        is_leaf=lambda node: isinstance(node, AbstractPolicy),
    )


def check_policy(policy: AbstractPolicy, actions: ActionSpace, owner: str) -> None:
    """Raise `ValueError` unless a policy takes actions of a given kind, the `owner` of the error message."""
    taken = policy.actions
    # Not `taken != actions`: the bounds of a Box clip what a policy draws.
    if isinstance(actions, HandMovement) or type(taken) is not type(actions) or taken.n != actions.n:
        raise ValueError(
            f"`policy` must take the {owner}, {actions}, got {kind_of(policy)}, which takes {taken}."
        )
