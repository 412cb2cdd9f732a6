"""Arguments that are one number, or one for each unit, are neither another number of them nor a PerMember."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import PerMember, distributions, losses, tasks, windows
from popsim.networks import GRUNetwork, LeakyRNN, dale_weights
from popsim.plants import PointMass, simulate_plant, simulate_plant_adaptively
from popsim.training import constraints, rules

pytestmark = pytest.mark.usefixtures("as_users_run")

KEY = jax.random.key(0)
WORKSPACE = PointMass().workspace


def leaky(**options):
    return LeakyRNN(2, 5, 3, key=KEY, **options)


def gated(**options):
    return GRUNetwork(2, 5, 3, key=KEY, **options)


def channel(**options):
    return popsim.SensoryChannel(popsim.vision, **{"delay": 0.1} | options)


def model(dt):
    return popsim.NetworkModel(gated(), dt=dt)


IN_MODELS = {  # what makes it, the argument, and a length that it may not have
    "tau": (leaky, "tau", 4),
    "noise of a leaky network": (leaky, "noise_std", 4),
    "gain": (leaky, "gain", 5),
    "dt of a leaky network": (leaky, "dt", 2),
    "density": (lambda density: leaky(signs=[1, 1, 1, -1, -1], density=density), "density", 5),
    "spectral radius": (lambda radius: dale_weights([1, 1, -1, -1], radius, key=KEY), "spectral_radius", 4),
    "noise of a gated network": (gated, "noise_std", 3),
    "output bias": (gated, "output_bias", 5),
    "delay": (channel, "delay", 2),
    "own delay": (channel, "own_delay", 2),
    "noise": (lambda std: popsim.GaussianNoise(np.ones((2, 1)) if isinstance(std, list) else std), "std", 2),
    "signal-dependent noise": (lambda std: popsim.MotorNoise(std, 0.1), "signal_dependent", 2),
    "constant noise": (lambda std: popsim.MotorNoise(0.1, std), "constant", 2),
    "mass": (PointMass, "mass", 2),
    "a joint limit": (popsim.plants.SoftJointLimit, "stiffness", 2),
    "a workspace": (lambda side: popsim.Workspace.around(jnp.zeros(2), side), "side", 2),
    "damping": (PointMass, "damping", 2),
    "dt": (model, "dt", 2),
    "a distance": (losses.HuberDistance, "delta", 2),
}


def made(make, name, value):
    try:
        return make(**{name: value})
    except TypeError:  # a function of one argument
        return make(value)


@pytest.mark.parametrize(("make", "name", "length"), IN_MODELS.values(), ids=IN_MODELS)
def test_a_vector_of_another_length_is_refused_by_name(make, name, length):
    with pytest.raises(ValueError, match=rf"^`{name}` must be .*(got shape|got a list)"):
        made(make, name, [0.1] * length)


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.parametrize(("make", "name", "length"), list(IN_MODELS.values())[:-1], ids=list(IN_MODELS)[:-1])
def test_a_value_per_member_is_refused_in_a_model(make, name, length):
    with pytest.raises(ValueError, match=rf"^`{name}` must be .*got a PerMember"):
        made(make, name, PerMember([0.1, 0.1]))


MUSCLES = {
    "max_isometric_force": popsim.muscles.ReluMuscle,
    "rise_time": popsim.muscles.FirstOrderActivation,
    "width": popsim.muscles.HillCurves,
    "low": lambda low: popsim.Workspace(low, jnp.ones(2)),
}


@pytest.mark.parametrize(("name", "make"), MUSCLES.items())
def test_a_value_per_member_is_refused_in_a_body(name, make):
    with pytest.raises(ValueError, match=rf"^`{name}` must be that of one .*got a PerMember"):
        made(make, name, PerMember([[0.1, 0.1], [0.2, 0.2]]))


def test_one_number_for_each_unit_is_accepted():
    units = jnp.full(5, 0.1)
    assert leaky(tau=units, noise_std=units).tau.shape == (5,)
    network = gated(noise_std=units, output_bias=[1.0, 2.0, 3.0])
    np.testing.assert_allclose(
        network.readout.bias, gated().readout.bias + jnp.array([1.0, 2.0, 3.0]), rtol=1e-6
    )


SHARED = {
    "a probability": lambda two: tasks.DelayedReaches(WORKSPACE, catch_probability=two),
    "a distance": lambda two: tasks.DelayedReaches(WORKSPACE, distance=two),
    "an epoch": lambda two: tasks.DelayedReaches(WORKSPACE, hold=two),
    "a duration": lambda two: tasks.DelayedReaches(WORKSPACE, duration=two),
    "a time step": lambda two: tasks.SineGeneration(dt=two),
    "an amplitude": lambda two: tasks.SineGeneration(amplitude=two),
    "a frequency": lambda two: tasks.SineGeneration(frequency=two),
    "a gain": lambda two: tasks.ReadySetGo(gain=two),
    "noise": lambda two: tasks.PerceptualDecision(noise=two),
    "a weight": lambda two: losses.Effort() * jnp.array(two),
    "an exponent": losses.PowerProfile,
    "last steps": losses.FinalSteps,
    "an epoch of a plan": lambda two: popsim.TrialPlan([popsim.Epoch("a", two)], duration=1.0, dt=0.1),
    "a window": lambda two: windows.FromEvent("go cue", two),
    "a time": lambda two: windows.Between(0.0, two),
    "a scale": lambda two: distributions.TruncatedExponential(0.1, 0.2, two),
    "a norm": lambda two: constraints.SpectralNorm(lambda model: model.readout.weight, two),
    "a baseline": rules.RunningBaseline,
}


@pytest.mark.parametrize("make", SHARED.values(), ids=SHARED)
def test_two_numbers_where_all_members_have_one_are_refused(make):
    with pytest.raises(ValueError, match=r"^`.* must be .*(got shape \(2,\)|got a list)"):
        make([0.1, 0.2])


NAN = float("nan")


@pytest.mark.parametrize("simulate", [simulate_plant, simulate_plant_adaptively])
@pytest.mark.parametrize("name", ["commands", "external_force", "initial_state"])
def test_a_simulation_of_what_is_not_finite_is_refused(simulate, name):
    mass = PointMass()
    given = {"commands": jnp.zeros((3, 2))} | {
        "commands": {"commands": jnp.array([[0.0, 1.0], [NAN, 0.0]])},
        "external_force": {"external_force": jnp.array([0.0, NAN])},
        "initial_state": {"initial_state": mass.rest_state(jnp.array([NAN, 0.0]))},
    }[name]
    with pytest.raises(ValueError, match=rf"`{name}.*finite, got nan"):
        simulate(mass, **given, dt=0.01)
