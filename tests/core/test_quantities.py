"""Quantities that fit no use are named with their unit: degrees, milliseconds and grams."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import reach, relay_loop, stacked

import popsim
from popsim.distributions import Choice, Uniform
from popsim.interventions import CursorRotation, InterventionPlan, InterventionSchedule, LoadMass
from popsim.networks import Areas, Sparse
from popsim.plants import PointMass, SoftJointLimit, TwoLinkArm
from popsim.tasks import rings

KEY = jax.random.key(0)
PAIR = ("one", "two")


def check_scheduled(intervention, parameters):
    """Check trials that schedule an intervention, as before a training or an evaluation."""
    parameters = jnp.broadcast_to(jnp.asarray(parameters), np.shape(parameters))
    schedule = {intervention.name: InterventionSchedule(parameters, jnp.ones(12, bool))}
    trial = reach(interventions=schedule)
    relay_loop({}, interventions=[intervention]).check(stacked(trial, trial))


def planned(angle):
    """Schedule a rotation by a plan, and check the trials."""
    task = popsim.tasks.CenterOutReaches(PointMass().workspace, duration=0.12)
    task = popsim.tasks.WithInterventions(task, [InterventionPlan("cursor rotation", angle)])
    relay_loop({}, interventions=[CursorRotation()]).check(task.validation_trials())


def ring_rule(**options):
    durations = {"fixation": 0.2, "stimulus 1": 0.2, "response": 0.2}
    return rings.RingRule("pro", durations, first_shown="stimulus 1", **options)


def two_links(**options):
    values = {"mass": (1.0, 1.0), "length": (0.3, 0.3), "center_of_mass": (0.1, 0.1), "inertia": (0.1, 0.1)}
    return TwoLinkArm(**values | {"joint_limits": ((0.0, 2.0), (0.0, 2.0))} | options)


WORKSPACE = TwoLinkArm.arm26_skeleton().workspace
ANGLES = {
    "parameters of a rotation": lambda x: check_scheduled(CursorRotation(), x),
    "parameters drawn by a plan": lambda x: planned(Choice([0.0, x])),
    "angle of a task": lambda x: popsim.tasks.TASKS["visuomotor-rotation"](WORKSPACE, angle=x),
    "joint_limits": lambda x: two_links(joint_limits=((0.0, x), (0.0, 2.0))),
    "width": lambda x: SoftJointLimit(width=x),
    "separation": lambda x: popsim.tasks.TwoTargetReaches(WORKSPACE, separation=Uniform(0.5, x)),
    "tolerance": lambda x: rings.RingTask({"go": ring_rule()}, tolerance=x),
}
DELAYS = {
    "delay of the plan": lambda x: InterventionPlan("push", 1.0, delay=x).schedule(reach(), batch=0, key=KEY),
    "delay": lambda x: popsim.SensoryChannel(popsim.vision, delay=x),
    "delays of areas": lambda x: Areas(
        {"one": 4, "two": 4}, connections={PAIR: Sparse(0.5)}, delays={PAIR: x}
    ),
}
DURATIONS = {
    "duration": lambda x: popsim.TrialPlan((popsim.Epoch("all"),), duration=x, dt=0.01),
    "duration of a task": lambda x: popsim.tasks.CenterOutReaches(WORKSPACE, duration=x),
}
MASSES = {
    "mass": PointMass,
    "mass of a segment": lambda x: two_links(mass=(1.0, x)),
    "parameters of a load": lambda x: check_scheduled(LoadMass(), x),
}
CASES = [
    pytest.param(build, name.split()[0], unit, used, wrong, id=name)
    for cases, unit, used, wrong in (
        (ANGLES, "rad", np.pi / 6, 30.0),
        (DELAYS, "s", 0.05, 50.0),
        (DURATIONS, "s", 1.2, 7200.0),
        (MASSES, "kg", 1.4, 1400.0),
    )
    for name, build in cases.items()
]


@pytest.mark.parametrize("build, name, unit, used, wrong", CASES)
def test_a_quantity_of_another_unit_is_warned_of_by_name_and_unit(build, name, unit, used, wrong):
    build(used)
    with pytest.warns(UserWarning, match=rf"{name}.*` is in {unit}, and {wrong} {unit} is beyond any"):
        build(wrong)


def test_whole_turns_hours_and_delays_within_long_trials_are_in_use():
    check_scheduled(CursorRotation(), np.float32(-2 * np.pi))
    popsim.TrialPlan((popsim.Epoch("all"),), duration=3600.0, dt=0.01)
    InterventionPlan("cursor rotation", 0.5, delay=2.0).schedule(reach(300), batch=0, key=KEY)
