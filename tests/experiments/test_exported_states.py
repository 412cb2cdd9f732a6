"""States and histories for other software: what was computed, with names of axes, units and settings."""

import json

import jax
import numpy as np
import pytest
import xarray
from scipy.io import loadmat
from small_experiment import Sum

import popsim
from popsim import networks
from popsim.cli import main
from popsim.experiments import EXPERIMENTS, Cognitive, open_run, run_experiment
from popsim.experiments.exported_states import NamedAxes, named_parts, named_states
from popsim.store import write_mat

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run, and a folder with its states as NetCDF and MAT, and its history."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "sum", Sum)
        experiment = Sum(n_members=2, n_batches=4, batch_size=4, log_step=2)
        run_experiment(experiment, folder / "run", quiet=True, draws_figures=False)
        options = ["--states", str(folder / "states.nc"), "--history", str(folder / "history.nc")]
        main(["export", str(folder / "run"), *options])
        main(["export", str(folder / "run"), "--states", str(folder / "states.mat")])
        yield open_run(folder / "run"), folder


def test_netcdf_has_the_states_with_axes_units_and_settings(exported):
    run, folder = exported
    read = xarray.open_dataset(folder / "states.nc", engine="h5netcdf")
    states, trials = run.evaluate().states, run.task.validation_trials()
    activity = np.asarray(networks.unit_activity(run.ensemble, states))
    np.testing.assert_array_equal(read.activity, activity)
    assert read.activity.dims == ("member", "trial", "time", "unit")
    np.testing.assert_array_equal(read.network_output, states.network.output)
    np.testing.assert_array_equal(read.input, trials.inputs)
    assert read.input.dims[:2] == read.target.dims[:2] == ("trial", "time")
    np.testing.assert_allclose(read.time, trials.timeline.dt * np.arange(1, trials.timeline.n_steps + 1))
    assert read.time.attrs["units"] == "s" and read.activity.attrs["units"] == "1"
    total = np.asarray(run.evaluate().losses.total)
    np.testing.assert_allclose(read.loss.sum("term"), total, rtol=1e-6)
    assert json.loads(read.attrs["settings"])["noise"] == list(run.experiment.noise)
    about = {name: read.attrs[name] for name in ("experiment", "seed", "dt", "popsim", "task")}
    assert about == {
        "experiment": "sum",
        "seed": 0,
        "dt": trials.timeline.dt,
        "popsim": popsim.__version__,
        "task": "RunningSum",
    }
    assert read.attrs["run_id"] == run.parts.run_id and read.attrs["n_batches_trained"] == 4


def test_mat_has_the_same(exported):
    run, folder = exported
    read = xarray.open_dataset(folder / "states.nc", engine="h5netcdf")
    mat = loadmat(folder / "states.mat", simplify_cells=True)
    assert mat["popsim"] == popsim.__version__
    for name in ("activity", "network_output", "input", "target", "loss", "time"):
        np.testing.assert_array_equal(mat[name], np.squeeze(read[name].values))
        assert list(np.atleast_1d(mat["dimensions"][name])) == list(read[name].dims)
    assert mat["units"]["time"] == "s"
    assert mat["attributes"]["seed"] == 0 and mat["attributes"]["settings"]["n_batches"] == 4
    assert list(mat["term"]) == list(read.term.values)


def test_the_history_has_settings_and_names_of_axes(exported):
    run, folder = exported
    read = xarray.open_dataset(folder / "history.nc", engine="h5netcdf")
    weights = read["trainables.network.recurrent_weights"]
    assert weights.dims == ("trainables_batch", "member", "unit", "presynaptic_unit")
    assert read["trainables.network.readout.weight"].dims[2:] == ("output", "unit")
    np.testing.assert_array_equal(weights, run.history["trainables.network.recurrent_weights"])
    assert read.attrs["seed"] == 0 and json.loads(read.attrs["settings"])["batch_size"] == 4
    assert read.attrs["dt"] == 0.01


@pytest.mark.full
def test_units_have_the_names_of_their_areas(tmp_path):
    sizes = {"n_members": 1, "n_units": 5, "n_batches": 2, "batch_size": 4}
    options = {"quiet": True, "draws_figures": False}
    run_experiment(Cognitive(network="two-areas", **sizes), tmp_path / "run", **options)
    files = tmp_path / "states.nc", tmp_path / "history.nc"
    main(["export", str(tmp_path / "run"), "--states", str(files[0]), "--history", str(files[1])])
    states, history = (xarray.open_dataset(file, engine="h5netcdf") for file in files)
    areas = ["first"] * 3 + ["second"] * 2
    assert states.area.dims == ("unit",) and states.area.values.tolist() == areas
    of_second = states.activity.groupby("area").mean()
    expected = states.activity.values[..., 3:].mean(axis=-1)
    np.testing.assert_allclose(of_second.sel(area="second").values, expected, rtol=1e-5)
    weights = history["trainables.network.strengths"]
    assert weights.dims[2:] == ("unit", "presynaptic_unit") and weights.area.values.tolist() == areas


def test_a_body_is_exported_with_its_units(reach_setup, tmp_path):
    """States of an arm: hand, cursor and command, with names that say what they are."""
    task, build = reach_setup
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    states = popsim.evaluate_ensemble(ensemble, task, key=jax.random.key(1)).states
    axes = NamedAxes()
    for name, array in named_states(ensemble, states):
        axes.add(name, ("member", "trial", "time"), array)
    for name, leading, array in named_parts(task.validation_trials()):
        axes.add(name, leading, array)
    dataset = xarray.Dataset(axes.variables)
    assert dataset.hand_position.dims[2:] == ("time", "space") and dataset.hand_position.units == "m"
    assert dataset.hand_velocity.units == "m/s" and dataset.command.dims[-1] == "actuator"
    np.testing.assert_array_equal(dataset.cursor_position, states.cursor.position)
    write_mat(dataset, tmp_path / "reach.mat")
    np.testing.assert_array_equal(loadmat(tmp_path / "reach.mat")["hand_position"], states.hand.position)
