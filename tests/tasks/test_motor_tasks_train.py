"""Networks learn each motor task, to criteria that untrained ones do not meet: long proofs."""

import json

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim import tasks
from popsim.distributions import Uniform
from popsim.experiments import CenterOut, run_experiment
from popsim.training import TaskTrainer, adam

pytestmark = pytest.mark.slow

WORKSPACE, DT = popsim.Workspace.around(jnp.zeros(2), 0.2), 0.02
BRIEF = {"dt": DT, "delay": Uniform(0.1, 0.2)}
DELAYED = tasks.DelayedReaches(WORKSPACE, duration=1.2, **BRIEF)
DOUBLE = tasks.SequentialReaches(WORKSPACE, reach=0.5, duration=1.3, **BRIEF)
JUMPS = tasks.TargetJump(WORKSPACE, dt=DT, jump_time=Uniform(0.1, 0.3), duration=1.0)
SINUSOIDS = tasks.Tracking(WORKSPACE, dt=DT, duration=2.0)
WALK = tasks.Tracking(WORKSPACE, tasks.RandomWalk(), dt=DT, duration=2.0)
PULSES = tasks.WithInterventions(
    tasks.PosturalHold(WORKSPACE, dt=DT, duration=1.0), [tasks.load_pulses(Uniform(1.0, 4.0))]
)
FIELDS = tasks.WithInterventions(
    tasks.RandomReaches(WORKSPACE, dt=DT), [tasks.random_curl_fields(Uniform(-4.0, 4.0), probability=0.5)]
)


def train_motor(task, n_batches, interventions):
    """Two members before and after training: a GRU, delayed vision, a mass of 1 kg by Euler's method."""
    plant = popsim.plants.PointMass(workspace=WORKSPACE, solver=diffrax.Euler())
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.02)}
    trials = task.validation_trials()
    n_inputs = popsim.n_network_inputs(trials, plant, channels)
    scaling = {"vision": popsim.Scaling(jnp.zeros(4), jnp.array([0.1, 0.1, 0.5, 0.5]))} | {
        name: popsim.Scaling(WORKSPACE.center, WORKSPACE.half_widths)
        for name, shown in trials.inputs.items()
        if name.startswith("target") and shown.shape[-1] == 2
    }

    def build(key):
        network = popsim.networks.GRUNetwork(n_inputs, 32, plant.n_commands, key=key)
        options = {"scaling": scaling, "interventions": interventions, "dt": DT}
        return popsim.SensorimotorLoop(network, plant, channels, **options)

    untrained = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    options = {"ensembled": True, "log_step": n_batches, "disable_tqdm": True, "key": jax.random.key(1)}
    trainer = TaskTrainer(adam(1e-2, clip_norm=1.0))
    trained, _ = trainer(task, untrained, n_batches, 32, lambda model: model.network, **options)
    return untrained, trained


def distance_to_target(ensemble, task):
    """How far the cursor is from the target in the validation trials, in m: (member, trial, time)."""
    states = popsim.evaluate_ensemble(ensemble, task, key=jax.random.key(2)).states
    return np.linalg.norm(states.cursor.position - task.validation_trials().targets.position, axis=-1)


def at_the_end(distance, trials):
    return distance[..., -1].mean(axis=1)


def at_the_end_of_each_reach(distance, trials):
    last = [np.asarray(trials.timeline.epochs[name][:, 1]) - 1 for name in ("reach 1", "reach 2")]
    return np.mean([distance[:, np.arange(len(ends)), ends].mean(axis=1) for ends in last], axis=0)


def in_pursuit(distance, trials):
    is_pursuit = np.asarray(jax.vmap(lambda timeline: timeline.in_epoch("pursuit"))(trials.timeline))
    return np.sqrt(np.mean(distance[:, is_pursuit] ** 2, axis=-1))


CASES = {
    "centre-out": (tasks.CenterOutReaches(WORKSPACE, dt=DT), (), 100, at_the_end, 0.01),
    "delayed": (DELAYED, (), 150, at_the_end, 0.01),
    "sequential": (DOUBLE, (), 300, at_the_end_of_each_reach, 0.015),
    "jump": (JUMPS, (), 100, at_the_end, 0.01),
    "sinusoids": (SINUSOIDS, (), 300, in_pursuit, 0.015),
    "walk": (WALK, (), 300, in_pursuit, 0.015),
    "pulses": (PULSES, (popsim.interventions.ConstantForce(),), 150, at_the_end, 0.01),
    "fields": (FIELDS, (popsim.interventions.CurlField(),), 100, at_the_end, 0.01),
}


@pytest.mark.full  # in short: examples/force_field.py
@pytest.mark.parametrize("name", CASES)
def test_training_meets_the_criterion(name):
    """Metres of every member: below the limit after training, above it before."""
    task, interventions, n_batches, score, limit = CASES[name]
    untrained, trained = train_motor(task, n_batches, interventions)
    trials = task.validation_trials()
    before, after = (score(distance_to_target(ensemble, task), trials) for ensemble in (untrained, trained))
    assert np.all(before > 3 * limit), before
    assert np.all(after < limit), after


@pytest.mark.full  # in short: test_motor_tasks_train learns to reach, test_experiments has the summary
def test_the_main_job_reaches_and_its_controls_do_not(tmp_path):
    """Noise off: under 2 mm and 1 cm/s at every target; noise on: under 5 mm and 2 cm/s on average."""
    run = run_experiment(CenterOut(n_members=2), tmp_path / "run", quiet=True)
    ensembles = json.loads(run.folder.summary.read_text())["ensembles"]
    for name, rows in ensembles.items():
        assert len(rows) == 2
        for row in rows:
            off, on = row["noise_off_worst_target"], row["noise_on_mean"]
            reaches = (
                off["end_point_error_m"] < 0.002
                and off["final_speed_m_per_s"] < 0.01
                and on["end_point_error_m"] < 0.005
                and on["final_speed_m_per_s"] < 0.02
            )
            assert reaches == row["within_limits"] == (name == "trained"), (name, row)
