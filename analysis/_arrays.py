"""Checks and conversions of the arrays that analyses take and return.

Analyses of saved data take NumPy or JAX arrays, compute in float64 on the host and return NumPy arrays, so
their results match SciPy and scikit-learn. Analyses that run or differentiate thousands of models use one
compiled program, in float64 internally.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Complex, Float, Inexact, Int, PRNGKeyArray, Shaped

from popsim._checks import kind_of
from popsim.randomness import as_key

AnyArray = np.ndarray | jax.Array
"""A NumPy or JAX array."""
Activity = Float[AnyArray, "member trial time unit"]
TimeCourses = Float[AnyArray, "*axes trial time"]
Paths = Float[AnyArray, "*axes trial time 2"]
Points = Float[AnyArray, "trial 2"]
Labels = Shaped[AnyArray, " trial"]
Distances = Float[AnyArray, "member member"]
Batches = Int[AnyArray, " batch"]
MemberCourses = Float[AnyArray, "batch member"]
Evidence = Float[AnyArray, "trial stream"]


def as_float64(name: str, values: AnyArray) -> Float[np.ndarray, "..."]:
    """Return the values in float64; see `as_numbers`."""
    return as_numbers(name, values, np.float64)


def as_numbers(name: str, values: AnyArray, dtype: type) -> Inexact[np.ndarray, "..."]:
    """Return the values, an array or nested lists of numbers, with a type."""
    n_arrays = sum(np.ndim(part) > 0 for part in values) if isinstance(values, tuple) else 0
    if n_arrays and not all(isinstance(part, list | tuple) for part in values):
        raise ValueError(
            f"`{name}` must be one array, got a tuple of {n_arrays}: of a hidden state take the activity, "
            "popsim.networks.unit_activity(ensemble, states), or join its arrays by np.concatenate(hidden, "
            "axis=-1)."
        )
    if isinstance(values, eqx.Module):
        raise ValueError(
            f"`{name}` must be an array of numbers, got {kind_of(values)}: of a hidden state take the "
            "activity, popsim.networks.unit_activity(ensemble, states)."
        )
    if values is None or isinstance(values, str | bytes | Mapping):
        raise ValueError(f"`{name}` must be an array of numbers, got {kind_of(values)}.")
    try:
        array = np.asarray(values)
        if not _is_converted(array.dtype, dtype):
            raise TypeError(f"their type is {array.dtype}")
        return np.asarray(array, dtype)
    except (TypeError, ValueError) as error:
        if isinstance(error, jax.errors.JAXTypeError):
            raise
        raise ValueError(f"`{name}` must be an array of numbers, got {kind_of(values)}: {error}.") from error


def _is_converted(dtype: Any, to: type) -> bool:
    """Whether NumPy converts numbers of a type: of durations and dates it takes counts in their unit."""
    return dtype.kind not in ("mM" if issubclass(to, np.complexfloating) else "mMc")


def as_sized(name: str, values: Any) -> Any:
    """Return what has a shape, such as a lazy array of a history, as it is, and lists as an array."""
    if not hasattr(values, "shape"):
        return as_float64(name, values)
    if not _is_converted(values.dtype, np.float64):
        raise ValueError(f"`{name}` must be an array of numbers, got {values.dtype}.")
    return values


def finite_float64(name: str, values: AnyArray) -> Float[np.ndarray, "..."]:
    """Return the values in float64.

    **Arguments:**

    - `name`: the name of the argument, for the error message.
    - `values`: numbers.
    """
    converted = as_float64(name, values)
    if converted.size == 0:
        raise ValueError(f"`{name}` must hold at least one number, got shape {converted.shape}.")
    if n_bad := int(np.count_nonzero(~np.isfinite(converted))):
        raise ValueError(f"`{name}` must be finite, got {n_bad} of {converted.size} numbers that are not.")
    return converted


def numpy_generator(key: PRNGKeyArray) -> np.random.Generator:
    """Return a NumPy generator seeded by a JAX random key, for bootstraps and permutations."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).tolist())


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise `ValueError` unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")


