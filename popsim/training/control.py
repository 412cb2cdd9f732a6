"""Control by performance: members stop, or their hyperparameters change, as their own validation says."""

import abc
from collections.abc import Mapping
from typing import Any, Literal

import equinox as eqx
import numpy as np
from jaxtyping import Bool, Float, Shaped

from popsim._argument_shapes import check_one_number
from popsim._checks import check_finite, check_non_negative, check_positive_int
from popsim._plain_values import plain_number
from popsim.per_member import beside

__all__ = [
    "AbstractControl",
    "ControlRecord",
    "Curriculum",
    "EarlyStopping",
    "ReduceOnPlateau",
]

State = Mapping[str, Shaped[Any, "member ..."]]
Value = Shaped[Any, "member ..."] | None


class AbstractControl(eqx.Module):
    """Base class of the controls of a training by the performance of its members.

    After every `log_step` batches a control gets the figure of each member on the validation trials, and what
    it keeps of earlier ones. It returns what it keeps now, the values of a hyperparameter, and which members
    stop. All arrays lead with the member, also for a single model, which is one. They come as numpy arrays; a
    control may compute with numpy or JAX, and must not depend on anything else. What is returned for members
    that are frozen or stopped already is not used.

    Subclasses implement `initial` and `__call__`, and may have, as fields or attributes of the class,

    - `hyperparameter`: the name of the hyperparameter that it sets, see `Curriculum`; None for none.
    - `metric`: the name of its figure in `validation_metrics`; None for the total validation loss.
    - `begins_stages`: whether figures before and after a change of its hyperparameter do not compare. Where
        it changes that of a member, the member is not stopped, and what the other controls keep of it is as
        before the first batch.

    !!! example

        ```python
        >>> import numpy as np
        >>> from popsim.training import AbstractControl
        >>> class StopAt(AbstractControl):
        ...     level: float
        ...     def initial(self, value, *, n_members):
        ...         return {}, value
        ...     def __call__(self, state, figure, value, *, batch):
        ...         return state, value, figure < self.level
        >>> StopAt(0.1)({}, np.array([0.2, 0.05]), None, batch=99)[2].tolist()
        [False, True]

        ```
    """

    begins_stages = False

    @abc.abstractmethod
    def initial(self, value: Value, *, n_members: int) -> tuple[State, Value]:
        """Return what is kept before the first batch, and the value of the hyperparameter in it.

        **Arguments:**

        - `value`: that of each member as it was given, with axes (member, ...); None without.
        - `n_members`: the number of members.

        **Returns:** arrays by name, with axes (member, ...), and the value, in the shape of that given.
        """

    @abc.abstractmethod
    def __call__(
        self, state: State, figure: Float[np.ndarray, " member"], value: Value, *, batch: int
    ) -> tuple[State, Value, Bool[Any, " member"]]:
        """Return what is kept, the value of the hyperparameter, and which members stop, from now on.

        **Arguments:**

        - `state`: what was kept.
        - `figure`: the figure of each member; NaN is possible.
        - `value`: that of each member in the last batch; None without a hyperparameter.
        - `batch`: the number of the last batch.
        """


def metric_of(control: AbstractControl) -> str | None:
    """Return the name of the figure of a control; None for the total validation loss."""
    return getattr(control, "metric", None)


def hyperparameter_of(control: AbstractControl) -> str | None:
    """Return the name of the hyperparameter that a control sets; None for none."""
    return getattr(control, "hyperparameter", None)


Mode = Literal["min", "max"]


