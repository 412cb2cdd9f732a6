"""Losses: weighted sums of named terms."""

import abc
import functools
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from popsim._shared.argument_shapes import check_fields, check_one_number
from popsim._shared.checks import as_float_array, check_finite, is_traced
from popsim._shared.other_draws import guard_tracing
from popsim._shared.text_checks import one_line
from popsim.model import AbstractModel
from popsim.per_member import PerMember, check_of_one_member
from popsim.schedules import LAST_BATCH, AbstractBatchSchedule
from popsim.session import separate_trials, split_time
from popsim.trial import Trial, TrialAtStep

__all__ = ["LossValues", "AbstractLossTerm", "FunctionTerm", "Loss"]

MOST_NUMBERS = 16
"""The most numbers of an array in the text of a weight."""

Weight = float | Float[Array, ""] | PerMember | AbstractBatchSchedule


class LossValues(eqx.Module):
    """The weighted value of each term of a loss, with any leading axes (batch, member, trial)."""

    terms: dict[str, Float[Array | np.ndarray, "*axes"]]

    @property
    def total(self) -> Float[Array | np.ndarray, "*axes"] | np.floating:
        """The sum of the weighted terms."""
        return functools.reduce(operator.add, self.terms.values())


class AbstractLossTerm(eqx.Module):
    """Base class of loss terms, each for one trial.

    Subclasses implement `name` and `__call__`, `step_cost` if they are sums over time steps, and
    `over_session` if what a trial adds depends on later ones of its session. Terms are weighted and composed
    with `*` and `+`: `PositionError() + 1e-5 * Effort()` is a `Loss`. A weight may be a `PerMember`.

    !!! example

        ```python
        >>> import equinox as eqx, jax.numpy as jnp, popsim
        >>> class Stillness(popsim.AbstractLossTerm):
        ...     name: str = eqx.field(static=True, default="stillness")
        ...     def __call__(self, states, trial, model):
        ...         return jnp.sum(states.hand.velocity**2)
        ...     def step_cost(self, state, trial_at_step, model):
        ...         return jnp.sum(state.hand.velocity**2)
        >>> loss = Stillness() + 1e-5 * popsim.losses.Effort()
        >>> sorted(loss.weights)
        ['effort', 'stillness']

        ```
    """

    name: eqx.AbstractVar[str]

    __array_ufunc__ = None  # so that a NumPy number times this calls `__rmul__`

    def __check_init__(self):
        check_fields(self)

    @abc.abstractmethod
    def __call__(self, states: PyTree[Array], trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        """Return the value of the term, a scalar, without its weight.

        **Arguments:**

        - `states`: the states of the trial from `simulate`, with a leading time axis.
        - `trial`: the trial.
        - `model`: the model that ran it, for terms that depend on its weights.
        """

    def step_cost(
        self, state: PyTree[Array], trial_at_step: TrialAtStep, model: AbstractModel
    ) -> Float[Array, ""] | None:
        """Return what one time step adds to the value of the term, without its weight.

        The sum over the time steps is the value that `__call__` returns. None, the default, says that the
        term is no sum of costs of single states: a rate of change, for example, or a penalty on weights.

        **Arguments:**

        - `state`: the recorded state after the step.
        - `trial_at_step`: the trial, and the index of the step.
        - `model`: as for `__call__`.
        """
        return None

    def over_session(
        self, states: PyTree[Array], session: Trial, model: AbstractModel
    ) -> Float[Array, "*trials"]:
        """Return the value of the term in each trial of a session, or their mean, without its weight.

        By default each trial is evaluated by itself.

        **Arguments:**

        - `states`: the states of the session, with one axis of time for all its trials.
        - `session`: the trials that are joined (`popsim.session.join_trials`).
        - `model`: as for `__call__`.
        """
        trials = separate_trials(session)
        apart = split_time(states, trials.timeline.n_steps)
        return jax.vmap(lambda states, trial: _value_of(self, states, trial, model))(apart, trials)

    def check(self, trials: Trial, model: AbstractModel | None) -> None:  # noqa: B027
        """Check concrete, stacked trials before compilation; by default all are accepted.

        **Arguments:**

        - `trials`: the trials; of sessions, the single ones.
        - `model`: the model of one member that runs them; None where trials are made before it.
        """

    def trial_weights(self, trials: Trial) -> Float[Array, " trial"] | None:
        """Return how much each of stacked trials counts; None, the default, of a term in which all do."""
        return None

    def __mul__(self, weight: Weight) -> "Loss":
        return Loss((self,), {self.name: weight})

    def __rmul__(self, weight: Weight) -> "Loss":
        return self * weight

    def __add__(self, other: "AbstractLossTerm | Loss") -> "Loss":
        return self * 1.0 + other

    def __radd__(self, other: Any) -> "Loss":
        return self * 1.0 if _is_start_of_sum(other) else self * 1.0 + other


class FunctionTerm(AbstractLossTerm):
    """A loss term given by a function `(states, trial, model) -> scalar`."""

    name: str = eqx.field(static=True)
    function: Callable[[PyTree[Array], Trial, AbstractModel], Float[Array, ""]] = eqx.field(static=True)

    def __call__(self, states: PyTree[Array], trial: Trial, model: AbstractModel) -> Float[Array, ""]:
        return self.function(states, trial, model)


def _value_of(
    term: AbstractLossTerm, states: PyTree[Array], trial: Trial, model: AbstractModel
) -> Float[Array, ""]:
    value = term(states, trial, model)
    if not eqx.is_array_like(value) or np.shape(value) != ():
        value_kind = f"shape {np.shape(value)}" if eqx.is_array_like(value) else type(value).__name__
        raise ValueError(f"term {term.name!r} of `loss` must be a scalar, got {value_kind}.")
    return value


def _as_weights(weights: Any) -> dict[str, Array | PerMember | AbstractBatchSchedule]:
    numbers = {name: own for name, own in weights.items() if not isinstance(own, AbstractBatchSchedule)}
    for name, weight in numbers.items():
        check_one_number(f"weights[{name!r}]", weight)
        check_finite(f"weights[{name!r}]", weight)
    return {**weights, **{name: as_float_array(weight) for name, weight in numbers.items()}}


class Loss(eqx.Module):
    """A weighted sum of named terms, made by composing terms with `*` and `+`.

    **Arguments:**

    - `terms`: the terms.
    - `weights`: the weight of each term, by name: an array leaf that may change during training, a
        `PerMember`, or a schedule over training batches
        (`LinearSchedule(0.0, 1e-3, last_batch=500) * Effort()`).
    """

    __array_ufunc__ = None

    terms: tuple[AbstractLossTerm, ...] = eqx.field(converter=tuple)
    weights: dict[str, Float[Array, ""] | PerMember | AbstractBatchSchedule] = eqx.field(
        converter=_as_weights
    )

    def __check_init__(self):
        names = [term.name for term in self.terms]
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ValueError(
                f"`terms` of a loss must have different names, got {twice} more than once: give one another "
                f"by `name=`, such as Effort(name='effort of the second joint')."
            )
        if set(names) != set(self.weights):
            raise ValueError(
                f"`weights` of a loss must be given for its terms {sorted(names)}, "
                f"got {sorted(self.weights)}."
            )

    def __call__(self, states: PyTree[Array], trial: Trial, model: AbstractModel) -> LossValues:
        """Return the weighted terms of one trial; arguments as for `AbstractLossTerm`.

        A weight that follows a schedule has its final value; use `at_batch` for another. Of a session the
        values are the mean of those of its trials.
        """
        check_of_one_member("loss", self)
        weights: dict = self.at_batch(LAST_BATCH).weights
        values = {}
        for term in self.terms:
            with guard_tracing(f"term {term.name!r} of `loss`", "(states, trial, model)", term):
                if trial.session is None:
                    values[term.name] = weights[term.name] * _value_of(term, states, trial, model)
                else:
                    of_trials = term.over_session(states, trial, model)
                    values[term.name] = jnp.mean(weights[term.name] * of_trials)
        return LossValues(values)

    def check(self, trials: Trial, model: AbstractModel | None) -> None:
        """Check concrete, stacked trials by each term; arguments as for `AbstractLossTerm.check`."""
        for term in self.terms:
            term.check(trials, model)

    def at_batch(self, batch: int | Int[Array, ""]) -> "Loss":
        """Return the loss in a training batch, with scheduled weights replaced by their values."""
        weights = {
            name: weight(batch) if isinstance(weight, AbstractBatchSchedule) else weight
            for name, weight in self.weights.items()
        }
        return Loss(self.terms, weights)

    def __mul__(self, weight: Weight) -> "Loss":
        return Loss(self.terms, {name: weight * term_weight for name, term_weight in self.weights.items()})

    def __rmul__(self, weight: Weight) -> "Loss":
        return self * weight

    def __add__(self, other: "AbstractLossTerm | Loss") -> "Loss":
        if isinstance(other, AbstractLossTerm):
            other = 1.0 * other
        return Loss(self.terms + other.terms, self.weights | other.weights)

    def __radd__(self, other: Any) -> "Loss":
        return self if _is_start_of_sum(other) else self + other

    def __repr__(self) -> str:
        """Return the terms by name, each on a line with its weight in numbers."""
        lines = (
            f"  {term.name!r}: {_one_line(self.weights[term.name])} * {_one_line(term)},"
            for term in self.terms
        )
        return "\n".join(("Loss(", *lines, ")"))


def _is_start_of_sum(value: Any) -> bool:
    """Whether a value is the 0 to which Python's `sum` adds."""
    return isinstance(value, int) and value == 0


def _one_line(part: Any) -> str:
    """Return a weight or a term on one line, with numbers, and without fields that have their defaults."""
    if eqx.is_array(part) and not is_traced(part) and part.ndim == 0:
        return f"{float(part):.6g}"
    if not isinstance(part, AbstractLossTerm):  # a copy of a term would show its defaults
        part = jax.tree.map(_plain_numbers, part)
    return one_line(eqx.tree_pformat(part, width=10**6, short_arrays=False))


def _plain_numbers(leaf: Any) -> Any:
    """Return a small array as numbers of six digits, which is how a text shows them."""
    if not eqx.is_array(leaf) or is_traced(leaf) or leaf.size > MOST_NUMBERS or leaf.dtype.kind != "f":
        return leaf
    return jax.tree.map(lambda number: float(f"{number:.6g}"), np.asarray(leaf).tolist())
