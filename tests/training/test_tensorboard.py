import sys

import jax
import matplotlib.pyplot as plt
import numpy as np
import pytest
from small_training import OPTIMIZER, train
from tensorboard_events import read_events

from popsim.training import TaskTrainer, TensorBoardWriter


def test_a_training_writes_means_the_totals_of_members_and_figures_which_it_closes(tmp_path):
    """As does a writer of one's own among the log functions."""
    seen, open_before = [], plt.get_fignums()

    def draw(states, trials):
        seen.append((states.network.output.shape, trials.targets.shape))
        figure, axes = plt.subplots(figsize=(2, 1), dpi=50)
        axes.plot(states.network.output[0, 0], trials.targets[0])
        return {"output": figure}

    own, folder = TensorBoardWriter(tmp_path / "own"), tmp_path / "events"
    logging = {"enable_tensorboard": True, "tensorboard_logdir": folder, "validation_figures": draw}
    _, history = train(3, trainer=TaskTrainer(OPTIMIZER, log_fns=[own], **logging), log_step=2)
    own.close()
    events = read_events(folder)
    logged = jax.tree.map(lambda rows: rows[1:], history.loss)
    for kind, loss in (("training", logged), ("validation", history.validation_loss)):
        expected = {name: rows.mean(axis=1) for name, rows in {"total": loss.total, **loss.terms}.items()}
        expected |= {f"total/member_{i}": loss.total[:, i] for i in range(2)}
        for name, rows in expected.items():
            steps, values = zip(*events[f"{kind}/{name}"], strict=True)
            assert steps == (1, 2)
            np.testing.assert_allclose(values, rows, rtol=1e-6)
    np.testing.assert_allclose([rate for _, rate in events["learning_rate"]], 1e-2, rtol=1e-6)
    (_, image), _ = events.pop("validation/output")
    assert (image.width, image.height) == (100, 50) and image.encoded_image_string.startswith(b"\x89PNG")
    assert seen == [((2, 4, 6, 1), (4, 6, 1))] * 2 and plt.get_fignums() == open_before
    assert len(events) == 2 * (1 + 2 + 2) + 1 and events == read_events(tmp_path / "own")


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
