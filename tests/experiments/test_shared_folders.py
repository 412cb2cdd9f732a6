"""Runs in folders that hold files of others, that are reached by links, or whose files are shared."""

import os
import shutil
import tracemalloc

import matplotlib.pyplot as plt
import pytest
from small_experiment import Sum, stopping_after
from small_training import assert_same

from popsim.analysis.figures import save_figure
from popsim.experiments import RunStopped, open_run, resume_run, run_experiment, verify_run
from popsim.store import CorruptDataError, read_json_lines

pytestmark = pytest.mark.slow
SMALL = Sum(n_members=1, n_batches=4, batch_size=2, log_step=1)


def content(folder):
    """Names, times and bytes of all files below a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


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
    with pytest.raises(CorruptDataError, match=r"line .*of .*log\.jsonl must have at most"):
        read_json_lines(run / "log.jsonl")
    assert "log.jsonl" in verify_run(run)
    assert tracemalloc.get_traced_memory()[1] < 2**26
    tracemalloc.stop()
