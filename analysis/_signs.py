"""The sign of directions, which their computation leaves open."""

import numpy as np
from jaxtyping import Shaped

SYMMETRIC = 1e-4
"""Share of the sum of |values|^3 below which a third moment counts as 0, and of the largest value within
which values are equally large. Single precision rounds by 1e-7 of the activity, the larger number."""


def sign_factors(values: Shaped[np.ndarray, "..."], axis: int | tuple[int, ...]) -> Shaped[np.ndarray, "..."]:
    """Return the factor of each direction, of absolute value 1, that makes its third moment positive.

    The sign is that of the sum of v^3 over projections of the data, such as over trials and times, or over
    the entries of a direction without data. It depends on neither the order of units nor that of trials, so
    that members whose activity is alike get the same sign. Complex values v are turned so that the sum of
    v |v|^2 is real and positive. Where that sum vanishes, as for values that are symmetric about 0, the first
    of the largest values becomes positive, and where all are zero the factor is 1.

    **Arguments:**

    - `values`: the projections on each direction, or its entries.
    - `axis`: the axes of the samples, or of the entries, which are kept with length 1.
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
