"""The modes of linear dynamics: how fast they decay or grow, whether they oscillate, and their directions."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Complex, Float, Inexact

from popsim.analysis.arrays import AnyArray, finite_float64
from popsim.checks import check_positive


class Modes(NamedTuple):
    """The modes of dh(t + 1) = A dh(t), the one with the largest absolute eigenvalue first.

    - `eigenvalue`: by what a mode is multiplied in a time step.
    - `direction`: right eigenvectors of length one, in columns: the pattern over units of each mode.
    - `selection`: left eigenvectors, in rows, such that selection @ direction = 1: how much of each mode is
        in a state. Mante et al. 2013, Nature 503:78, call that of a line attractor the selection vector
        (cited from memory).
    """

    eigenvalue: Complex[np.ndarray, "*axes mode"]
    direction: Complex[np.ndarray, "*axes state mode"]
    selection: Complex[np.ndarray, "*axes mode state"]


def modes(jacobian: Float[AnyArray, "*axes state state"]) -> Modes:
    """The eigenvalues and eigenvectors of Jacobians.

    **Arguments:**

    - `jacobian`: of one time step, by the state, such as `FixedPoints.jacobian`.

    **Raises:** `ValueError` if one is not finite, or not square, or has fewer directions than dimensions.
    """
    matrices = _square(jacobian)
    eigenvalue, direction = np.linalg.eig(matrices)
    order = np.argsort(-np.abs(eigenvalue), axis=-1, kind="stable")
    eigenvalue = np.take_along_axis(eigenvalue, order, axis=-1).astype(complex)
    direction = np.take_along_axis(direction, order[..., None, :], axis=-1).astype(complex)
    if np.any(np.linalg.matrix_rank(direction) < matrices.shape[-1]):
        raise ValueError("`jacobian` must have as many independent eigenvectors as dimensions.")
    return Modes(eigenvalue, direction, np.linalg.inv(direction))


def sorted_eigenvalues(
    jacobian: Float[AnyArray, "*axes state state"],
) -> Complex[np.ndarray, "*axes mode"]:
    """The eigenvalues of Jacobians, the largest absolute values first."""
    eigenvalues = np.linalg.eigvals(np.asarray(jacobian, np.float64)).astype(complex)
    order = np.argsort(-np.abs(eigenvalues), axis=-1, kind="stable")
    return np.take_along_axis(eigenvalues, order, axis=-1)


def time_constants(
    eigenvalues: Inexact[AnyArray, "*axes mode"], *, dt: float
) -> Float[np.ndarray, "*axes mode"]:
    """In which time modes decay to 1/e: tau = -dt / ln |eigenvalue|, in s.

    Negative for a mode that grows, by e in that time; infinite for one that stays.

    **Arguments:**

    - `eigenvalues`: of the Jacobian of one time step.
    - `dt`: the time step, in s.

    **Raises:** `ValueError` if `dt` is not positive.
    """
    check_positive("dt", dt)
    with np.errstate(divide="ignore"):
        rate = -np.log(np.abs(np.asarray(eigenvalues)))
        return dt / np.where(rate == 0, 0.0, rate)


def frequencies(
    eigenvalues: Inexact[AnyArray, "*axes mode"], *, dt: float
) -> Float[np.ndarray, "*axes mode"]:
    """How often modes oscillate: |angle of the eigenvalue| / (2 pi dt), in Hz; 0 for real positive ones.

    **Arguments:** as for `time_constants`.

    **Raises:** `ValueError` if `dt` is not positive.
    """
    check_positive("dt", dt)
    return np.abs(np.angle(np.asarray(eigenvalues))) / (2 * np.pi * dt)


def _square(jacobian: AnyArray) -> np.ndarray:
    matrices = finite_float64("jacobian", jacobian)
    if matrices.ndim < 2 or matrices.shape[-1] != matrices.shape[-2]:
        raise ValueError(f"`jacobian` must have axes (..., state, state), got shape {matrices.shape}.")
    return matrices