def import_optional(name: str, extra: str = "analysis") -> ModuleType:
    """Import an optional module, such as `sklearn.cluster`.

    **Arguments:**

    - `name`: the name of the module.
    - `extra`: the extra of popsim that installs its package.

    **Raises:** `ImportError` with the installation command if the package is missing.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise ImportError(f'`{package}` is not installed: pip install "popsim[{extra}]".') from error


def sorted_eigenvalues(matrices: Float[np.ndarray, "*axes state state"]) -> Complex[np.ndarray, "*axes mode"]:
    """Return the eigenvalues of matrices in order of decreasing absolute value."""
    values = np.linalg.eigvals(matrices).astype(complex)
    order = np.argsort(-np.abs(values), axis=-1, kind="stable")
    return np.take_along_axis(values, order, axis=-1)


def standard_errors(slopes: Float[np.ndarray, "row value"]) -> Float[np.ndarray, " value"]:
    """Return the square roots of the diagonal of (S'S)^-1, in a way that does not depend on units.

    The columns of S are scaled to unit length first. Infinite if the scaled columns are linearly dependent.

    **Arguments:**

    - `slopes`: S, the derivatives of observations by values, in standard deviations of a row.
    """
    lengths = np.linalg.norm(slopes, axis=0)
    infinite = np.full(lengths.size, np.inf)
    if len(slopes) < lengths.size or not np.all(lengths > 0):
        return infinite
    _, singular, directions = np.linalg.svd(slopes / lengths, full_matrices=False)
    if singular[-1] < 1e-12 * singular[0]:
        return infinite
    return np.linalg.norm(directions.T / singular, axis=1) / lengths


ALIKE = 1e-6
"""Labels closer than this, relative to the largest, are the same: the rounding of single precision."""


def check_trials(name: str, of_trials: AnyArray, n_trials: int) -> None:
    """Raise `ValueError` unless there is one value per trial."""
    if np.shape(of_trials) != (n_trials,):
        raise ValueError(
            f"`{name}` must have one value for each of {n_trials} trials, got shape {np.shape(of_trials)}."
        )


def as_groups(groups: Sequence[Any] | Shaped[AnyArray, " member"], n_members: int) -> np.ndarray:
    """Return the label of the group of each member; raise `ValueError` unless there is one per member."""
    names = np.asarray(groups)
    if len(names) != n_members:
        raise ValueError(f"`groups` must be a label of each of {n_members} members, got {len(names)}.")
    return names


def unique_labels(
    labels: Shaped[AnyArray, " trial"],
) -> tuple[Shaped[np.ndarray, " label"], Int[np.ndarray, " trial"]]:
    """Return the distinct labels in ascending order, and the index of the label of each trial.

    Floating-point labels that differ by less than 1e-6 of the largest count as one: the lowest of them.

    **Arguments:**

    - `labels`: integers, names, or numbers such as directions.
    """
    labels_in_order, label_index = np.unique(np.asarray(labels), return_inverse=True)
    if not np.issubdtype(labels_in_order.dtype, np.floating) or not np.isfinite(labels_in_order).all():
        return labels_in_order, label_index
    begins = np.diff(labels_in_order, prepend=-np.inf) > ALIKE * np.abs(labels_in_order).max(initial=0)
    return labels_in_order[begins], (np.cumsum(begins) - 1)[label_index]


ROUNDING = 1e-6
"""Share of the norm of the activity below which a singular value may be rounding error.
Single precision, in which networks run, rounds by at most 6e-8 of each number and hence of the norm."""


def centred_samples(name: str, activity: AnyArray) -> Float[np.ndarray, "sample unit"]:
    """Return the samples of one member, with their mean subtracted.

    **Arguments:**

    - `name`: the name of the argument, for the error message.
    - `activity`: array with axes (sample..., unit), such as (trial, time, unit).
    """
    values = finite_float64(name, activity)
    if values.ndim < 2 or values[..., 0].size < 2:
        raise ValueError(
            f"`{name}` must have axes (sample..., unit) with two samples or more, got shape {values.shape}."
        )
    samples = values.reshape(-1, values.shape[-1])
    centred = samples - samples.mean(axis=0)
    rounding = 1e-12 * float(np.abs(samples).max())
    if np.abs(centred).max() <= rounding:
        raise ValueError(f"`{name}` must vary over samples, got the same {samples[0]} in all.")
    return centred


def centred_samples_of_members(
    activity: Float[np.ndarray, "member trial time unit"],
) -> Float[np.ndarray, "member sample unit"]:
    """Return the centred samples of each member."""
    samples = activity.reshape(activity.shape[0], -1, activity.shape[-1])
    return samples - samples.mean(axis=1, keepdims=True)


def paired_samples(
    first: AnyArray, second: AnyArray
) -> tuple[Float[np.ndarray, "sample unit"], Float[np.ndarray, "sample other"]]:
    """Return the centred samples of two members that received the same trials."""
    shapes = [as_float64(name, values).shape for name, values in (("first", first), ("second", second))]
    if shapes[0][:-1] != shapes[1][:-1]:
        raise ValueError(
            "`first` and `second` must have the same samples, all axes but the last, "
            f"got shapes {shapes[0]} and {shapes[1]}."
        )
    return centred_samples("first", first), centred_samples("second", second)


def least_singular_value(activity: AnyArray) -> float:
    """Return the smallest singular value of one member's centred samples that is not rounding error.

    This is `ROUNDING` times the root sum of squares of the activity, including its mean, because rounding is
    proportional to the size of a number. A dimension below it has less than 1e-12 of that sum.

    **Arguments:**

    - `activity`: the recorded activity, with axes (sample..., unit).
    """
    return ROUNDING * float(np.linalg.norm(np.asarray(activity, np.float64).reshape(-1)))
