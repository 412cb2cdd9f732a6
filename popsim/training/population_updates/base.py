"""What acts on a population between training batches: its contract, and what it is given."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree, Shaped

from popsim._shared.checks import as_parts, check_positive_int
from popsim._shared.plain_values import plain_number
from popsim.evaluation import Evaluation
from popsim.loss import LossValues
from popsim.trial import Trial

__all__ = ["AbstractPopulationUpdate", "Population", "ValidationResults"]

HYPERPARAMETER = "hyperparameter."  # begins the names of those in a history
AT_LOG_POINTS = "control"  # the axis of what acts at log points, and the prefix of its arrays
State = Mapping[str, Shaped[Any, "member ..."]]
Record = Mapping[str, Shaped[Any, "member ..."]]
RandomKey = Key[Array, ""]


@dataclasses.dataclass(frozen=True)
class Population:
    """The members of a training between two batches.

    Arrays lead with the member; a single model is one member.

    An update returns a changed copy: `dataclasses.replace(population, stopped=...)`.

    - `model`: the ensemble.
    - `hyperparameters`: by name, the values of those that the update sets, with axes (member, ...).
    - `frozen`: which members no longer change because their numbers were not finite. It cannot be changed.
    - `stopped`: which members no longer change because an update stopped them.
    - `restarted`: which members begin anew with this update, for example with the weights of another one, or
        a harder task. What other updates keep of them is reset, and none stops them now.
    - `places`: the places of the members in the whole population, on which draws should depend.
    - `size`: the number of members of the whole population, which may be divided over several trainings.
    - `final_model`: the ensemble that the training returns, where an update sets it: in its `init` first.
        Training continues with `model`, and returns that if this is None.
    """

    model: Any
    hyperparameters: Mapping[str, Shaped[Any, "member ..."]]
    frozen: Bool[np.ndarray, " member"]
    stopped: Bool[Any, " member"]
    restarted: Bool[Any, " member"]
    places: Int[np.ndarray, " member"]
    size: int
    final_model: Any = None
    _exchange: Any = dataclasses.field(default=None, repr=False)
    _members: Any = dataclasses.field(default=None, repr=False)

    @property
    def n_members(self) -> int:
        """The number of members of this training."""
        return self.frozen.size

    def gather_scores(self, scores: Float[Any, " member"]) -> Float[Array, " population"]:
        """Return the scores of the whole population, from those of the members of this training.

        It may be called once in a call of an update. Where a population is divided over several trainings and
        the scores of the others are not known yet, the training ends here; it is saved before, and the update
        is called again when it is resumed.
        """
        return self._of_whole("gather_scores").gather_scores(scores)

    def take(self, parents: Int[Any, " member"]) -> "Population":
        """Return the population in which each member has what its parent learned.

        Everything that changes in training is inherited: parameters, what learning rules change, the states
        of optimizer, gradient and loss, whether the parent is frozen or stopped, and `hyperparameters`.
        Members whose parent is another member have begun anew. Call `gather_scores` before.

        **Arguments:**

        - `parents`: the place in the whole population of the parent of each member, its own if it keeps all.
        """
        return self._of_whole("take").take(parents)

    def _of_whole(self, method: str) -> Any:
        if self._exchange is None:
            raise ValueError(f"`{method}` of a population is for updates with `replaces = True`.")
        return self._exchange


class ValidationResults:
    """The results of the present members on the validation trials, computed when they are first asked for.

    Arrays lead with the member; a single model is one member. At a log point they are those of the log.

    **Arguments:**

    - `evaluate`: returns the evaluation, the trials, and the metrics.
    - `is_single`: whether these are of a single model, without a member axis.
    """

    def __init__(
        self, evaluate: Callable[[], tuple[Evaluation, Trial, Mapping[str, np.ndarray]]], *, is_single: bool
    ):
        self._evaluate = evaluate
        self._is_single = is_single

    @functools.cached_property
    def states(self) -> PyTree[Array]:
        """The recorded states, with axes (member, trial, time, ...)."""
        return self._by_member(self._evaluate()[0].states)

    @functools.cached_property
    def losses(self) -> LossValues:
        """The weighted terms of each trial, with axes (member, trial)."""
        return self._by_member(self._evaluate()[0].losses)

    @functools.cached_property
    def metrics(self) -> dict[str, Shaped[np.ndarray, "member ..."]]:
        """The results of the trainer's `validation_metrics`, by name."""
        return self._by_member(dict(self._evaluate()[2]))

    @property
    def trials(self) -> Trial:
        """The validation trials; with a leading member axis if the members' tasks differ."""
        return self._evaluate()[1]

    @functools.cached_property
    def total_loss(self) -> Float[np.ndarray, " member"]:
        """The total validation loss, a mean over trials."""
        means = jax.tree.map(lambda values: values.mean(axis=-1), jax.device_get(self.losses))
        return np.asarray(means.total)

    def _by_member(self, tree: Any) -> Any:
        if not self._is_single:
            return tree
        return jax.tree.map(
            lambda leaf: leaf[None] if isinstance(leaf, np.ndarray | jax.Array) else leaf, tree
        )


