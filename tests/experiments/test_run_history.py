"""The history of a run by name."""

import numpy as np
import xarray

from popsim.experiments import RunHistory


def test_a_total_is_not_known_where_a_term_is_not():
    """As of a member that was frozen: its terms are NaN, and so is their sum."""
    terms = np.array([[[1.0, 2.0], [3.0, np.nan], [np.nan, np.nan]]])
    loss = xarray.DataArray(terms, dims=("batch", "member", "term"))
    validation = loss.rename(batch="validation_batch")
    history = RunHistory(xarray.Dataset({"loss": loss, "validation_loss": validation}), None)
    for total in (history.total_loss, history.total_validation_loss):
        np.testing.assert_array_equal(total.values, [[3.0, np.nan, np.nan]])
    assert history.total_loss.dims == ("batch", "member")
