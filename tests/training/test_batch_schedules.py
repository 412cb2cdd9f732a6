import jax
import jax.numpy as jnp
import numpy as np
import pytest

import popsim
from popsim.schedules import LAST_BATCH, ConstantSchedule, LinearSchedule, PiecewiseSchedule

RAMP = LinearSchedule(1.0, 3.0, first_batch=10, last_batch=20)
STEPS = PiecewiseSchedule((0, 5, 8), [1.0, -2.0, 4.0])
VALUES = {
    "steady": (ConstantSchedule(0.5), {0: 0.5, 1000: 0.5, LAST_BATCH: 0.5}),
    "ramp": (RAMP, {0: 1.0, 10: 1.0, 11: 1.2, 15: 2.0, 19: 2.8, 20: 3.0, 21: 3.0, LAST_BATCH: 3.0}),
    "falling": (LinearSchedule(1.0, 0.0, last_batch=4), {0: 1.0, 1: 0.75, 3: 0.25, 4: 0.0, LAST_BATCH: 0.0}),
    "phases": (STEPS, {0: 1.0, 4: 1.0, 5: -2.0, 7: -2.0, 8: 4.0, LAST_BATCH: 4.0}),
    "scaled": (0.1 * RAMP, {0: 0.1, 15: 0.2, LAST_BATCH: 0.3}),
    "scaled twice": (2 * (STEPS * 0.5), {4: 1.0, 5: -2.0}),
    "scaled by an array": (RAMP * jnp.array(2.0), {15: 4.0}),
}


@pytest.mark.parametrize("schedule, values", VALUES.values(), ids=VALUES)
def test_the_value_in_a_batch(schedule, values):
    in_loop = jax.jit(lambda batch: schedule(batch))
    for batch, value in values.items():
        np.testing.assert_allclose([schedule(batch), in_loop(jnp.asarray(batch))], value, rtol=1e-6)


def test_arrays_follow_a_schedule_too():
    ramp = LinearSchedule([0.0, 1.0], [1.0, 3.0], last_batch=2)
    assert ramp(1).tolist() == [0.5, 2.0]
    assert PiecewiseSchedule((0, 3), [[0.0, 1.0], [2.0, 3.0]])(3).tolist() == [2.0, 3.0]
    assert ConstantSchedule([1.0, 2.0])(7).tolist() == [1.0, 2.0]


def test_the_number_of_the_phase():
    assert [int(STEPS.phase(batch)) for batch in (0, 4, 5, 7, 8, LAST_BATCH)] == [0, 0, 1, 1, 2, 2]


def test_values_are_leaves_that_may_differ_between_members():
    ramp = LinearSchedule(0.0, popsim.PerMember([1.0, 3.0]), last_batch=2)
    assert float(popsim.select_member(ramp, 1)(1)) == 1.5
    for scaled in (popsim.PerMember([1.0, 3.0]) * RAMP, RAMP * popsim.PerMember([1.0, 3.0])):
        assert [float(popsim.select_member(scaled, i)(15)) for i in range(2)] == [2.0, 6.0]
    assert jax.grad(lambda ramp: ramp(1))(LinearSchedule(0.0, 1.0, last_batch=4)).stop == 0.25
