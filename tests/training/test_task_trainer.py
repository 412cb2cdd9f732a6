import dataclasses
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, build, member_of, train

import popsim
from popsim.training import TaskTrainer, TrainerOptions, Training, adam

pytestmark = pytest.mark.slow

TRAINER = TaskTrainer(OPTIMIZER)
OPTIONS = {"save_model_trainables": np.array([1, 4]), "save_trial_specs": np.array([0, 5]), "log_step": 4}


@pytest.fixture(scope="module")
def trained():
    return train(6, **OPTIONS)


def test_the_history_has_every_row_and_nothing_that_was_not_asked_for(trained):
    model, history = trained
    assert history.batch.tolist() == list(range(6))
    assert history.loss.total.shape == history.learning_rate.shape == (6, 2)
    assert np.all(np.isfinite(history.loss.total)) and np.allclose(history.learning_rate, 1e-2)
    np.testing.assert_allclose(history.loss.total, sum(history.loss.terms.values()), rtol=1e-6)
    assert history.validation_batch.tolist() == [3, 5] and history.validation_loss.total.shape == (2, 2)
    assert history.trainables_batch.tolist() == [1, 4] and sorted(history.trial_specs) == [0, 5]
    assert history.model_trainables.network.recurrent_weights.shape == (2, 2, 5, 5)
    before = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    np.testing.assert_array_equal(model.network.tau, before.network.tau)  # no parameter
    assert history.model_trainables.network.tau is None
    assert not np.array_equal(model.network.recurrent_weights, before.network.recurrent_weights)


@pytest.mark.full
def test_the_recorded_loss_is_that_of_the_recorded_trials():
    """Batch 0 by hand: without noise, the mean loss of the untrained model over the recorded trials."""
    untrained = popsim.make_ensemble(lambda key: build(key, noise_std=0.0), 2, key=jax.random.key(0))
    _, history = train(1, ensemble=untrained, save_trial_specs=np.array([0]))
    for index in range(2):
        trials = jax.tree.map(lambda leaf, i=index: leaf[i], history.trial_specs[0])
        own = popsim.member(untrained, index)
        by_hand = popsim.evaluate(own, RunningSum(), trials=trials, key=KEY).losses
        np.testing.assert_allclose(history.loss.total[0, index], by_hand.total.mean(), rtol=1e-5)


def test_the_number_of_batches_and_a_second_call_compile_nothing(count_compilations):
    """The compiled loop is one program for each shape, whatever the lengths of the calls."""
    train(3)
    with count_compilations() as compiled:
        train(9, log_step=2)
        train(7, log_step=3)
    assert compiled == []
    with count_compilations() as compiled:
        train(2, batch_size=5)
    assert compiled


@pytest.mark.full
def test_members_can_share_their_trials_but_not_their_noise():
    def shared(noise_std):
        model = build(jax.random.key(0), noise_std=noise_std)
        options = {"ensemble_random_trials": False, "save_trial_specs": np.array([1])}
        return train(2, ensemble=popsim.make_ensemble(lambda key: model, 2, key=KEY), **options)[1]

    noisy, quiet = shared(0.1), shared(0.0)
    assert noisy.trial_specs[1].inputs.shape == (4, 6, 1)
    assert noisy.loss.total[0, 0] != noisy.loss.total[0, 1]
    np.testing.assert_array_equal(quiet.loss.total[:, 0], quiet.loss.total[:, 1])


def test_losses_are_printed_at_log_points(capsys):
    entries = []
    trainer = TaskTrainer(OPTIMIZER, log_fns=[entries.append])
    train(4, trainer=trainer, log_step=2)
    assert capsys.readouterr() == ("", "")
    train(4, trainer=trainer, log_step=2, disable_tqdm=False)
    out, err = capsys.readouterr()
    further = ("compiling", "training: ")  # a program that no test before has compiled, and the rate
    rows = [line.split() for line in err.splitlines() if not line.startswith(further)]
    assert out == "" and " ".join(rows[0]) == "training 41 numbers in each of 2 members"
    assert rows[1] == ["batch", "loss", "validation", "activity", "squared_error"]
    for row, entry in zip(rows[2:], entries[2:], strict=True):
        terms = entry.validation_loss.terms
        losses = (entry.loss.total, entry.validation_loss.total, terms["activity"], terms["squared_error"])
        assert row == [str(entry.batch), *(f"{np.mean(loss):.3g}" for loss in losses)]


