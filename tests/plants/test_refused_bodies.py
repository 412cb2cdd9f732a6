"""Numbers that no body, muscle or path may have are refused by the name of the argument."""

import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, Relay
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import muscles
from popsim.muscles import HillCurves, MujocoMuscle, ReluMuscle, RigidTendonHillMuscle, ThelenMuscle
from popsim.muscles.paths import (
    ChainPlacement,
    ConstantMomentArmPath,
    PointMassPlacement,
    PolynomialPath,
    StraightPath,
)
from popsim.plants import MusculoskeletalPlant, NLinkArm, PointMass, TwoLinkArm, arm26, simulate_plant

NAN = float("nan")
TWO = {
    "mass": (1.0, 1.0),
    "length": (0.3, 0.3),
    "center_of_mass": (0.1, 0.1),
    "inertia": (0.01, 0.01),
    "joint_limits": ((0.0, 2.0), (0.0, 2.0)),
}
THREE = {"mass": (1.5, 1.0, 0.5), "length": (0.3, 0.25, 0.15)}
LINE = [(0, np.zeros(2)), (1, np.ones(2))]


def changed(build, good=(), **values):
    """A row for each name with a wrong value."""
    return [
        (name, lambda name=name, value=value: build(**dict(good) | {name: value}))
        for name, value in values.items()
    ]


def moved(**options):
    simulate_plant(PointMass(), **{"commands": jnp.zeros((5, 2)), "dt": DT} | options)


def relu(**options):
    values = {"max_isometric_force": [100.0, 200.0], "optimal_length": 0.1, "tendon_length": 0.2} | options
    return ReluMuscle(**{k: v if k == "activation" else np.array(v) for k, v in values.items()})


def body(path=None, muscle=None, **options):
    path, muscle = path or muscles.arm26_path(), muscle or ReluMuscle(100.0)
    return MusculoskeletalPlant(TwoLinkArm.arm26_skeleton(), path, muscle, **options)


def activations(kind):
    return [
        *changed(kind, rise_time=np.array(0.0), lowest=np.array(-0.1)),
        ("lowest", lambda: kind(rise_time=np.array([0.01, 0.02]), lowest=np.zeros(3))),
    ]


SKELETONS = [
    *changed(PointMass, mass=0.0, damping=-1.0, n_substeps=0),
    *changed(PointMass, mass=NAN),
    *changed(TwoLinkArm, TWO, mass=(1.0, 0.0), inertia=(0.01, NAN), center_of_mass=(0.1,) * 3),
    *changed(TwoLinkArm, TWO, joint_limits=(0.0, 1.0)),
    *changed(NLinkArm, THREE, mass=(1.0, -1.0, 1.0), length=(0.3,), friction=np.zeros(2)),
    *changed(NLinkArm, THREE, joint_limits=[(1.0, 0.0)] * 3),
    *changed(moved, commands=jnp.zeros((5, 3)), external_force=jnp.zeros(3), dt=0.0),
    ("network", lambda: popsim.SensorimotorLoop(Relay(jnp.zeros(3), 2, 3), PointMass(), {}, dt=DT)),
]
MUSCLES = [
    *activations(muscles.FirstOrderActivation),
    *activations(muscles.LinearActivation),
    *changed(relu, max_isometric_force=0.0, optimal_length=[0.1, -0.1], tendon_length=[0.1] * 3),
    ("activation.lowest", lambda: relu(activation=muscles.FirstOrderActivation(lowest=np.zeros(3)))),
    ("other", lambda: RigidTendonHillMuscle(500.0, 0.1).with_muscle(ThelenMuscle(500.0, 0.1))),
    *changed(HillCurves, width=0.0, passive_limit=1.4),
    ("plateau", lambda: ThelenMuscle(1.0, 1.0, plateau=1.0)),
    ("shortest", lambda: MujocoMuscle(1.0, 1.0, shortest=0.95)),
    ("tendon_length", lambda: muscles.CompliantTendonHillMuscle(1.0, 1.0, tendon_length=0.0)),
    ("curves.width", lambda: RigidTendonHillMuscle([1.0, 2.0], 1.0, curves=HillCurves(width=[1.0] * 3))),
    ("push", lambda: muscles.BrownLoebMuscle.slow(1.0, 1.0, push=(1.0, 2.0))),
]
PATHS = [
    ("offset", lambda: PolynomialPath(0.2, [[0.1]], [[0.1]])),
    ("linear", lambda: PolynomialPath([0.2], [[0.1], [0.2]], [[0.1]])),
    ("moment_arm", lambda: ConstantMomentArmPath([0.2], [0.1])),
    ("muscles", lambda: StraightPath(PointMassPlacement(), [[LINE[0], (1, (0.0, jnp.inf))]])),
    ("length", lambda: ChainPlacement([0.3, 0.0])),
    ("segment", lambda: ChainPlacement([0.3]).place(jnp.zeros(1), 2, jnp.zeros(2))),
    ("other", lambda: muscles.arm26_path().with_muscle(muscles.li_todorov_path())),
]
BODIES = [
    ("path", lambda: body(PolynomialPath(np.array([0.2]), np.array([[0.02]]), np.zeros((1, 1))))),
    ("path", lambda: body(ConstantMomentArmPath(np.array([0.2]), np.array([[0.02, 0.0, 0.01]])))),
    ("path", lambda: body(StraightPath(ChainPlacement(np.ones(3)), [LINE]))),
    ("muscle", lambda: body(muscle=muscles.li_todorov_muscles().with_muscle(muscles.li_todorov_muscles()))),
    ("muscle_names", lambda: body(muscle_names=["biceps"])),
    (
        "other",
        lambda: arm26().with_muscle(
            muscles.arm26_path(), muscles.arm26_muscles(ThelenMuscle), names="abcdef"
        ),
    ),
]


@pytest.mark.usefixtures("as_users_run")
@wrong_arguments(skeletons=SKELETONS, muscles=MUSCLES, paths=PATHS, bodies=BODIES)
def test_a_number_that_no_body_may_have_is_named_in_one_line(argument, call):
    assert_named_in_one_line(argument, call)
