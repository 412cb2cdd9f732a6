"""Links, pipes, devices and folders that somebody put into the folder of a run."""

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from hostile_places import CHUNK, LINKED, SPECIAL, content, link_to, put, within_a_minute
from short_form import every_nth
from small_experiment import Sum, stopping_after
from small_training import assert_same

from popsim.analysis.figures import save_figure
from popsim.cli import main
from popsim.experiments import (
    RunStopped,
    open_run,
    read_run_info,
    resume_run,
    run_experiment,
    run_or_resume,
    verify_run,
)
from popsim.store import CorruptDataError, RunFolder, append_json_line, lock_folder, read_json_lines
from popsim.store.identity import HOLDER, lock_holder
from popsim.training import open_history

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("limit")]
limit = pytest.fixture(within_a_minute)
SMALL = Sum(n_members=1, n_batches=4, batch_size=2, log_step=1)
USES = {
    "open": lambda run: open_run(run, build=Sum),
    "resume": lambda run: resume_run(run, build=Sum, quiet=True),
    "begin or resume": lambda run: run_or_resume(SMALL, run, quiet=True),
    "replace": lambda run: run_experiment(SMALL, run, overwrite=True, quiet=True),
    "info": read_run_info,
    "verify": verify_run,
    "command": lambda run: main(["info", str(run)]),
}


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run that was stopped in the middle, with figures as if it had been finished once."""
    path = tmp_path_factory.mktemp("begun") / "run"
    with pytest.raises(RunStopped):
        run_experiment(SMALL, path, quiet=True, stop=stopping_after(2))
    (path / "figures").mkdir()
    for name in ("one.png", "one.pdf"):
        (path / "figures" / name).write_bytes(b"a figure")
    return path


@pytest.fixture
def run(begun, tmp_path):
    """A copy of it."""
    return shutil.copytree(begun, tmp_path / "run")


def assert_refused(run, name, capsys):
    """Whatever is done with the run, the error names what is wrong."""
    named = re.escape(str(run / name))
    for use in USES.values():
        with (
            contextlib.suppress(SystemExit),
            pytest.raises(CorruptDataError, match=f"^{named} must be a plain"),
        ):
            use(run)
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and re.match(f"popsim: error: {named} must", said.err)


def test_all_are_there():
    assert len(set(LINKED)) == 24 and len(set(SPECIAL)) == 20


@pytest.mark.parametrize("name", every_nth(LINKED, 3))
def test_nothing_is_read_written_or_deleted_through_a_link(name, run, tmp_path, capsys):
    """That leads to what popsim itself wrote or, where there is nothing yet, to somebody's file or folder."""
    outside = link_to(tmp_path / "outside" / "theirs", run / name)
    before, inside = content(outside.parent), content(run)
    assert_refused(run, name, capsys)
    assert content(outside.parent) == before and content(run) == inside


@pytest.mark.parametrize(("name", "kind"), SPECIAL)
def test_what_is_no_file_is_refused_and_never_waited_for(name, kind, run, capsys):
    put(run / name, kind)
    inside = content(run)
    assert_refused(run, name, capsys)
    assert content(run) == inside


def test_a_run_is_reached_by_a_link_and_files_shared_with_a_copy_stay_as_they_are(begun, run, tmp_path):
    """Hard links, as `cp -al` and snapshots make them; and what killed processes left is cleared away."""
    shutil.copytree(run, tmp_path / "snapshot", copy_function=os.link)
    before = content(tmp_path / "snapshot")
    (tmp_path / "link").symlink_to(run)
    left = [run / f"{name}.0123abcd.partial" for name in ("log.jsonl", "figures/one.png")]
    left += [run / f"history.zarr/{name}.0123abcd.partial" for name in ("zarr.json", "loss/zarr.json")]
    for path in left:
        path.write_text("half")
    (run / "notes").symlink_to(tmp_path / "nowhere")  # of somebody who keeps notes there
    finished = resume_run(tmp_path / "link", build=Sum, quiet=True)
    assert finished.is_finished and verify_run(tmp_path / "link") == {}
    assert not any(path.exists() for path in left) and (run / "notes").is_symlink()
    assert content(tmp_path / "snapshot") == before and (run / "figures/one.png").read_bytes() != b"a figure"
    straight = run_experiment(SMALL, tmp_path / "straight", quiet=True)
    assert_same(open_run(run, build=Sum).ensemble, straight.ensemble)


def test_a_part_of_a_run_that_is_opened_by_itself_is_looked_at_as_well(run, tmp_path):
    pipe, link, theirs = tmp_path / "pipe", tmp_path / "link", tmp_path / "theirs"
    os.mkfifo(pipe)
    theirs.write_text("")
    link.symlink_to(theirs)
    for path in (pipe, link):
        with pytest.raises(CorruptDataError, match=f"{path} must be a plain file"):
            read_json_lines(path)
        with pytest.raises(CorruptDataError, match=f"{path} must be a plain file"):
            append_json_line(path, {})
    assert theirs.read_text() == ""
    (run / CHUNK).unlink()
    os.mkfifo(run / CHUNK)
    with pytest.raises(CorruptDataError, match=f"{run / CHUNK} must be a plain file"):
        open_history(run / "history.zarr")
    (tmp_path / "history.zarr").symlink_to(run / "history.zarr")
    with pytest.raises(CorruptDataError, match=r"history\.zarr must be"):
        open_history(tmp_path)
    pipe.rename(tmp_path / "run.lock")
    (tmp_path / HOLDER).write_text("{}")
    with pytest.raises(CorruptDataError, match=r"run\.lock must be a plain file, got a pipe"):
        lock_holder(tmp_path)
    with pytest.raises(CorruptDataError, match=r"run\.lock must be a plain file"), lock_folder(tmp_path):
        pass


def test_a_figure_is_never_drawn_through_a_link(tmp_path):
    (tmp_path / "theirs").write_text("theirs")
    (tmp_path / "one.png").symlink_to(tmp_path / "theirs")
    figure = plt.figure()
    save_figure(figure, tmp_path, "one")
    plt.close(figure)
    assert (tmp_path / "theirs").read_text() == "theirs" and not (tmp_path / "one.png").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["one.pdf", "one.png", "theirs"]


def test_a_log_without_end_takes_no_memory(run):
    with (run / "log.jsonl").open("r+b") as file:
        file.truncate(2**40)
    tracemalloc.start()
    for use in (lambda: read_json_lines(run / "log.jsonl"), lambda: read_run_info(run)):
        with pytest.raises(CorruptDataError, match=r"line \d of .*log\.jsonl must have at most"):
            use()
    assert "log.jsonl" in verify_run(run)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()


def test_a_command_on_a_pipe_ends_with_one_line(run):
    (run / "log.jsonl").unlink()
    os.mkfifo(run / "log.jsonl")
    command = [str(Path(sys.executable).parent / "popsim"), "info", str(run), "--verify"]
    end = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (end.returncode, end.stdout) == (2, "") and end.stderr.count("\n") == 1
    assert f"{run / 'log.jsonl'} must be a plain file, got a pipe" in end.stderr


def test_a_training_does_not_mind_figures_of_somebody_else(run, tmp_path):
    """Without run.json: a `chkpt_dir` may be a folder that one works in."""
    for name in ("run.json", "figures"):
        (run / name).rename(tmp_path / name)
    (run / "figures").symlink_to(tmp_path / "figures")
    RunFolder(run).check_free_for_training(restore=True)
