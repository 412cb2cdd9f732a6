import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_training import assert_same, member_of, train

import popsim
from popsim.training import TaskTrainer, adam

pytestmark = pytest.mark.slow

SCHEDULED = adam(optax.cosine_decay_schedule(1e-2, 8), clip_norm=1.0)


def test_training_continues_from_an_optimizer_state_as_if_never_stopped():
    trainer = TaskTrainer(SCHEDULED)
    whole, history = train(8, trainer=trainer)
    half, first = train(5, trainer=trainer)
    rest, second = train(8, trainer=trainer, ensemble=half, opt_state=first.opt_state, start_batch=5)
    assert_same(rest, whole)
    assert_same(second.opt_state, history.opt_state)
    assert second.batch.tolist() == [5, 6, 7]
    np.testing.assert_array_equal(second.loss.total, history.loss.total[5:])
    np.testing.assert_array_equal(second.learning_rate, history.learning_rate[5:])


def test_the_optimizer_state_is_made_anew_where_told():
    trainer = TaskTrainer(SCHEDULED)
    whole, history = train(6, trainer=trainer, reset_opt_state_at=np.array([4]))
    half, _ = train(4, trainer=trainer)
    by_hand, second = train(6, trainer=trainer, ensemble=half, start_batch=4)
    assert_same(whole, by_hand)
    np.testing.assert_array_equal(history.learning_rate[4:], second.learning_rate)
    np.testing.assert_array_equal(history.learning_rate[4], history.learning_rate[0])


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("start_batch", {"start_batch": 6}),
        ("start_batch", {"start_batch": -1}),
        ("reset_opt_state_at", {"reset_opt_state_at": [9]}),
        ("opt_state", {"opt_state": {"count": 3}}),
    ],
)
def test_bad_ways_to_continue_are_refused(name, options):
    with pytest.raises(ValueError, match=name):
        train(6, **options)


@pytest.mark.full
def test_an_optimizer_state_of_other_members_is_refused():
    trainer = TaskTrainer(SCHEDULED)
    ensemble, first = train(2, trainer=trainer)
    of_three = jax.tree.map(lambda leaf: leaf[jnp.asarray([0, 1, 1])], first.opt_state)
    with pytest.raises(ValueError, match="`opt_state` must be "):
        train(4, trainer=trainer, opt_state=of_three, start_batch=2)
    one = {"opt_state": member_of(first.opt_state, 0), "start_batch": 2}
    _, last = train(3, n_members=0, trainer=trainer, ensemble=popsim.member(ensemble, 0), **one)
    assert jax.tree.leaves(last.opt_state)
