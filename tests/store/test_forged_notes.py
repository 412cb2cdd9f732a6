"""A forged or stale index, or note of a cell, is as if it were missing: a sweep looks as it did before."""

import os
import shutil

import pytest
from command_ends import ended
from faults.forged_notes import REFUSED, forgeries, make_small_sweep, shown
from faults.mixtures import exchange
from short_form import mostly_in_full

import popsim.sweeps.entries
import popsim.sweeps.index
from popsim.store import CorruptDataError, read_sealed_json, write_sealed_json
from popsim.sweeps import open_sweep

pytestmark = pytest.mark.slow

ALL = forgeries()
SHORT = [*ALL][::192]
WITH_COMMANDS = [name for name in [*ALL][5::60] if name not in REFUSED]


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """A sweep, and what is shown of it."""
    path = tmp_path_factory.mktemp("sound") / "sw"
    make_small_sweep(path)
    return path, shown(path)


@pytest.mark.parametrize("forgery", mostly_in_full([*ALL], short=SHORT))
def test_what_does_not_fit_is_made_again(forgery, sound, tmp_path):
    path = shutil.copytree(sound[0], tmp_path / "sw")
    ALL[forgery](path)
    if forgery in REFUSED:
        with pytest.raises(CorruptDataError, match="index.safetensors must be a plain file"):
            shown(path)
        return
    assert shown(path) == sound[1]
    assert shown(path) == sound[1]  # of the index that was written again


def test_what_fits_is_not_made_again(sound, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a run was read although the index fits")

    monkeypatch.setattr(popsim.sweeps.entries, "inspect_cell", refuse)
    monkeypatch.setattr(popsim.sweeps.index, "read_cell", refuse)
    assert open_sweep(sound[0]).summary().to_csv() == sound[1]["summary"]


def test_a_note_of_an_earlier_state_is_not_believed(sound, tmp_path):
    """The files that it was made from are others now: another summary, and a history that was cut."""
    path = shutil.copytree(sound[0], tmp_path / "sw")
    (path / "index.safetensors").unlink()
    cells = [open_sweep(path).folder.cell(number) for number in (0, 1)]
    (path / "index.safetensors").unlink()
    summary = read_sealed_json(cells[0].summary)
    write_sealed_json(cells[0].summary, {**summary, "tau": [1.0, 2.0]})
    record = cells[1].history / "zarr.json"
    record.write_bytes(record.read_bytes()[:-100])
    opened = open_sweep(path)
    with pytest.warns(UserWarning, match="are damaged, and NaN: 1"):
        table = opened.summary()
    assert table["result_tau_ms"].tolist()[:2] == [1e3, 2e3]
    assert opened.counts["damaged"] == 1 and "zarr.json" in opened.problem_of(1)


def test_an_index_with_the_time_of_other_files_is_compared_before_it_is_shown(sound, tmp_path):
    """As of a copy that keeps the times of files of the same size."""
    path = shutil.copytree(sound[0], tmp_path / "sw")
    log = open_sweep(path).folder.cell(0).log
    times = log.stat().st_mtime_ns
    log.write_text(log.read_text().replace('"seconds": ', '"seconds": 1'))
    os.utime(log, ns=(times, times))
    opened = open_sweep(path)
    before = opened.index.seconds[0]
    opened.summary()
    assert opened.index.seconds[0] > before


def test_the_log_of_another_cell_is_said_before_anything_of_it_is_shown(sound, tmp_path):
    """In full: `benchmarks/reliability/mixtures.py`."""
    path = shutil.copytree(sound[0], tmp_path / "sw")
    exchange(*(path / "cells" / cell / "log.jsonl" for cell in ("000000", "000001")))
    opened = open_sweep(path)
    with pytest.warns(UserWarning, match="are damaged, and NaN: 0, 1"):
        table = opened.summary()
    assert table["validation_loss"].isna().all() and set(table["state"]) == {"damaged"}
    assert "log.jsonl must be a part of the run" in opened.problem_of(0)


@pytest.mark.usefixtures("as_users_run")
@pytest.mark.parametrize("forgery", mostly_in_full(WITH_COMMANDS, short=WITH_COMMANDS[::8]))
def test_commands_end_as_on_a_sound_sweep(forgery, sound, tmp_path, capfd):
    path = shutil.copytree(sound[0], tmp_path / "sw")
    commands = {
        "info": [],
        "export": ["--summary", tmp_path / "s.csv", "--history", tmp_path / "h.nc"],
        "show": ["--out", tmp_path / "report"],
        "resume": ["--quiet"],
    }
    for name, words in commands.items():
        shutil.rmtree(path)
        shutil.copytree(sound[0], path)
        ALL[forgery](path)
        assert ended(["--import", "swept_runs", name, str(path), *map(str, words)], capfd) == (0, "")
    assert (tmp_path / "s.csv").read_text() == sound[1]["summary"]
