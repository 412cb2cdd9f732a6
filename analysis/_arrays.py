"""Checks and conversions of the arrays that analyses take and return, and the signs of directions.

Analyses of saved data compute in float64 on the host; those that run or differentiate thousands of models use
one compiled program, in float64, too.
"""

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Complex, Float, Inexact, Int, PRNGKeyArray, Shaped

from popsim._shared.checks import is_int, kind_of
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


def as_float64(name: str, values: AnyArray, axes: str = "...") -> Float[np.ndarray, "..."]:
    """Return the values in float64, an array or nested lists of numbers; for `axes` see `check_axes`."""
    return as_numbers(name, values, np.float64, axes)


def as_numbers(name: str, values: AnyArray, dtype: type, axes: str = "...") -> Inexact[np.ndarray, "..."]:
    """Return numbers as an array of a type; every array that an analysis takes is checked here."""
    if isinstance(values, eqx.Module) or holds_arrays(values, tuple):
        raise ValueError(
            f"`{name}` must be one array of numbers, got {kind_of(values)}: of a hidden state take the "
            "activity, popsim.networks.unit_activity(ensemble, states), or join its arrays by "
            "np.concatenate(hidden, axis=-1)."
        )
    array = np.asarray(values)
    _check_type(name, None if values is None else array.dtype, dtype)
    check_axes(name, array, axes)
    return np.asarray(array, dtype)


def _check_type(name: str, dtype: Any, to: type) -> None:
    # Of durations and dates NumPy would take counts, of complex numbers the real part.
    if dtype is None or dtype.kind in ("mMSU" if issubclass(to, np.complexfloating) else "mMSUc"):
        raise ValueError(f"`{name}` must be an array of numbers, got {dtype}.")


def holds_arrays(values: Any, kind: type) -> bool:
    """Whether a tuple or list holds arrays, such as those of a hidden state."""
    return isinstance(values, kind) and any(np.ndim(part) > 0 and hasattr(part, "shape") for part in values)


def check_axes(name: str, array: Any, axes: str, alternative: str = "") -> None:
    """Raise `ValueError` unless an array has axes such as "... trial=8 state state", none of length zero.

    Axes may have a size, and have the same size where they have the same name; "..." is any number of axes.
    The message ends with the alternative, what else would have been right.
    """
    shape = tuple(np.shape(array))
    first, is_open, last = (part.split() for part in axes.partition("..."))
    n_others = len(shape) - len(first) - len(last)
    fits = (n_others >= 0 if is_open else n_others == 0) and 0 not in shape
    sizes: dict[str, int] = {}
    for axis, length in zip(
        [*first, *last], [*shape[: len(first)], *shape[len(first) + n_others :]], strict=False
    ):
        label, _, size = axis.partition("=")
        fits &= length == sizes.setdefault(label, int(size or length))
    if not fits:
        raise ValueError(f"`{name}` must have axes ({_in_words(axes)}){alternative}, got shape {shape}.")


def _in_words(axes: str) -> str:
    return ", ".join(axes.split())


def as_sized(name: str, values: Any) -> Any:
    """Return what has a shape, such as a lazy array of a history, as it is, and lists as an array."""
    if not hasattr(values, "shape"):
        return as_float64(name, values)
    _check_type(name, values.dtype, np.float64)
    return values


def finite_float64(name: str, values: AnyArray, axes: str = "...") -> Float[np.ndarray, "..."]:
    """Return finite numbers in float64; for `axes` see `check_axes`."""
    converted = as_float64(name, values, axes)
    if n_bad := int(np.count_nonzero(~np.isfinite(converted))):
        raise ValueError(f"`{name}` must be finite, got {n_bad} of {converted.size} numbers that are not.")
    return converted


def for_each_member(
    name: str, values: AnyArray, n_members: int, axes: str
) -> Float[np.ndarray, "member ..."]:
    """Return an array of each member in float64, from one for all or one per member."""
    given = finite_float64(name, values)
    if given.ndim == len(axes.split()):
        check_axes(name, given, axes)
        return np.broadcast_to(given, (n_members, *given.shape))
    check_axes(name, given, f"member={n_members} {axes}", f", or ({_in_words(axes)}) for all members")
    return given


def as_activity(name: str, values: AnyArray) -> Float[np.ndarray, "member trial time unit"]:
    """Return activity, such as `states.network.hidden` of an ensemble, in float64."""
    return finite_float64(name, values, "member trial time unit")


def symmetric_matrix(name: str, matrix: Distances) -> Distances:
    """Return a matrix in float64 that is symmetric but for 1e-6 of its largest number."""
    values = finite_float64(name, matrix, "member member")
    if np.abs(values - values.T).max() > 1e-6 * np.abs(values).max():
        raise ValueError(f"`{name}` must be a symmetric matrix, got {values}.")
    return values


