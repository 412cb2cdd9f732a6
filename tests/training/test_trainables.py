import equinox as eqx
import jax
import pytest

from popsim.store import leaf_names
from popsim.training import select_trainables


def test_only_parameters_within_the_selection_are_trained(reach_setup, getkey):
    model = reach_setup[1](getkey())
    params, rest = select_trainables(model, lambda m: (m.network.cell, m.plant, m.channels))
    assert len(jax.tree.leaves(params.network)) == len(jax.tree.leaves(params)) == 4
    assert params.network.readout.weight is None and rest.network.readout.weight is not None
    assert params.plant.mass is None and rest.plant.mass is not None
    assert eqx.tree_equal(eqx.combine(params, rest), model)


def test_an_array_that_is_picked_by_itself_is_trained(reach_setup, getkey):
    model = reach_setup[1](getkey())
    params, rest = select_trainables(model, lambda m: (m.network, m.network.cell.weight_hh, m.plant.mass))
    assert params.plant.mass is not None and rest.plant.mass is None
    assert set(leaf_names(params)) == {"plant.mass", *leaf_names(select_trainables(model)[0])}


def test_none_selects_all_parameters_of_the_model(reach_setup, getkey):
    model = reach_setup[1](getkey())
    assert eqx.tree_equal(select_trainables(model), select_trainables(model, lambda m: m.network))


@pytest.mark.parametrize(
    "where",
    [lambda m: m.no_such_part, lambda m: m.dt, lambda m: m.interventions, lambda m: m.network.n_inputs]
    + [lambda m: m.plant, lambda m: (m.channels, m.motor_noise)],
)
def test_a_selection_without_a_parameter_raises(where, reach_setup, getkey):
    with pytest.raises(ValueError, match="where_train"):
        select_trainables(reach_setup[1](getkey()), where)
