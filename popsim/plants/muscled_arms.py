"""Two-link arms with six muscles."""

import functools
from collections.abc import Callable

import diffrax
import jax
import jax.numpy as jnp

from popsim.muscles import (
    ARM26_MUSCLES,
    LI_TODOROV_MUSCLES,
    AbstractMuscle,
    BrownLoebMuscle,
    ReluMuscle,
    RigidTendonHillMuscle,
    arm26_compliant_muscles,
    arm26_compliant_path,
    arm26_muscles,
    arm26_path,
    li_todorov_muscles,
    li_todorov_path,
)
from popsim.plants.joint_stops import AbstractJointStop, SoftStop
from popsim.plants.muscled import Muscled
from popsim.plants.two_link_arm import TwoLinkArm

N_SUBSTEPS, N_COMPLIANT_SUBSTEPS = 2, 8
MUSCLE_STOP = functools.partial(SoftStop, stiffness=300.0, damping=5.0)
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

    - `muscle`: the law of the muscles: `RigidTendonHillMuscle`, `ThelenMuscle`, `MujocoMuscle`, `ReluMuscle`,
        `CompliantTendonHillMuscle`, or a function such as `BrownLoebMuscle.fast`. It is given
        `max_isometric_force`, `optimal_length`, `tendon_length` and `options` by name. One whose muscles have
        a state of their own gets the longer tendons of MotorNet's compliant arm.
    - `joint_stop`: what happens at the joint limits; by default a `SoftStop` that muscles at full strength
        push in by less than 20 degrees.
    - `solver`, `n_substeps`: how the equation is integrated, see `Muscled`. By default Heun's method in two
        substeps, in eight with compliant tendons, whose fibres are stiff; for ReLU muscles, which nothing
        brakes before a joint hits its stop, Tsitouras' method in one.
    - `options`: other parameters of the law.
    """
    muscles, path = arm26_muscles(muscle, **options), arm26_path()
    is_compliant = has_state(muscles, len(ARM26_MUSCLES))
    if is_compliant:
        muscles, path = arm26_compliant_muscles(muscle, **options), arm26_compliant_path()
    if solver is None and isinstance(muscles, ReluMuscle):
        solver, n_substeps = diffrax.Tsit5(), 1 if n_substeps is None else n_substeps
    if n_substeps is None:
        n_substeps = N_COMPLIANT_SUBSTEPS if is_compliant else N_SUBSTEPS
    skeleton = TwoLinkArm.arm26(joint_stop=MUSCLE_STOP() if joint_stop is None else joint_stop)
    return Muscled(
        skeleton,
        path,
        muscles,
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
    skeleton = TwoLinkArm.li_todorov(joint_stop=MUSCLE_STOP() if joint_stop is None else joint_stop)
    muscles = li_todorov_muscles(muscle, **options)
    names = LI_TODOROV_MUSCLES
    how = {"solver": solver, "n_substeps": n_substeps}
    return Muscled(skeleton, li_todorov_path(), muscles, muscle_names=names, **how)


def has_state(muscle: AbstractMuscle, n_muscles: int) -> bool:
    """Whether muscles have a state of their own, as fibres on compliant tendons do."""
    return jax.eval_shape(muscle.init, jnp.ones(n_muscles), jnp.ones(n_muscles)) is not None
