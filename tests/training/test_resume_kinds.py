"""Trainings that stop and go on: with members that differ, double precision, devices, TensorBoard."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from repository import HELPERS
from small_training import OPTIMIZER, train
from tensorboard_events import read_events

import popsim
from popsim.store import Checkpoints
from popsim.training import TaskTrainer

pytestmark = pytest.mark.slow


def stopped_and_resumed(folder, n_batches, optimizer=OPTIMIZER, **options):
    """What a training gives that was told to stop when it was half done."""
    asked = []

    def stop():
        asked.append(None)
        return len(asked) > 1

    tensorboard = options.pop("tensorboard", {})
    stopped = TaskTrainer(optimizer, chkpt_dir=folder, stop=stop, **tensorboard)
    _, history = train(n_batches, trainer=stopped, **options)
    assert 0 < history.batch.size < n_batches
    rest = TaskTrainer(optimizer, chkpt_dir=folder, **tensorboard)
    return train(n_batches, trainer=rest, restore_checkpoint=True, **options)


def test_tensorboard_has_every_point_once(tmp_path):
    events = {"enable_tensorboard": True, "tensorboard_logdir": tmp_path / "events"}
    stopped_and_resumed(tmp_path / "run", 12, tensorboard=events, log_step=2)
    found = read_events(tmp_path / "events")
    assert [step for step, _ in found["training/total"]] == [1, 3, 5, 7, 9, 11]


ON_DEVICES = """
import sys
sys.path.insert(0, {helpers!r})
from pathlib import Path
import jax, shutil
jax.config.update("jax_num_cpu_devices", 4)
from small_training import OPTIMIZER, assert_same, train
from popsim.training import TaskTrainer

folder = Path({folder!r})
told = [False, True]
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
"""


@pytest.mark.full  # in short: test_devices and test_resume
def test_saved_on_four_devices_resumed_on_four_three_and_one(tmp_path):
    code = ON_DEVICES.format(helpers=str(HELPERS), folder=str(tmp_path))
    environment = os.environ | {"PYTHONPATH": str(Path(popsim.__file__).parents[1])}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert Checkpoints(tmp_path / "1" / "checkpoints").steps()[-1] == 12
