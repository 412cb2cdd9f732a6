"""What the controls of a training do to its state."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float

from popsim.per_member import beside
from popsim.store.files import is_plain_name
from popsim.training._hyperparameters import Place, values_at, with_values_at
from popsim.training.control import AbstractControl, ControlRecord, hyperparameter_of, metric_of
from popsim.training.steps.train_state import TrainState

Named = dict[str, np.ndarray]


def check_control(control: Any, *, has_metrics: bool) -> None:
    """Raise `ValueError` unless the controls of a trainer are fit to be used together.

    **Arguments:**

    - `control`: the controls.
    - `has_metrics`: whether the trainer has `validation_metrics`.
    """
    if not isinstance(control, Sequence):
        raise ValueError(
            f"`control` must be a sequence of controls, such as [EarlyStopping(5)], got {control!r}."
        )
    setters: dict[str, str] = {}
    for label, one in labelled(control).items():
        if not isinstance(one, AbstractControl):
            raise ValueError(f"`control` must be of controls such as EarlyStopping(5), got {one!r}.")
        metric, name = metric_of(one), hyperparameter_of(one)
        if metric is not None and not has_metrics:
            raise ValueError(
                f"`metric` of {label} must be one of `validation_metrics`, got {metric!r} without such a "
                "function."
            )
        if name in setters:
            raise ValueError(
                f"`control` must set each hyperparameter once, got {name!r} in {setters[name]} and {label}."
            )
        if name is not None:
            setters[name] = label


def labelled(control: Sequence[AbstractControl]) -> dict[str, AbstractControl]:
    """Return controls by name: that of their class, with a number from the second of the same class on."""
    named: dict[str, AbstractControl] = {}
    for one in control:
        kind = type(one).__name__
        number = sum(type(other).__name__ == kind for other in named.values()) + 1
        named[kind if number == 1 else f"{kind} {number}"] = one
    return named


def with_initial_control(
    state: TrainState, control: Sequence[AbstractControl], places: Mapping[str, Place], n_members: int | None
) -> TrainState:
    """Return the first state of a training with that of its controls, and the values that these set.

    **Arguments:**

    - `state`: the state without them.
    - `control`: the controls.
    - `places`: the places of all hyperparameters that they set.
    - `n_members`: the number of members; None for a single model.

    **Raises:** `ValueError` if a control does not return arrays by name, one row for each member, or values
    in the shapes of those given.
    """
    values = _values(state, places, n_members)
    kept, n_rows = {}, n_members or 1
    for label, one in labelled(control).items():
        before = _value(one, values)
        given, value = one.initial(before, n_members=n_rows)
        kept[label] = _checked_state(label, given, n_rows)
        values |= _set(one, label, before, value)
    return _with_control(state, kept, values, places, n_members)


def controlled(
    state: TrainState,
    control: Sequence[AbstractControl],
    places: Mapping[str, Place],
    loss: Float[np.ndarray, "*member"],
    metrics: Mapping[str, np.ndarray],
    batch: int,
) -> tuple[TrainState, ControlRecord]:
    """Return the state after the controls of a logging point, and what they did.

    Members that are frozen or stopped stay as they are. Where a new stage begins, other controls begin anew.

    **Arguments:**

    - `state`: the state before, on one device.
    - `control`, `places`: see `with_initial_control`.
    - `loss`: the total validation loss of each member.
    - `metrics`: the results of `validation_metrics`.
    - `batch`: the number of the last batch.

    **Raises:** `ValueError` if a metric does not exist, or is not one number for each member; if a control
    returns something of another form than before.
    """
    n_members = loss.shape[0] if loss.ndim else None
    carry = state.loss_fn_state
    is_active = ~np.atleast_1d(np.asarray(carry.is_held))
    values, kept = _values(state, places, n_members), {}
    stops, begins = np.zeros((2, is_active.size), bool)
    for label, one in labelled(control).items():
        figure = _figure(label, metric_of(one), loss, metrics)
        before, own = _value(one, values), jax.tree.map(np.array, state.control_state[label])
        now, value, own_stops = _called(label, one, own, figure, before, batch)
        kept[label] = _where(is_active, _like(f"the state of {label}", own, now), own)
        set_values = _where(is_active, _set(one, label, before, value), values)
        if one.begins_stages:
            begins |= np.any([_differ(own, values[name]) for name, own in set_values.items()], axis=0)
        values |= set_values
        if np.shape(own_stops) != stops.shape or np.asarray(own_stops).dtype != bool:
            raise ValueError(
                f"{label} must tell by True or False for each of the {stops.size} members whether it stops, "
                f"got {own_stops!r:.200}."
            )
        stops |= np.asarray(own_stops)
    for label, one in labelled(control).items():
        if not one.begins_stages:
            anew, _ = one.initial(_value(one, values), n_members=begins.size)
            kept[label] = _where(begins, _like(f"the state of {label}", kept[label], anew), kept[label])
    now_stopped = jnp.asarray(_own_axes(stops & is_active & ~begins, n_members))
    carry = dataclasses.replace(carry, stopped_from=jnp.where(now_stopped, batch + 1, carry.stopped_from))
    state = dataclasses.replace(state, loss_fn_state=carry)
    state = _with_control(state, kept, values, places, n_members)
    told = {f"{label}.{name}": array for label, own in kept.items() for name, array in own.items()}
    return state, jax.tree.map(lambda array: _own_axes(array, n_members), ControlRecord(told, values))


def _called(
    label: str,
    one: AbstractControl,
    state: Mapping[str, np.ndarray],
    figure: Float[np.ndarray, " member"],
    value: np.ndarray | None,
    batch: int,
) -> Sequence[Any]:
    """Return what a control returns; it may change what it is given in place."""
    own = {name: array.copy() for name, array in state.items()}
    found = one(own, figure.copy(), value, batch=batch)
    if not isinstance(found, tuple) or len(found) != 3:
        raise ValueError(f"{label} must return what it keeps, a value and who stops, got {found!r:.200}.")
    return found


def with_no_stops(state: TrainState) -> TrainState:
    """Return the first state of a training whose controls may stop members, before any is stopped."""
    carry = state.loss_fn_state
    return dataclasses.replace(state, loss_fn_state=dataclasses.replace(carry, stopped_from=carry.stops))


def _values(state: TrainState, places: Mapping[str, Place], n_members: int | None) -> Named:
    """Return the values of the hyperparameters, copied, with a member axis."""
    values = {name: np.array(value) for name, value in values_at(state, places).items()}
    return values if n_members is not None else {name: value[None] for name, value in values.items()}


def _with_control(
    state: TrainState,
    kept: Mapping[str, Named],
    values: Named,
    places: Mapping[str, Place],
    n_members: int | None,
) -> TrainState:
    own = {name: jnp.asarray(_own_axes(value, n_members)) for name, value in values.items()}
    state = dataclasses.replace(state, control_state=jax.tree.map(jnp.asarray, dict(kept)))
    return with_values_at(state, places, own)


def _own_axes(array: np.ndarray, n_members: int | None) -> np.ndarray:
    """Return an array without the member axis if it is that of a single model."""
    return array if n_members is not None else array[0]


def _value(control: AbstractControl, values: Named) -> np.ndarray | None:
    """Return the value of the hyperparameter of a control, copied; None if it has none."""
    name = hyperparameter_of(control)
    return None if name is None else values[name].copy()


def _set(control: AbstractControl, label: str, before: np.ndarray | None, value: Any) -> Named:
    """Return by name the value that a control has set."""
    name = hyperparameter_of(control)
    if name is None or before is None:
        return {}
    return _like(f"the value of {label}", {name: before}, {name: value})


def _figure(
    label: str, metric: str | None, loss: Float[np.ndarray, "*member"], metrics: Mapping[str, np.ndarray]
) -> Float[np.ndarray, " member"]:
    """Return the figure that a control acts on."""
    if metric is not None and metric not in metrics:
        raise ValueError(
            f"`metric` of {label} must be one of `validation_metrics`, {', '.join(sorted(metrics))}, "
            f"got {metric!r}."
        )
    figure = loss if metric is None else metrics[metric]
    if figure.shape != loss.shape:
        expected = f"for each of the {loss.size} members" if loss.ndim else "of the model"
        raise ValueError(f"`metric` of {label} must be one number {expected}, got shape {figure.shape}.")
    return np.atleast_1d(figure).astype(jax.dtypes.canonicalize_dtype(float))


def _checked_state(label: str, state: Any, n_members: int) -> Named:
    """Return the first state of a control, in the dtypes of JAX."""
    if not isinstance(state, Mapping):
        raise ValueError(f"the state of {label} must be arrays by name, got {type(state).__name__}.")
    arrays = {name: np.asarray(jnp.asarray(array)) for name, array in state.items()}
    for name, array in arrays.items():
        if not isinstance(name, str) or not is_plain_name(name):  # they name arrays on disk
            raise ValueError(f"the state of {label} must have plain names without '/', got {name!r}.")
        if array.shape[:1] != (n_members,):
            raise ValueError(
                f"the state of {label} must lead with the {n_members} members, got shape {array.shape} for "
                f"{name!r}."
            )
    return arrays


def _like(what: str, before: Mapping[str, np.ndarray], now: Any) -> Named:
    """Return arrays in the dtypes of those before, whose names and shapes they must have."""
    expected = {name: array.shape for name, array in before.items()}
    is_named = isinstance(now, Mapping)
    found = {name: np.shape(array) for name, array in now.items()} if is_named else type(now).__name__
    if found != expected:
        raise ValueError(f"{what} must keep its names and shapes, {expected}, got {found}.")
    return {name: np.asarray(now[name]).astype(array.dtype) for name, array in before.items()}


def _differ(one: np.ndarray, other: np.ndarray) -> Bool[np.ndarray, " member"]:
    """Return which members have different values."""
    return np.any((one != other).reshape(one.shape[0], -1), axis=1)


def _where(is_active: Bool[np.ndarray, " member"], now: Named, before: Mapping[str, np.ndarray]) -> Named:
    return {name: np.where(beside(is_active, array), array, before[name]) for name, array in now.items()}
