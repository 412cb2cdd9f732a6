import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth
from small_experiment import Sum

import popsim
from popsim.experiments import (
    EXPERIMENTS,
    PLANTS,
    CenterOut,
    Cognitive,
    RunHistory,
    info_table,
    open_run,
    read_run_info,
    register_experiment,
    run_experiment,
)
from popsim.experiments.registry import describe_experiment
from popsim.store import CorruptDataError, read_sealed_json, write_json, write_sealed_json
from popsim.store.run_folder import FORMAT

pytestmark = pytest.mark.slow

SMALL = CenterOut(
    n_members=2,
    n_batches=6,
    batch_size=4,
    n_units=8,
    duration=0.2,
    log_step=3,
    seed=7,
    plant="point-mass",  # compiled sooner than an arm
)


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    return run_experiment(SMALL, tmp_path_factory.mktemp("runs") / "small", quiet=True)


@pytest.mark.parametrize("units", [{"noise": ("N", "s", "m")}, {"seed": ("s", "s")}])
def test_units_that_are_not_those_of_the_numbers_are_refused_before_a_folder_is_made(units, tmp_path):
    own = dataclasses.dataclass(frozen=True)(type("Own", (Sum,), {"units": lambda self: units}))
    with pytest.raises(ValueError, match="`units` must be one, or one for each number"):
        run_experiment(own(), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@jax.tree_util.register_pytree_node_class
class Unflattened:
    """A PyTree whose flattening fails with an AttributeError."""

    def tree_flatten(self):
        return self.leaves, None

    @classmethod
    def tree_unflatten(cls, aux, children):
        return cls()


def test_a_run_folder_holds_everything(small_run):
    run = open_run(small_run.folder.path)
    assert run.experiment == SMALL
    assert run.history.loss.dims == ("batch", "member", "term") and run.history.sizes["batch"] == 6
    assert sorted(run.history.term.values) == sorted(run.task.loss.weights)
    assert [line["batch"] for line in run.log] == [2, 5]
    assert run.summary["ensembles"].keys() == {"trained", "control: untrained", "control: delays doubled"}
    assert not any(row["within_limits"] for rows in run.summary["ensembles"].values() for row in rows)
    assert {path.suffix for path in run.folder.figures.iterdir()} == {".png", ".pdf"}
    last = run.history.loss.sel(batch=5).sum("term").values
    np.testing.assert_allclose(last, np.sum(list(run.log[1]["loss"].values()), axis=0), rtol=1e-6)


@pytest.mark.full  # in short: a stopped run is resumed in another process by test_faults
def test_a_fresh_process_gets_the_same_losses_bit_for_bit(small_run):
    code = """
import sys, popsim
run = popsim.open_run(sys.argv[1])
losses = popsim.evaluate_ensemble(run.ensemble, run.task, key=run.experiment.key("evaluation")).losses
print(losses.total.tobytes().hex())
"""
    command = [sys.executable, "-c", code, str(small_run.folder.path)]
    root = Path(popsim.__file__).resolve().parents[1]
    fresh = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout.strip()
    here = np.asarray(small_run.evaluate().losses.total)
    np.testing.assert_array_equal(np.frombuffer(bytes.fromhex(fresh), here.dtype).reshape(here.shape), here)


def test_the_ensemble_at_a_recorded_batch(small_run):
    last = small_run.models(batch=5)
    for one, other in zip(jax.tree.leaves(last), jax.tree.leaves(small_run.ensemble), strict=True):
        np.testing.assert_array_equal(one, other)
    earlier = small_run.models(batch=2)
    assert not np.array_equal(earlier.network.readout.weight, last.network.readout.weight)
    with pytest.raises(ValueError, match="batch"):
        small_run.models(batch=3)


def test_why_the_trainables_cannot_be_had_is_said(small_run):
    broken = RunHistory(small_run.history.dataset, template=object.__new__(Unflattened))
    with pytest.raises(AttributeError, match="leaves"):
        _ = broken.trainables
    with pytest.raises(AttributeError, match="lossy"):
        _ = broken.lossy


def test_the_trials_of_a_batch_are_regenerated(tmp_path):
    small = Sum(n_members=2, n_batches=6, batch_size=4, seed=7)
    run = run_experiment(small, tmp_path / "run", quiet=True)
    _, history = small.build_trainer()(
        small.build_task(),
        small.build_ensemble(),
        small.n_batches,
        small.batch_size,
        small.where_train,
        ensembled=True,
        save_trial_specs=np.array([4]),
        disable_tqdm=True,
        key=small.key("training"),
    )
    np.testing.assert_array_equal(run.training_trials(4).inputs, history.trial_specs[4].inputs)
    np.testing.assert_array_equal(history.loss.total, run.history.loss.sum("term").values.astype("f4"))


def test_a_run_of_an_unknown_experiment_or_with_strange_settings_is_refused(small_run, tmp_path):
    description = read_sealed_json(small_run.folder.description)
    write_sealed_json(tmp_path / "run.json", description | {"experiment": "os.system", "module": "mine"})
    with pytest.raises(ValueError, match="registered.* popsim --import mine"):
        open_run(tmp_path)
    write_sealed_json(tmp_path / "run.json", description | {"settings": {"n_wings": 2}})
    with pytest.raises(ValueError, match="n_wings"):
        open_run(tmp_path)


def test_a_changed_setting_is_refused(small_run, tmp_path):
    """A digit of the seed: nothing else would tell that these are not the settings of the training."""
    text = small_run.folder.description.read_text()
    (tmp_path / "run.json").write_text(text.replace('"seed": 7', '"seed": 6'))
    with pytest.raises(CorruptDataError, match=r"run\.json must match its checksum"):
        open_run(tmp_path)
    write_json(tmp_path / "run.json", ["format"])
    with pytest.raises(CorruptDataError, match=r"run\.json"):
        open_run(tmp_path)


def test_an_experiment_is_known_by_one_name():
    assert register_experiment(CenterOut) is EXPERIMENTS["center-out"]
    with pytest.raises(ValueError, match="center-out"):
        register_experiment(type("Other", (CenterOut,), {}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_members", 0),
        ("n_batches", -1),
        ("seed", -1),
        ("dt", 0.0),
        ("duration", 0.015),
        ("vision_delay", 0.015),
        ("vision_delay", 2.0),
    ]
    + [("learning_rate", 0.0), ("n_units", 0), ("log_step", 0)]
    + [("n_members", 10**12), ("n_batches", 10**15), ("n_units", 2**31), ("duration", 1e9), ("dt", 5e-324)],
)
def test_settings_out_of_range_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=name):
        CenterOut(**{name: value})


