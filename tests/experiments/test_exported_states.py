"""What `popsim export` writes for other software: what was computed, with names, units and settings."""

import json
import shutil
import subprocess
import sys

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from command_ends import complaint
from kept_runs import finished_run
from scipy.io import loadmat

import popsim
from popsim import networks
from popsim.cli import main
from popsim.experiments import Cognitive, load_ensemble, open_run, run_experiment
from popsim.experiments.exported_states import named_states, named_variables
from popsim.store import leaf_names, list_arrays, write_mat

pytestmark = pytest.mark.slow
FILES = {"model": "m.safetensors", "history": "h.nc", "states": "s.nc", "figures": "figures"}


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def opened(file):
    return xarray.open_dataset(file, engine="h5netcdf")


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A run, and a folder with all that can be exported of it, from a folder that stays empty."""
    folder, here = tmp_path_factory.mktemp("exported"), tmp_path_factory.mktemp("here")
    path = finished_run(tmp_path_factory)
    words = [word for kind, file in FILES.items() for word in (f"--{kind}", str(folder / file))]
    before, figures = files(path), plt.get_fignums()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        main(["export", str(path), *words])
        main(["export", str(path), "--states", str(folder / "s.mat"), "--history", str(folder / "h.mat")])
    assert files(path) == before and not [*here.iterdir()] and plt.get_fignums() == figures
    return open_run(path), folder


def test_all_is_exported_and_replaced_if_told(exported, tmp_path, capsys):
    run, folder = exported
    figures = [f"figures/{path.name}" for path in run.folder.figures.iterdir()]
    assert {*files(folder)} == {
        folder / name for name in ("m.safetensors", "h.nc", "h.mat", "s.nc", "s.mat", *figures)
    }
    experiment, ensemble = load_ensemble(folder / "m.safetensors")
    assert experiment == run.experiment and eqx.tree_equal(ensemble, run.ensemble)

    shutil.copytree(folder, tmp_path / "copy")
    before = files(tmp_path)
    for kind in ("model", "history", "figures"):
        words = ["export", str(run.folder.path), f"--{kind}", str(tmp_path / "copy" / FILES[kind])]
        assert "overwrite" in complaint(words, capsys) and files(tmp_path) == before
        main([*words, "--overwrite"])
        said = capsys.readouterr().out.split()
        assert {*said} <= {*map(str, before)} and len(said) == (len(figures) if kind == "figures" else 1)
    assert set(files(tmp_path)) == set(before)


READ = """
import json, sys, warnings
warnings.simplefilter("error")
from pathlib import Path
import h5netcdf, numpy as np, safetensors.numpy, xarray, zarr
run, model, netcdf = map(Path, sys.argv[1:])
described, summary = (json.loads((run / name).read_text()) for name in ("run.json", "summary.json"))
log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
opened = xarray.open_zarr(run / "history.zarr").load()
group = zarr.open_group(run / "history.zarr", mode="r")
exported = h5netcdf.File(netcdf)
assert set(opened.variables) == set(group.array_keys())
arrays = {}
for name in opened.variables:
    arrays[name] = np.asarray(group[name][...])
    for other in (opened[name].values, exported[name.replace(" ", "_")][...]):
        np.testing.assert_array_equal(other, arrays[name])
weights = safetensors.numpy.load_file(model)
found = {name: [str(array.dtype), array.shape, array.tobytes().hex()]
         for name, array in {**arrays, **{f"model {name}": array for name, array in weights.items()}}.items()}
