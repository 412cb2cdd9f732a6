"""A start that ends before its folder is a run, a training or a report leaves a folder that can be used."""

import contextlib
import errno
import importlib
import os
import shutil
from pathlib import Path

import pytest
from kept_runs import SMALL, finished_run
from short_form import mostly_in_full

from popsim.experiments import open_run, run_experiment
from popsim.store import RunFolder

running = importlib.import_module("popsim.experiments.running")
NOT_FINITE = float("nan")


class Killed(BaseException):
    """Stands for the end of a process: nothing catches it, and files stay as they are."""


def _kill(*_, **__):
    raise Killed


def _fill_disk(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


STEPS = {
    "the probe of the folder": (Path, "touch"),
    "its removal": (Path, "unlink"),
    "the lock": ("popsim.store.identity.write_json",),
    "the deletion of the run before": (RunFolder, "remove_left_overs"),
    "after the deletion": ("popsim.store.run_folder.write_sealed_json",),
    "the description": (os, "fsync"),
    "its last step": (Path, "replace"),
}


@pytest.mark.slow
@pytest.mark.parametrize("end", [_kill, _fill_disk], ids=["killed", "full disk"])
@pytest.mark.parametrize("overwrites", mostly_in_full([False, True], [True]), ids=["new", "overwrites"])
@pytest.mark.parametrize("step", mostly_in_full(STEPS, [*STEPS][4:5]))
def test_a_run_can_begin_where_another_start_ended(
    step, overwrites, end, tmp_path, monkeypatch, tmp_path_factory
):
    path = tmp_path / "run"
    if overwrites:
        shutil.copytree(finished_run(tmp_path_factory), path)
    monkeypatch.setattr(running, "_train", lambda run, *_, **__: run)
    with monkeypatch.context() as during, contextlib.suppress(Killed, OSError, ValueError):
        during.setattr(*STEPS[step], end)
        run_experiment(SMALL, path, quiet=True, overwrite=overwrites)
    is_run = (path / "run.json").exists()
    assert is_run or not overwrites
    run_experiment(SMALL, path, quiet=True, overwrite=is_run)
    assert open_run(path).experiment == SMALL


BAD = [{"part_of": {"x": NOT_FINITE}}, {"part_of": {"x": object()}}, {"checkpoint_seconds": NOT_FINITE}]


@pytest.mark.slow
@pytest.mark.parametrize("bad", BAD, ids=["not finite", "an object", "of an option"])
def test_what_cannot_be_written_down_is_refused_before_a_run_is_deleted(bad, tmp_path, tmp_path_factory):
    shutil.copytree(finished_run(tmp_path_factory), tmp_path / "run")
    for path, overwrite in ((tmp_path / "run", True), (tmp_path / "new", False)):
        with pytest.raises(ValueError, match="part_of|checkpoint_seconds"):
            run_experiment(SMALL, path, quiet=True, overwrite=overwrite, **bad)
    assert open_run(tmp_path / "run").is_finished and not (tmp_path / "new").exists()
