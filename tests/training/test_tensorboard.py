import sys

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from small_training import OPTIMIZER, RunningSum, train
from tensorboard_events import read_events

from popsim.evaluation import Evaluation
from popsim.loss import LossValues
from popsim.training import LogEntry, TaskTrainer, TensorBoardWriter


def entry(batch, loss, learning_rate=0.5, trials=None):
    """A log point; the validation losses are ten times those of training."""
    terms = {name: np.asarray(values, np.float32) for name, values in loss.items()}
    validation = LossValues({name: np.asarray(10 * values) for name, values in terms.items()})
    states = {"position": jnp.full((3, 4, 2), float(batch))}
    rate = np.full(np.shape(terms["effort cost"]), learning_rate)
    evaluation = Evaluation(states, validation)
    trials = RunningSum().validation_trials() if trials is None else trials
    frozen = np.zeros(rate.shape, bool)
    return LogEntry(
        batch=batch,
        model=None,
        loss=LossValues(terms),
        validation_trials=trials,
        validation=evaluation,
        validation_loss=validation,
        metrics={},
        frozen=frozen,
        stopped=np.zeros_like(frozen),
        learning_rate=rate,
        seconds=1.0,
    )


def test_an_ensemble_is_written_as_means_and_by_member(tmp_path):
    writer = TensorBoardWriter(tmp_path / "events")
    writer(entry(9, {"error": [1.0, 2.0, 6.0], "effort cost": [0.5, 0.5, 0.5]}))
    writer(entry(19, {"error": [1.0, 1.0, 1.0], "effort cost": [0.0, 0.5, 1.0]}))
    writer.close()
    events = read_events(tmp_path / "events")
    assert events["training/total"] == [(9, 3.5), (19, 1.5)]
    assert events["training/error"] == [(9, 3.0), (19, 1.0)]
    assert events["validation/effort_cost"] == [(9, 5.0), (19, 5.0)]
    assert events["validation/total"] == [(9, 35.0), (19, 15.0)]
    assert events["training/total/member_2"] == [(9, 6.5), (19, 2.0)]
    assert events["validation/total/member_0"] == [(9, 15.0), (19, 10.0)]
    assert events["learning_rate"] == [(9, 0.5), (19, 0.5)]
    assert len(events) == 2 * (1 + 2 + 3) + 1


def test_figures_of_the_validation_trials_are_written_and_closed(tmp_path, reach_setup):
    trials = reach_setup[0].validation_trials()
    seen, open_before = [], plt.get_fignums()

    def draw(states, given):
        seen.append((float(states["position"][0, 0, 0]), given))
        figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
        axes.plot(states["position"][0, 0])
        return {"paths": figure}

    writer = TensorBoardWriter(tmp_path, draw)
    writer(entry(7, {"effort cost": [1.0]}, trials=trials))
    writer.close()
    ((step, image),) = read_events(tmp_path)["validation/paths"]
    assert step == 7 and (image.width, image.height) == (100, 50)
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert seen == [(7.0, trials)] and plt.get_fignums() == open_before


def test_a_training_logs_through_it(tmp_path):
    def draw(states, trials):
        figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
        axes.plot(states.network.output[0, 0], trials.targets[0])
        return {"output": figure}

    logging = {"enable_tensorboard": True, "tensorboard_logdir": tmp_path, "validation_figures": draw}
    _, history = train(3, trainer=TaskTrainer(OPTIMIZER, **logging), log_step=2)
    events = read_events(tmp_path)
    steps, totals = zip(*events["training/total"], strict=True)
    assert steps == (1, 2) and len(events["validation/output"]) == 2
    np.testing.assert_allclose(totals, history.loss.total[1:].mean(axis=1), rtol=1e-6)
    validation = [value for _, value in events["validation/total"]]
    np.testing.assert_allclose(validation, history.validation_loss.total.mean(axis=1), rtol=1e-6)
    np.testing.assert_allclose(events["learning_rate"][0][1], 1e-2, rtol=1e-6)
    assert {f"training/{name}" for name in history.loss.terms} <= set(events)


def test_a_missing_package_is_named_with_the_way_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ImportError, match=r'pip install "popsim\[tensorboard\]"'):
        TensorBoardWriter(tmp_path / "events")
    assert not (tmp_path / "events").exists()


def test_the_events_of_a_resumed_training_have_every_point_once(tmp_path):
    events = {"enable_tensorboard": True, "tensorboard_logdir": tmp_path / "events"}
    asked, options = [], {"chkpt_dir": tmp_path / "run", **events}
    stopped = TaskTrainer(OPTIMIZER, stop=lambda: asked.append(None) or len(asked) > 1, **options)
    assert train(12, trainer=stopped, log_step=2)[1].batch.size < 12
    train(12, trainer=TaskTrainer(OPTIMIZER, **options), log_step=2, restore_checkpoint=True)
    found = read_events(tmp_path / "events")
    assert [step for step, _ in found["training/total"]] == [1, 3, 5, 7, 9, 11]