@pytest.mark.filterwarnings("ignore:`duration` is in s")
@pytest.mark.parametrize(
    "setting", [{"n_members": 10**6, "n_units": 10**4}, {"n_units": 10**9}, {"duration": 1e7}]
)
def test_what_is_larger_than_the_memory_is_refused_before_it_is_built(setting, tmp_path):
    part = "trials" if "duration" in setting else "ensemble"
    with pytest.raises(ValueError, match=f"center-out must fit.* its {part} would take"):
        run_experiment(CenterOut(**setting), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("plant", every_nth(PLANTS, 3))
def test_every_plant_builds_and_its_targets_are_within_reach(plant):
    experiment = CenterOut(plant=plant, n_members=1, n_units=4)
    task = experiment.build_task()
    popsim.member(experiment.build_ensemble(), 0).check(task.validation_trials())
    assert task.validation_trials().targets.position.shape == (8, 100, 2)


def test_a_failed_attempt_to_overwrite_leaves_the_run(small_run, tmp_path):
    out_of_reach = dataclasses.replace(SMALL, seed=3)
    object.__setattr__(out_of_reach, "n_units", -1)
    before = sorted(path.name for path in small_run.folder.path.iterdir())
    with pytest.raises(ValueError, match="n_units"):
        run_experiment(out_of_reach, small_run.folder.path, overwrite=True, quiet=True)
    assert sorted(path.name for path in small_run.folder.path.iterdir()) == before


def test_a_member_that_has_diverged_is_reported(small_run):
    """Its numbers are null in the summary, a dash in the table, and it is not within the limits."""
    broken = eqx.tree_at(
        lambda model: model.network.readout.bias,
        small_run.ensemble,
        small_run.ensemble.network.readout.bias.at[1].set(jnp.nan),
    )
    summary = SMALL.summarize(broken)
    rows = summary["ensembles"]["trained"]
    assert rows[0]["noise_on_mean"]["end_point_error_m"] > 0
    assert rows[1]["noise_on_mean"]["end_point_error_m"] is None and not rows[1]["within_limits"]
    json.dumps(summary, allow_nan=False)
    assert str(SMALL.table(summary)).splitlines()[3].split()[2:] == ["-", "-", "-", "-", "no"]


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        (
            CenterOut(),
            {
                "proprioception_noise": "0.02 rad, 0.1 rad/s",
                "motor_noise": "0.05 of the command, 0.01 N m",
                "hidden_noise": "0.0",
                "vision_noise": "0.002 m, 0.02 m/s",
                "vision_delay": "0.07 s",
                "n_members": "5",
            },
        ),
        (
            CenterOut(plant="arm26", motor_noise=(0.1, 0.0)),
            {
                "proprioception_noise": "0.005 optimal lengths, 0.03 optimal lengths/s",
                "motor_noise": "0.1 of the command, 0.0 of full excitation",
                "hidden_noise": "0.01",
            },
        ),
        (CenterOut(plant="point-mass"), {"motor_noise": "0.05 of the command, 0.01 N"}),
        (Cognitive(task="context-integration", network="tanh"), {"network": "tanh", "tau": "0.1 s"}),
        (Cognitive(task="delayed-paired-association"), {"network": "tanh", "tau": "0.5 s"}),
        (Cognitive(network="gru"), {"network": "gru", "tau": "not set"}),
    ],
)
def test_a_run_says_the_settings_that_act_with_units(experiment, said, tmp_path):
    write_sealed_json(
        tmp_path / "run.json",
        {"popsim": "", "format": FORMAT, "run_id": "0" * 32, **describe_experiment(experiment)},
    )
    info = read_run_info(tmp_path)
    assert {name: info.effective_settings[name] for name in said} == said
    lines = [
        line.split(maxsplit=1) for line in info_table(info).replace("*", " ").splitlines() if "  " in line
    ]
    assert said.items() <= dict(line for line in lines if len(line) == 2).items()
