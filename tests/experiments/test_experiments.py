import json

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from kept_runs import REACHES, SMALL, finished_run, reach_run

from popsim.experiments import CenterOut, Cognitive, info_table, open_run, read_run_info
from popsim.experiments.registry import describe_experiment
from popsim.store import read_sealed_json, write_sealed_json
from popsim.store.files import FORMAT

pytestmark = pytest.mark.slow


@pytest.fixture
def small_run(tmp_path_factory):
    return open_run(reach_run(tmp_path_factory))


def test_a_run_folder_holds_everything(small_run):
    run = small_run
    assert run.experiment == REACHES
    assert run.history.loss.dims == ("batch", "member", "term") and run.history.sizes["batch"] == 6
    assert sorted(run.history.term.values) == sorted(run.task.loss.weights)
    assert [line["batch"] for line in run.log] == [2, 5]
    assert run.summary["ensembles"].keys() == {"trained", "control: untrained", "control: delays doubled"}
    assert not any(row["within_limits"] for rows in run.summary["ensembles"].values() for row in rows)
    assert {path.suffix for path in run.folder.figures.iterdir()} == {".png", ".pdf"}
    last = run.history.loss.sel(batch=5).sum("term").values
    np.testing.assert_allclose(last, np.sum(list(run.log[1]["loss"].values()), axis=0), rtol=1e-6)


def test_the_ensemble_at_a_recorded_batch(small_run):
    earlier, last = (small_run.models(batch=batch) for batch in (2, 5))
    assert eqx.tree_equal(last, small_run.ensemble)
    assert not np.array_equal(earlier.network.readout.weight, last.network.readout.weight)
    with pytest.raises(ValueError, match="batch"):
        small_run.models(batch=4)


def test_the_trials_of_a_batch_are_regenerated(tmp_path_factory):
    run = open_run(finished_run(tmp_path_factory))
    _, history = SMALL.build_trainer()(
        SMALL.build_task(),
        SMALL.build_ensemble(),
        SMALL.n_batches,
        SMALL.batch_size,
        SMALL.where_train,
        ensembled=True,
        save_trial_specs=np.array([4]),
        disable_tqdm=True,
        key=SMALL.key("training"),
    )
    np.testing.assert_array_equal(run.training_trials(4).inputs, history.trial_specs[4].inputs)
    np.testing.assert_array_equal(history.loss.total, run.history.loss.sum("term").values.astype("f4"))


def test_a_run_of_an_unknown_experiment_or_with_strange_settings_is_refused(small_run, tmp_path):
    description = read_sealed_json(small_run.folder.description)
    for changes, named in (
        ({"experiment": "os.system", "module": "mine"}, "registered.* popsim --import mine"),
        ({"settings": {"n_wings": 2}}, "n_wings"),
    ):
        write_sealed_json(tmp_path / "run.json", description | changes)
        with pytest.raises(ValueError, match=named):
            open_run(tmp_path)


def test_a_member_that_has_diverged_is_reported(small_run):
    """Its numbers are null in the summary, a dash in the table, and it is not within the limits."""
    bias = small_run.ensemble.network.readout.bias.at[1].set(jnp.nan)
    broken = eqx.tree_at(lambda model: model.network.readout.bias, small_run.ensemble, bias)
    summary = REACHES.summarize(broken)
    rows = summary["ensembles"]["trained"]
    assert rows[0]["noise_on_mean"]["end_point_error_m"] > 0
    assert rows[1]["noise_on_mean"]["end_point_error_m"] is None and not rows[1]["within_limits"]
    json.dumps(summary, allow_nan=False)
    assert str(REACHES.table(summary)).splitlines()[3].split()[2:] == ["-", "-", "-", "-", "no"]


@pytest.mark.parametrize(
    ("experiment", "said"),
    [
        (
            CenterOut(),
            {"proprioception_noise": "0.02 rad, 0.1 rad/s", "motor_noise": "0.05 of the command, 0.01 N m"}
            | {"hidden_noise": "0.0", "vision_noise": "0.002 m, 0.02 m/s", "vision_delay": "0.07 s"},
        ),
        (CenterOut(plant="point-mass"), {"motor_noise": "0.05 of the command, 0.01 N"}),
        (Cognitive(task="delayed-paired-association"), {"network": "tanh", "tau": "0.5 s"}),
        (Cognitive(network="gru"), {"network": "gru", "tau": "not set"}),
    ],
)
def test_a_run_says_the_settings_that_act_with_units(experiment, said, tmp_path):
    own = {"popsim": "", "format": FORMAT, "run_id": "0" * 32, **describe_experiment(experiment)}
    write_sealed_json(tmp_path / "run.json", own)
    info = read_run_info(tmp_path)
    assert said.items() <= info["settings_in_effect"].items()
    lines = (line.split(maxsplit=1) for line in info_table(info).replace("*", " ").splitlines())
    assert said.items() <= dict(line for line in lines if len(line) == 2).items()
