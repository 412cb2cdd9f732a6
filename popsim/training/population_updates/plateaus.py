"""Updates of members by their own results: early stopping, reduction on a plateau, and curricula."""

import dataclasses
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from popsim._shared.argument_shapes import check_one_number
from popsim._shared.checks import check_finite, check_non_negative, check_positive_int
from popsim._shared.plain_values import plain_number
from popsim.per_member import aligned_mask
from popsim.training.population_updates.base import (
    AbstractPopulationUpdate,
    Population,
    RandomKey,
    Record,
    State,
    ValidationResults,
)

__all__ = ["Curriculum", "EarlyStopping", "ReduceOnPlateau"]

Mode = Literal["min", "max"]


def metric_of(update: Any, results: ValidationResults, n_members: int) -> Float[np.ndarray, " member"]:
    """Return the metric that an update follows: that of its name, else the total validation loss.

    What is not finite is NaN, with which all comparisons are false: it is no gain, and reaches nothing.
    """
    metric = update.metric
    if metric is None:
        values = results.total_loss
    elif metric in results.metrics:
        values = results.metrics[metric]
    else:
        raise ValueError(
            f"`metric` of {type(update).__name__} must be one of `validation_metrics`, "
            f"{', '.join(sorted(results.metrics))}, got {metric!r}."
        )
    if values.shape != (n_members,):
        raise ValueError(
            f"`metric` of {type(update).__name__} must be one number for each of the {n_members} members, "
            f"got shape {values.shape[1:]} for each."
        )
    return np.where(np.isfinite(values), values, np.nan).astype(jax.dtypes.canonicalize_dtype(float))


class AbstractPlateauUpdate(AbstractPopulationUpdate):
    """An update that acts when the metric of a member has not gained for `patience` calls in a row.

    Subclasses have the fields `patience`, `min_gain`, `metric` and `mode`. They are not declared here, where
    type checkers would take them for the first arguments of subclasses.
    """

    def __check_init__(self):
        own: Any = self
        check_positive_int("patience", own.patience)
        check_one_number("min_gain", own.min_gain)
        check_non_negative("min_gain", own.min_gain)
        _check_mode(own.mode)

    def init(self, population: Population) -> tuple[Population, State]:
        own: Any = self
        n_members, worst = population.n_members, np.inf if own.mode == "min" else -np.inf
        count = np.zeros(n_members, np.int32)
        return population, {"best": np.full(n_members, worst), "points_without_gain": count}

    def count_calls_without_gain(
        self, results: ValidationResults, state: State, n_members: int
    ) -> tuple[dict[str, np.ndarray], Bool[np.ndarray, " member"]]:
        """Return the state after a call, and which members have waited for all of `patience` calls."""
        own: Any = self
        values, best = metric_of(self, results, n_members), state["best"]
        gains = values < best - own.min_gain if own.mode == "min" else values > best + own.min_gain
        count = np.where(gains, 0, state["points_without_gain"] + 1)
        return {"best": np.where(gains, values, best), "points_without_gain": count}, count >= own.patience


class EarlyStopping(AbstractPlateauUpdate):
    """Stop a member whose metric has not improved for a while; Prechelt (1998, Neural Networks 11:761-767)
    compares such criteria.

    A stopped member stays as it is, or ends with its best weights if they are restored. When all members are
    stopped or frozen, training ends.

    **Arguments:**

    - `patience`: the number of calls in a row without a gain after which a member stops.
    - `min_gain`: the improvement on the best so far that a metric must exceed to count as a gain.
    - `metric`: one of `validation_metrics`; None for the total validation loss.
    - `mode`: whether low ("min") or high ("max") values are good.
    - `restore`: "best" lets each member, stopped or not, end with its weights at the last gain, after the
        batch "best_batch" of the record; -1 is the start. Checkpoints have the last weights too, with which a
        training continues. None lets members end with the last.
    - `every`: the number of batches between calls; None for the log points.
    """

    patience: int = eqx.field(static=True, converter=plain_number)
    min_gain: float = eqx.field(static=True, converter=plain_number, default=0.0)
    metric: str | None = eqx.field(static=True, default=None)
    mode: Mode = eqx.field(static=True, default="min")
    restore: Literal["best"] | None = eqx.field(static=True, default=None)
    may_stop = True

    def __check_init__(self):
        if self.restore not in ("best", None):
            raise ValueError(f'`restore` must be "best" or None, got {self.restore!r}.')

    def init(self, population: Population) -> tuple[Population, State]:
        population, state = super().init(population)
        if self.restore is not None:
            state = {**state, "best_batch": np.full(population.n_members, -1, np.int32)}
            population = dataclasses.replace(population, final_model=population.model)
        return population, state

    def __call__(
        self, population: Population, results: ValidationResults, state: State, *, batch: int, key: RandomKey
    ) -> tuple[Population, State, Record]:
        count, is_over = self.count_calls_without_gain(results, state, population.n_members)
        if self.restore is not None:
            gains = count["points_without_gain"] == 0
            count["best_batch"] = np.where(gains, batch, state["best_batch"])
            best = jax.tree.map(
                # What training does not change is the same array in both.
                lambda last, kept: last if last is kept else jnp.where(aligned_mask(gains, last), last, kept),
                population.model,
                population.final_model,
            )
            population = dataclasses.replace(population, final_model=best)
        return dataclasses.replace(population, stopped=population.stopped | is_over), count, {}


