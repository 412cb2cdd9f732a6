import json
import subprocess
import sys

import equinox as eqx
import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray
from small_experiment import Sum

from popsim.cli import main
from popsim.experiments import EXPERIMENTS, open_run, run_experiment
from popsim.experiments.registry import load_ensemble
from popsim.store import leaf_names, list_arrays


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "sum", Sum)
        experiment = Sum(n_members=2, n_batches=6, batch_size=4, log_step=3)
        yield run_experiment(experiment, tmp_path_factory.mktemp("runs") / "run", quiet=True)


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def complaint(arguments, capsys, *, code=2) -> str:
    with pytest.raises(SystemExit) as end:
        main(["export", *map(str, arguments)])
    assert end.value.code == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


def test_all_is_exported_and_nothing_else_is_written(run, tmp_path, capsys, monkeypatch):
    (tmp_path / "here").mkdir()
    open_figures = plt.get_fignums()
    monkeypatch.chdir(tmp_path / "here")
    before = files(run.folder.path)
    model, history, figures = (tmp_path / name for name in ("m.safetensors", "h.nc", "figures"))
    wanted = ["--model", model, "--history", history, "--figures", figures]
    command = ["export", *map(str, [run.folder.path, *wanted])]
    main(command)
    names = {path.name for path in run.folder.figures.iterdir()}
    assert {path.name for path in figures.iterdir()} == names
    assert set(capsys.readouterr().out.split()) == {
        str(model),
        str(history),
        *(str(figures / n) for n in names),
    }
    assert set(files(tmp_path)) == {model, history, *(figures / name for name in names)}
    assert files(run.folder.path) == before

    experiment, ensemble = load_ensemble(model)
    assert experiment == run.experiment and eqx.tree_equal(ensemble, run.ensemble)
    opened = open_run(run.folder.path).history
    read = xarray.open_dataset(history, engine="h5netcdf")
    assert set(read.variables) == set(opened.variables)
    for name in opened.variables:
        assert read[name].dtype == opened[name].dtype or opened[name].dtype.kind == "U"
        np.testing.assert_array_equal(read[name].values, opened[name].values)

    exported = files(tmp_path)
    for option, path in (wanted[0:2], wanted[2:4], wanted[4:6]):
        assert "overwrite" in complaint([run.folder.path, option, path], capsys)
    assert files(tmp_path) == exported
    main([*command, "--overwrite"])
    assert set(files(tmp_path)) == set(exported) and plt.get_fignums() == open_figures


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


def test_a_run_is_read_without_popsim(run, tmp_path):
    """By zarr, xarray, h5netcdf and safetensors alone, bit for bit and without a warning."""
    model, history = tmp_path / "m.safetensors", tmp_path / "h.nc"
    main(["export", str(run.folder.path), "--model", str(model), "--history", str(history)])
    command = [sys.executable, "-c", READ, *map(str, (run.folder.path, model, history))]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
    settings, networks, loss, terms, found = json.loads(ran.stdout)
    assert settings["n_members"] == networks == 2 and loss == run.log[-1]["loss"]
    assert terms == sorted(run.task.loss.weights)
    stored = [array.name for array in list_arrays(run.folder.history)[0]]
    leaves = jax.tree.leaves(run.ensemble)
    expected = {name: run.history[name].values for name in stored}
    expected |= {f"model {name}": np.asarray(leaves[at]) for name, at in leaf_names(run.ensemble).items()}
    assert len(expected) > 14 and found == {
        name: [str(array.dtype), list(array.shape), array.tobytes().hex()] for name, array in expected.items()
    }