class EarlyStopping(AbstractControl):
    """Stop a member whose figure has not improved for a while; Prechelt (1998, Neural Networks 11:761-767)
    compares such criteria.

    The parameters and the optimizer state of a stopped member stay as they are: those of its best logging
    point are not restored, but are in the history where `save_model_trainables` keeps them. When all members
    are stopped or frozen, training ends. `history.stopped_from` has the first batch that a member did not
    train.

    **Arguments:**

    - `patience`: the number of logging points in a row without a gain after which a member stops.
    - `min_gain`: what the figure must improve on the best so far by more than, to count as a gain.
    - `metric`: the figure, one of `validation_metrics`; None for the total validation loss.
    - `mode`: whether low ("min") or high ("max") figures are good.

    **Raises:** `ValueError` if an argument is out of range.
    """

    patience: int = eqx.field(static=True, converter=plain_number)
    min_gain: float = eqx.field(static=True, converter=plain_number, default=0.0)
    metric: str | None = eqx.field(static=True, default=None)
    mode: Mode = eqx.field(static=True, default="min")

    def __check_init__(self):
        _check_gain(self.patience, self.min_gain, self.mode)
        _check_metric(self.metric)

    def initial(self, value: Value, *, n_members: int) -> tuple[State, Value]:
        return _no_gain_yet(n_members, self.mode), value

    def __call__(
        self, state: State, figure: Float[np.ndarray, " member"], value: Value, *, batch: int
    ) -> tuple[State, Value, Bool[Any, " member"]]:
        state = _after_figure(state, figure, self.min_gain, self.mode)
        return state, value, state["points_without_gain"] >= self.patience


class ReduceOnPlateau(AbstractControl):
    """Multiply a hyperparameter of a member by a factor when its figure has not improved for a while.

    **Arguments:**

    - `hyperparameter`: its name, such as "learning_rate", see `Curriculum`.
    - `factor`: the factor, above 0 and below 1.
    - `patience`: the number of logging points in a row without a gain after which the value is reduced; the
        count begins again then.
    - `min_gain`, `metric`, `mode`: see `EarlyStopping`.
    - `minimum`: the smallest value.

    **Raises:** `ValueError` if an argument is out of range.
    """

    hyperparameter: str = eqx.field(static=True)
    factor: float = eqx.field(static=True, converter=plain_number)
    patience: int = eqx.field(static=True, converter=plain_number)
    min_gain: float = eqx.field(static=True, converter=plain_number, default=0.0)
    metric: str | None = eqx.field(static=True, default=None)
    mode: Mode = eqx.field(static=True, default="min")
    minimum: float = eqx.field(static=True, converter=plain_number, default=0.0)

    def __check_init__(self):
        _check_name(self.hyperparameter)
        check_one_number("factor", self.factor)
        check_finite("factor", self.factor)
        if not 0 < self.factor < 1:
            raise ValueError(f"`factor` must be above 0 and below 1, got {self.factor}.")
        _check_gain(self.patience, self.min_gain, self.mode)
        _check_metric(self.metric)
        check_non_negative("minimum", self.minimum)

    def initial(self, value: Value, *, n_members: int) -> tuple[State, Value]:
        return _no_gain_yet(n_members, self.mode), value

    def __call__(
        self, state: State, figure: Float[np.ndarray, " member"], value: Value, *, batch: int
    ) -> tuple[State, Value, Bool[Any, " member"]]:
        state = _after_figure(state, figure, self.min_gain, self.mode)
        reduced = state["points_without_gain"] >= self.patience
        count = np.where(reduced, 0, state["points_without_gain"])
        assert value is not None
        # A value that is below the minimum already stays.
        smaller = np.minimum(value, np.maximum(value * self.factor, self.minimum))
        value = np.where(beside(reduced, value), smaller, value)
        never = np.zeros(figure.shape, bool)
        return {**state, "points_without_gain": count}, value, never