class ReduceOnPlateau(AbstractPlateauUpdate):
    """Multiply a hyperparameter of a member by a factor when its metric has not improved for a while.

    **Arguments:**

    - `hyperparameter`: its name, such as "learning_rate", see `Curriculum`.
    - `factor`: the factor, above 0 and below 1.
    - `patience`: the number of calls in a row without a gain after which the value is reduced, and the count
        begins again.
    - `min_gain`, `metric`, `mode`, `every`: see `EarlyStopping`.
    - `minimum`: the smallest value.
    """

    hyperparameter: str = eqx.field(static=True)
    factor: float = eqx.field(static=True, converter=plain_number)
    patience: int = eqx.field(static=True, converter=plain_number)
    min_gain: float = eqx.field(static=True, converter=plain_number, default=0.0)
    metric: str | None = eqx.field(static=True, default=None)
    mode: Mode = eqx.field(static=True, default="min")
    minimum: float = eqx.field(static=True, converter=plain_number, default=0.0)

    def __check_init__(self):
        check_one_number("factor", self.factor)
        if not 0 < self.factor < 1:
            raise ValueError(f"`factor` must be above 0 and below 1, got {self.factor}.")
        check_non_negative("minimum", self.minimum)

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The name of the one that it sets."""
        return (self.hyperparameter,)

    def __call__(
        self, population: Population, results: ValidationResults, state: State, *, batch: int, key: RandomKey
    ) -> tuple[Population, State, Record]:
        state, reduced = self.count_calls_without_gain(results, state, population.n_members)
        # The best stays: after a reduction, the member must improve on what it had reached before.
        count = np.where(reduced, 0, state["points_without_gain"])
        values = population.hyperparameters[self.hyperparameter]
        # A value that is below the minimum already stays.
        smaller = np.minimum(values, np.maximum(values * self.factor, self.minimum))
        after = {self.hyperparameter: np.where(aligned_mask(reduced, values), smaller, values)}
        population = dataclasses.replace(population, hyperparameters=after)
        return population, {**state, "points_without_gain": count}, {}


class Curriculum(AbstractPopulationUpdate):
    """Change a hyperparameter of a member in stages, the next one when its metric reaches a threshold
    (curriculum learning: Bengio et al. 2009, ICML; shaping, in animals).

    ```python
    task = equinox.tree_at(lambda task: task.noise_std, task, popsim.PerMember(jnp.full(16, 0.1)))
    curriculum = Curriculum("task.noise_std", [0.1, 0.2, 0.4], "fraction_correct", 0.85)
    ```

    A member advances by one stage at a time, and never back. Its validation trials have its present value
    too; other updates, such as `EarlyStopping`, begin anew with the stage. A member that a selection replaces
    keeps its stage.

    **Arguments:**

    - `hyperparameter`: its name: that of a floating-point `PerMember` by its path, such as "task.noise_std"
        or "task.loss.weights.effort"; or of one in the optimizer, such as "learning_rate". A single model has
        the latter alone: train an ensemble of one for the others.
    - `stages`: the value of each stage, an array with axes (stage, ...); the first one replaces that given.
    - `metric`: one of `validation_metrics`; None for the total validation loss.
    - `threshold`: the value of the metric that must be reached.
    - `mode`: whether it is reached from below ("max", as by a fraction correct) or from above ("min").
    """

    hyperparameter: str = eqx.field(static=True)
    stages: Float[np.ndarray, "stage ..."] = eqx.field(converter=lambda stages: np.asarray(stages, float))
    metric: str | None = eqx.field(static=True)
    threshold: float = eqx.field(static=True, converter=plain_number)
    mode: Mode = eqx.field(static=True, default="max")
    restarts = False

    def __check_init__(self):
        check_finite("stages", self.stages)
        if self.stages.ndim == 0 or len(self.stages) < 2:
            raise ValueError(f"`stages` must be the values of two stages or more, got {self.stages}.")
        check_one_number("threshold", self.threshold)
        check_finite("threshold", self.threshold)
        _check_mode(self.mode)

    @property
    def hyperparameters(self) -> tuple[str, ...]:
        """The name of the one that it sets."""
        return (self.hyperparameter,)

    def init(self, population: Population) -> tuple[Population, State]:
        shape = population.hyperparameters[self.hyperparameter].shape[1:]
        if self.stages.shape[1:] != shape:
            raise ValueError(
                f"`stages` must be values of `{self.hyperparameter}`, of shape {shape}, "
                f"got shape {self.stages.shape[1:]}."
            )
        return self._at(np.zeros(population.n_members, np.int32), population)

    def __call__(
        self, population: Population, results: ValidationResults, state: State, *, batch: int, key: RandomKey
    ) -> tuple[Population, State, Record]:
        values = metric_of(self, results, population.n_members)
        reached = values >= self.threshold if self.mode == "max" else values <= self.threshold
        stage = np.minimum(state["stage"] + reached, len(self.stages) - 1)
        population = dataclasses.replace(population, restarted=stage != state["stage"])
        return *self._at(stage, population), {}

    def _at(self, stage: Int[np.ndarray, " member"], population: Population) -> tuple[Population, State]:
        values = {self.hyperparameter: self.stages[stage]}
        return dataclasses.replace(population, hyperparameters=values), {"stage": stage}


def _check_mode(mode: str) -> None:
    if mode not in ("min", "max"):
        raise ValueError(f'`mode` must be "min" or "max", got {mode!r}.')
