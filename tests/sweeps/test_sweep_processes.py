"""Sweeps in processes, here and on Dask: as in order, with processes and workers killed, with failures."""

import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import threading
import time

import dask
import distributed
import numpy as np
import pytest
from small_training import assert_same
from swept_runs import Swept

from popsim.analysis.trainables import spectral_radius
from popsim.cli import main
from popsim.experiments import RunStopped
from popsim.store.identity import lock_folder, lock_holder
from popsim.sweeps import CellsFailed, Sweep, _on_dask, executors, make_sweep, run_sweep
from popsim.sweeps.executors import CellOutcome, CellProcess

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of distributed, as its workers are killed
]
LONG = Swept(n_batches=3_000, log_step=500)
SWEEP = Sweep(LONG, {"rate": (1e-3, 1e-2), "label": ("a", "b")}, range(2))


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    """The sweep trained cell after cell, on one device as the cells of a worker are."""
    path = tmp_path_factory.mktemp("in-order") / "sw"
    make_sweep(SWEEP, path)
    return run_sweep(path)


@pytest.fixture(scope="module")
def cluster():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


def same(one, other):
    assert one.is_finished and other.is_finished
    for own, expected in zip(one.load().data_vars.items(), other.load().data_vars.items(), strict=True):
        np.testing.assert_array_equal(own[1].values, expected[1].values, err_msg=own[0])
    assert_same(one.ensemble(), other.ensemble())


@pytest.fixture
def made(tmp_path):
    return make_sweep(SWEEP, tmp_path / "sw").folder.path


@pytest.fixture
def run_script(monkeypatch, tmp_path):
    """Have processes of cells run some Python in place of popsim, in which `first` is true once."""
    monkeypatch.setattr(executors, "SECONDS_TO_RETRY", 0.01)

    def use(script):
        begin = f"import os, pathlib, signal, sys, time\nfile = pathlib.Path({str(tmp_path)!r}) / 'began'\n"
        begin += "first = not file.exists()\nfile.open('a').write(f'{os.getpid()}\\n')\n"
        command = [sys.executable, "-c", begin + script]
        monkeypatch.setattr(CellProcess, "command", lambda process, number: command)
        return tmp_path / "began"

    return use


