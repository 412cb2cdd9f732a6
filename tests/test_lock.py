import json
import os
import shutil
import socket
import tempfile
import threading
from pathlib import Path

import pytest
from saving_process import SavingProcess

from popsim.store.identity import HOLDER, LOCK, lock_folder


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


def test_the_same_process_may_lock_again(tmp_path, process, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with lock_folder(tmp_path):
        with lock_folder(Path(".")):
            pass
        errors = []
        thread = threading.Thread(target=lambda: errors.append(_locks(tmp_path)))
        thread.start()
        thread.join()
        assert errors == [True] and (tmp_path / HOLDER).exists()
        assert process.run(job="lock", path=tmp_path)["error"] == "FolderHeldError"
    assert "error" not in process.run(job="lock", path=tmp_path)


def _locks(path):
    with lock_folder(path):
        return True


def test_another_process_is_refused_by_name(tmp_path, process):
    with lock_folder(tmp_path):
        answer = process.run(job="lock", path=tmp_path)
        assert answer["error"] == "FolderHeldError"
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
