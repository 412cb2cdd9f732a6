"""Two-link arms with six muscles."""

from collections.abc import Callable

import diffrax

from popsim.muscles import (
    ARM26_MUSCLES,
    LI_TODOROV_MUSCLES,
    AbstractMuscle,
    BrownLoebMuscle,
    CompliantTendonHillMuscle,
    RigidTendonHillMuscle,
    arm26_compliant_muscles,
    arm26_compliant_path,
    arm26_muscles,
    arm26_path,
    li_todorov_muscles,
    li_todorov_path,
)
from popsim.plants.joint_stops import AbstractJointStop
from popsim.plants.muscled import Muscled
from popsim.plants.two_link_arm import TwoLinkArm

N_SUBSTEPS, N_COMPLIANT_SUBSTEPS = 2, 8
BuildMuscles = Callable[..., AbstractMuscle]


def arm26(
    muscle: BuildMuscles = RigidTendonHillMuscle,
    *,
    joint_stop: AbstractJointStop | None = None,
    solver: diffrax.AbstractSolver | None = None,
    n_substeps: int | None = None,
    **options,
) -> Muscled:
    """The arm of two segments and six muscles of MotorNet (Codol et al. 2024, eLife 12:RP88591).

    Shoulder and elbow have a flexor and an extensor each, and two muscles pass both; see `ARM26_MUSCLES`.

    **Arguments:**

    - `muscle`: the law of the muscles: `RigidTendonHillMuscle`, `CompliantTendonHillMuscle` (with the longer
        tendons that it needs), `ThelenMuscle`, `MujocoMuscle`, `ReluMuscle`, or a constructor such as
        `BrownLoebMuscle.fast`.
    - `joint_stop`: what happens at the joint limits, see `TwoLinkArm`.
    - `solver`, `n_substeps`: how the equation is integrated, see `Muscled`; by default in two substeps, in
        eight with compliant tendons, whose fibres are stiff.
    - `options`: other parameters of the law.
    """
    compliant = muscle is CompliantTendonHillMuscle
    muscles, path = (
        (arm26_compliant_muscles, arm26_compliant_path()) if compliant else (arm26_muscles, arm26_path())
    )
    if n_substeps is None:
        n_substeps = N_COMPLIANT_SUBSTEPS if compliant else N_SUBSTEPS
    skeleton = TwoLinkArm.arm26(joint_stop=joint_stop)
    return Muscled(
        skeleton,
        path,
        muscles(muscle, **options),
        muscle_names=ARM26_MUSCLES,
        solver=solver,
        n_substeps=n_substeps,
    )


def li_todorov_arm(
    muscle: BuildMuscles = BrownLoebMuscle.li_todorov,
    *,
    joint_stop: AbstractJointStop | None = None,
    solver: diffrax.AbstractSolver | None = None,
    n_substeps: int = N_SUBSTEPS,
    **options,
) -> Muscled:
    """The arm of two segments and six muscles of Li & Todorov 2004, as in Feedbax.

    **Arguments:** those of `arm26`; `muscle` is a law without a tendon.
    """
    skeleton = TwoLinkArm.li_todorov(joint_stop=joint_stop)
    muscles = li_todorov_muscles(muscle, **options)
    names = LI_TODOROV_MUSCLES
    how = {"solver": solver, "n_substeps": n_substeps}
    return Muscled(skeleton, li_todorov_path(), muscles, muscle_names=names, **how)
