"""Published muscle parameters for two-link arms."""

from collections.abc import Callable

import numpy as np

from popsim.muscles.base import AbstractMuscle
from popsim.muscles.brown_loeb import BrownLoebMuscle
from popsim.muscles.hill import CompliantTendonHillMuscle, RigidTendonHillMuscle
from popsim.muscles.paths import ConstantMomentArmPath, PolynomialPath

__all__ = [
    "ARM26_MUSCLES",
    "arm26_muscles",
    "arm26_path",
    "arm26_compliant_muscles",
    "arm26_compliant_path",
    "LI_TODOROV_MUSCLES",
    "li_todorov_muscles",
    "li_todorov_path",
]

ARM26_MUSCLES = ("pectoralis", "deltoid", "brachioradialis", "triceps lateral", "biceps", "triceps long")

MAX_ISOMETRIC_FORCE = (838.0, 1207.0, 1422.0, 1549.0, 414.0, 603.0)  # N
ARM26_OPTIMAL_LENGTH = (0.134, 0.140, 0.092, 0.093, 0.137, 0.127)  # m
TENDON_LENGTH = (0.039, 0.066, 0.172, 0.187, 0.204, 0.217)  # m
COMPLIANT_TENDON_LENGTH = (0.070, 0.070, *TENDON_LENGTH[2:])
OFFSET = (0.151, 0.2322, 0.2859, 0.2355, 0.3329, 0.2989)  # m
COMPLIANT_OFFSET = (0.182, 0.2362, *OFFSET[2:])
LINEAR = ((-0.03, 0.0), (0.03, 0.0), (0.0, -0.014), (0.0, 0.025), (-0.03, -0.016), (0.03, 0.03))  # m/rad
ELBOW_QUADRATIC = (0.0, 0.0, -0.004, -0.0022, -0.0057, -0.0032)  # m/rad²
ARM26_REFERENCE = (np.pi / 2, 0.0)  # rad


def arm26_muscles(build: Callable[..., AbstractMuscle] = RigidTendonHillMuscle, **options) -> AbstractMuscle:
    """Build the muscles of arm26 on rigid tendons, in the order of `ARM26_MUSCLES`.

    The values are those of MotorNet 0.3 (Codol et al. 2024, eLife 12:RP88591), which attributes them to
    Nijhof & Kouwenhoven 2000, Simulation of Multijoint Arm Movements.

    **Arguments:**

    - `build`: the muscle model: a class such as `RigidTendonHillMuscle`, `ThelenMuscle`, `MujocoMuscle`,
        `ReluMuscle`, or a constructor such as `BrownLoebMuscle.li_todorov`.
    - `options`: its other arguments.
    """
    lengths = {"optimal_length": np.array(ARM26_OPTIMAL_LENGTH), "tendon_length": np.array(TENDON_LENGTH)}
    return build(max_isometric_force=np.array(MAX_ISOMETRIC_FORCE), **lengths | options)


def arm26_path() -> PolynomialPath:
    """Build the paths of `arm26_muscles` over shoulder and elbow."""
    return _path(OFFSET)


def arm26_compliant_muscles(
    build: Callable[..., AbstractMuscle] = CompliantTendonHillMuscle, **options
) -> AbstractMuscle:
    """Build the muscles of arm26 on compliant tendons, which are longer in pectoralis and deltoid."""
    return arm26_muscles(build, tendon_length=np.array(COMPLIANT_TENDON_LENGTH), **options)


def arm26_compliant_path() -> PolynomialPath:
    """Build the paths of `arm26_compliant_muscles` over shoulder and elbow."""
    return _path(COMPLIANT_OFFSET)


def _path(offset: tuple[float, ...]) -> PolynomialPath:
    elbow = np.array(ELBOW_QUADRATIC)
    quadratic = np.stack([np.zeros_like(elbow), elbow], axis=1)
    return PolynomialPath(np.array(offset), np.array(LINEAR), quadratic, np.array(ARM26_REFERENCE))


LI_TODOROV_MUSCLES = (
    "shoulder flexor",
    "shoulder extensor",
    "elbow flexor",
    "elbow extensor",
    "biarticular flexor",
    "biarticular extensor",
)

FORCE_PER_AREA = 31.8  # N/cm²
AREA = (22.0, 12.0, 18.0, 14.0, 5.0, 10.0)  # cm²
LI_TODOROV_OPTIMAL_LENGTH = (7.32, 3.26, 6.4, 4.26, 5.95, 4.04)  # cm
TORQUE_ARM = ((2.0, -2.0, 0.0, 0.0, 1.5, -2.0), (0.0, 0.0, 2.0, -2.0, 2.0, -1.5))  # cm, joints x muscles
LI_TODOROV_REFERENCE = ((15.0, 4.88, 0.0, 0.0, 4.5, 2.12), (0.0, 0.0, 80.86, 109.32, 92.96, 91.52))  # degrees


def li_todorov_muscles(
    build: Callable[..., AbstractMuscle] = BrownLoebMuscle.li_todorov, **options
) -> AbstractMuscle:
    """Build the muscles of Li & Todorov, without tendons, in the order of `LI_TODOROV_MUSCLES`.

    Lengths, moment arms and areas are those of Feedbax, in SI units; not checked against the papers (Li &
    Todorov 2004, Proc ICINCO 1:222-229; Todorov & Li 2005, Proc ACC 300-306).

    **Arguments:**

    - `build`: the muscle model: `BrownLoebMuscle.li_todorov`, or another with a rigid tendon.
    - `options`: its other arguments.
    """
    return build(
        max_isometric_force=FORCE_PER_AREA * np.array(AREA),
        optimal_length=np.array(LI_TODOROV_OPTIMAL_LENGTH) / 100,
        **options,
    )


def li_todorov_path() -> ConstantMomentArmPath:
    """Build the paths of `li_todorov_muscles` over shoulder and elbow.

    The published moment arms are positive for a positive torque; d length / d angle has the opposite sign.
    """
    return ConstantMomentArmPath(
        offset=np.array(LI_TODOROV_OPTIMAL_LENGTH) / 100,
        moment_arm=-np.array(TORQUE_ARM).T / 100,
        reference=np.deg2rad(np.array(LI_TODOROV_REFERENCE)).T,
    )