@pytest.mark.full
def test_rematerialisation_changes_only_rounding(trained):
    model, _ = train(6, trainer=TaskTrainer(OPTIMIZER, remat=True), **OPTIONS)
    assert_same(model, trained[0], atol=1e-5)


def test_the_arguments_of_the_trainer_and_of_a_call_are_those_of_the_documented_options():
    assert inspect.signature(TaskTrainer).parameters == inspect.signature(TrainerOptions).parameters
    of_call, of_training = (inspect.signature(each).parameters.values() for each in (TRAINER, Training))
    assert [*of_call] == [each for each in of_training if each.name != "population"]
    for options in (TrainerOptions, Training):
        named = {field.name for field in dataclasses.fields(options)}
        assert not {name for name in named if f"`{name}`" not in (options.__doc__ or "")}


def test_log_entries_hold_the_losses_of_their_batch_and_a_model_that_stays():
    seen = []
    trainer = TaskTrainer(OPTIMIZER, log_fns=[seen.append])
    model, history = train(6, trainer=trainer, log_step=4, batch_callbacks={3: [lambda: seen.append(3)]})
    first, called, last = seen  # a callback comes right after its batch
    assert called == 3 and (first.batch, last.batch) == (3, 5)
    for entry, validation in zip((first, last), history.validation_loss.total, strict=True):
        np.testing.assert_array_equal(entry.loss.total, history.loss.total[entry.batch])
        np.testing.assert_array_equal(entry.validation_loss.total, validation)
        np.testing.assert_array_equal(entry.learning_rate, history.learning_rate[entry.batch])
    assert_same(last.model, model)
    assert not np.array_equal(first.model.network.readout.bias, model.network.readout.bias)
    assert first.validation.states.network.output.shape == (2, 4, 6, 1)


CHANGING = iter([{"one": np.ones(2)}, {"another": np.ones(2)}])


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda states, trials: {"one": 1.0}, "validation_metrics"),
        (lambda states, trials: {"a..b": np.ones(2)}, "plain names"),
        (lambda states, trials: next(CHANGING), "same names.*another.*after"),
    ],
)
def test_metrics_that_cannot_be_recorded_are_refused(as_users_run, function, said):
    with pytest.raises(ValueError, match=said):
        train(2, trainer=TaskTrainer(OPTIMIZER, validation_metrics=function), log_step=1)


SCHEDULED = TaskTrainer(adam(optax.cosine_decay_schedule(1e-2, 8), clip_norm=1.0))


def test_training_continues_from_an_optimizer_state_as_if_never_stopped():
    whole, history = train(8, trainer=SCHEDULED)
    half, first = train(5, trainer=SCHEDULED)
    rest, second = train(8, trainer=SCHEDULED, ensemble=half, opt_state=first.opt_state, start_batch=5)
    assert_same(rest, whole)
    assert_same(second.opt_state, history.opt_state)
    assert second.batch.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(second.loss.total, history.loss.total[5:])
    np.testing.assert_array_equal(second.learning_rate, history.learning_rate[5:])


def test_the_optimizer_state_is_made_anew_where_told():
    whole, history = train(6, trainer=SCHEDULED, reset_opt_state_at=np.array([4]))
    half, _ = train(4, trainer=SCHEDULED)
    by_hand, second = train(6, trainer=SCHEDULED, ensemble=half, start_batch=4)
    assert_same(whole, by_hand)
    np.testing.assert_array_equal(history.learning_rate[4:], second.learning_rate)
    np.testing.assert_array_equal(history.learning_rate[4], history.learning_rate[0])


@pytest.mark.full
def test_an_optimizer_state_of_other_members_is_refused():
    ensemble, first = train(2, trainer=SCHEDULED)
    of_three = jax.tree.map(lambda leaf: leaf[jnp.asarray([0, 1, 1])], first.opt_state)
    with pytest.raises(ValueError, match="`opt_state` must be "):
        train(4, trainer=SCHEDULED, opt_state=of_three, start_batch=2)
    one = {"opt_state": member_of(first.opt_state, 0), "start_batch": 2}
    _, last = train(3, n_members=0, trainer=SCHEDULED, ensemble=popsim.member(ensemble, 0), **one)
    assert jax.tree.leaves(last.opt_state)
