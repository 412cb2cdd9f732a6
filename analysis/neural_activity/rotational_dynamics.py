"""Rotational dynamics and tangling."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from popsim._shared.checks import check_positive, check_time_step
from popsim.analysis._arrays import ROUNDING, Activity, as_activity, sign_factors
from popsim.analysis.neural_activity.components import principal_components

__all__ = ["Rotations", "rotations", "tangling"]


Samples = Float[np.ndarray, "member sample component"]


class Rotations(NamedTuple):
    """The planes in which each member's activity rotates, in order of decreasing frequency.

    - `axes`: two unit vectors per plane; the states at the first time vary most over trials along the first
        (a single trial starts on it), whose sign makes the sum of its cubed projections positive, and the
        rotation goes from the first to the second.
    - `projections`: activity in each plane.
    - `frequency`: frequency of the rotation in Hz, zero or more.
    - `explained`: share of the variance of the activity, over all units, in each plane.
    - `r2_skew`: share of the change of the state, over all planes, explained by these rotations:
        1 - |dX - X M|^2 / |dX|^2 for the best skew-symmetric M.
    - `r2_full`: the same for the best unconstrained M, which may also grow, shrink and shear.
    """

    axes: Float[np.ndarray, "member plane 2 unit"]
    projections: Float[np.ndarray, "member trial time plane 2"]
    frequency: Float[np.ndarray, "member plane"]
    explained: Float[np.ndarray, "member plane"]
    r2_skew: Float[np.ndarray, " member"]
    r2_full: Float[np.ndarray, " member"]


def rotations(activity: Activity, *, dt: float, n_components: int = 6) -> Rotations:
    """Fit rotations dx/dt = M x, with M = -M^T, to the changes of each member's activity.

    jPCA on the first principal components of the activity, after Churchland, Cunningham, Kaufman, Foster,
    Nuyujukian, Ryu & Shenoy 2012, Nature 487:51. The least-squares M solves S M + M S = A - A^T with
    S = X^T X and A = X^T dX. Unlike there, the state is taken at the middle of each step, where a rotation of
    any frequency is skew-symmetric.

    They first subtract the mean over conditions and scale the units: give
    `subtract_condition_mean(soft_normalize(activity, constant=...))`. For a control see `rotation_test`.

    **Arguments:**

    - `n_components`: number of principal components, even; the number of planes is half of it.
    """
    values = as_activity("activity", activity)
    check_time_step(dt)
    if n_components < 2 or n_components % 2:
        raise ValueError(f"`n_components` must be even, 2 or more, got {n_components}.")
    if values.shape[2] < 3:
        raise ValueError(f"`activity` must have three times or more, got {values.shape[2]}.")
    reduced = principal_components(values, n_components=n_components)
    if not np.all(reduced.variance[:, -1] > ROUNDING**2 * np.sum(values**2, axis=-1).mean(axis=(1, 2))):
        raise ValueError(
            f"`activity` must span {n_components} dimensions or more in every member, beyond rounding."
        )
    n_members = values.shape[0]
    before, after = reduced.projections[:, :, :-1], reduced.projections[:, :, 1:]
    flat = (n_members, -1, n_components)
    states, changes = ((before + after) / 2).reshape(flat), (after - before).reshape(flat)
    skew = _skew_symmetric_fit(states, changes)
    full = np.linalg.pinv(states) @ changes
    planes, speed = _planes(skew, reduced.projections[:, :, 0])
    projections = np.einsum("mrtc,mpac->mrtpa", reduced.projections, planes)
    factors = sign_factors(projections[..., 0], axis=(1, 2))
    planes, projections = planes * factors[:, 0, 0, :, None, None], projections * factors[..., None]
    total = np.sum(values.var(axis=(1, 2)), axis=1)
    return Rotations(
        axes=planes @ reduced.components[:, None],
        projections=projections,
        # A rotation by an angle w per step changes the state by 2 tan(w / 2) times its midpoint, turned by 90
        # degrees: `speed` is that factor, exact at any frequency.
        frequency=2 * np.arctan(speed / 2) / (2 * np.pi * dt),
        explained=np.mean(np.sum(projections**2, axis=-1), axis=(1, 2)) / total[:, None],
        r2_skew=_r_squared(states @ skew, changes),
        r2_full=_r_squared(states @ full, changes),
    )


def _skew_symmetric_fit(states: Samples, changes: Samples) -> Float[np.ndarray, "member component component"]:
    """Return the skew-symmetric M that minimises |changes - states M|^2, per step."""
    power, basis = np.linalg.eigh(states.mT @ states)
    across = states.mT @ changes
    # In the eigenbasis of S, the equation S M + M S = A - A^T is solved entry by entry.
    inner = basis.mT @ (across - across.mT) @ basis / (power[:, :, None] + power[:, None, :])
    return basis @ inner @ basis.mT


def _planes(
    skew: Float[np.ndarray, "member component component"],
    first_states: Float[np.ndarray, "member trial component"],
) -> tuple[Float[np.ndarray, "member plane 2 component"], Float[np.ndarray, "member plane"]]:
    # Times i, a skew-symmetric matrix is Hermitian: its eigenvalues are real, in pairs of either sign, of
    # which one is kept per plane.
    frequency, vectors = np.linalg.eigh(1j * skew)
    n_planes = skew.shape[-1] // 2
    speed = frequency[:, ::-1][:, :n_planes]
    # Real and imaginary part of a unit eigenvector are orthogonal, each of length 1 / sqrt(2).
    fastest = np.sqrt(2) * vectors[:, :, ::-1][:, :, :n_planes].mT
    planes = np.stack([fastest.real, fastest.imag], axis=2)
    turning = np.einsum("mpc,mcd,mpd->mp", planes[:, :, 0], skew, planes[:, :, 1])
    planes[:, :, 1] *= np.where(turning < 0, -1.0, 1.0)[..., None]
    projections = np.einsum("mrc,mpac->mpra", first_states, planes)
    if projections.shape[2] > 1:
        projections = projections - projections.mean(axis=2, keepdims=True)
    # The axes within a plane are arbitrary too; the first states choose them.
    first = np.linalg.svd(projections, full_matrices=False)[2][:, :, 0]
    turned = np.stack([first, np.stack([-first[..., 1], first[..., 0]], axis=-1)], axis=2)
    return turned @ planes, np.maximum(speed, 0.0)


def _r_squared(predicted: Samples, changes: Samples) -> Float[np.ndarray, " member"]:
    return 1 - np.sum((changes - predicted) ** 2, axis=(1, 2)) / np.sum(changes**2, axis=(1, 2))


_ROWS = 512
"""Number of states compared with all others at once, which bounds the memory."""


def tangling(
    activity: Activity, *, dt: float, n_components: int = 8, softening: float = 0.1
) -> Float[np.ndarray, "member trial time"]:
    """Return the tangling of trajectories, in 1/s^2.

    Q(t) = max over t' of |x'(t) - x'(t')|^2 / (|x(t) - x(t')|^2 + e), with t' in all trials: Russo et al.
    2018, Neuron 97:953 (settings after the authors' function tangleAnalysis). x are the first principal
    components, and e is `softening` times their summed variance. Give units of similar range
    (`soft_normalize`), and compare with the output. A circle at w rad/s has Q = 4 w^2 / (4 + softening).

    **Arguments:**

    - `n_components`: maximum number of principal components; fewer if there are fewer units.
    """
    values = as_activity("activity", activity)
    check_time_step(dt)
    check_positive("softening", softening)
    n_members, n_trials, n_steps, n_units = values.shape
    n_kept = min(n_components, n_units, n_trials * n_steps)
    components = principal_components(values, n_components=n_kept)
    velocity = np.gradient(components.projections, dt, axis=2, edge_order=2)
    constant = softening * components.variance.sum(axis=1)
    if not np.all(constant > 0):
        raise ValueError("`activity` must vary in every member, got one in which it does not.")
    flat = (n_trials * n_steps, n_kept)
    ratios = [
        _largest_ratio(states.reshape(flat), speeds.reshape(flat), float(added))
        for states, speeds, added in zip(components.projections, velocity, constant, strict=True)
    ]
    return np.stack(ratios).reshape(n_members, n_trials, n_steps)


def _largest_ratio(
    states: Float[np.ndarray, "sample component"],
    velocity: Float[np.ndarray, "sample component"],
    added: float,
) -> Float[np.ndarray, " sample"]:
    from scipy.spatial.distance import cdist

    largest = np.empty(len(states))
    for first in range(0, len(states), _ROWS):
        rows = slice(first, first + _ROWS)
        apart, turned = (cdist(x[rows], x, "sqeuclidean") for x in (states, velocity))
        largest[rows] = np.max(turned / (apart + added), axis=1)
    return largest
