"""Dynamical similarity analysis (Ostrow, Eisen, Kozachkov & Fiete 2023, NeurIPS, arXiv 2306.10168).

By its authors' package `dsa-metric`. Delay-embedded states of centred activity are fitted by a linear map
from each step to the next, and the maps of two members are compared. Only the dynamics count: states and
trials of the two members may differ.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Complex, Float, Key

from popsim.analysis import _arrays
from popsim.analysis._arrays import AnyArray

__all__ = ["dynamical_angle", "eigenvalue_distance"]


def dynamical_angle(
    first: AnyArray,
    second: AnyArray,
    *,
    n_delays: int,
    rank: int,
    n_iterations: int = 1500,
    key: Key[jax.Array, ""],
) -> float:
    """Return the angle between the dynamics of two members after the best rotation, in rad from 0 to pi.

    min over orthogonal C of arccos(tr(A' C B C') / (|A| |B|)), by the gradient descent of the package, which
    takes seconds and may end at a local minimum; of several results the smallest is the most accurate.

    **Arguments:**

    - `first`, `second`: activity of two members, with axes (*trial, time, unit) of any sizes.
    - `n_delays`: number of successive steps in a delay-embedded state.
    - `rank`: number of principal components of these states that are kept.
    """
    first_map = _linear_map("first", first, n_delays, rank)
    second_map = _linear_map("second", second, n_delays, rank)
    torch = _arrays.import_optional("torch", extra="dsa")
    compare = _arrays.import_optional("DSA.simdist", extra="dsa").SimilarityTransformDist(
        iters=n_iterations, score_method="angular", lr=0.005
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(_arrays.numpy_generator(key).integers(2**31)))
        return float(compare.fit_score(first_map, second_map))


def eigenvalue_distance(first: AnyArray, second: AnyArray, *, n_delays: int, rank: int) -> float:
    """Return the distance between the eigenvalues of the dynamics of two members; deterministic and fast.

    The mean squared distance in the complex plane under the optimal matching of eigenvalues: the score
    "wasserstein" of the package, which cites Redman et al. 2023. It is invariant to invertible linear maps
    of the kept states. A rotation by w per step has the eigenvalue exp(iw), a decay by a factor r has r.

    **Arguments:**

    - `first`, `second`, `n_delays`, `rank`: as for `dynamical_angle`.
    """
    first_map = _linear_map("first", first, n_delays, rank)
    second_map = _linear_map("second", second, n_delays, rank)
    compare = _arrays.import_optional("DSA.simdist", extra="dsa").SimilarityTransformDist(
        score_method="wasserstein"
    )
    return float(compare.fit_score(_eigenvalues(first_map), _eigenvalues(second_map)))


def _linear_map(name: str, activity: AnyArray, n_delays: int, rank: int) -> Any:
    centred = _arrays.centred_samples(name, activity).reshape(activity.shape)
    n_steps, n_units = centred.shape[-2:]
    if n_steps < n_delays + 1:
        raise ValueError(f"`{name}` must have more than {n_delays} time steps, `n_delays`, got {n_steps}.")
    trials = centred.reshape(-1, n_steps, n_units)
    if (n_varied := _n_varied_states(trials, n_delays, _arrays.least_singular_value(activity))) < rank:
        raise ValueError(f"`{name}` must vary in {rank} dimensions, `rank`, or more, got {n_varied}.")
    model = _arrays.import_optional("DSA.dmd", extra="dsa").DMD(trials, n_delays=n_delays, rank=rank)
    model.fit()
    return model.A_v


def _n_varied_states(trials: Float[np.ndarray, "trial time unit"], n_delays: int, least: float) -> int:
    n_windows = trials.shape[1] - n_delays + 1
    delayed = np.concatenate([trials[:, start : start + n_windows] for start in range(n_delays)], axis=-1)
    return int(np.linalg.matrix_rank(delayed.reshape(-1, delayed.shape[-1]), tol=least * np.sqrt(n_delays)))


def _eigenvalues(linear_map: Any) -> Complex[np.ndarray, " rank"]:
    return np.linalg.eigvals(np.asarray(linear_map, dtype=np.float64)).astype(np.complex128)
