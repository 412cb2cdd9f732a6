"""One member's numbers stop being finite: it freezes, and no other member notices."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from short_form import every_nth
from small_training import OPTIMIZER, RunningSum, assert_same, build, member_of, train

import popsim
from popsim.experiments.run_info import read_run_info
from popsim.training import NonfiniteError, TaskTrainer
from popsim.training.loop.batches import CallDivision

pytestmark = pytest.mark.slow

BAD = 1  # the member
FROM = 2  # the batch


class Poisoned(RunningSum):
    """The inputs of one batch are too large for float32 where the poison is not zero."""

    poison: jax.Array = eqx.field(default_factory=lambda: jnp.zeros(3))

    def trial(self, *, batch, key):
        trial = RunningSum.trial(self, batch=batch, key=key)
        bad = jnp.where(batch == FROM, self.poison, jnp.zeros_like(self.poison))
        return eqx.tree_at(lambda t: t.targets, trial, trial.targets + bad)


def task(value):
    poison = popsim.PerMember(jnp.zeros(3).at[BAD].set(value))
    return eqx.tree_at(lambda t: t.poison, Poisoned(), poison)


def train_three(n_batches=6, poisoned=None, **options):
    """All by one compiled program."""
    poisoned = task(0.0) if poisoned is None else poisoned
    return train(n_batches, n_members=3, task=poisoned, save_model_trainables=True, **options)


def run(value=0.0, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = train_three(poisoned=task(value), **options)
    return *result, [str(warning.message) for warning in caught]


@pytest.fixture(scope="module")
def healthy():
    return run()


@pytest.mark.parametrize("value", every_nth([np.nan, np.inf, 1e30], 3), ids=["nan", "inf", "overflow"])
def test_a_bad_loss_freezes_its_member_and_changes_no_bit_of_the_others(value, healthy):
    model, history, said = run(value)
    assert healthy[1].frozen_from.tolist() == [-1, -1, -1] and healthy[2] == []
    assert history.frozen_from.tolist() == [-1, FROM, -1]
    assert len(said) == 1 and f"member {BAD}" in said[0] and f"batch {FROM}" in said[0]
    for good in (0, 2):
        assert_same(member_of(model, good), member_of(healthy[0], good))
        np.testing.assert_array_equal(history.loss.total[:, good], healthy[1].loss.total[:, good])
    weights = history.model_trainables.network.recurrent_weights[:, BAD]
    before = healthy[1].model_trainables.network.recurrent_weights[:, BAD]
    np.testing.assert_array_equal(weights[:FROM], before[:FROM])
    for row in weights[FROM:]:
        np.testing.assert_array_equal(row, before[FROM - 1])
    np.testing.assert_array_equal(model.network.recurrent_weights[BAD], before[FROM - 1])
    np.testing.assert_array_equal(history.loss.total[:FROM, BAD], healthy[1].loss.total[:FROM, BAD])
    assert not np.any(np.isfinite(history.loss.total[FROM:, BAD]))
    assert np.all(np.isnan(history.loss.total[FROM + 1 :, BAD]))
    assert np.all(np.isnan(history.learning_rate[FROM + 1 :, BAD]))


def test_raise_names_the_member_and_the_batch():
    with pytest.raises(NonfiniteError, match=f"member {BAD}.*batch {FROM}"):
        train_three(poisoned=task(np.nan), trainer=TaskTrainer(OPTIMIZER, nonfinite="raise"))


@pytest.mark.full
def test_an_overflow_in_the_optimizer_state_alone_is_seen():
    """A squared gradient of infinity makes every later step of Adam zero: the member would stand still."""
    _, first = train_three(2)
    nu = optax.tree_utils.tree_get(first.opt_state, "nu")
    broken = jax.tree.map(lambda leaf: leaf.at[BAD].set(jnp.inf), nu)
    opt_state = optax.tree_utils.tree_set(first.opt_state, nu=broken)
    with pytest.warns(UserWarning, match=f"member {BAD}"):
        _, history = train_three(4, opt_state=opt_state, start_batch=2)
    assert history.frozen_from.tolist() == [-1, 2, -1]


def test_a_member_that_is_bad_from_the_start_is_kept_as_it_came():
    ensemble = popsim.make_ensemble(build, 3, key=jax.random.key(0))
    bias = ensemble.network.bias.at[BAD].set(jnp.nan)
    ensemble = eqx.tree_at(lambda m: m.network.bias, ensemble, bias)
    with pytest.warns(UserWarning, match=f"member {BAD}"):
        model, history = train_three(2, ensemble=ensemble)
    assert history.frozen_from.tolist() == [-1, 0, -1]
    assert np.all(np.isnan(model.network.bias[BAD])) and np.all(np.isfinite(model.network.bias[0]))


@pytest.mark.full
def test_training_ends_after_the_batch_in_which_the_last_member_froze(tmp_path, monkeypatch):
    """However many batches are made at a time; a resumed one has nothing to do."""
    monkeypatch.setattr(CallDivision, "next_count", lambda schedule: 5)
    poisoned = eqx.tree_at(lambda t: t.poison, Poisoned(), popsim.PerMember(jnp.full(3, jnp.nan)))
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    with pytest.warns(UserWarning, match="member 0, 1, 2 .*training ends"):
        ended = train_three(70, poisoned, trainer=trainer)
    with pytest.warns(UserWarning, match="training does not continue: every member is frozen"):
        resumed = train_three(70, poisoned, trainer=trainer, restore_checkpoint=True)
    for model, history in (ended, resumed):
        assert history.batch.tolist() == history.trainables_batch.tolist() == [0, 1, 2]
        assert history.validation_batch.tolist() == [2] and history.frozen_from.tolist() == [2, 2, 2]
        assert np.all(np.isfinite(model.network.bias))
    assert read_run_info(tmp_path)["frozen_from"] == {0: 2, 1: 2, 2: 2}


@pytest.mark.full
def test_an_optimizer_may_start_from_infinity():
    optimizer = optax.chain(OPTIMIZER, optax.contrib.reduce_on_plateau(accumulation_size=4))
    _, history = train(2, trainer=TaskTrainer(optimizer))
    assert history.frozen_from.tolist() == [-1, -1]


def test_an_optimizer_reset_leaves_frozen_members_alone(healthy):
    _, history, _ = run(np.nan, reset_opt_state_at=[4])
    assert history.frozen_from.tolist() == [-1, FROM, -1]
    rates = optax.tree_utils.tree_get(history.opt_state, "mu").network.bias
    np.testing.assert_array_equal(np.all(np.isfinite(rates), axis=-1), [True, True, True])
