"""`popsim train --resume`: one command line for a job that is started again and again."""

import dataclasses
import fcntl

import numpy as np
import pytest
from small_experiment import Sum, stopping_after
from small_training import assert_same

from popsim.cli import main
from popsim.experiments import EXPERIMENTS, Recording, RunStopped, open_run, run_experiment, run_or_resume
from popsim.store import MismatchError

pytestmark = pytest.mark.slow
SMALL = Sum(n_members=2, n_batches=8, batch_size=4, log_step=2)
ALL = Recording("all")
TABLE = "networks\nall                           2\n"
TRAIN = ["train", "sum", "--members", "2", "--n-batches", "8", "--batch-size", "4", "--log-step", "2"]
TRAIN += ["--keep", "all", "--devices", "1", "--quiet"]


@pytest.fixture(scope="module", autouse=True)
def registered():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, "sum", Sum)
        yield


def stop_early(out):
    with pytest.raises(RunStopped):
        run_experiment(SMALL, out, quiet=True, recording=ALL, stop=stopping_after(2))


def modified(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


def complaint(arguments, capsys):
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1
    return said.err


def test_one_command_line_begins_continues_and_prints(tmp_path, capsys):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    main([*TRAIN, "--out", str(whole), "--resume"])
    said = capsys.readouterr().out
    assert TABLE in said and "finished before" not in said
    before = modified(whole)
    main([*TRAIN, "--out", str(whole), "--resume"])
    said = capsys.readouterr().out
    assert TABLE in said and "the run was finished before" in said and modified(whole) == before
    main(["resume", str(whole), "--quiet"])
    assert "the run was finished before" in capsys.readouterr().out

    stop_early(cut)
    main([*TRAIN, "--out", str(cut), "--resume"])
    one, other = open_run(whole), open_run(cut)
    assert_same(one.ensemble, other.ensemble)
    for name, values in one.history.dataset.variables.items():
        np.testing.assert_array_equal(values, other.history[name])


def test_another_run_is_refused_by_the_name_of_what_differs(tmp_path, capsys):
    stop_early(tmp_path)
    before = modified(tmp_path)
    command = [*TRAIN, "--out", str(tmp_path), "--resume"]
    for options, named in (
        (["--n-batches", "9"], "--n-batches is 8 there and 9 here"),
        (["--noise", "0.1", "0.3"], "--noise is [0.1, 0.2] there and [0.1, 0.3] here"),
        (["--keep", "none"], "--keep is 'all' there and 'none' here"),
        (["--float16"], "--float16 is False there and True here"),
        (["--overwrite"], "--resume and --overwrite"),
    ):
        assert named in complaint([*command, *options], capsys)
    other = type("Other", (Sum,), {"name": "other"})
    with pytest.raises(MismatchError, match="`experiment` is 'sum' there and 'other' here"):
        run_or_resume(other(**dataclasses.asdict(SMALL)), tmp_path, recording=ALL)
    (tmp_path / "run.json").write_text("{")
    assert "run.json" in complaint(command, capsys)
    assert {path for path, at in modified(tmp_path).items() if at != before[path]} == {tmp_path / "run.json"}


def test_a_run_that_another_process_writes_is_left_alone(tmp_path, capsys):
    """Also when it is to be replaced: nothing is deleted before the lock is held."""
    stop_early(tmp_path)
    with (tmp_path / "run.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as seen from another open file, that of another process
        before = modified(tmp_path)
        for option in ("--resume", "--overwrite"):
            assert "must be free" in complaint([*TRAIN, "--out", str(tmp_path), option], capsys)
        assert modified(tmp_path) == before
