"""`popsim train --resume`: one command line for a job that is started again and again."""

import dataclasses
import fcntl
import shutil

import numpy as np
import pytest
from command_ends import complaint
from kept_runs import EVERY_2, SIZES, SMALL, stopped_run
from small_experiment import Sum
from small_training import assert_same

from popsim.cli import main
from popsim.experiments import open_run, run_or_resume
from popsim.store import MismatchError

pytestmark = pytest.mark.slow
TABLE = "networks\nall                           2\n"
TRAIN = ["train", "sum", *SIZES, "--keep", "every 2", "--quiet"]


@pytest.fixture
def stopped(tmp_path, tmp_path_factory):
    """A copy of a run that was stopped."""
    return shutil.copytree(stopped_run(tmp_path_factory), tmp_path / "stopped")


def modified(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def test_one_command_line_begins_continues_and_prints(stopped, tmp_path, capsys):
    whole = tmp_path / "whole"
    main([*TRAIN, "--out", str(whole), "--resume"])
    said = capsys.readouterr().out
    assert TABLE in said and "finished before" not in said
    before = modified(whole)
    for words in ([*TRAIN, "--out", str(whole), "--resume"], ["resume", str(whole), "--quiet"]):
        main(words)
        said = capsys.readouterr().out
        assert TABLE in said and "the run was finished before" in said and modified(whole) == before
        assert said.splitlines()[-1].startswith("Next: popsim ")

    main([*TRAIN, "--out", str(stopped), "--resume"])
    one, other = open_run(whole), open_run(stopped)
    assert_same(one.ensemble, other.ensemble)
    for name, values in one.history.dataset.variables.items():
        np.testing.assert_array_equal(values, other.history[name])


def test_another_run_is_refused_by_the_name_of_what_differs(stopped, capsys):
    before = modified(stopped)
    command = [*TRAIN, "--out", str(stopped), "--resume"]
    for options, named in (
        (["--n-batches", "9"], "--n-batches is 8 there and 9 here"),
        (["--noise", "0.1", "0.3"], "--noise is [0.1, 0.2] there and [0.1, 0.3] here"),
        (["--keep", "none"], "--keep is 'every 2' there and 'none' here"),
        (["--float16"], "--float16 is False there and True here"),
        (["--overwrite"], "--resume and --overwrite"),
    ):
        assert named in complaint([*command, *options], capsys)
    other = type("Other", (Sum,), {"name": "other"})
    with pytest.raises(MismatchError, match="`experiment` is 'sum' there and 'other' here"):
        run_or_resume(other(**dataclasses.asdict(SMALL)), stopped, recording=EVERY_2)
    (stopped / "run.json").write_text("{")
    assert "run.json" in complaint(command, capsys)
    assert {path for path, at in modified(stopped).items() if at != before[path]} == {stopped / "run.json"}


def test_a_run_that_another_process_writes_is_left_alone(stopped, capsys):
    """Also when it is to be replaced: nothing is deleted before the lock is held."""
    with (stopped / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as seen from another open file, that of another process
        before = modified(stopped)
        for option in ("--resume", "--overwrite"):
            assert "must be free" in complaint([*TRAIN, "--out", str(stopped), option], capsys)
        assert modified(stopped) == before
