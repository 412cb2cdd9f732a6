"""Folders of sweeps that hold files of others, or were begun and not finished."""

import contextlib
import os

import pytest
from small_sweep import SWEEP, copy, make_begun

from popsim.store import files
from popsim.sweeps import CellsFailed, make_sweep, run_sweep, verify_sweep

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return make_begun(tmp_path_factory.mktemp("begun") / "sw")


@pytest.fixture
def sweep(begun, tmp_path):
    return copy(begun, tmp_path)


@pytest.mark.full
def test_a_sweep_is_reached_by_a_link_and_may_hold_files_of_others(sweep, tmp_path):
    (tmp_path / "link").symlink_to(sweep)
    (sweep / "notes").symlink_to(tmp_path / "nowhere")
    (sweep / "cells" / "notes").symlink_to(tmp_path / "nowhere")
    left = [sweep / f"{name}.0123abcd.partial" for name in ("sweep.yaml", "sweep.json")]
    for path in left:
        path.write_text("half")
    assert run_sweep(tmp_path / "link").is_finished and verify_sweep(tmp_path / "link") == {}
    assert not any(path.exists() for path in left) and not os.path.lexists(sweep / "failures" / "000001.json")
    assert all(os.path.islink(path) for path in (sweep / "notes", sweep / "cells" / "notes"))


@pytest.mark.parametrize("n_steps", [0, 1, 3, 5])
def test_a_start_that_was_interrupted_blocks_nothing(n_steps, tmp_path, monkeypatch):
    """After any number of files that were written, as where the disk is full or the process is killed."""
    written = iter(range(n_steps))
    replace = files.Path.replace

    def until_full(self, target):
        if next(written, None) is None:
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(files.Path, "replace", until_full)
    with contextlib.suppress(OSError):
        make_sweep(SWEEP, tmp_path / "sw")
    monkeypatch.undo()
    if (tmp_path / "sw" / "sweep.json").exists():
        with pytest.raises(ValueError, match="To continue it: popsim .*resume "):
            make_sweep(SWEEP, tmp_path / "sw")
    else:
        make_sweep(SWEEP, tmp_path / "sw")
    with contextlib.suppress(CellsFailed):
        run_sweep(tmp_path / "sw", [])
    assert verify_sweep(tmp_path / "sw") == {}
