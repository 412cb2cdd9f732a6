"""The wrong model of `savings.py`: a head start along the losses of the control group."""

import numpy as np

import savings


def test_a_head_start_goes_on_from_where_that_much_of_the_first_loss_is_gone():
    batches, rates = np.arange(80), np.array([0.02, 0.05])
    left = np.array([0.0, 0.1])
    ahead = -np.log(1 - left) / rates  # batches
    losses = np.exp(-np.outer(batches, rates))
    later = np.exp(-rates * np.minimum(batches[:, None] + ahead, 79))
    expected = 1 - later.mean(axis=0) / losses.mean(axis=0)
    np.testing.assert_allclose(savings.head_start(losses, left), expected, atol=1e-4)