class Curriculum(AbstractControl):
    """Change a hyperparameter of a member in stages, the next one when its figure reaches a threshold
    (curriculum learning: Bengio et al. 2009, ICML; shaping, in animals).

    ```python
    task = equinox.tree_at(lambda task: task.noise_std, task, popsim.PerMember(jnp.full(16, 0.1)))
    control = Curriculum("task.noise_std", [0.1, 0.2, 0.4], "fraction_correct", 0.85)
    ```

    A member advances by at most one stage at a logging point. The validation trials of a member have its
    present value too: a figure that falls after an advance does not take it back, and other controls, such as
    `EarlyStopping`, begin anew with the stage.

    **Arguments:**

    - `hyperparameter`: its name: that of a floating-point `PerMember` by its path, such as "task.noise_std"
        or "task.loss.weights.effort"; or of one in the optimizer, such as "learning_rate". A single model has
        the latter alone: train an ensemble of one for the others.
    - `stages`: the value of each stage, an array with axes (stage, ...); the first one replaces that given.
    - `metric`: the figure, one of `validation_metrics`; None for the total validation loss.
    - `threshold`: the figure that must be reached.
    - `mode`: whether it is reached from below ("max", as by a fraction correct) or from above ("min").

    **Raises:** `ValueError` if an argument is out of range.
    """

    hyperparameter: str = eqx.field(static=True)
    stages: Float[np.ndarray, "stage ..."] = eqx.field(converter=lambda stages: _as_stages(stages))
    metric: str | None = eqx.field(static=True)
    threshold: float = eqx.field(static=True, converter=plain_number)
    mode: Mode = eqx.field(static=True, default="max")
    begins_stages = True

    def __check_init__(self):
        _check_name(self.hyperparameter)
        _check_metric(self.metric)
        check_finite("stages", self.stages)
        if self.stages.ndim == 0 or len(self.stages) < 2:
            raise ValueError(f"`stages` must be the values of two stages or more, got {self.stages}.")
        check_one_number("threshold", self.threshold)
        check_finite("threshold", self.threshold)
        _check_mode(self.mode)

    def initial(self, value: Value, *, n_members: int) -> tuple[State, Value]:
        assert value is not None
        own = value.shape[1:]
        if self.stages.shape[1:] != own:
            raise ValueError(
                f"`stages` must be values of `{self.hyperparameter}`, of shape {own}, "
                f"got shape {self.stages.shape[1:]}."
            )
        first = np.zeros(n_members, np.int32)
        return {"stage": first}, self.stages[first]

    def __call__(
        self, state: State, figure: Float[np.ndarray, " member"], value: Value, *, batch: int
    ) -> tuple[State, Value, Bool[Any, " member"]]:
        reached = figure >= self.threshold if self.mode == "max" else figure <= self.threshold
        stage = np.minimum(state["stage"] + reached, len(self.stages) - 1)
        return {"stage": stage}, self.stages[stage], np.zeros(figure.shape, bool)


class ControlRecord(eqx.Module):
    """What the controls of a training did at a logging point, per member.

    - `state`: what each keeps, by name: "Curriculum.stage", or "EarlyStopping.best" and
        "EarlyStopping.points_without_gain". The second control of a class is named "Curriculum 2", and so on.
    - `hyperparameters`: those that they set, by name, from the next batch on.
    """

    state: Mapping[str, Any]
    hyperparameters: Mapping[str, Any]


def _as_stages(stages: Any) -> np.ndarray:
    try:
        return np.asarray(stages, float)
    except (TypeError, ValueError):
        raise ValueError(f"`stages` must be numbers of one shape, got {stages!r:.200}.") from None


def _check_name(hyperparameter: object) -> None:
    if not isinstance(hyperparameter, str):
        raise ValueError(f'`hyperparameter` must be a name, such as "learning_rate", got {hyperparameter!r}.')


def _check_metric(metric: object) -> None:
    if not (metric is None or isinstance(metric, str)):
        raise ValueError(f"`metric` must be a name in `validation_metrics`, or None, got {metric!r}.")


def _check_gain(patience: int, min_gain: float, mode: str) -> None:
    check_positive_int("patience", patience)
    check_one_number("min_gain", min_gain)
    check_non_negative("min_gain", min_gain)
    _check_mode(mode)


def _check_mode(mode: str) -> None:
    if mode not in ("min", "max"):
        raise ValueError(f'`mode` must be "min" or "max", got {mode!r}.')


def _no_gain_yet(n_members: int, mode: Mode) -> State:
    worst = np.inf if mode == "min" else -np.inf
    return {"best": np.full(n_members, worst), "points_without_gain": np.zeros(n_members, np.int32)}


def _after_figure(
    state: State, figure: Float[np.ndarray, " member"], min_gain: float, mode: Mode
) -> dict[str, np.ndarray]:
    """Return the best figure of each member, and for how many logging points there was no gain on it."""
    best = state["best"]
    gains = figure < best - min_gain if mode == "min" else figure > best + min_gain
    return {
        "best": np.where(gains, figure, best),
        "points_without_gain": np.where(gains, 0, state["points_without_gain"] + 1),
    }
