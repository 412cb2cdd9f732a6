"""`popsim info`: what a run holds, how far it is, and whether its files are sound."""

import dataclasses
import itertools
import json
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from command_ends import complaint
from kept_runs import SMALL, finished_run, stopped_run
from short_form import mostly_in_full
from small_training import OPTIMIZER, build, train

import popsim
from popsim.cli import main
from popsim.experiments import (
    RunHistory,
    RunStopped,
    info_table,
    read_run_info,
    resume_run,
    run_experiment,
    verify_run,
)
from popsim.experiments.run_info import UNCHECKED
from popsim.store import (
    Checkpoints,
    MismatchError,
    RunFolder,
    lock_folder,
    read_sealed_json,
    write_json,
    write_netcdf,
    write_sealed_json,
)
from popsim.store.files import FORMAT
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow


@pytest.fixture
def finished(tmp_path_factory):
    return RunFolder(finished_run(tmp_path_factory))


@pytest.fixture
def stopped(tmp_path_factory):
    folder = RunFolder(stopped_run(tmp_path_factory))
    return folder, read_run_info(folder.path)["n_batches_saved"]


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run, to be damaged."""
    shutil.copytree(finished.path, tmp_path / "run")
    return RunFolder(tmp_path / "run")


def printed(folder, capsys, *options):
    main(["info", str(folder.path), *options])
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def flip(path):
    bits = bytearray(path.read_bytes())
    bits[len(bits) // 2] ^= 1
    path.write_bytes(bytes(bits))


def files(folder):
    return {path: path.stat().st_mtime_ns for path in folder.path.rglob("*")}


def test_a_finished_run(finished, capsys):
    before = files(finished)
    run = popsim.open_run(finished.path)
    assert str(run) == f"Run({str(finished.path)!r}: sum, 2 members, 8 batches)"
    assert "validation_loss" in str(run.history)
    assert repr(run.results()) == str(run.results())
    out = printed(finished, capsys, "--verify")
    rows = [line.split(maxsplit=1) for line in out.splitlines() if line]
    for row in (["state", "finished"], ["n_batches_saved", "8"], ["n_trained_numbers", "41"]):
        assert row in rows
    changed = {line.split()[1] for line in out.splitlines() if line.startswith("  * ")}
    assert changed == {"n_members", "n_batches", "batch_size", "log_step"}
    assert re.search(r"trainables.network.bias +trainables_batch, member +4, 2, 5 +float32", out)
    assert ["n_figures", "4"] in rows and re.search(r"batch: 7, seconds: \d+ s, training: \d", out)
    assert out.endswith(f"\nwhat was checked is as it was written\nnot checked: {UNCHECKED}\n")
    assert files(finished) == before

    described = read_run_info(finished.path)
    assert [own["n_batches"] for own in described["checkpoints"]] == [4, 6, 8]
    assert described["n_batches_saved"] == 8 and described["n_log_points"] == 4
    assert described["writer"] is None and not described["frozen_from"]
    sizes = (path.stat().st_size for path in finished.path.rglob("*") if path.is_file())
    assert sum(described["n_bytes"].values()) == sum(sizes)
    run = popsim.open_run(finished.path)
    totals = run.history.loss.sel(batch=7).sum("term").values
    np.testing.assert_allclose(described["losses"]["training"], totals, rtol=1e-6)
    variables = run.history.dataset.variables
    assert all(own["shape"] == variables[own["name"]].shape for own in described["history"])
    listed = {own["name"] for own in described["history"]}
    assert listed == {*variables} - {"member", "term", "frozen_from", "stopped_from"}
    assert info_table(run.info) == info_table(described)


def test_a_run_that_stopped_and_one_that_has_just_begun(stopped, tmp_path, capsys):
    folder, made = stopped
    out = printed(folder, capsys, "--verify")
    resume = f"popsim --import small_experiment resume {folder.path}"
    rows = [line.split(maxsplit=1) for line in out.splitlines() if line]
    for row in (["state", "stopped"], ["n_batches_saved", str(made)], ["resume_command", resume]):
        assert row in rows
    assert "figures      0 B" in out
    assert resume in complaint(["show", folder.path], capsys)

    shutil.copy(folder.description, tmp_path)
    out = printed(RunFolder(tmp_path), capsys, "--verify")
    assert "checkpoints: none" in out and "history: none" in out and "losses" not in out
    assert re.search(r"n_batches_saved +0\n", out) and re.search(r"n_log_points +0\n", out)


@pytest.mark.full
def test_a_run_that_goes_on_elsewhere_says_so(stopped, tmp_path, capsys):
    folder, made = RunFolder(shutil.copytree(stopped[0].path, tmp_path / "run")), stopped[1]
    before = read_sealed_json(folder.description)
    write_sealed_json(folder.description, before | {"devices": 2, "jax": "0.0.1"})
    resume_run(folder.path, quiet=True)
    (resumed,) = read_sealed_json(folder.description)["resumed"]
    assert resumed["after_batches"] == made and resumed["devices"] == 1
    assert resumed["jax"] == jax.__version__ and resumed["popsim"] == popsim.__version__
    said = f"after_batches: {made}, popsim: {popsim.__version__}, jax: {jax.__version__}"
    assert said in printed(folder, capsys)

    refused = RunFolder(shutil.copytree(stopped[0].path, tmp_path / "refused"))
    other = {**before["settings"], "seed": 1}
    write_sealed_json(refused.description, before | {"jax": "0.0.1", "settings": other})
    with pytest.raises(MismatchError, match="`key`"):
        resume_run(refused.path, quiet=True)
    assert "resumed" not in read_sealed_json(refused.description)

    same = RunFolder(shutil.copytree(stopped[0].path, tmp_path / "same"))
    resume_run(same.path, quiet=True)
    assert "resumed" not in read_sealed_json(same.description)


def test_a_run_that_is_being_written(stopped, capsys):
    folder, made = stopped
    with lock_folder(folder.path):
        out = printed(folder, capsys, "--verify")
    assert re.search(r"state +being trained\nwriter +process \d+", out)
    assert re.search(rf"n_batches_saved +{made}\n", out)
    (folder.path / "run.lock.json").write_text('{"process": 1, "host": "gone"}')  # as a killed process leaves
    assert "being trained" not in printed(folder, capsys)
    (folder.path / "run.lock.json").unlink()


@pytest.mark.full
@pytest.mark.parametrize("n_rounds", mostly_in_full([2, 300], [2]))
def test_a_run_is_read_while_it_is_written(tmp_path, n_rounds):
    """A checkpoint after every call; the run goes on until it was read often enough."""
    read = threading.Event()
    endless = dataclasses.replace(SMALL, n_batches=1_000_000, log_step=1)
    options = {"quiet": True, "checkpoint_seconds": 1e-9, "stop": lambda: read.wait(0.03)}
    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(run_experiment, endless, tmp_path / "run", **options)
        try:
            while not Checkpoints(tmp_path / "run" / "checkpoints").steps() and not writing.done():
                time.sleep(0.01)
            seen = []
            while len(seen) < n_rounds or seen[-1] == seen[0]:
                seen.append(_read_all(tmp_path / "run", tmp_path / "history.nc"))
        finally:
            read.set()
        with pytest.raises(RunStopped):
            writing.result()
    assert all(b >= a for a, b in itertools.pairwise(seen))


def _read_all(path, exported):
    info = read_run_info(path)
    assert info_table(info) and not info["history_damage"]
    assert verify_run(path) == {}
    run = popsim.open_run(path)
    assert run.ensemble is not None and run.log
    write_netcdf(run.history.dataset, exported, overwrite=True)
    return run.n_batches_trained


def test_a_training_without_an_experiment(tmp_path, capsys):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    broken = eqx.tree_at(lambda m: m.network.bias, ensemble, ensemble.network.bias.at[1, 0].set(jnp.nan))
    with pytest.warns(UserWarning, match="member 1"):
        train(5, ensemble=broken, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path))
    out = printed(RunFolder(tmp_path), capsys, "--verify")
    assert re.search(r"state +stopped\n(.*\n)*n_batches_saved +5\nn_members +2\n", out)
    assert re.search(r"frozen_from +1: 0\n", out) and "1 not finite" in out and "not the default" not in out


def test_what_is_no_run_is_refused(run, tmp_path, capsys):
    assert "neither run.json nor training.json" in complaint(["info", tmp_path], capsys)
    good = read_sealed_json(run.description)
    write_json(run.description, good | {"format": 99})
    assert f"format {FORMAT}, got 99" in complaint(["info", run.path], capsys)
    run.description.write_text(json.dumps(good)[:-20])
    said = complaint(["info", run.path], capsys)
    assert "run.json" in said and "damaged" in said
    with pytest.raises(ValueError, match=r"run\.json"):
        verify_run(run.path)
    with pytest.raises(MismatchError, match="training.json"):
        write_json(tmp_path / "training.json", {"format": 99})
        read_run_info(tmp_path)


def test_flipped_bits_are_found_by_verifying(run, capsys):
    flip(run.checkpoints / "000000006.safetensors")
    flip(run.history / "loss" / "c.0.0.0")
    log = run.log.read_text().splitlines()
    run.log.write_text("\n".join([log[0], log[1][:-9], *log[2:]]) + "\n{torn")
    run.summary.write_text("{")
    with pytest.raises(SystemExit) as end:
        main(["info", str(run.path), "--verify"])
    out, said = capsys.readouterr()
    assert end.value.code == 2 and said.count("\n") == 1
    damaged = ["checkpoints/000000006.safetensors", "history.zarr/loss/c.0.0.0", "log.jsonl", "summary.json"]
    assert all(name in said for name in damaged) and "000000008" not in said
    assert [line.split(": ")[1] for line in out.splitlines() if line.startswith("DAMAGED: ")] == damaged
    assert re.search(r"state +finished\n", out)


def test_every_lost_file_of_a_run_is_named(run, capsys):
    """Figures too; with the message of the command, which does not say that all is well."""
    files = [path for path in sorted(run.path.rglob("*")) if path.is_file() and path.name != "run.lock"]
    assert len(files) > 20 and verify_run(run.path) == {}
    for file in files:
        content = file.read_bytes()
        file.unlink()
        damage, name = verify_run(run.path), file.relative_to(run.path).as_posix()
        assert name in damage or {Path(name).parent.as_posix()} == set(damage), (name, damage)
        file.write_bytes(content)
    run.description.unlink()
    for command in (["info", "--verify"], ["resume"]):
        with pytest.raises(SystemExit) as end:
            main([command[0], str(run.path), *command[1:]])
        said = capsys.readouterr()
        assert end.value.code == 2 and "run.json" in said.err and "what was checked" not in said.out


def test_a_total_is_not_known_where_a_term_is_not():
    """As of a member that was frozen: its terms are NaN, and so is their sum."""
    terms = np.array([[[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]]])
    loss = xarray.DataArray(terms, dims=("batch", "member", "term"))
    validation = loss.rename(batch="validation_batch")
    history = RunHistory(xarray.Dataset({"loss": loss, "validation_loss": validation}), None)
    for total in (history.total_loss, history.total_validation_loss):
        np.testing.assert_array_equal(total.values, [[3.0, np.nan, np.nan]])
    assert history.total_loss.dims == ("batch", "member")
