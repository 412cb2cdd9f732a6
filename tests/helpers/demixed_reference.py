"""What the package dPCA 1.0.5 finds in some activity, and the activity.

The package of Kobak et al. 2016 needs numexpr and numba, which popsim does not bring. Where dPCA is
installed, this file run as a script makes the numbers below again, with stand-ins for the two.
"""

import sys
import types

import numpy as np

N_UNITS, N_STIMULI, N_CHOICES, N_STEPS = 7, 4, 2, 6
REGULARIZATION = (0.0, 0.01)
PARTS = {"t": "time", "st": "stimulus", "dt": "choice", "sdt": "stimulus x choice"}


def activity() -> np.ndarray:
    """Activity with the axes (unit, stimulus, choice, time) that depends on all of them."""
    sizes = (N_UNITS, N_STIMULI, N_CHOICES, N_STEPS)
    unit, stimulus, choice, time = np.meshgrid(*(np.arange(float(n)) for n in sizes), indexing="ij")
    mixed = np.sin(1.3 * unit + 0.7 * stimulus * time) + 0.5 * np.cos(unit**2 + 2.1 * choice) * time
    alone = 0.2 * stimulus * np.sin(2 * unit)
    return mixed + alone + 0.1 * np.cos(5.3 * unit * stimulus + 1.7 * choice * time * unit)


# Of the first component of each part, up to their sign: the encoder (`P` of the package), the decoder (`D`),
# and the share of the variance of the activity that the decoder reads (`explained_variance_ratio_`).
EXPECTED = {
    0.0: {
        "time": (
            [-0.220987, 0.906828, -0.145342, 0.161402, -0.174541, -0.206744, -0.091901],
            [-1.418554, 0.646942, -0.925413, 0.704762, 0.156242, 0.770483, 0.438565],
            0.02262112,
        ),
        "stimulus": (
            [0.016716, 0.409689, 0.330884, -0.305794, -0.526144, 0.194435, 0.560579],
            [0.186289, 0.44955, 0.991883, -0.123441, -0.039129, 0.614794, 0.384579],
            0.14048403,
        ),
        "choice": (
            [-0.402599, -0.41085, 0.434838, 0.271697, 0.446227, -0.36696, 0.269136],
            [-1.060112, 0.008322, -0.40012, 0.404214, 1.038542, 0.462408, 1.28454],
            0.69836073,
        ),
        "stimulus x choice": (
            [0.0, 0.316889, 0.554878, -0.291872, 0.534776, 0.469551, 0.006282],
            [-0.238976, 0.090738, 0.302001, -0.172606, 0.129978, 0.317645, -0.31422],
            0.00016417,
        ),
    },
    0.01: {
        "time": (
            [-0.22035, 0.90727, -0.145558, 0.160635, -0.174627, -0.206031, -0.091508],
            [-0.914056, 0.7124, -0.703536, 0.842433, 0.179564, 0.528476, 0.425694],
            0.02195465,
        ),
        "stimulus": (
            [0.016873, 0.409842, 0.33049, -0.306013, -0.526113, 0.194482, 0.560588],
            [0.119402, 0.41371, 0.881299, -0.136845, -0.069639, 0.595666, 0.446416],
            0.14016606,
        ),
        "choice": (
            [-0.402599, -0.410849, 0.43484, 0.271698, 0.446228, -0.36696, 0.269133],
            [-0.725557, 0.059575, -0.222051, 0.487902, 1.06208, 0.315886, 1.250155],
            0.69760885,
        ),
        "stimulus x choice": (
            [0.0, 0.333947, 0.622683, -0.19343, 0.530788, 0.426131, -0.002688],
            [-0.076686, 0.092904, 0.292877, -0.089972, 0.111288, 0.211004, -0.251105],
            0.00011197,
        ),
    },
}


def by_the_package(regularization: float) -> dict[str, tuple[list[float], list[float], float]]:
    """The first component of each part, as dPCA finds it."""
    numexpr, numba = types.ModuleType("numexpr"), types.ModuleType("numba")
    vars(numexpr)["evaluate"] = lambda text, local_dict: eval(text, {}, dict(local_dict))
    vars(numba)["jit"] = lambda **_: lambda function: function
    sys.modules |= {"numexpr": numexpr, "numba": numba}
    from dPCA.dPCA import dPCA  # pyright: ignore[reportMissingImports]

    values = activity()
    norm = np.linalg.norm(values - values.reshape(N_UNITS, -1).mean(1)[:, None, None, None])
    join = {"st": ["s", "st"], "dt": ["d", "dt"], "sdt": ["sd", "sdt"]}
    np.random.seed(0)
    model = dPCA("sdt", join=join, n_components=3, regularizer=regularization / norm or None, n_iter=30)
    model.fit_transform(values)
    read = model.explained_variance_ratio_
    return {
        name: (
            model.P[key][:, 0].round(6).tolist(),
            model.D[key][:, 0].round(6).tolist(),
            round(float(read[key][0]), 8),
        )
        for key, name in PARTS.items()
    }


if __name__ == "__main__":
    for strength in REGULARIZATION:
        print(strength, by_the_package(strength))
