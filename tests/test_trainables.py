import equinox as eqx
import jax
import pytest

from popsim.training import select_trainables


def test_only_floating_point_arrays_within_the_selection_are_trained(reach_setup, getkey):
    model = reach_setup[1](getkey())
    params, rest = select_trainables(model, lambda m: (m.network.cell, m.plant))
    assert len(jax.tree.leaves(params.network)) == 4
    assert params.network.readout.weight is None and rest.network.readout.weight is not None
    assert params.plant.mass is not None and rest.plant.mass is None
    assert eqx.tree_equal(eqx.combine(params, rest), model)


def test_none_selects_the_whole_model(reach_setup, getkey):
    model = reach_setup[1](getkey())
    params, rest = select_trainables(model)
    assert len(jax.tree.leaves(params)) == len(jax.tree.leaves(eqx.filter(model, eqx.is_inexact_array)))


@pytest.mark.parametrize(
    "where",
    [lambda m: m.no_such_part, lambda m: m.dt, lambda m: m.interventions, lambda m: m.network.n_inputs],
)
def test_a_selection_without_trainable_arrays_raises(where, reach_setup, getkey):
    with pytest.raises(ValueError, match="where_train"):
        select_trainables(reach_setup[1](getkey()), where)