def numpy_generator(key: PRNGKeyArray) -> np.random.Generator:
    """Return a NumPy generator seeded by a JAX random key, for bootstraps and permutations."""
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).tolist())


def check_within(name: str, value: Any, low: int, high: int) -> None:
    """Raise `ValueError` unless a whole number is from `low` to `high`."""
    if not (is_int(value) and low <= value <= high):
        raise ValueError(f"`{name}` must be a whole number from {low} to {high}, got {value}.")


def check_between_0_and_1(name: str, value: float) -> None:
    """Raise `ValueError` unless a number is above 0 and below 1."""
    if not 0 < value < 1:
        raise ValueError(f"`{name}` must be between 0 and 1, got {value}.")


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raise `ValueError` unless `value` is one of the choices."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {', '.join(choices)}, got {value!r}.")


def import_optional(name: str, extra: str = "analysis") -> ModuleType:
    """Import a module, such as `sklearn.cluster`, or say which extra of popsim installs its package."""
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

    S are the derivatives of observations by values, in standard deviations of a row. Infinite if the columns,
    scaled to unit length, are linearly dependent.
    """
    lengths = np.linalg.norm(slopes, axis=0)
    infinite = np.full(lengths.size, np.inf)
    if len(slopes) < lengths.size or not np.all(lengths > 0):
        return infinite
    _, singular, directions = np.linalg.svd(slopes / lengths, full_matrices=False)
    if singular[-1] < 1e-12 * singular[0]:
        return infinite
    return np.linalg.norm(directions.T / singular, axis=1) / lengths


ALIKE = 1e-6  # of the largest label: labels that are closer are the same, as rounding in single precision


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
    """
    labels_in_order, label_index = np.unique(np.asarray(labels), return_inverse=True)
    if not np.issubdtype(labels_in_order.dtype, np.floating) or not np.isfinite(labels_in_order).all():
        return labels_in_order, label_index
    begins = np.diff(labels_in_order, prepend=-np.inf) > ALIKE * np.abs(labels_in_order).max(initial=0)
    return labels_in_order[begins], (np.cumsum(begins) - 1)[label_index]


ROUNDING = 1e-6  # of the norm of the activity: singular values below may be rounding, of 6e-8 of each number


def centred_samples(name: str, activity: AnyArray) -> Float[np.ndarray, "sample unit"]:
    """Return the samples of one member, such as (trial, time, unit), with their mean subtracted."""
    values = finite_float64(name, activity, "... sample unit")
    samples = values.reshape(-1, values.shape[-1])
    centred = samples - samples.mean(axis=0)
    if np.abs(centred).max() <= 1e-12 * float(np.abs(samples).max()):
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

    The mean of the activity counts, because rounding is proportional to the size of a number.
    """
    return ROUNDING * float(np.linalg.norm(np.asarray(activity, np.float64).reshape(-1)))


SYMMETRIC = 1e-4
"""Share of the sum of |values|^3 below which a third moment counts as 0, and of the largest value within
which values are equally large. Single precision rounds by 1e-7 of the activity, the larger number."""


def sign_factors(values: Shaped[np.ndarray, "..."], axis: int | tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
    """Return the factor of each direction, of absolute value 1, that makes its third moment positive.

    `values` are projections of the data, or the entries of a direction, along `axis`, which is kept with
    length 1: the order of units and trials does not count. The sum of v |v|^2 becomes real and positive;
    where it vanishes, the first of the largest values does, and where all are zero the factor is 1.
    """
    axes = tuple(sorted(place % values.ndim for place in np.atleast_1d(axis)))
    sample_axes = tuple(place for place in range(values.ndim) if place not in axes)
    samples = values.transpose(*sample_axes, *axes).reshape(
        *(values.shape[place] for place in sample_axes), -1
    )
    size = np.abs(samples)
    largest = size.max(axis=-1, keepdims=True)
    samples, size = (part / np.where(largest > 0, largest, 1.0) for part in (samples, size))
    first = np.argmax(size >= 1 - SYMMETRIC, axis=-1)
    moment = np.sum(samples * size**2, axis=-1)
    is_symmetric = np.abs(moment) <= SYMMETRIC * np.sum(size**3, axis=-1)
    chosen = np.where(is_symmetric, np.take_along_axis(samples, first[..., None], axis=-1)[..., 0], moment)
    length = np.abs(chosen)
    factors = np.where(length > 0, np.conj(chosen) / np.where(length > 0, length, 1.0), 1.0)
    return np.expand_dims(factors, axes)
