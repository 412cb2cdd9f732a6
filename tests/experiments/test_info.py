"""`popsim info`: what a run holds, how far it is, and whether its files are sound."""

import dataclasses
import json
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from bit_flips import flip_bit
from command_ends import complaint
from kept_runs import SMALL, finished_run, stopped_run
from small_training import OPTIMIZER, build, train

import popsim
from popsim import experiments, store
from popsim.cli import main
from popsim.store.files import FORMAT
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow


@pytest.fixture
def finished(tmp_path_factory):
    return store.RunFolder(finished_run(tmp_path_factory))


@pytest.fixture
def stopped(tmp_path_factory):
    folder = store.RunFolder(stopped_run(tmp_path_factory))
    return folder, experiments.read_run_info(folder.path)["n_batches_saved"]


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run, to be damaged."""
    return store.RunFolder(shutil.copytree(finished.path, tmp_path / "run"))


def printed(folder, capsys, *options):
    main(["info", str(folder.path), *options])
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def test_a_finished_run(finished, capsys):
    before = {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")}
    run = popsim.open_run(finished.path)
    assert str(run) == f"Run({str(finished.path)!r}: sum, 2 members, 8 batches)"
    assert "validation_loss" in str(run.history)
    assert repr(run.results()) == str(run.results())
    out = printed(finished, capsys, "--verify")
    rows = [line.split(maxsplit=1) for line in out.splitlines() if line]
    said = {"state": "finished", "n_batches_saved": "8", "n_trained_numbers": "41", "n_figures": "2"}
    assert all([name, text] in rows for name, text in said.items())
    changed = {line.split()[1] for line in out.splitlines() if line.startswith("  * ")}
    assert changed == {"n_members", "n_batches", "batch_size", "log_step"}
    assert re.search(r"trainables.network.bias +trainables_batch, member +4, 2, 5 +float32", out)
    assert re.search(r"batch: 7, seconds: \d+ s, training: \d", out)
    told = f"what was checked is as it was written\nnot checked: {experiments.run_info.UNCHECKED}\n"
    assert out.endswith(f"\n{told}")
    assert {path: path.stat().st_mtime_ns for path in finished.path.rglob("*")} == before

    described = experiments.read_run_info(finished.path)
    assert [own["n_batches"] for own in described["checkpoints"]] == [4, 6, 8]
    assert described["n_batches_saved"] == 8 and described["n_log_points"] == 4
    assert described["writer"] is None and not described["frozen_from"]
    sizes = (path.stat().st_size for path in finished.path.rglob("*") if path.is_file())
    assert sum(described["n_bytes"].values()) == sum(sizes)
    totals = run.history.loss.sel(batch=7).sum("term").values
    np.testing.assert_allclose(described["losses"]["training"], totals, rtol=1e-6)
    variables = run.history.dataset.variables
    assert all(own["shape"] == variables[own["name"]].shape for own in described["history"])
    listed = {own["name"] for own in described["history"]}
    assert listed == {*variables} - {"member", "term", "frozen_from", "stopped_from"}
    assert experiments.info_table(run.info) == experiments.info_table(described)


def test_a_run_that_stopped_and_one_that_has_just_begun(stopped, tmp_path, capsys):
    folder, made = stopped
    out = printed(folder, capsys, "--verify")
    resume = f"popsim --import small_experiment resume {folder.path}"
    rows = [line.split(maxsplit=1) for line in out.splitlines() if line]
    for row in (["state", "stopped"], ["n_batches_saved", str(made)], ["resume_command", resume]):
        assert row in rows
    assert "figures      0 B" in out and resume in complaint(["show", folder.path], capsys)
    shutil.copy(folder.description, tmp_path)
    out = printed(store.RunFolder(tmp_path), capsys, "--verify")
    assert "checkpoints: none" in out and "history: none" in out and "losses" not in out
    assert re.search(r"n_batches_saved +0\n", out) and re.search(r"n_log_points +0\n", out)


@pytest.mark.full
def test_a_run_that_goes_on_elsewhere_says_so(stopped, tmp_path, capsys):
    whole, made = stopped
    before = store.read_sealed_json(whole.description)

    def resumed(name, **changes):
        """What a run with a changed description says after it was resumed of how it was."""
        folder = store.RunFolder(shutil.copytree(whole.path, tmp_path / name))
        store.write_sealed_json(folder.description, before | changes)
        refusal = pytest.raises(store.MismatchError, match="`key`") if name == "refused" else nullcontext()
        with refusal:
            experiments.resume_run(folder.path, quiet=True)
        return store.read_sealed_json(folder.description).get("resumed", []), folder

    ((entry,), folder) = resumed("run", devices=2, jax="0.0.1")
    now = {"after_batches": made, "popsim": popsim.__version__, "jax": jax.__version__}
    assert entry["devices"] == 1 and now.items() <= entry.items()
    assert ", ".join(f"{name}: {own}" for name, own in now.items()) in printed(folder, capsys)
    assert resumed("same")[0] == []
    assert resumed("refused", jax="0.0.1", settings={**before["settings"], "seed": 1})[0] == []


def test_a_run_that_is_being_written(stopped, tmp_path, capsys):
    folder, made = store.RunFolder(shutil.copytree(stopped[0].path, tmp_path / "run")), stopped[1]
    with store.lock_folder(folder.path):
        out = printed(folder, capsys, "--verify")
    assert re.search(r"state +being trained\nwriter +process \d+", out)
    assert re.search(rf"n_batches_saved +{made}\n", out)
    (folder.path / "run.lock.json").write_text('{"process": 1, "host": "gone"}')  # as a killed process leaves
    assert "being trained" not in printed(folder, capsys)


@pytest.mark.full
def test_a_run_is_read_while_it_is_written(tmp_path, n_rounds=300):
    """A checkpoint after every call; the run goes on until it was read often enough."""
    read = threading.Event()
    endless = dataclasses.replace(SMALL, n_batches=1_000_000, log_step=1)
    options = {"quiet": True, "checkpoint_seconds": 1e-9, "stop": lambda: read.wait(0.03)}
    with ThreadPoolExecutor(1) as writer:
        writing = writer.submit(experiments.run_experiment, endless, tmp_path / "run", **options)
        try:
            while not store.Checkpoints(tmp_path / "run" / "checkpoints").steps() and not writing.done():
                time.sleep(0.01)
            seen = []
            while len(seen) < n_rounds or seen[-1] == seen[0]:
                seen.append(_read_all(tmp_path / "run", tmp_path / "history.nc"))
        finally:
            read.set()
        with pytest.raises(experiments.RunStopped):
            writing.result()
    assert seen == sorted(seen)


def _read_all(path, exported):
    info = experiments.read_run_info(path)
    assert experiments.info_table(info) and not info["history_damage"]
    assert experiments.verify_run(path) == {}
    run = popsim.open_run(path)
    assert run.ensemble is not None and run.log
    store.write_netcdf(run.history.dataset, exported, overwrite=True)
    return run.n_batches_trained


def test_a_training_without_an_experiment(tmp_path, capsys):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    broken = eqx.tree_at(lambda m: m.network.bias, ensemble, ensemble.network.bias.at[1, 0].set(jnp.nan))
    with pytest.warns(UserWarning, match="member 1"):
        train(5, ensemble=broken, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path))
    out = printed(store.RunFolder(tmp_path), capsys, "--verify")
    assert re.search(r"state +stopped\n(.*\n)*n_batches_saved +5\nn_members +2\n", out)
    assert re.search(r"frozen_from +1: 0\n", out) and "1 not finite" in out and "not the default" not in out


def test_what_is_no_run_is_refused(run, tmp_path, capsys):
    assert "neither run.json nor training.json" in complaint(["info", tmp_path], capsys)
    good = store.read_sealed_json(run.description)
    store.write_json(run.description, good | {"format": 99})
    assert f"format {FORMAT}, got 99" in complaint(["info", run.path], capsys)
    run.description.write_text(json.dumps(good)[:-20])
    said = complaint(["info", run.path], capsys)
    assert "run.json" in said and "damaged" in said
    with pytest.raises(ValueError, match=r"run\.json"):
        experiments.verify_run(run.path)
    with pytest.raises(store.MismatchError, match="training.json"):
        store.write_json(tmp_path / "training.json", {"format": 99})
        experiments.read_run_info(tmp_path)


def test_flipped_bits_are_found_by_verifying(run, capsys):
    for path in (run.checkpoints / "000000006.safetensors", run.history / "loss" / "c.0.0.0"):
        path.write_bytes(flip_bit(path.read_bytes(), np.random.default_rng(0)))
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
    assert len(files) > 20 and experiments.verify_run(run.path) == {}
    for file in files:
        content = file.read_bytes()
        file.unlink()
        damage, name = experiments.verify_run(run.path), file.relative_to(run.path).as_posix()
        assert name in damage or {Path(name).parent.as_posix()} == set(damage), (name, damage)
        file.write_bytes(content)
    run.description.unlink()
    for words in (["info", str(run.path), "--verify"], ["resume", str(run.path)]):
        with pytest.raises(SystemExit) as end:
            main(words)
        said = capsys.readouterr()
        assert end.value.code == 2 and "run.json" in said.err and "what was checked" not in said.out


def test_a_total_is_not_known_where_a_term_is_not():
    """As of a member that was frozen: its terms are NaN, and so is their sum."""
    terms = np.array([[[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]]])
    loss = xarray.DataArray(terms, dims=("batch", "member", "term"))
    validation = loss.rename(batch="validation_batch")
    history = experiments.RunHistory(xarray.Dataset({"loss": loss, "validation_loss": validation}), None)
    for total in (history.total_loss, history.total_validation_loss):
        np.testing.assert_array_equal(total.values, [[3.0, np.nan, np.nan]])
    assert history.total_loss.dims == ("batch", "member")
