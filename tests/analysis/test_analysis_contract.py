"""What holds for all analyses: lists, members in another order, NaN, nothing, and what is no array."""

import inspect
import re

import jax
import numpy as np
import pytest
from analysis_calls import AFTER_CONDITIONS, CALLS, FIRST_AXIS, INVARIANT, KEY, SECOND_AXIS, STATES

from popsim.analysis import dynamics, learning, neural_activity, similarity

ALL = pytest.mark.parametrize(
    ("module", "name"), CALLS, ids=[f"{module.__name__.rpartition('.')[2]}.{name}" for module, name in CALLS]
)
BAD = {
    "text": "text",
    "pair of arrays": (np.ones((2, 3, 4)), np.ones((2, 3, 4))),
    "durations": np.full((2, 3, 4), 200, "m8[ms]"),
}


def result_of(module, name, *arguments, **options):
    """The result as a PyTree."""
    result = getattr(module, name)(*arguments, **options)
    return vars(result) if hasattr(result, "__dataclass_fields__") else result


def first_argument(module, name):
    return next(iter(inspect.signature(getattr(module, name)).parameters))


def is_of_members(value, n_members, axis):
    return isinstance(value, np.ndarray) and value.ndim > axis and value.shape[axis] == n_members


@ALL
def test_lists_are_taken_like_arrays(module, name, as_users_run):
    arguments, options = CALLS[module, name]
    lists = jax.tree.map(
        lambda leaf: leaf.tolist() if isinstance(leaf, np.ndarray) else leaf, (arguments, options)
    )
    expected, found = (
        result_of(module, name, *arguments, **options),
        result_of(module, name, *lists[0], **lists[1]),
    )
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@ALL
@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_is_no_array_of_numbers_is_refused_by_name(module, name, bad, as_users_run):
    arguments, options = CALLS[module, name]
    with pytest.raises(ValueError, match=f"`{first_argument(module, name)}`"):
        result_of(module, name, bad, *arguments[1:], **options)


@ALL
def test_nothing_is_refused_by_name(module, name, as_users_run):
    """A member, trial or row too few is an error, not a result without numbers."""
    (first, *others), options = CALLS[module, name]
    with pytest.raises(ValueError, match="`"):
        result_of(module, name, first[:0], *others, **options)


@pytest.mark.parametrize(
    ("module", "name"), [call for call in CALLS if call[1] in [*FIRST_AXIS, *SECOND_AXIS, *INVARIANT]]
)
def test_members_in_another_order_have_their_results_in_it(module, name, as_users_run):
    arguments, options = CALLS[module, name]
    axis = int(name in SECOND_AXIS or name == "learning_curve")
    n_members = arguments[name in AFTER_CONDITIONS].shape[axis]

    def reversed_members(tree):
        return jax.tree.map(
            lambda leaf: np.flip(leaf, axis) if is_of_members(leaf, n_members, axis) else leaf, tree
        )

    expected = result_of(module, name, *arguments, **options)
    expected = expected if name in INVARIANT else reversed_members(expected)
    found = result_of(module, name, *reversed_members(arguments), **reversed_members(options))
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, rtol=1e-9, atol=1e-9), found, expected)


@pytest.mark.parametrize(
    ("module", "name"), [call for call in CALLS if call[1] in [*FIRST_AXIS, *SECOND_AXIS]]
)
def test_a_number_that_is_none_is_refused_or_stays_with_its_member(module, name, as_users_run):
    arguments, options = CALLS[module, name]
    axis = int(name in SECOND_AXIS)
    place = int(name in AFTER_CONDITIONS)
    n_members = arguments[place].shape[axis]
    given = list(arguments)
    if given[place].dtype != bool:
        given[place] = np.array(given[place], float)
        np.moveaxis(given[place], axis, 0)[0].flat[0] = np.nan
    try:
        found = result_of(module, name, *given, **options)
    except ValueError as error:
        assert re.search("`.* must be finite|infs or NaNs", str(error))  # or NumPy, of eigenvalues
        return
    expected = result_of(module, name, *arguments, **options)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if is_of_members(one, n_members, axis) and one.shape == np.shape(other):
            others = np.arange(1, n_members)
            np.testing.assert_array_equal(one.take(others, axis), other.take(others, axis))


AXES = {"trial": 6, "unit": 5}  # of the activity; no other axis is as long
OF_UNITS = (neural_activity, similarity)
BY_A_KEY = ("random_alignment", "rotation_test", "decode_shuffled_condition")


@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize(
    ("module", "name"),
    [
        call
        for call in CALLS
        if np.ndim(CALLS[call][0][0]) > 1 and call[0] in OF_UNITS and call[1] not in BY_A_KEY
    ],
)
def test_units_and_trials_may_have_another_order(module, name, axis, as_users_run):
    """Which changes no more than the order of what is told of each: the signs of directions neither."""
    arguments, options = CALLS[module, name]
    if axis == "trial" and name.startswith("decode"):
        pytest.skip("the folds are drawn by the places of trials")
    length = AXES[axis]
    order = np.random.default_rng(0).permutation(length)

    def orders(leaf):
        axes = [i for i, n in enumerate(np.shape(leaf)) if n == length]
        return [leaf, *(np.take(leaf, order, i) for i in axes)]

    permuted = jax.tree.map(
        lambda leaf: orders(leaf)[-1] if isinstance(leaf, np.ndarray) else leaf, arguments
    )
    found, expected = (result_of(module, name, *given, **options) for given in (permuted, arguments))
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert any(np.allclose(one, each, 1e-6, 1e-6, equal_nan=True) for each in orders(other))


def test_complex_numbers_are_taken_only_where_they_are_meant(as_users_run):
    with pytest.raises(ValueError, match="`values` must be an array of numbers.*complex128"):
        learning.moving_average(np.ones((12, 3)) + 1j, 3)
    assert dynamics.frequencies(np.exp(0.1j * np.ones(2)), dt=0.01).shape == (2,)


@pytest.mark.parametrize("draw", [dynamics.mixtures_of_states, dynamics.states_with_noise])
@pytest.mark.parametrize("pair", [tuple, list])
def test_the_arrays_of_a_hidden_state_are_not_taken_for_members(draw, pair, as_users_run):
    hidden, cell = STATES, 2 * STATES
    with pytest.raises(ValueError, match="`states` must be one array"):
        draw(pair((hidden, cell)), 3, key=KEY)
    assert draw(np.concatenate([hidden, cell], axis=-1), 3, key=KEY).shape == (2, 3, 6)
