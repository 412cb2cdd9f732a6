"""Runs that are killed, told to stop, out of disk, or damaged: short forms of `benchmarks/reliability`."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from faults.damage import Reader, cut_short, damaged, files_below, flip_bit
from faults.folders import LEFT_FILES, NOBODY, copies, forbid_writing, leave, open_to_all
from faults.forgeries import complaint, forge_all
from faults.fork_server import ForkServer
from faults.kills import Killed, judge, kill_often
from faults.moments import arguments_for

from popsim.store import lock_folder

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with ForkServer() as server:
        yield server


@pytest.fixture(scope="module")
def whole(server, tmp_path_factory):
    """A run that was never interrupted: its folder, and what it holds."""
    path = tmp_path_factory.mktemp("whole") / "run"
    return path, server.run("run", path=str(path))


@pytest.fixture(scope="module")
def killed(server, whole, tmp_path_factory):
    """What a process left that was killed at several moments, and a copy of what it left in the middle."""
    left = kill_often(
        server,
        "run",
        tmp_path_factory.mktemp("killed") / "killed",
        np.random.default_rng(4),
        n_operations=6,
        last_operation=whole[1]["operations"],
        n_times=2,
        seconds=0.5 * whole[1]["seconds"],
    )
    last = whole[1]["digests"]["step"]
    begun = sorted((own for own in left if 0 < own.saved < last), key=lambda own: own.saved)
    middle = tmp_path_factory.mktemp("interrupted") / "run"
    return left, shutil.copytree(begun[len(begun) // 2].path, middle)


@pytest.fixture(scope="module")
def interrupted(killed):
    """A run that was killed in the middle."""
    return killed[1]


@pytest.mark.full
def test_a_killed_run_is_finished_bit_for_bit(server, whole, killed):
    verdicts = judge(server, "run", killed[0], whole[1]["digests"])
    assert len(verdicts) >= 6 and set(verdicts) == {"equal"}


@pytest.mark.full  # in short: test_a_killed_run_is_finished_bit_for_bit and test_resume
def test_a_second_signal_while_a_checkpoint_is_written_changes_nothing(server, whole, tmp_path):
    arguments, send = arguments_for(tmp_path), ("SIGTERM", "saving, twice")
    end = server.run("command", path=str(tmp_path), arguments=arguments, send=send)
    assert end["status"] == 75 and " resume " in end["said"]
    assert end["ended"] - end["sent"] < 10
    assert judge(server, "run", [Killed(str(tmp_path), end.get("saved", 0))], whole[1]["digests"]) == [
        "equal"
    ]


@pytest.mark.full  # in short: test_checkpoint_faults
def test_a_full_disk_is_said_and_the_run_goes_on_after_it(server, whole, tmp_path):
    end = server.run("command", path=str(tmp_path), arguments=arguments_for(tmp_path), file_size=1500)
    ours = [line for line in end["said"].splitlines() if line.startswith("popsim: ")]  # orbax logs, too
    assert end["status"] == 1 and len(ours) == 1, end
    assert ours[0].startswith("popsim: error: ") and "too large" in ours[0]
    killed = [Killed(str(tmp_path), end.get("saved", 0))]
    assert judge(server, "run", killed, whole[1]["digests"]) == ["equal"]


def test_damage_is_never_read_for_something_else(whole):
    reader = Reader(whole[0])
    files = [path for path in files_below(whole[0]) if path.stat().st_size]
    rng = np.random.default_rng(5)
    verdicts = set()
    for fault in (flip_bit, cut_short):
        for path in rng.choice(np.array(files), 20):
            verdicts.add(damaged(path, lambda good, fault=fault: fault(good, rng), reader.read))
    for name in ("run.json", "summary.json", "history.zarr/zarr.json"):
        assert damaged(whole[0] / name, lambda good: flip_bit(good, rng), reader.read) == "refused"
        assert damaged(whole[0] / name, lambda good: None, reader.read) == "refused"
    assert verdicts <= {"right", "fell back", "refused"} and "refused" in verdicts


def test_a_forged_run_executes_nothing(server, interrupted, tmp_path):
    forged = forge_all(interrupted, tmp_path)
    found = server.run("open_all", paths=[str(run) for run, _ in forged.values()])
    complaints = (complaint(name, found[str(run)], canary) for name, (run, canary) in forged.items())
    assert not [each for each in complaints if each]


@pytest.mark.full  # in short: test_checkpoint_faults and test_lock
def test_a_folder_that_cannot_be_written_or_vanishes_or_is_locked(server, whole, interrupted):
    """And one with left-overs of every kind, all at once."""
    with open_to_all() as folder:
        (path,) = copies(interrupted, folder, "left-overs", 1)
        for name in LEFT_FILES:
            leave(path, name)
        forbidden, vanishing, locked = (copies(interrupted, folder, name, 1)[0] for name in ("r", "v", "l"))
        forbid_writing(forbidden)
        assert server.run("resume_all", kind="run", paths=[path])[path] == whole[1]["digests"]
        with lock_folder(Path(locked)):
            user = {"user": NOBODY} if os.getuid() == 0 else {}
            found = server.run("resume_all", kind="run", paths=[forbidden, locked], **user)
        found |= server.run("resume_all", kind="run", paths=[vanishing], vanish=["rm", "-rf"])
        errors = {path: found[path]["error"] for path in (forbidden, vanishing, locked)}
        assert all(path in error for path, error in errors.items()), errors
        assert errors[forbidden].startswith("ValueError") and errors[vanishing].startswith("SaveError")
