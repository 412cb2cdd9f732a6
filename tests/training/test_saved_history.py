import dataclasses

import equinox as eqx
import jax
import numpy as np
import pytest
from small_training import OPTIMIZER, build, train

import popsim
from popsim.training import AbstractPopulationUpdate, TaskTrainer, open_history, save_history

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ensemble():
    return popsim.make_ensemble(build, 3, key=jax.random.key(0))


@pytest.fixture(scope="module")
def trained(ensemble):
    return train(5, n_members=3, ensemble=ensemble, log_step=4, save_model_trainables=np.array([1, 4]))


def test_a_history_comes_back_with_named_axes(trained, tmp_path):
    history = dataclasses.replace(trained[1], metrics={"error": np.zeros((2, 3, 4))})
    save_history(tmp_path / "history.zarr", history)
    opened = open_history(tmp_path / "history.zarr")
    assert opened["metric.error"].dims == ("validation_batch", "member", "error axis 0")
    assert opened.loss.dims == ("batch", "member", "term")
    assert opened.term.values.tolist() == ["activity", "squared_error"]
    for term, values in history.loss.terms.items():
        np.testing.assert_array_equal(opened.loss.sel(term=term), values)
    np.testing.assert_array_equal(opened.learning_rate, history.learning_rate)
    np.testing.assert_allclose(opened.validation_loss.sum("term"), history.validation_loss.total, rtol=1e-6)
    assert opened.validation_batch.values.tolist() == [3, 4]
    assert opened.frozen_from.values.tolist() == [-1, -1, -1] and "loss_weights" not in opened
    biases = opened["trainables.network.bias"]
    assert biases.dims == ("trainables_batch", "member", "network.bias axis 0")
    assert "trainables.network.tau" not in opened
    np.testing.assert_array_equal(biases.sel(trainables_batch=4), history.model_trainables.network.bias[1])


def test_the_untrained_ensemble_is_the_row_before_the_first_batch(trained, ensemble, tmp_path):
    save_history(tmp_path / "history.zarr", trained[1], untrained=ensemble)
    biases = open_history(tmp_path / "history.zarr")["trainables.network.bias"]
    assert biases.trainables_batch.values.tolist() == [-1, 1, 4]
    np.testing.assert_array_equal(biases.sel(trainables_batch=-1), ensemble.network.bias)
    np.testing.assert_array_equal(biases.sel(trainables_batch=4), trained[0].network.bias)


def test_weights_of_the_loss_that_changed_are_kept(trained, tmp_path):
    weights = {
        name: np.arange(15.0).reshape(5, 3) + place for place, name in enumerate(trained[1].loss.terms)
    }
    save_history(tmp_path / "history.zarr", dataclasses.replace(trained[1], loss_weights=weights))
    saved = open_history(tmp_path / "history.zarr").loss_weights
    for name, values in weights.items():
        np.testing.assert_array_equal(saved.sel(term=name), values)


def test_the_history_of_one_model_has_no_member_axis(tmp_path):
    model = build(jax.random.key(2))
    _, history = train(5, n_members=0, ensemble=model, save_model_trainables=True)
    save_history(tmp_path / "history.zarr", history, untrained=model)
    opened = open_history(tmp_path / "history.zarr")
    assert opened.loss.dims == ("batch", "term") and "member" not in opened
    assert opened.frozen_from.item() == -1
    assert opened["trainables.network.bias"].shape == (6, 5)


def test_what_cannot_be_saved_or_opened_is_refused(trained, ensemble, tmp_path):
    _, history = trained
    with pytest.raises(ValueError, match=r"`path`.*exist"):
        save_history(tmp_path, history)
    without = dataclasses.replace(
        history, trainables_batch=np.array([], int), model_trainables=eqx.filter(ensemble, False)
    )
    with pytest.raises(ValueError, match="untrained"):
        save_history(tmp_path / "none.zarr", without, untrained=ensemble)
    with pytest.raises(ValueError, match=r"a\.\.b"):
        save_history(tmp_path / "none.zarr", dataclasses.replace(history, metrics={"a..b": np.zeros((2, 3))}))
    with pytest.raises(ValueError, match="must be a folder of arrays"):
        open_history(tmp_path / "none.zarr")
    (tmp_path / "other").mkdir()
    with pytest.raises(ValueError, match="other"):
        open_history(tmp_path / "other")


@pytest.mark.full
def test_settings_and_seeds_label_the_members(tmp_path):
    members = popsim.member_grid(2, strength=[0.5, 2.0], name=["low", "high"])
    _, history = train(2, n_members=8, members=members)
    save_history(tmp_path / "history", history)
    opened = open_history(tmp_path / "history")
    grid = opened.loss.set_index(member=["setting.strength", "setting.name", "seed"]).unstack("member")
    expected = members.group(history.loss.terms["squared_error"], axis=1)
    own = grid.sel(term="squared_error").transpose("batch", "setting.strength", "setting.name", "seed")
    np.testing.assert_array_equal(own.sel({"setting.name": ["low", "high"]}).values, expected)


def test_half_precision_halves_the_digits_on_disk_and_warns_where_it_is_too_small(tmp_path):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    bias = ensemble.network.bias.at[1].set(1e5)
    ensemble = eqx.tree_at(lambda model: model.network.bias, ensemble, bias)
    options = {"ensemble": ensemble, "save_model_trainables": np.array([1, 3])}
    _, exact = train(4, **options)
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    with pytest.warns(RuntimeWarning, match="overflow"):
        trained, history = train(4, trainer=trainer, trainables_dtype="float16", **options)
    weights = np.asarray(history.model_trainables.network.readout.weight)
    expected = np.asarray(exact.model_trainables.network.readout.weight).astype("float16")
    np.testing.assert_array_equal(weights, expected)
    assert weights.dtype == "float16" and np.all(np.isfinite(trained.network.bias))
    assert np.isinf(np.asarray(history.model_trainables.network.bias)[:, 1]).all()
    with pytest.raises(ValueError, match="trainables_dtype"):
        train(4, trainables_dtype="int8")


def test_the_history_of_a_training_in_a_folder_says_who_froze_and_who_was_stopped(ensemble, tmp_path):
    class StopFirst(AbstractPopulationUpdate):
        may_stop = True

        def __call__(self, population, results, state, *, batch, key):
            return dataclasses.replace(population, stopped=np.arange(3) == 0), state, {}

    bias = ensemble.network.bias.at[1].set(np.nan)
    ensemble = eqx.tree_at(lambda model: model.network.bias, ensemble, bias)
    updates = [StopFirst(every=2)]
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, population_updates=updates)
    with pytest.warns(UserWarning, match="member 1"):
        _, history = train(4, n_members=3, ensemble=ensemble, trainer=trainer)
    opened = open_history(tmp_path)
    for kept in (history, opened):
        assert np.asarray(kept.frozen_from).tolist() == [-1, 0, -1]
        assert np.asarray(kept.stopped_from).tolist() == [2, -1, -1]
