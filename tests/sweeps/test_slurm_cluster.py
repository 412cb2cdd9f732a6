"""Sweeps on a real SLURM of one machine: preempted, out of time, with a node lost."""

import functools
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
import slurm_cluster
from repository import HELPERS
from small_training import assert_same
from swept_runs import Swept

from popsim.sweeps import Sweep, make_sweep, open_sweep, run_sweep
from popsim.sweeps.slurm import SlurmOptions, write_slurm_script

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(bool(slurm_cluster.missing()), reason=f"needs {slurm_cluster.missing()}"),
]
SWEEP = Sweep(Swept(n_batches=30_000, log_step=1_000), {"label": ("a", "b", "c", "d")}, range(16))
LONG = Sweep(Swept(n_batches=500_000, log_step=20_000), {}, range(2))


@functools.cache
def trained_in_order(n_batches):
    sweep = next(own for own in (SWEEP, LONG) if own.experiment.n_batches == n_batches)
    with tempfile.TemporaryDirectory() as path:
        make_sweep(sweep, f"{path}/sw")
        run = run_sweep(f"{path}/sw")
        return run.load().load(), run.ensemble()


@pytest.fixture
def cluster():
    """A cluster in a folder of a short name: sockets lie there, whose paths may have 108 letters."""
    with (
        tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True) as folder,
        slurm_cluster.SlurmCluster(Path(folder)) as cluster,
    ):
        yield cluster


def submitted(cluster, path, sweep=SWEEP, **options):
    """Submit a sweep as two jobs or less; return the opened sweep and the number of the array."""
    opened = make_sweep(sweep, path)
    setup = (f'export PATH="{Path(sys.executable).parent}:$PATH" PYTHONPATH="{HELPERS}"',)
    script = write_slurm_script(opened, SlurmOptions(tasks=2, setup=setup, **options))
    return opened, cluster.submit(script)


def wait_for_checkpoint(opened, number):
    until = time.monotonic() + 600
    while len([*opened.folder.cell(number).checkpoints.glob("*.safetensors")]) < 2:
        assert time.monotonic() < until
        time.sleep(0.1)


def check(cluster, opened, job):
    """Wait for the end, and compare with the sweep trained in order; return the tasks."""
    cluster.wait(job)
    logs = "\n".join(file.read_text() for file in (opened.folder.path / "logs").iterdir())
    now = open_sweep(opened.folder.path)
    assert now.is_finished, logs
    history, ensemble = trained_in_order(opened.sweep.experiment.n_batches)
    for name, values in history.data_vars.items():
        np.testing.assert_array_equal(now.load()[name].values, values.values, err_msg=name)
    assert_same(now.ensemble(), ensemble)
    return cluster.tasks(job)


def test_time_limit(tmp_path, cluster):
    """The jobs requeue themselves before it ends."""
    opened, job = submitted(cluster, tmp_path / "sw", LONG, time="0:03:00")
    tasks = check(cluster, opened, job)
    assert max(restarts for _, _, restarts in tasks.values()) >= 1


def test_preemption_and_a_node_that_is_lost(tmp_path, cluster):
    """Of 64 members in four cells."""
    opened, job = submitted(cluster, tmp_path / "a sweep")
    wait_for_checkpoint(opened, 0)
    cluster.run("scontrol", "requeue", f"{job}_0")
    wait_for_checkpoint(opened, 1)
    cluster.lose_node(cluster.tasks(job)[1][1])
    tasks = check(cluster, opened, job)
    assert tasks[0][2] == tasks[1][2] == 1