def test_a_process_that_is_killed_is_started_again(made, run_script):
    began = run_script("os.kill(os.getpid(), signal.SIGKILL) if first else None")
    told = []
    with pytest.raises(CellsFailed, match="the first: it is not finished"):  # the script has trained nothing
        run_sweep(made, [1], n_workers=1, tell=told.append)
    assert told == ["cell 1 is finished"] and len(began.read_text().split()) == 2
    began = run_script("os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(CellsFailed, match="the process of cell 1 ended with code -9"):
        run_sweep(made, [1], n_workers=1)
    assert len(began.read_text().split()) == 2 + 1 + executors.RETRIES


def test_a_cell_that_is_named_twice_has_one_process_with_all_cores(made, monkeypatch):
    began = []

    def train(process, number, stopping, place):
        began.append((number, place))
        return CellOutcome()

    monkeypatch.setattr(CellProcess, "train", train)
    with pytest.raises(CellsFailed, match="1 of 2 cells is not finished: 1"):
        run_sweep(made, iter([1, 1]), n_workers=8)
    assert began == [(1, (0, 1))]


def test_a_cell_that_another_process_trains_is_left(made, monkeypatch):
    monkeypatch.setattr(executors, "SECONDS_HELD", -1)
    place, told = made / "cells" / "000001", []
    place.mkdir()
    with lock_folder(place):
        assert run_sweep(made, [1], n_workers=1, tell=told.append).unfinished_cells == [0, 1]
    assert "cell 1 is left to process" in told[0]


@pytest.mark.parametrize("stopped_by", [RunStopped, KeyboardInterrupt])
def test_whoever_stops_waits_for_processes_that_save_and_end(stopped_by, made, run_script):
    began = run_script("signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))\ntime.sleep(60)")

    def stop():
        if began.exists() and stopped_by is KeyboardInterrupt:
            raise KeyboardInterrupt
        return began.exists()

    told = []
    with pytest.raises(stopped_by):
        run_sweep(made, n_workers=1, stop=stop, tell=told.append)
    (process,) = began.read_text().split()  # the cells that were waiting are not begun
    assert not os.path.exists(f"/proc/{process}")
    assert sorted(told) == ["cell 0 is stopped", "cell 1 is stopped"][: 2 * (stopped_by is RunStopped)]


@pytest.mark.parametrize("had_workers", [False, True])
def test_workers_that_are_missing_or_lost_are_waited_for_until_it_is_to_stop(had_workers, made, monkeypatch):
    if had_workers:
        monkeypatch.setattr(_on_dask, "_wait_for_workers", lambda *_: None)
    said = pytest.warns(UserWarning, match="the Dask scheduler inproc://.* has none yet")
    with (
        distributed.LocalCluster(n_workers=0, dashboard_address=":0", processes=False) as empty,
        distributed.Client(empty, set_as_default=False) as client,
        contextlib.nullcontext() if had_workers else said,
        pytest.raises(RunStopped),
    ):
        run_sweep(made, scheduler=client, stop=iter([False, True]).__next__)


@pytest.mark.full
@pytest.mark.parametrize("where", ["here", "dask"])
def test_a_killed_process_costs_nothing(where, made, in_order, cluster):
    """That of a cell here, or a worker, whose cell goes on elsewhere from a checkpoint; nothing lives on."""
    killed = []

    def kill():
        while not (saved := [*made.glob("cells/*/checkpoints/*.safetensors")]):
            time.sleep(0.05)
        if where == "here":
            killed.append(int(lock_holder(saved[0].parents[1]).split()[1]))
        else:
            with distributed.Client(cluster.scheduler_address) as client:
                killed.append(next(iter(client.run(os.getpid).values())))
        os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    with distributed.Client(cluster, set_as_default=False) as client:
        place = {"n_workers": 2} if where == "here" else {"scheduler": client}
        finished = run_sweep(made, **place, enable_tensorboard=True)
        assert client.status == "running"
    thread.join()
    assert killed
    assert len([*made.glob("cells/*/tensorboard/events.out.tfevents.*")]) >= SWEEP.n_cells
    same(finished, in_order)


@pytest.mark.full
def test_blocks_of_a_history_are_read_by_workers(in_order, cluster):
    loss, weights = (in_order.load()[name] for name in ("loss", "trainables.network.recurrent_weights"))
    with distributed.Client(cluster.scheduler_address):
        mean = (loss.chunk({"member": 3}) ** 2).mean("batch").compute()
        blocks = weights.chunk({"member": 3}).data
        radius = blocks.map_blocks(spectral_radius, drop_axis=(2, 3), dtype=float).compute()
    np.testing.assert_allclose(mean.values, (loss**2).mean("batch").values, rtol=1e-6)
    np.testing.assert_allclose(radius, spectral_radius(weights), rtol=1e-12)


@pytest.mark.full  # in short: test_sweep_runs.test_cells_fail_alone
def test_a_cell_fails_alone_and_what_is_stopped_goes_on(tmp_path, cluster):
    made = Sweep(Swept(n_members=1), {"label": ("good", "unlucky")}, range(1))
    make_sweep(made, tmp_path / "failing")
    told = []
    with pytest.raises(CellsFailed, match="1 of 2 cells is not finished: 1; the first: .*label is unlucky"):
        run_sweep(tmp_path / "failing", scheduler=cluster.scheduler_address, tell=told.append)
    assert any("cell 0 is finished" in line for line in told)
    opened = make_sweep(SWEEP, tmp_path / "stopped")
    began = functools.partial(lock_holder, opened.folder.cell(0).path)
    for where in ({"scheduler": cluster.scheduler_address}, {"n_workers": 2}):
        with pytest.raises(RunStopped):
            run_sweep(tmp_path / "stopped", **where, stop=lambda: began() is not None)
        assert all(lock_holder(opened.folder.cell(number).path) is None for number in range(SWEEP.n_cells))


@pytest.mark.full
def test_workers_of_another_popsim_are_named(made, monkeypatch, cluster):
    with pytest.raises(ValueError, match="`n_devices` must be given with `n_workers` or `scheduler`, got 2"):
        run_sweep(made, n_devices=2)
    monkeypatch.setattr(_on_dask, "__version__", "0.0.1")  # of this process, not of the workers
    with pytest.raises(ValueError, match=r"workers with popsim 0\.0\.1 .*, got tcp://.*: it has popsim 0"):
        run_sweep(made, scheduler=cluster.scheduler_address)
    assert not [*(made / "cells").iterdir()]


def test_what_is_no_scheduler_is_refused_in_one_line(made, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_on_dask, "SECONDS_TO_CONNECT", 1)
    file = tmp_path / "scheduler.json"
    file.write_text("junk")
    for scheduler, message in (
        ("tls://127.0.0.1:8786", "TLS"),
        ("nowhere", "missing port number"),
        ("tcp://127.0.0.1:1", "tcp://127.0.0.1:1"),
        (str(file), "must hold JSON"),
    ):
        with pytest.raises(SystemExit) as end:
            main(["sweep", "run", str(made), "--scheduler", scheduler])
        assert dask.config.get("scheduler", None) is None  # computations of the process go on
        said = capsys.readouterr().err
        assert end.value.code == 2 and said.count("\n") == 1 and message in said
        assert said.startswith("popsim: error: --scheduler must be a Dask scheduler that answers, got")


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:waiting for workers")  # if its worker is slow to come
def test_a_scheduler_that_dies_is_named_in_one_line(tmp_path, monkeypatch, capsys):
    """Its worker saves the cell and ends."""
    monkeypatch.setenv("DASK_DISTRIBUTED__COMM__RETRY__COUNT", "0")
    long = Sweep(dataclasses.replace(LONG, n_batches=10**6, log_step=1000), {}, range(1))
    folder, file = make_sweep(long, tmp_path / "sw").folder, tmp_path / "scheduler.json"
    with contextlib.ExitStack() as stack:

        def start(kind, *options):
            command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", f"--scheduler-file={file}"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = stack.enter_context(subprocess.Popen([*command, "--no-dashboard", *options], **quiet))
            stack.callback(process.kill)
            return process

        def end_scheduler():
            while folder.holder(0) is None:
                time.sleep(0.05)
            scheduler.kill()

        scheduler, _ = start("scheduler", "--port=0"), start("worker")
        while not file.exists():
            time.sleep(0.05)
        thread = threading.Thread(target=end_scheduler)
        thread.start()
        with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), pytest.raises(SystemExit) as end:
            main(["sweep", "run", str(folder.path), "--scheduler", str(file), "--quiet"])
        thread.join()
        said = capsys.readouterr().err
        assert end.value.code == 1 and said.count("\n") == 1, said
        assert "the Dask scheduler of" in said and "popsim --import swept_runs sweep run" in said
        while folder.holder(0) is not None:
            time.sleep(0.05)
