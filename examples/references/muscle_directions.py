"""The least activation that holds the posture of an arm with six muscles against a load. No popsim here.

Muscles of length l(q) that neither shorten nor lengthen pull with F (a f + p), with the activation a, the
active and the passive share f and p of the length of the fibres, and the largest force F. The torque of the
joints is -(dl/dq)' times these forces, so tau(a) = G a + tau0. The programme is

    min sum_i a_i²    with    G a + tau0 = tau,    a_i >= lowest,

where tau is the torque that is asked for, the opposite of the load. It has one solution, which is that of a
non-negative least squares problem (Lawson & Hanson 1974, Solving Least Squares Problems, chapter 23). The
direction in which a muscle pulls is that of its column of G, its anatomy. The direction in which the
programme uses it most, its preferred direction, is another one where the columns are not spread evenly.

Lengths, moment arms and forces are those of arm26 in MotorNet 0.3 (Codol et al. 2024, eLife 12:RP88591), but
for the strength of the two muscles that cross both joints. After Kurtzer, Herter & Scott 2006 and Lillicrap &
Scott 2013; not checked against the papers. What is built here is not their model.
"""

import dataclasses
from collections.abc import Sequence

import numpy as np
from scipy.linalg import null_space
from scipy.optimize import nnls

MUSCLES = ("pectoralis", "deltoid", "brachioradialis", "triceps lateral", "biceps", "triceps long")
N_MONOARTICULAR = 4
FORCE = np.array([838.0, 1207.0, 1422.0, 1549.0, 414.0, 603.0])  # N
FIBRE = np.array([0.134, 0.140, 0.092, 0.093, 0.137, 0.127])  # m, optimal length
TENDON = np.array([0.039, 0.066, 0.172, 0.187, 0.204, 0.217])  # m
OFFSET = np.array([0.151, 0.2322, 0.2859, 0.2355, 0.3329, 0.2989])  # m
SHOULDER = np.array([-0.03, 0.03, 0.0, 0.0, -0.03, 0.03])  # m/rad
ELBOW = np.array([0.0, 0.0, -0.014, 0.025, -0.016, 0.03])  # m/rad
ELBOW_SQUARED = np.array([0.0, 0.0, -0.004, -0.0022, -0.0057, -0.0032])  # m/rad²
WIDTH, SLACK, LIMIT = 0.66, 1.4, 1.66  # optimal lengths: of the active force, and of the passive one
LOWEST = 0.001  # activation


@dataclasses.dataclass(frozen=True)
class Arm:
    """The arm in a posture.

    - `posture`: the angles of shoulder and elbow, in rad.
    - `biarticular`: the strength of the muscles that cross both joints, relative to the published one.
    """

    posture: tuple[float, float]
    biarticular: float = 1.0

    @property
    def torque_per_activation(self) -> np.ndarray:
        """G [joint, muscle], in N m."""
        fibre = (lengths(self.posture) - TENDON) / FIBRE
        share = np.maximum(1 - ((fibre - 1) / WIDTH) ** 2, 0.01)
        return -moment_arms(self.posture).T * self._force * share

    @property
    def passive_torque(self) -> np.ndarray:
        """tau0 [joint], in N m."""
        fibre = (lengths(self.posture) - TENDON) / FIBRE
        share = (np.maximum(fibre - SLACK, 0) / (LIMIT - SLACK)) ** 2
        return -moment_arms(self.posture).T @ (self._force * share)

    @property
    def _force(self) -> np.ndarray:
        return FORCE * np.where(np.arange(len(FORCE)) < N_MONOARTICULAR, 1.0, self.biarticular)


def lengths(posture: Sequence[float] | np.ndarray) -> np.ndarray:
    """l [muscle], of fibre and tendon, in m. The angle of the shoulder counts from 90 degrees."""
    shoulder, elbow = posture[0] - np.pi / 2, posture[1]
    return OFFSET + SHOULDER * shoulder + ELBOW * elbow + ELBOW_SQUARED * elbow**2


def moment_arms(posture: Sequence[float] | np.ndarray) -> np.ndarray:
    """dl/dq [muscle, joint], in m/rad."""
    return np.stack([SHOULDER, ELBOW + 2 * ELBOW_SQUARED * posture[1]], axis=1)


def least_activation(arm: Arm, torques: np.ndarray) -> np.ndarray:
    """The activations [torque, muscle] of the programme for each of the torques [torque, joint] (N m).

    With the solution of least norm, a', and an orthonormal basis N of what G does not see, a = a' + N z and
    |a|² = |a'|² + |z|². So |z| is to be least with N z >= lowest - a', which non-negative least squares
    solve.
    """
    G = arm.torque_per_activation
    unseen, found = null_space(G), []
    for torque in torques - arm.passive_torque:
        least = np.linalg.pinv(G) @ torque
        E = np.vstack([unseen.T, LOWEST - least])
        wanted = np.eye(len(E))[-1]
        residual = E @ nnls(E, wanted)[0] - wanted
        found.append(least - unseen @ residual[:-1] / residual[-1])
    return np.array(found)


def anatomical_directions(arm: Arm) -> np.ndarray:
    """The direction [muscle] (rad) of the torque of each muscle alone, from that of shoulder flexion."""
    shoulder, elbow = arm.torque_per_activation
    return np.arctan2(elbow, shoulder)


def preferred_directions(activations: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """The peaks [muscle] (rad) of the cosines fitted to activations [torque, muscle] in even directions."""
    return np.angle(np.exp(1j * directions) @ activations)


def angles_between(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """How far directions (rad) are from each other, from 0 to 180 degrees."""
    return np.abs(np.rad2deg(np.angle(np.exp(1j * (first - second)))))
