"""Members divided over devices: the same training, nothing sent between devices."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import HELPERS

import popsim

pytestmark = pytest.mark.slow

START = """
import sys
sys.path.insert(0, {helpers!r})
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", {count})
from small_training import RunningSum, network, OPTIMIZER, assert_same, train
import popsim
from popsim.training import TaskTrainer
from popsim.training.loop import batch_loop
"""

RESUMED = """
import shutil, tempfile
from pathlib import Path
folder, told = Path(tempfile.mkdtemp()), [False, True]
first = TaskTrainer(OPTIMIZER, devices=jax.devices(), chkpt_dir=folder / "first", stop=lambda: told.pop(0))
_, history = train(12, n_members=5, trainer=first, log_step=3)
assert 0 < history.batch.size < 12
whole, expected = train(12, n_members=5)
for count in (4, 3, 1):
    copy = shutil.copytree(folder / "first", folder / str(count))
    rest = TaskTrainer(OPTIMIZER, devices=jax.devices()[:count], chkpt_dir=copy)
    model, history = train(12, n_members=5, trainer=rest, log_step=3, restore_checkpoint=True)
    assert_same(model, whole, rtol=0, atol=1e-6)
    assert_same(history.loss.terms, expected.loss.terms, rtol=1e-4)
shutil.rmtree(folder)
"""


FEATURES = """
task = RunningSum(loss=popsim.PerMember(np.arange(1.0, 6.0)) * RunningSum().loss)
bounded = lambda model: popsim.training.constraints.Range(lambda m: m.network.bias, -1e-3, 1e-3)(model)
phases = {0: lambda m: m.network.readout, 2: network}
options = dict(n_members=5, task=task, reset_opt_state_at=[3], where_train=phases)
one, history = train(6, trainer=TaskTrainer(OPTIMIZER, post_step_fns=(bounded,)), **options)
spread = dict(devices=jax.devices()[:3], member_batch_size=1)
many, own = train(6, trainer=TaskTrainer(OPTIMIZER, post_step_fns=(bounded,), **spread), **options)
assert_same(many, one, rtol=0, atol=1e-6)
np.testing.assert_allclose(own.loss.total, history.loss.total, rtol=1e-4)
assert_same(own.opt_state, history.opt_state, rtol=0, atol=1e-5)
assert own.loss.total.shape == (6, 5) and own.frozen_from.tolist() == [-1] * 5
"""

COLLECTIVES = """
compiled = []
run = batch_loop._compiled_run
def spy(*arguments):
    compiled.append(run.lower(*arguments).compile().compiled.as_text())
    return run(*arguments)
batch_loop._compiled_run = spy
many, _ = train(2, n_members=8, trainer=TaskTrainer(OPTIMIZER, devices=jax.devices()))
for word in ("all-reduce", "all-gather", "all-to-all", "collective-permute", "reduce-scatter"):
    assert word not in compiled[0], word
assert "num_partitions=4" in compiled[0]
batch_loop._compiled_run = run
assert_same(many, train(2, n_members=8)[0], rtol=0, atol=1e-6)
"""


@pytest.mark.full
@pytest.mark.parametrize(
    ("code", "count"),
    [
        pytest.param(FEATURES, 8, id="phases, constraints and members that differ, on 3"),
        pytest.param(RESUMED, 4, id="saved on 4, resumed on 4, 3 and 1"),
        pytest.param(COLLECTIVES, 4, id="nothing is exchanged"),
    ],
)
def test_devices_train_as_one_does(code, count):
    """Virtual devices, in a process of their own."""
    start = START.format(helpers=str(HELPERS), count=count)
    environment = os.environ | {"PYTHONPATH": str(Path(popsim.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", start + code], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