class AbstractPopulationUpdate(eqx.Module):
    """What acts on the whole population between training batches, by the results of its members.

    It may stop members, set their hyperparameters, change their trained weights, or replace some by others.
    It runs on the host, outside of compiled programs, and may compute with numpy or JAX. It must depend on
    its arguments alone. A subclass supplies `__call__`, and `init` if it has a state.

    What it returns for a member that is frozen or stopped, its record excepted, is ignored, unless it
    `replaces` members; only `Population.take` lets such a member train again. A member for which it returns
    weights or hyperparameters that are not finite keeps those that it had, and is frozen.

    At a pause, in this order: the log point; all updates that are due, in the order of the trainer; observers
    and checkpoints; the update that replaces members.

    It may have, as fields, properties or attributes of the class,

    - `every`: the number of batches between its calls; None, the default, for the log points.
    - `hyperparameters`: a tuple of the names of those that it sets, such as ("learning_rate",); None for all
        that differ between members. By default it sets none. `Curriculum` says what names there are.
    - `metric`: the name of the validation metric that it uses; None, the default, for the total validation
        loss, if it uses one.
    - `may_stop`: whether it stops members.
    - `replaces`: whether it looks at other members, and may replace some. Such an update does not act after
        the last batch, and acts once all trainings of its population have reached the same batch.
    - `restarts`: whether its state of a member is reset where another update lets that member begin anew.
    - `recorded_as`: the name of its axis in the history, for example "selection" for "selection_batch", and
        of its random draws. Its records are stored by their own names then. By default it is recorded as
        `history.updates` says.

    !!! example

        ```python
        >>> import dataclasses, numpy as np
        >>> from popsim.training import AbstractPopulationUpdate
        >>> class StopAt(AbstractPopulationUpdate):
        ...     level: float
        ...     may_stop = True
        ...     def __call__(self, population, results, state, *, batch, key):
        ...         stopped = population.stopped | (results.total_loss < self.level)
        ...         return dataclasses.replace(population, stopped=stopped), state, {}

        ```
    """

    every: int | None = eqx.field(static=True, converter=plain_number, default=None, kw_only=True)
    may_stop: ClassVar[bool] = False
    replaces: ClassVar[bool] = False
    restarts: ClassVar[bool] = True
    recorded_as: ClassVar[str | None] = None

    def __check_init__(self):
        if self.every is not None:
            check_positive_int("every", self.every)

    def init(self, population: Population) -> tuple[Population, State]:
        """Return the population before the first batch, and arrays of its members by name; none by default.

        Only hyperparameters and the final model may be set here. Where members begin anew it is called again
        for the whole population; what it keeps and sets of those members is used.
        """
        return population, {}

    @abc.abstractmethod
    def __call__(
        self, population: Population, results: ValidationResults, state: State, *, batch: int, key: RandomKey
    ) -> tuple[Population, State, Record]:
        """Return the population for the next batch.

        **Arguments:**

        - `population`: the members after the last batch, with the weights and hyperparameters that the
            updates before this one left. Stops of the same pause take effect after all updates.
        - `results`: their results on the validation trials, before any update of this pause. What replaces
            members gets those of the members as they are then.
        - `state`: what was kept.
        - `batch`, `key`: the number of the last batch, and a key for random draws of this update in it.

        **Returns:**

        - the population. Only leaves of the model that are trained, or that model updates change, may differ;
        - what is kept, with the names and shapes of `state`;
        - what the history records besides what is kept and the hyperparameters: arrays by name, with axes
            (member, ...), always of the same names and shapes.
        """


def as_hyperparameters(names: Any) -> tuple[str, ...] | None:
    """Return the names of hyperparameters; None for all that differ by member."""
    return None if names is None else as_parts("hyperparameters", names, str, "names of hyperparameters")


def hyperparameters_of(update: AbstractPopulationUpdate) -> tuple[str, ...] | None:
    """Return the names of the hyperparameters that an update sets; None for all that differ by member."""
    return as_hyperparameters(getattr(update, "hyperparameters", ()))


def as_population_updates(updates: Any, *, has_metrics: bool) -> tuple[AbstractPopulationUpdate, ...]:
    """Return the population updates of a trainer as a tuple."""
    updates = as_parts(
        "population_updates", updates, AbstractPopulationUpdate, "updates such as EarlyStopping(5)"
    )
    for label, update in label_updates(updates).items():
        metric = getattr(update, "metric", None)
        if metric is not None and not has_metrics:
            raise ValueError(
                f"`metric` of {label} must be one of `validation_metrics`, got {metric!r} without "
                "such a function."
            )
    axes = {axis_of(label, update) for label, update in label_updates(updates).items()}
    if reserved := axes & {"validation", "trainables", "trials"}:  # the axes of other records
        raise ValueError(f"`recorded_as` of a population update must be another name, got {min(reserved)!r}.")
    if sum(update.replaces for update in updates) > 1:
        raise ValueError("`population_updates` must have at most one that replaces members, got several.")
    return updates


def label_updates(updates: Sequence[AbstractPopulationUpdate]) -> dict[str, AbstractPopulationUpdate]:
    """Return updates by name: that of their class, with a number from the second of the same class on."""
    by_label: dict[str, AbstractPopulationUpdate] = {}
    for update in updates:
        kind = type(update).__name__
        number = sum(type(earlier_update).__name__ == kind for earlier_update in by_label.values()) + 1
        by_label[kind if number == 1 else f"{kind} {number}"] = update
    return by_label


def axis_of(label: str, update: AbstractPopulationUpdate) -> str:
    """Return the axis on which an update is recorded; all that act at log points share one.

    What replaces members acts later than they do.
    """
    return update.recorded_as or (AT_LOG_POINTS if _acts_with_others(update) else label)


def prefix_of(label: str, update: AbstractPopulationUpdate) -> str:
    """Return what the names of the arrays of an update begin with where they are stored."""
    if update.recorded_as is not None:
        return ""
    return f"{AT_LOG_POINTS}.{label}." if _acts_with_others(update) else f"{label}."


def _acts_with_others(update: AbstractPopulationUpdate) -> bool:
    return update.every is None and not update.replaces
