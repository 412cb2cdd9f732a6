"""Any task by name, on any body, with any network."""

import dataclasses
import json

import equinox as eqx
import jax
import numpy as np
import pytest
from short_form import every_nth, every_nth_row

import popsim
from popsim.experiments import EXPERIMENTS, PLANTS, CenterOut, Cognitive, open_run, registry, run_experiment
from popsim.experiments.network_experiment import LEARNED, Preset, score_of
from popsim.experiments.registry import describe_experiment, rebuild_experiment, task_experiment
from popsim.networks import NETWORKS
from popsim.tasks.library import COGNITIVE_TASKS, MOTOR_TASKS, REWARD_TASKS, TASKS

KEY = jax.random.key(0)


def combinations(names, bodies):
    """Each task, each network and each body, once or more; every fifteenth also in short."""
    names, networks, bodies = map(list, (names, NETWORKS, bodies))
    rows = [
        (names[i % len(names)], networks[i % len(networks)], bodies[(i + i // len(networks)) % len(bodies)])
        for i in range(max(map(len, (names, networks, bodies))))
    ]
    return every_nth_row(rows, 15)


def losses_of_a_trial(experiment):
    """The shapes of the loss of one trial and of its terms, for which nothing is compiled."""

    def loss(key):
        model, task = experiment.build_model(key=key), experiment.build_task()
        trial = task.trial(batch=0, key=key)
        losses = task.loss(popsim.simulate(model, trial, key=key), trial, model)
        return losses.total, losses.terms

    return eqx.filter_eval_shape(loss, KEY)


@pytest.mark.parametrize(("name", "network", "body"), combinations(MOTOR_TASKS, PLANTS))
def test_every_motor_task_runs_on_every_body_with_every_network(name, network, body):
    experiment = task_experiment(name)(network=network, plant=body, n_units=5)
    (total, terms), task = losses_of_a_trial(experiment), experiment.build_task()
    assert total.shape == () and set(terms) == set(task.loss.weights)
    experiment.build_model(key=KEY).check(task.validation_trials())  # targets are within reach
    duration, dt = experiment.times
    assert experiment.vision_delay < duration and dt == experiment.dt


@pytest.mark.parametrize(
    ("name", "network", "body"), combinations(COGNITIVE_TASKS, [None]) + combinations(REWARD_TASKS, [None])
)
def test_every_task_without_a_body_runs_with_every_network(name, network, body):
    experiment = EXPERIMENTS[name](network=network, n_units=5)
    (total, terms), preset = losses_of_a_trial(experiment), LEARNED.get(name, Preset())
    assert total.shape == () and experiment.preset == preset
    assert experiment.effective_value("network") == network
    assert EXPERIMENTS[name]().effective_value("network") == preset.network
    if name in REWARD_TASKS:
        assert "minus reward" in terms and experiment.build_model(key=KEY).policy.critic
        assert score_of(experiment.build_task()) == "reward"


@pytest.mark.parametrize("name", every_nth(TASKS, 8))
def test_its_settings_are_written_down_and_read_in_another_process(name):
    experiment = task_experiment(name)(n_members=3, seed=4)
    described = json.loads(json.dumps(describe_experiment(experiment)))
    assert described["module"].startswith("popsim.experiments.")
    registry._task_experiment.cache_clear()
    rebuilt = rebuild_experiment(described, "run.json", build=task_experiment(name))
    assert dataclasses.asdict(rebuilt) == dataclasses.asdict(experiment)


def test_registered_experiments_come_before_tasks():
    assert EXPERIMENTS["center-out"] is CenterOut and EXPERIMENTS["cognitive"] is Cognitive
    assert set(EXPERIMENTS) >= {*TASKS, "cognitive"} and len(EXPERIMENTS) == len(set(EXPERIMENTS))
    assert EXPERIMENTS["tracking"] is EXPERIMENTS["tracking"] and "trackng" not in EXPERIMENTS
    with pytest.raises(KeyError):
        EXPERIMENTS["trackng"]


def test_default_arguments_make_the_task_of_the_library():
    for name in ("delayed-reaches", "perceptual-decision", "postural-hold"):
        assert eqx.tree_equal(EXPERIMENTS[name]().make_task(), TASKS[name]())
    task = EXPERIMENTS["delayed-reaches"](delay=(0.1, 0.2), hold=0.3, plant="point-mass").build_task()
    assert eqx.tree_equal(task.delay, popsim.distributions.Uniform(0.1, 0.2))
    assert float(task.hold.value) == np.float32(0.3) and task.workspace.center.tolist() == [0, 0]
    assert EXPERIMENTS["perceptual-decision"](stimulus=0.4).preset == Preset()


@pytest.mark.parametrize(
    ("name", "settings", "named"),
    [
        ("delayed-reaches", {"delay": 2.0}, "longer than the trial, 1.5 s"),
        ("delayed-reaches", {"distance": -0.1}, "`distance`"),
        ("delayed-reaches", {"vision_delay": 1.5}, "`vision_delay` must be shorter than a trial, 1.5 s"),
        ("tracking", {"plant": "octopus"}, "`plant`"),
        ("flip-flop", {"n_bits": 11}, "`n_bits`"),
        ("flip-flop", {"network": "gru", "tau": 0.1}, "`tau`"),
        ("sine-generation", {"learning_rate_course": "linear"}, "`learning_rate_course`"),
    ],
)
def test_bad_settings_are_refused_by_name(name, settings, named):
    with pytest.raises(ValueError, match=named):
        EXPERIMENTS[name](**settings)


def test_an_argument_with_the_name_of_a_setting_is_refused(monkeypatch):
    def build(*, n_units: int = 3):
        return popsim.tasks.FlipFlop(n_bits=n_units)

    monkeypatch.setitem(TASKS, "mine", build)
    with pytest.raises(ValueError, match="'mine' must have names of their own, got n_units"):
        EXPERIMENTS["mine"]


TINY = {"n_members": 2, "n_batches": 2, "batch_size": 2, "n_units": 4, "log_step": 1}
TRAINED = {
    "visuomotor-rotation": (
        {"plant": "point-mass", "duration": 0.2, "n_directions": 2},
        ["hand_paths", "hidden_activity", "learning_curves", "overview", "speed_profiles", "trials"],
    ),
    "sine-generation": ({"duration": 0.4, "network": "tanh"}, ["learning_curves", "trials"]),
    "tracking": (
        {"plant": "arm26", "duration": 0.8, "n_validation_trials": 2},
        ["hidden_activity", "learning_curves", "muscle_activations", "overview", "trials"],
    ),
}


@pytest.mark.full
@pytest.mark.slow
@pytest.mark.parametrize("name", TRAINED)
def test_it_trains_and_is_opened_again(name, tmp_path):
    settings, figures = TRAINED[name]
    experiment = EXPERIMENTS[name](**TINY, **settings)
    run_experiment(experiment, tmp_path / "run", quiet=True)
    registry._task_experiment.cache_clear()
    run = open_run(tmp_path / "run")
    assert dataclasses.asdict(run.experiment) == dataclasses.asdict(experiment)
    assert sorted(path.stem for path in (tmp_path / "run" / "figures").glob("*.png")) == figures
    rows = run.results().rows
    assert [row.label for row in rows] == ["trained"] * 2 + ["control: untrained"] * 2
    assert all(isinstance(value, float) for row in rows for value in row.values)
    headings = [heading for heading, _ in run.results().spans()]
    assert headings == (["no intervention", "cursor rotation"] if name == "visuomotor-rotation" else [])
