"""The lock of a folder: who holds it, what a killed process leaves, and disks without locks."""

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from interruptions import closed, folder_of_others

from popsim.store.identity import HOLDER, LOCK, FolderLockedError, lock_folder, lock_holder

TAKE = """
import fcntl, sys
with open(sys.argv[1], "ab") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    print("held", flush=True)
    sys.stdin.read()
"""


def other_process(path):
    """Another process that holds the lock of a folder until its input ends, if it gets it."""
    command = [sys.executable, "-c", TAKE, str(path / LOCK)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def is_free(path):
    """Whether another process gets the lock."""
    with other_process(path) as other:
        return other.stdout.readline() == "held\n"


def test_the_holder_is_written_and_goes(tmp_path):
    with lock_folder(tmp_path):
        assert lock_holder(tmp_path) == f"process {os.getpid()} on {socket.gethostname()!r}"
        assert not is_free(tmp_path)
    assert not (tmp_path / HOLDER).exists() and is_free(tmp_path)
    with pytest.raises(ZeroDivisionError), lock_folder(tmp_path):
        raise ZeroDivisionError
    assert is_free(tmp_path)


def test_the_same_thread_may_lock_again_and_another_may_not(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def lock():
        with lock_folder(tmp_path):
            return True

    with lock_folder(tmp_path):
        with lock_folder(Path(".")):
            pass
        with ThreadPoolExecutor(1) as thread, pytest.raises(FolderLockedError, match="another thread of"):
            thread.submit(lock).result()
        assert (tmp_path / HOLDER).exists() and not is_free(tmp_path)
    assert is_free(tmp_path)


def test_another_process_is_refused_by_name_until_it_is_killed(tmp_path):
    with other_process(tmp_path) as other:
        assert other.stdout.readline() == "held\n"
        for note, named in (
            (json.dumps({"process": other.pid, "host": "node"}), f"process {other.pid} on 'node' holds it"),
            ('{"process": 1', "another process holds it"),
            ("[]", "another process holds it"),
        ):
            (tmp_path / HOLDER).write_text(note)
            with pytest.raises(FolderLockedError, match=named) as refusal, lock_folder(tmp_path):
                pass
            assert str(tmp_path) in str(refusal.value) and lock_holder(tmp_path)
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert (tmp_path / HOLDER).exists() and lock_holder(tmp_path) is None
    with lock_folder(tmp_path):
        assert json.loads((tmp_path / HOLDER).read_text())["process"] == os.getpid()


def test_a_folder_that_is_missing_vanishes_or_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    for path in (tmp_path / "nowhere", tmp_path / "file"):
        with pytest.raises(ValueError, match=f"`path`.*{path.name}"), lock_folder(path):
            pass
    assert not (tmp_path / "nowhere").exists()
    with lock_folder(tmp_path / "."):
        shutil.rmtree(tmp_path)
    assert not tmp_path.exists()
    refused = pytest.raises(ValueError, match="`path` must be a folder that can be written, got ")
    with folder_of_others() as folder, closed(folder), refused, lock_folder(folder):
        pass


@pytest.fixture
def disk(monkeypatch):
    """`disk(error)` makes `flock` fail: always, or on releasing only."""
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


@pytest.mark.parametrize("name", ["ENOSYS", "ENOLCK"])
def test_a_disk_without_locks_is_refused_or_used_without(name, disk, tmp_path, monkeypatch):
    disk(name)
    with pytest.raises(ValueError, match="on a disk that can lock files") as refusal, lock_folder(tmp_path):
        pass
    message = str(refusal.value)
    assert message.isprintable() and str(tmp_path) in message and os.strerror(getattr(errno, name)) in message
    assert "a mount with locks" in message and "--without-lock" in message
    assert not [*tmp_path.iterdir()]
    with lock_folder(tmp_path, without_lock=True):
        assert not (tmp_path / HOLDER).exists() and lock_holder(tmp_path) is None
        with lock_folder(tmp_path, without_lock=True):
            pass
    (tmp_path / HOLDER).write_text('{"process": 1, "host": "a host that was killed"}')
    assert lock_holder(tmp_path) is None
    monkeypatch.undo()
    with lock_folder(tmp_path, without_lock=True):  # of a disk that has some
        assert not is_free(tmp_path)


def test_an_error_on_releasing_ends_nothing(disk, tmp_path):
    disk("ESTALE", on_release=True)
    with lock_folder(tmp_path):
        (tmp_path / "written").touch()
    assert (tmp_path / "written").exists() and not (tmp_path / HOLDER).exists()
