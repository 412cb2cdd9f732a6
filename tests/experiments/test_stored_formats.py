"""Runs that an earlier version of popsim stored: they are read, and not resumed."""

import contextlib
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
import small_training
from repository import TESTS

import popsim
from popsim.cli import main
from popsim.experiments import read_run_info, resume_run, verify_run
from popsim.store import MismatchError, RunFolder
from popsim.training import TaskTrainer

STORED = TESTS / "stored" / "format_5"


@pytest.fixture
def stored(tmp_path):
    """A copy of the runs of format 5: one finished, one stopped after a batch, and a script's training."""
    return Path(shutil.copytree(STORED, tmp_path / "runs"))


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextlib.contextmanager
def refused_in_one_line(folder):
    before = contents(folder)
    with pytest.raises(
        MismatchError, match=r"must have format 7 to be resumed, got 5.*train anew"
    ) as refusal:
        yield
    assert "\n" not in str(refusal.value)
    assert {path: data for path, data in contents(folder).items() if path.suffix != ".lock"} == before


@pytest.mark.parametrize("name", ["finished", "stopped", "script"])
def test_a_stored_run_is_read_and_intact(stored, name):
    info = read_run_info(stored / name)
    assert info.n_saved == (1 if name == "stopped" else 2) and info.n_members == 2
    assert not info.history_damage and not any(own.damage for own in info.checkpoints)
    assert verify_run(stored / name) == {}


def test_stored_runs_are_opened(stored):
    finished, stopped = (popsim.open_run(stored / name) for name in ("finished", "stopped"))
    assert finished.history.total_loss.shape == (2, 2) and np.isfinite(finished.history.total_loss).all()
    assert finished.n_batches_trained == 2 and stopped.n_batches_trained == 1
    jax.tree.map(
        np.testing.assert_array_equal,
        finished.models(batch=1).network.cell.weight_hh,
        finished.ensemble.network.cell.weight_hh,
    )
    assert finished.results() is not None and len(finished.log) == 1
    assert not stopped.is_finished


@pytest.mark.filterwarnings("ignore:.* must give what was trained:UserWarning")  # sources may differ by now
def test_a_stored_training_of_a_script_is_opened(stored):
    run = popsim.open_run(stored / "script", task=small_training.RunningSum(), build=small_training.build)
    assert run.n_batches_trained == 2 and run.history.loss.shape == (2, 2, 2)


@pytest.mark.slow
@pytest.mark.full
def test_commands_read_stored_runs(stored, tmp_path, capsys):
    finished, stopped = str(stored / "finished"), str(stored / "stopped")
    main(["info", finished, "--verify"])
    main(["info", stopped])
    assert "runs of format 5 are only read, not resumed" in capsys.readouterr().out
    main(["show", finished, "--out", str(tmp_path / "shown")])
    main(["export", finished, "--model", str(tmp_path / "model.safetensors")])
    main(["compare", finished, stopped, "--names", "a", "b", "--out", str(tmp_path / "compared")])
    assert (tmp_path / "shown" / "report.html").is_file() and (tmp_path / "model.safetensors").is_file()
    assert (tmp_path / "compared" / "comparison.html").is_file()


def test_a_stored_run_is_not_resumed(stored, capsys):
    with refused_in_one_line(stored / "stopped"):
        resume_run(stored / "stopped", quiet=True)
    with pytest.raises(SystemExit) as end:
        main(["resume", str(stored / "stopped"), "--quiet"])
    assert end.value.code == 2 and capsys.readouterr().err.count("\n") == 1
    assert resume_run(stored / "finished").is_finished  # there is nothing to train


def test_a_stored_training_of_a_script_is_not_resumed(stored):
    trainer = TaskTrainer(small_training.OPTIMIZER, chkpt_dir=stored / "script")
    ensemble = popsim.make_ensemble(small_training.build, 2, key=small_training.KEY)
    with refused_in_one_line(stored / "script"):
        trainer(
            small_training.RunningSum(),
            ensemble,
            4,
            2,
            small_training.network,
            ensembled=True,
            restore_checkpoint=True,
            key=small_training.KEY,
        )


def test_a_stored_run_may_be_replaced(stored):
    RunFolder.create(stored / "stopped", overwrite=True)
    assert RunFolder(stored / "stopped").existing_training_files() == []  # but run.json is there
