"""Angles: how concentrated they are, and whether they are more so than by chance."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim.analysis.arrays import AnyArray, finite_float64


class RayleighTest(NamedTuple):
    """How concentrated angles are about their mean.

    - `direction`: their circular mean, in rad from -pi to pi.
    - `resultant_length`: from 0, spread evenly, to 1, all alike.
    - `p`: the probability of at least this length if they came from all round alike.
    """

    direction: Float[np.ndarray, "*axes"]
    resultant_length: Float[np.ndarray, "*axes"]
    p: Float[np.ndarray, "*axes"]


def rayleigh_test(angles: Float[AnyArray, "*axes sample"]) -> RayleighTest:
    """The mean of angles, the length of their mean vector, and Rayleigh's test against a uniform spread.

    p = exp(sqrt(1 + 4 n + 4 (n^2 - R^2)) - (1 + 2 n)) with R = n times the length: Zar 1999, Biostatistical
    Analysis, eq. 27.4, as in Berens 2009, J Stat Softw 31(10) (cited from memory). The samples, such as the
    preferred directions of units, must be independent; the units of one network are not a sample of networks.

    **Arguments:**

    - `angles`: in rad; the samples along the last axis.

    **Raises:** `ValueError` if there are none, or one is not finite.
    """
    values = finite_float64("angles", angles)
    vector = np.mean(np.exp(1j * values), axis=-1)
    length = np.minimum(np.abs(vector), 1.0)
    n = values.shape[-1]
    p = np.exp(np.sqrt(1 + 4 * n + 4 * n**2 * (1 - length**2)) - (1 + 2 * n))
    return RayleighTest(np.asarray(np.angle(vector)), np.asarray(length), np.asarray(p))
