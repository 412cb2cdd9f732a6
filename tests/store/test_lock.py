import errno
import gc
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from saving_process import SavingProcess
from small_experiment import stopping_after
from swept_runs import Swept

from popsim.cli import main
from popsim.experiments import RunStopped, run_experiment
from popsim.store.identity import HOLDER, LOCK, FolderLockedError, lock_folder, lock_holder


@pytest.fixture(scope="module")
def process():
    process = SavingProcess()
    yield process
    process.close()


def test_the_holder_is_written_and_goes(tmp_path):
    with lock_folder(tmp_path):
        holder = json.loads((tmp_path / HOLDER).read_text())
        assert holder == {"process": os.getpid(), "host": socket.gethostname()}
    assert not (tmp_path / HOLDER).exists()
    with lock_folder(tmp_path):
        pass


def test_the_same_thread_may_lock_again_and_another_may_not(tmp_path, process, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with lock_folder(tmp_path):
        with lock_folder(Path(".")):
            pass
        with ThreadPoolExecutor(1) as thread, pytest.raises(FolderLockedError, match="another thread of"):
            thread.submit(_locks, tmp_path).result()
        assert (tmp_path / HOLDER).exists()
        assert process.run(job="lock", path=tmp_path)["error"] == "FolderLockedError"
    assert "error" not in process.run(job="lock", path=tmp_path)


def _locks(path):
    with lock_folder(path):
        return True


def test_another_process_is_refused_by_name(tmp_path, process):
    with lock_folder(tmp_path):
        answer = process.run(job="lock", path=tmp_path)
        assert answer["error"] == "FolderLockedError"
        assert str(tmp_path) in answer["message"] and f"process {os.getpid()} on" in answer["message"]
        for torn in ('{"process": 1', "[]", '{"process": "x", "host": "y"}', ""):
            (tmp_path / HOLDER).write_text(torn)
            assert "another process holds it" in process.run(job="lock", path=tmp_path)["message"]
        (tmp_path / HOLDER).unlink()
        assert "another process holds it" in process.run(job="lock", path=tmp_path)["message"]


def test_a_killed_process_holds_nothing(tmp_path, process):
    assert process.run(job="lock", path=tmp_path, killed=True)["status"] == -9
    assert (tmp_path / HOLDER).exists()
    with lock_folder(tmp_path):
        assert json.loads((tmp_path / HOLDER).read_text())["process"] == os.getpid()


def test_an_error_inside_releases(tmp_path, process):
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        raise ZeroDivisionError
    assert "error" not in process.run(job="lock", path=tmp_path)


def test_a_missing_folder_is_refused(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        (tmp_path / "file").touch()
        with pytest.raises(ValueError, match=f"`path`.*{path.name}"), lock_folder(path):
            pass
    assert not (tmp_path / "nowhere").exists()


def test_a_folder_that_vanishes_while_it_is_held(tmp_path):
    with lock_folder(tmp_path / "."):
        shutil.rmtree(tmp_path)
    assert not tmp_path.exists()


def test_a_folder_that_cannot_be_written_is_refused(process):
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o555)
        user = {"user": 65534} if os.getuid() == 0 else {}
        answer = process.run(job="lock", path=name, **user)
        assert answer["error"] == "ValueError" and name in answer["message"]
        with lock_folder(Path(name)) if os.getuid() == 0 else pytest.raises(ValueError, match="written"):
            os.chmod(Path(name, LOCK), 0o600)
        assert process.run(job="lock", path=name, **user)["error"] == "ValueError"
        os.chmod(name, 0o755)


NO_LOCKS = ("ENOSYS", "ENOLCK")


@pytest.fixture
def disk(monkeypatch):
    """`disk(error, when)` makes `flock` fail: always, or on releasing only."""
    fcntl = pytest.importorskip("fcntl")
    works = fcntl.flock

    def fail_with(name, *, on_release=False):
        number = getattr(errno, name)

        def flock(file, operation):
            if on_release and operation != fcntl.LOCK_UN:
                return works(file, operation)
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(fcntl, "flock", flock)

    return fail_with


@pytest.mark.parametrize("name", NO_LOCKS)
def test_a_disk_without_locks_is_refused_in_one_line_that_says_what_to_do(name, disk, tmp_path):
    disk(name)
    with pytest.raises(ValueError, match="on a disk that can lock files") as refusal, lock_folder(tmp_path):
        pass
    message = str(refusal.value)
    assert message.isprintable() and str(tmp_path) in message and os.strerror(getattr(errno, name)) in message
    assert "a mount with locks" in message and "--without-lock" in message
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", NO_LOCKS)
def test_without_a_lock_nothing_stays_that_could_block(name, disk, tmp_path, process):
    disk(name)
    with lock_folder(tmp_path, without_lock=True):
        assert not (tmp_path / HOLDER).exists() and lock_holder(tmp_path) is None
        with lock_folder(tmp_path, without_lock=True):
            pass
    assert "error" not in process.run(job="lock", path=tmp_path)
    (tmp_path / HOLDER).write_text('{"process": 1, "host": "a host that was killed"}')
    assert lock_holder(tmp_path) is None


def test_the_switch_keeps_the_lock_of_a_disk_that_has_some(tmp_path, process):
    with lock_folder(tmp_path, without_lock=True):
        assert process.run(job="lock", path=tmp_path)["error"] == "FolderLockedError"


@pytest.mark.parametrize("name", ["ESTALE", "EIO", "ENOLCK"])
@pytest.mark.full
def test_an_error_on_releasing_ends_nothing(name, disk, tmp_path, process, monkeypatch):
    disk(name, on_release=True)
    with lock_folder(tmp_path):
        (tmp_path / "written").touch()
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        raise ZeroDivisionError
    gc.collect()
    monkeypatch.undo()
    assert (tmp_path / "written").exists() and not (tmp_path / HOLDER).exists()
    assert "error" not in process.run(job="lock", path=tmp_path)
    with lock_folder(tmp_path):
        assert process.run(job="lock", path=tmp_path)["error"] == "FolderLockedError"


def test_a_system_without_fcntl_continues(tmp_path):
    """There the library takes a lock of the system, or a file."""
    code = """
import sys, pathlib
sys.modules["fcntl"] = None
from popsim.store.identity import lock_folder, lock_holder
path = pathlib.Path(sys.argv[1])
for _ in range(2):
    with lock_folder(path):
        assert lock_holder(path)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code, tmp_path], check=True)


@pytest.mark.slow
@pytest.mark.full
def test_commands_refuse_a_disk_without_locks_or_are_told_to_go_without(disk, tmp_path, capsys):
    small = ["--members", "1", "--n-batches", "2", "--batch-size", "2", "--log-step", "1"]
    run, stopped, sweep = (str(tmp_path / name) for name in ("run", "stopped", "sweep"))
    with pytest.raises(RunStopped):
        run_experiment(
            Swept(n_members=1, n_batches=4, log_step=1), stopped, quiet=True, stop=stopping_after(1)
        )
    disk("ENOSYS")
    for command in (
        ["train", "swept", *small, "--quiet", "--out", run],
        ["resume", stopped, "--quiet"],
        ["sweep", "swept", *small, "--grid", "n_units=3,4", "--only-make", "--out", sweep],
        ["sweep", "run", sweep, "--cell", "0", "--quiet"],
    ):
        with pytest.raises(SystemExit) as end:
            main(command)
        complaint = capsys.readouterr().err
        assert end.value.code == 2 and complaint.count("\n") == 1, command
        assert "on a disk that can lock files" in complaint and "--without-lock" in complaint, command
        main([*command, "--without-lock"])
    with pytest.raises(SystemExit) as end:
        main(["resume", sweep, "--quiet"])
    assert end.value.code == 1 and "--without-lock" in capsys.readouterr().err
    main(["resume", sweep, "--quiet", "--without-lock"])
    main(["sweep", "script", sweep, "--slurm", "--without-lock"])
    assert '"$@" --quiet --without-lock &' in (tmp_path / "sweep" / "sweep.sbatch").read_text()
    for path in (run, stopped, sweep):
        assert not [*Path(path).rglob(HOLDER)]
        main(["info", path, "--verify"])
    assert " on '" not in capsys.readouterr().out
