"""Writes `tests/analysis/references/demixed_components.npz`: what dPCA 1.0.5 finds in some activity.

The package of Kobak et al. 2016 needs numexpr and numba, which popsim does not bring: two stand-ins take
their place. Of the first component of each part it stores, up to their sign, the encoder (`P` of the
package), the decoder (`D`), and the share of the variance of the activity that the decoder reads
(`explained_variance_ratio_`), for each strength of regularization.
"""

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

N_UNITS, N_STIMULI, N_CHOICES, N_STEPS = 7, 4, 2, 6
REGULARIZATION = (0.0, 0.01)
PARTS = {"t": "time", "st": "stimulus", "dt": "choice", "sdt": "stimulus x choice"}
OUT = Path(__file__).parents[1] / "tests" / "analysis" / "references" / "demixed_components.npz"


def made_up_activity() -> np.ndarray:
    """Activity with the axes (unit, stimulus, choice, time) that depends on all of them."""
    sizes = (N_UNITS, N_STIMULI, N_CHOICES, N_STEPS)
    unit, stimulus, choice, time = np.meshgrid(*(np.arange(float(n)) for n in sizes), indexing="ij")
    mixed = np.sin(1.3 * unit + 0.7 * stimulus * time) + 0.5 * np.cos(unit**2 + 2.1 * choice) * time
    alone = 0.2 * stimulus * np.sin(2 * unit)
    return mixed + alone + 0.1 * np.cos(5.3 * unit * stimulus + 1.7 * choice * time * unit)


def components(activity: np.ndarray, regularization: float) -> dict[str, np.ndarray]:
    """The first component of each part, as dPCA finds it."""
    numexpr, numba = types.ModuleType("numexpr"), types.ModuleType("numba")
    vars(numexpr)["evaluate"] = lambda text, local_dict: eval(text, {}, dict(local_dict))
    vars(numba)["jit"] = lambda **_: lambda function: function
    sys.modules |= {"numexpr": numexpr, "numba": numba}
    from dPCA.dPCA import dPCA  # pyright: ignore[reportMissingImports]

    norm = np.linalg.norm(activity - activity.reshape(N_UNITS, -1).mean(1)[:, None, None, None])
    join = {"st": ["s", "st"], "dt": ["d", "dt"], "sdt": ["sd", "sdt"]}
    np.random.seed(0)
    model = dPCA("sdt", join=join, n_components=3, regularizer=regularization / norm or None, n_iter=30)
    model.fit_transform(activity)
    found = {}
    for key, name in PARTS.items():
        part = f"{regularization}/{name}"
        found[f"{part}/encoder"] = model.P[key][:, 0].round(6)
        found[f"{part}/decoder"] = model.D[key][:, 0].round(6)
        found[f"{part}/explained"] = np.round(model.explained_variance_ratio_[key][0], 8)
    return found


def main() -> None:
    """Find the components, and store them with the activity."""
    activity = made_up_activity()
    arrays: dict[str, Any] = {"activity": activity}
    for strength in REGULARIZATION:
        arrays |= components(activity, strength)
    np.savez_compressed(OUT, **arrays)


if __name__ == "__main__":
    main()
