"""How a hand at rest accelerates under a force on it: the mobility of a two-segment limb. No popsim here.

a = J M^-1 J' f, with the inertia matrix M and the Jacobian J of the limb (Gordon, Ghilardi, Cooper & Ghez
1994, Exp Brain Res 99:112-130, whose measured and simulated accelerations are largest perpendicular to the
forearm). Angles are those of the upper arm, and of the forearm relative to it. Lengths l, distances of the
centres of mass c, masses m, and moments of inertia i about these centres are of (upper arm, forearm).
"""

import numpy as np

LIMBS = {
    "Li & Todorov": {
        "l": (0.30, 0.33),
        "c": (0.11, 0.16),
        "m": (1.4, 1.0),
        "i": (0.025 - 1.4 * 0.11**2, 0.045 - 1.0 * 0.16**2),
    },
    "MotorNet": {
        "l": (0.309, 0.26),
        "c": (0.180496, 0.181479),
        "m": (1.864572, 1.534315),
        "i": (0.013193, 0.020062),
    },
}
EIGENVALUES = {"Li & Todorov": (2.420, 0.783), "MotorNet": (0.958, 0.433)}
"""Of the mobility with the shoulder at 45 and the elbow at 90 degrees, in 1/kg, computed beforehand."""


def mobility(limb: dict, shoulder: float, elbow: float) -> np.ndarray:
    """J M^-1 J', 2 x 2, in 1/kg, at given joint angles in rad."""
    upper, lower = limb["l"]
    c, m, i = (limb[name] for name in "cmi")
    coupling = m[1] * upper * c[1] * np.cos(elbow)
    forearm = i[1] + m[1] * c[1] ** 2
    total = i[0] + m[0] * c[0] ** 2 + m[1] * upper**2 + forearm + 2 * coupling
    inertia = np.array([[total, forearm + coupling], [forearm + coupling, forearm]])
    s, se = shoulder, shoulder + elbow
    jacobian = np.array(
        [
            [-upper * np.sin(s) - lower * np.sin(se), -lower * np.sin(se)],
            [upper * np.cos(s) + lower * np.cos(se), lower * np.cos(se)],
        ]
    )
    return jacobian @ np.linalg.inv(inertia) @ jacobian.T


def main_axis(matrix: np.ndarray) -> float:
    """The direction of the largest eigenvalue, in rad from 0 to pi."""
    _, vectors = np.linalg.eigh(matrix)
    return float(np.arctan2(vectors[1, 1], vectors[0, 1]) % np.pi)
