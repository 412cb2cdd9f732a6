"""Runs that are killed, damaged or forged: short forms of `benchmarks/reliability`."""

import numpy as np
import pytest
from faults.damage import Reader, cut_short, damaged, files_below, flip_bit
from faults.forgeries import complaint, forge_all
from faults.fork_server import ForkServer
from faults.kills import judge, kill_often

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


def test_a_killed_run_is_finished_bit_for_bit(server, whole, tmp_path):
    """Killed before some operations on files, and at some times."""
    left = kill_often(
        server,
        "run",
        tmp_path / "killed",
        np.random.default_rng(4),
        n_operations=3,
        last_operation=whole[1]["operations"],
        n_times=1,
        seconds=0.5 * whole[1]["seconds"],
    )
    verdicts = judge(server, "run", left, whole[1]["digests"])
    assert len(verdicts) >= 2 and set(verdicts) == {"equal"}


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


def test_a_forged_run_executes_nothing(server, whole, tmp_path):
    server.run("run", path=str(tmp_path / "sound"), kill_at=whole[1]["operations"] // 2)
    forged = forge_all(tmp_path / "sound", tmp_path)
    found = server.run("open_all", paths=[str(run) for run, _ in forged.values()])
    complaints = (complaint(name, found[str(run)], canary) for name, (run, canary) in forged.items())
    assert not [each for each in complaints if each]
