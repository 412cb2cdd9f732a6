import jax.numpy as jnp
import numpy as np
import pytest
from small_training import OPTIMIZER, train

from popsim.training import TaskTrainer
from popsim.training.loop.batches import CallDivision, batch_numbers, enabled_updates, max_kept_per_call


def ends_of_calls(schedule: CallDivision, seconds_per_batch: float) -> list[int]:
    ends = []
    while not schedule.is_finished:
        count = schedule.next_count()
        assert count >= 1
        schedule.record_call(count, count * seconds_per_batch)
        ends.append(schedule.next_batch)
    return ends


def test_calls_end_where_the_host_has_something_to_do_and_hold_at_most_the_capacity():
    ends = ends_of_calls(CallDivision(0, 300, [[99, 149]], 64), 1e-6)
    assert {100, 150, 300} <= set(ends)
    assert max(np.diff([0, *ends])) <= 64


def test_calls_last_about_a_second_from_a_later_start_too():
    assert max(np.diff(ends_of_calls(CallDivision(0, 100, [], 64), 0.1))) == 10
    assert ends_of_calls(CallDivision(7, 9, [], 64), 1e-6) == [8, 9]


def test_a_boolean_for_each_batch_is_a_mask():
    mask = np.isin(np.arange(10), [2, 7])
    for given in (mask, jnp.asarray(mask), mask.tolist()):
        assert batch_numbers("save_trial_specs", given, 10).tolist() == [2, 7]
    updates = (lambda model, states: None, lambda model, states: None)
    enabled = enabled_updates((mask, ~mask), updates, 10)
    assert enabled is not None and enabled[:, 0].tolist() == mask.tolist() == (~enabled[:, 1]).tolist()
    for wrong in (mask[:9], mask[None], [True], [-1], [10], [0.5]):
        with pytest.raises(ValueError, match="`save_trial_specs`"):
            batch_numbers("save_trial_specs", wrong, 10)


@pytest.mark.parametrize(
    "kept, n_batches, most", [([], 64, 0), ([5], 64, 1), ([0, 63, 64], 64, 2), (range(200), 64, 64)]
)
def test_the_most_that_one_call_can_keep(kept, n_batches, most):
    assert max_kept_per_call(np.array(kept, int), n_batches) == most


def test_a_training_of_any_length_begins_at_once():
    n_calls = []
    trainer = TaskTrainer(OPTIMIZER, stop=lambda: n_calls.append(0) or True)
    _, history = train(2**31 - 1, log_step=2, trainer=trainer)
    assert n_calls and history.batch.size <= 2