settings = described["settings"]
print(json.dumps([settings, summary["networks"], log[-1]["loss"], opened.attrs["terms"], found]))
assert not [name for name in sys.modules if name.startswith(("popsim", "jax", "orbax"))]
"""


def test_a_run_is_read_without_popsim(exported, tmp_path):
    """By zarr, xarray, h5netcdf and safetensors alone, bit for bit and without a warning."""
    run, folder = exported
    places = map(str, (run.folder.path, folder / "m.safetensors", folder / "h.nc"))
    ran = subprocess.run([sys.executable, "-c", READ, *places], capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    settings, n_networks, loss, terms, found = json.loads(ran.stdout)
    assert settings["n_members"] == n_networks == 2 and loss == run.log[-1]["loss"]
    assert terms == sorted(run.task.loss.weights)
    leaves = jax.tree.leaves(run.ensemble)
    expected = {own["name"]: run.history[own["name"]].values for own in list_arrays(run.folder.history)[0]}
    expected |= {f"model {name}": np.asarray(leaves[at]) for name, at in leaf_names(run.ensemble).items()}
    assert len(expected) > 14 and found == {
        name: [str(array.dtype), list(array.shape), array.tobytes().hex()] for name, array in expected.items()
    }


def test_netcdf_and_mat_have_the_states_with_axes_units_and_settings(exported):
    run, folder = exported
    read = opened(folder / "s.nc")
    evaluation, trials = run.evaluate(), run.task.validation_trials()
    activity = networks.unit_activity(run.ensemble, evaluation.states)
    output = evaluation.states.network.output
    for name, array in {"activity": activity, "network_output": output, "input": trials.inputs}.items():
        np.testing.assert_array_equal(read[name], array)
    assert read.activity.dims == ("member", "trial", "time", "unit")
    assert read.input.dims[:2] == read.target.dims[:2] == ("trial", "time")
    np.testing.assert_allclose(read.time, trials.timeline.dt * np.arange(1, trials.timeline.n_steps + 1))
    assert read.time.attrs["units"] == "s" and read.activity.attrs["units"] == "1"
    np.testing.assert_allclose(read.loss.sum("term"), np.asarray(evaluation.losses.total), rtol=1e-6)
    assert json.loads(read.attrs["settings"])["noise"] == list(run.experiment.noise)
    about = {"experiment": "sum", "seed": 0, "task": "RunningSum", "n_batches_trained": 8}
    about |= {"dt": trials.timeline.dt, "popsim": popsim.__version__, "run_id": run.parts.run_id}
    assert about.items() <= read.attrs.items()

    mat = loadmat(folder / "s.mat", simplify_cells=True)  # which has the same
    assert mat["popsim"] == popsim.__version__
    for name in ("activity", "network_output", "input", "target", "loss", "time"):
        np.testing.assert_array_equal(mat[name], np.squeeze(read[name].values))
        assert list(np.atleast_1d(mat["dimensions"][name])) == list(read[name].dims)
    assert mat["units"]["time"] == "s"
    assert mat["attributes"]["seed"] == 0 and mat["attributes"]["settings"]["n_batches"] == 8
    assert list(mat["term"]) == list(read.term.values)
    history = loadmat(folder / "h.mat")
    np.testing.assert_array_equal(history["loss"], run.history.loss.values)


def test_the_history_has_settings_and_names_of_axes(exported):
    run, folder = exported
    read = opened(folder / "h.nc")
    assert set(read.variables) == set(run.history.variables)
    for name, array in run.history.variables.items():
        assert read[name].dtype == array.dtype or array.dtype.kind == "U"
        np.testing.assert_array_equal(read[name].values, array.values)
    weights = read["trainables.network.recurrent_weights"]
    assert weights.dims == ("trainables_batch", "member", "unit", "presynaptic_unit")
    assert read["trainables.network.readout.weight"].dims[2:] == ("output", "unit")
    assert read.attrs["seed"] == 0 and json.loads(read.attrs["settings"])["batch_size"] == 4
    assert read.attrs["dt"] == 0.01


@pytest.mark.full
def test_units_have_the_names_of_their_areas(tmp_path):
    experiment = Cognitive(network="two-areas", n_members=1, n_units=5, n_batches=2, batch_size=4)
    run_experiment(experiment, tmp_path / "run", quiet=True, draws_figures=False)
    files = tmp_path / "states.nc", tmp_path / "history.nc"
    main(["export", str(tmp_path / "run"), "--states", str(files[0]), "--history", str(files[1])])
    states, history = map(opened, files)
    areas = ["first"] * 3 + ["second"] * 2
    assert states.area.dims == ("unit",) and states.area.values.tolist() == areas
    of_second = states.activity.groupby("area").mean().sel(area="second").values
    np.testing.assert_allclose(of_second, states.activity.values[..., 3:].mean(axis=-1), rtol=1e-5)
    weights = history["trainables.network.strengths"]
    assert weights.dims[2:] == ("unit", "presynaptic_unit") and weights.area.values.tolist() == areas


def test_a_body_is_exported_with_its_units(reach_setup, tmp_path):
    """States of an arm: hand, cursor and command, with names that say what they are."""
    task, build = reach_setup
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    states = popsim.evaluate_ensemble(ensemble, task, key=jax.random.key(1)).states
    dataset = xarray.Dataset(named_variables(named_states(ensemble, states))[0])
    assert dataset.hand_position.dims[2:] == ("time", "space") and dataset.hand_position.units == "m"
    assert dataset.hand_velocity.units == "m/s" and dataset.command.dims[-1] == "actuator"
    np.testing.assert_array_equal(dataset.cursor_position, states.cursor.position)
    write_mat(dataset, tmp_path / "reach.mat")
    np.testing.assert_array_equal(loadmat(tmp_path / "reach.mat")["hand_position"], states.hand.position)
