"""Planted singular values and modes, distances of known ways, and whether members changed alike."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray
from quadratic_loss import Constant, nearness

import popsim
from popsim.analysis import trainables

PLANTED = np.array([4.0, 2.0, 1.0])


def orthonormal(n_rows, n_columns, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n_rows, n_columns)))[0]


@pytest.fixture
def planted():
    """A 7 x 5 matrix of rank 3."""
    return orthonormal(7, 3, 1) * PLANTED @ orthonormal(5, 3, 2).T


def test_planted_singular_values_of_a_change_are_found(planted):
    start = np.random.default_rng(3).normal(size=(2, 7, 5))
    weights = np.stack([start, start + planted, start + [0.5 * planted, 3 * planted]])
    found = trainables.change_singular_values(weights, initial=weights[0])
    expected = np.array([[0, 0], [1, 1], [0.5, 3]])[..., None] * np.append(PLANTED, [0, 0])
    np.testing.assert_allclose(found, expected, atol=1e-12)
    from_zero = trainables.change_singular_values(weights[:1] * 0 + planted, initial=np.zeros((2, 7, 5)))
    np.testing.assert_allclose(from_zero[0, :, :3], [PLANTED] * 2)


def test_numbers_of_dimensions_by_hand():
    values = np.array([[4.0, 2.0, 1.0, 0.0], [1.0, 1.0, 1.0, 0.0], [5.0, 0.0, 0.0, 0.0]])
    shares = np.array([4, 2, 1]) / 7
    np.testing.assert_allclose(
        trainables.effective_rank(values), [np.prod(shares**-shares), 3, 1], rtol=1e-12
    )
    np.testing.assert_allclose(
        trainables.participation_ratio_of_singular_values(values), [21**2 / 273, 3, 1], rtol=1e-12
    )
    for measure in (trainables.effective_rank, trainables.participation_ratio_of_singular_values):
        np.testing.assert_allclose(measure(1e-200 * values), measure(values))
        assert np.isnan(measure(np.zeros(4)))


@pytest.mark.parametrize("shape", [(24, 8), (8, 8), (1, 20)])
def test_the_closed_null_is_what_drawn_gaussian_matrices_have(shape):
    drawn = trainables.gaussian_singular_values(*shape, n_draws=400, norm=2.5, key=jax.random.key(0))
    np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), 2.5)
    ratios = trainables.participation_ratio_of_singular_values(drawn)
    closed = trainables.gaussian_participation_ratio(*shape)
    error = ratios.std() / 20 + 0.3 * closed / np.prod(shape)
    assert abs(ratios.mean() - closed) < 4 * error
    assert np.all(np.diff(drawn, axis=1) <= 0)


def test_a_truncated_change_is_the_nearest_of_its_rank(planted):
    for rank, left in ((0, 21), (1, 5), (2, 1), (3, 0), (5, 0)):
        nearest = trainables.low_rank_approximation(np.stack([planted, 2 * planted]), rank)
        np.testing.assert_allclose(np.sum((nearest[0] - planted) ** 2), left, atol=1e-12)
        np.testing.assert_allclose(nearest[1], 2 * nearest[0], atol=1e-12)
        assert np.linalg.matrix_rank(nearest[0], tol=1e-9) == min(rank, 3)


def test_strengths_of_given_modes_are_the_planted_ones():
    left, right = orthonormal(7, 3, 1), orthonormal(5, 3, 2)
    strengths = np.array([[0.0, 1.0, 2.0], [3.0, 2.0, -1.0]])[:, None] * np.array([1.0, 2.0])[:, None]
    weights = np.einsum("ra,tma,ca->tmrc", left, strengths, right)
    np.testing.assert_allclose(trainables.mode_strengths(weights, left, right), strengths, atol=1e-12)
    own = np.stack([left, -left]), np.stack([right, right])
    signs = np.array([1, -1])[:, None]
    np.testing.assert_allclose(trainables.mode_strengths(weights, *own), signs * strengths, atol=1e-12)


def test_the_modes_that_training_ended_with(planted):
    weights = np.stack([0.1 * planted, planted])[:, None]
    modes = trainables.final_modes(weights, 3)
    np.testing.assert_allclose(modes.strengths, [PLANTED])
    found = trainables.mode_strengths(weights, modes.left, modes.right)
    np.testing.assert_allclose(found[:, 0], [0.1 * PLANTED, PLANTED])
    np.testing.assert_allclose(
        (modes.left * modes.strengths[:, None]) @ np.swapaxes(modes.right, 1, 2), [planted], atol=1e-12
    )


def rotation(angle, radius):
    return radius * np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_rotations_have_their_angles_and_radii():
    weights = np.stack([[rotation(0.3, 0.9), rotation(1.2, 1.5)], [rotation(2.0, 0.5), rotation(0.0, 2.0)]])
    found = trainables.recurrent_eigenvalues(weights)
    assert found.shape == (2, 2, 2) and found.dtype == np.complex128
    np.testing.assert_allclose(np.abs(np.angle(found[0])), [[0.3, 0.3], [1.2, 1.2]])
    np.testing.assert_allclose(trainables.spectral_radius(weights), [[0.9, 1.5], [0.5, 2.0]])


def test_the_largest_come_first_and_of_gated_units_the_candidates_count():
    candidate = np.diag([0.1, -3.0, 2.0])
    gates = np.full((6, 3), 100.0)
    weights = np.concatenate([gates, candidate])[None, None]
    np.testing.assert_allclose(trainables.recurrent_eigenvalues(weights)[0, 0], [-3.0, 2.0, 0.1])


def circle(n_rows, radius):
    """Once round, by a member of radius 1 and one of the given radius; starts at (radius, 0)."""
    angles = np.linspace(0, 2 * np.pi, n_rows)
    return np.stack([r * np.stack([np.cos(angles), np.sin(angles)], axis=1) for r in (1.0, radius)], axis=1)


def test_the_way_round_a_circle_is_its_length_and_leads_back():
    history, initial = {"w": circle(2001, 3.0)}, {"w": circle(2, 3.0)[0]}
    measures = (trainables.distance_travelled, trainables.distance_from_start)
    travelled, away = (measure(history, initial=initial)["w"] for measure in measures)
    np.testing.assert_allclose(travelled.absolute[-1], [2 * np.pi, 6 * np.pi], rtol=1e-6)
    np.testing.assert_allclose(travelled.relative[-1], 2 * np.pi, rtol=1e-6)
    np.testing.assert_allclose(away.absolute[[0, 1000, 2000]], [[0, 0], [2, 6], [0, 0]], atol=1e-12)
    np.testing.assert_allclose(away.relative[1000], 2.0)
    n_sides = trainables.distance_travelled({"w": circle(7, 3.0)}, initial=initial)["w"].absolute[-1]
    np.testing.assert_allclose(n_sides, [6, 18])  # a hexagon: what is between rows is taken as straight


def test_on_a_straight_line_both_are_the_same_and_groups_add_in_squares():
    steps = np.arange(5.0)[:, None]
    history = {"a": 3 * steps[..., None] + np.ones((1, 2, 1)), "b": -4 * steps + np.zeros((1, 2))}
    start = {"groups": {"both": ["a", "b"], "a": ["a"]}, "initial": {"a": np.ones((2, 1)), "b": np.zeros(2)}}
    travelled, away = (
        trainables.distance_travelled(history, **start),
        trainables.distance_from_start(history, **start),
    )
    np.testing.assert_allclose(travelled["both"].absolute, 5 * steps * np.ones(2))
    np.testing.assert_allclose(away["both"].absolute, travelled["both"].absolute)
    np.testing.assert_allclose(travelled["a"].absolute, 3 * steps * np.ones(2))
    of_each = trainables.distance_from_start(history, initial=start["initial"])
    assert np.all(np.isnan(of_each["b"].relative))  # began at zero


def test_a_history_that_begins_after_training_did_needs_what_it_began_with():
    """Or the distance would be that since its first row, which is less."""
    data = xarray.DataArray(
        np.arange(12.0).reshape(3, 2, 2, 1) + 1,
        dims=("trainables_batch", "member", "row", "column"),
        coords={"trainables_batch": [99, 199, 299]},
    )
    late, in_memory = xarray.Dataset({"trainables.w": data}), {"w": data.values}
    for history in (late, in_memory):
        for measure in (trainables.distance_from_start, trainables.distance_travelled):
            with pytest.raises(ValueError, match="`initial` must be given"):
                measure(history)
        (array,) = history.values()
        with pytest.raises(ValueError, match="`initial` must be given"):
            trainables.change_singular_values(array)
    model = {"w": np.zeros((2, 2, 1))}
    np.testing.assert_allclose(
        trainables.distance_from_start(late, initial=model)["w"].absolute[0], [5**0.5, 5.0]
    )
    whole = late.assign_coords(trainables_batch=[-1, 99, 199])
    assert np.all(trainables.distance_from_start(whole)["w"].absolute[0] == 0)


def test_cosines_between_members_by_hand():
    changes = np.array([[1.0, 0.0], [2.0, 2.0], [-3.0, 0.0], [0.0, 0.0]])[..., None]
    found = trainables.member_alignment(changes)
    half = 0.5**0.5
    np.testing.assert_allclose(found[:3, :3], [[1, half, -1], [half, 1, -half], [-1, -half, 1]])
    assert np.all(np.isnan(found[3]))


def test_units_in_another_order_hide_the_same_change_except_from_outside():
    rng = np.random.default_rng(0)
    order = rng.permutation(40)
    change, readout, inputs = (rng.normal(size=shape) for shape in ((40, 40), (3, 40), (40, 4)))
    changes = np.stack([change, change[order][:, order]])
    assert abs(trainables.member_alignment(changes)[0, 1]) < 4 / 40
    seen = trainables.input_output_change(
        changes, readout=np.stack([readout, readout[:, order]]), inputs=np.stack([inputs, inputs[order]])
    )
    np.testing.assert_allclose(seen[0], readout @ change @ inputs)
    np.testing.assert_allclose(trainables.member_alignment(seen), 1.0)


def gradient(weights, weight):
    return 2 * np.asarray(weight)[:, None] * (weights - 1)


def alignment_of_steps(steps_of, n_steps=3):
    """Of members with the losses |w - 1|² and 3 |w - 1|² that take given steps."""
    weights = [np.array([[3.0, 0.0], [1.5, 5.0]])]
    for _ in range(n_steps):
        weights.append(weights[-1] + steps_of(gradient(weights[-1], [1.0, 3.0])))
    history = {"weights": np.stack(weights).astype(np.float32)}
    ensemble, task = Constant(jnp.zeros((2, 2))), nearness(popsim.PerMember(jnp.array([1.0, 3.0])))
    found = trainables.update_gradient_alignment(history, ensemble, task, key=jax.random.key(0))
    slopes = np.stack([gradient(own, [1.0, 3.0]) for own in weights[:-1]])
    return found["weights"], slopes


def test_gradient_descent_is_aligned_and_steps_by_sign_are_as_far_as_they_must_be():
    np.testing.assert_allclose(alignment_of_steps(lambda slope: -0.05 * slope)[0], 1.0, atol=1e-6)
    np.testing.assert_allclose(alignment_of_steps(lambda slope: 0.05 * slope)[0], -1.0, atol=1e-6)
    found, slopes = alignment_of_steps(lambda slope: -0.01 * np.sign(slope))  # Adam's first step
    expected = np.abs(slopes).sum(axis=2) / np.linalg.norm(slopes, axis=2) / 2**0.5
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert np.all(found < 0.99)
    across = alignment_of_steps(lambda slope: slope[:, ::-1] * [1e-3, -1e-3])[0]
    np.testing.assert_allclose(across, 0.0, atol=1e-4)
    assert np.all(np.isnan(alignment_of_steps(lambda slope: 0 * slope)[0]))
