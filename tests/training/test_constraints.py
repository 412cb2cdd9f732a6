import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from short_form import every_nth_row

from popsim import PerMember, make_ensemble, member, select_member
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.per_member import member_values, with_member_values
from popsim.training import TrainState, sgd, train_step, train_step_post
from popsim.training.constraints import (
    DalesLaw,
    MaxNorm,
    NonNegativity,
    Range,
    SparsityMask,
    SpectralNorm,
    UnitNorm,
    ZeroDiagonal,
    dale_signs,
)

N_UNITS = 5
SIGNS = dale_signs(N_UNITS)
MASK = jax.random.bernoulli(jax.random.key(1), 0.4, (3 * N_UNITS, N_UNITS))


def recurrent(model):
    return model.cell.weight_hh


def norms(weights, axis):
    return np.linalg.norm(np.asarray(weights, float), axis=axis)


def blocks(weights):
    return np.asarray(weights).reshape(3, N_UNITS, N_UNITS)


CONSTRAINTS = {
    "range": (Range(recurrent, -0.1, 0.25), lambda w: np.all((w >= np.float32(-0.1)) & (w <= 0.25))),
    "range by column": (
        Range(recurrent, -np.inf, np.linspace(-1, 1, N_UNITS)),
        lambda w: np.all(w <= np.linspace(-1, 1, N_UNITS, dtype=np.float32)),
    ),
    "non-negativity": (NonNegativity(recurrent), lambda w: np.all(w >= 0)),
    "unit norm onto": (UnitNorm(recurrent), lambda w: np.allclose(norms(w, 1), 1, rtol=1e-6)),
    "unit norm from": (UnitNorm(recurrent, 0), lambda w: np.allclose(norms(w, 0), 1, rtol=1e-6)),
    "unit norm of all": (UnitNorm(recurrent, (0, 1)), lambda w: np.allclose(norms(w, (0, 1)), 1, rtol=1e-6)),
    "max norm": (MaxNorm(recurrent, 0.8), lambda w: np.all(norms(w, 1) <= 0.8 * (1 + 1e-6))),
    "spectral norm": (
        SpectralNorm(recurrent, 0.9),
        lambda w: np.linalg.norm(np.asarray(w, float), ord=2) <= 0.9 * (1 + 1e-6),
    ),
    "Dale's law": (DalesLaw(recurrent, SIGNS), lambda w: np.all(w * SIGNS >= 0)),
    "mask": (SparsityMask(recurrent, MASK), lambda w: np.all(w[~MASK] == 0)),
    "zero diagonal": (
        ZeroDiagonal(recurrent),
        lambda w: np.all(np.diagonal(blocks(w), axis1=1, axis2=2) == 0),
    ),
}
parametrize_all = pytest.mark.parametrize(
    ("constraint", "holds"), every_nth_row(CONSTRAINTS.values(), 3), ids=CONSTRAINTS
)


def build(key):
    return GRUNetwork(2, N_UNITS, 1, key=key)


def with_weights(weights):
    return eqx.tree_at(recurrent, build(jax.random.key(0)), weights)


def random_weights(getkey):
    return jax.random.normal(getkey(), (3 * N_UNITS, N_UNITS))


@parametrize_all
def test_it_holds_and_then_changes_nothing_more(getkey, constraint, holds):
    for _ in range(5):
        weights = random_weights(getkey)
        assert not holds(weights)
        model = with_weights(weights)
        projected = constraint(model)
        assert holds(recurrent(projected)) and recurrent(projected).dtype == weights.dtype
        again = recurrent(constraint(projected))
        np.testing.assert_allclose(again, recurrent(projected), rtol=1e-6)
        if "norm" not in type(constraint).__name__.lower():
            np.testing.assert_array_equal(again, recurrent(projected))
        others = eqx.tree_at(recurrent, projected, recurrent(model))
        assert eqx.tree_equal(others, model)


@pytest.mark.parametrize("name", ["max norm", "spectral norm"])
def test_what_is_within_a_norm_stays_bit_for_bit(getkey, name):
    constraint, holds = CONSTRAINTS[name]
    within = 0.1 * random_weights(getkey)
    assert holds(within)
    np.testing.assert_array_equal(constraint.project(within), within)


@pytest.mark.parametrize(
    "name, expected",
    [
        ("range", lambda w: np.clip(w, np.float32(-0.1), np.float32(0.25))),
        ("non-negativity", lambda w: np.maximum(w, 0)),
        ("Dale's law", lambda w: np.where(w * SIGNS < 0, 0, w)),
        ("mask", lambda w: np.where(MASK, w, 0)),
        ("zero diagonal", lambda w: w * np.tile(1 - np.eye(N_UNITS, dtype=w.dtype), (3, 1))),
    ],
)
def test_only_what_violates_is_changed(getkey, name, expected):
    weights = random_weights(getkey)
    np.testing.assert_array_equal(CONSTRAINTS[name][0].project(weights), expected(np.asarray(weights)))


BY_MEMBER = {
    "max norm": MaxNorm(recurrent, PerMember([0.01, 0.02])),
    "spectral norm": SpectralNorm(recurrent, PerMember([0.1, 0.2])),
    "range": Range(recurrent, PerMember([-0.1, 0.0]), 0.25),
    "Dale's law": DalesLaw(recurrent, PerMember([SIGNS, -SIGNS])),
    "mask": SparsityMask(recurrent, PerMember(jnp.stack([MASK, ~MASK]))),
}


@pytest.mark.parametrize("constraint", BY_MEMBER.values(), ids=BY_MEMBER)
def test_numbers_may_differ_between_members(getkey, constraint):
    ensemble = make_ensemble(build, 2, key=getkey())

    def constrain(model, values):
        return with_member_values(constraint, values)(model)

    constrained = eqx.filter_vmap(constrain)(ensemble, member_values(constraint, 2, "post_step_fns"))
    for index in range(2):
        alone = select_member(constraint, index)(member(ensemble, index))
        np.testing.assert_allclose(recurrent(constrained)[index], recurrent(alone), rtol=1e-5, atol=1e-7)
    other = select_member(constraint, 1).project(recurrent(member(ensemble, 0)))
    assert not np.allclose(recurrent(constrained)[0], other)


@pytest.mark.parametrize("size", [0.0, 1e-30, 1e30])
def test_norms_of_zeros_and_of_extreme_vectors(size):
    weights = jnp.full((2, 4), size)
    unit = UnitNorm(recurrent).project(weights)
    np.testing.assert_allclose(unit, 0.5 if size else 0.0, rtol=1e-6)
    short = MaxNorm(recurrent, 1.0).project(weights)
    np.testing.assert_allclose(short, 0.5 if size > 1 else weights, rtol=1e-6)


@pytest.mark.parametrize("name", ["range", "non-negativity", "Dale's law"])
def test_divergence_is_not_hidden(name):
    assert np.isnan(CONSTRAINTS[name][0].project(jnp.full((3 * N_UNITS, N_UNITS), jnp.nan))).all()


def test_of_a_network_the_parameters_are_projected_and_a_constant_where_it_is_picked(getkey):
    network = LeakyRNN(2, N_UNITS, 1, noise_std=0.5, key=getkey())
    after = Range(lambda m: m, -0.01, 0.01)(network)
    assert jnp.all(jnp.abs(after.recurrent_weights) <= 0.01)
    np.testing.assert_array_equal([after.tau, after.noise.std], [network.tau, network.noise.std])
    after = Range(lambda m: (m.tau, m.readout), 0.0, 0.02)(network)
    assert after.tau == jnp.float32(0.02) and after.noise.std == 0.5
    with pytest.raises(ValueError, match="`where` of Range must pick at least one parameter"):
        Range(lambda m: m.noise, 0.0, 0.02)(network)


@pytest.fixture
def supervised(getkey):
    model = eqx.nn.MLP(3, 1, 4, 1, key=getkey())
    images = jax.random.normal(getkey(), (8, 3))

    def step(constraints, where_train=None):
        state = TrainState.initial_state(model, sgd(0.1), jax.random.key(0), where_train=where_train)
        batch = {"image": images, "label": jnp.sum(images, axis=1, keepdims=True)}
        criterion = lambda output, label: jnp.mean((output - label) ** 2)  # noqa: E731
        metrics_fn = lambda output, label, criterion: {}  # noqa: E731
        return train_step_post(
            state, batch, lambda step: 0.1, criterion, train_step, metrics_fn, constraints
        )[0]

    return step


def test_what_is_not_trained_stays_none(supervised):
    both = NonNegativity(lambda model: (model.layers[0].weight, model.layers[1].weight))
    after = supervised([both], where_train=lambda model: model.layers[1])
    assert after.params.layers[0].weight is None
    assert jnp.all(after.params.layers[1].weight >= 0)
    with pytest.raises(ValueError, match="`where` of NonNegativity"):
        supervised([NonNegativity(lambda m: m.layers[0].weight)], where_train=lambda m: m.layers[1])


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Range(recurrent, 1.0, 0.0), "`low` of Range"),
        (lambda: MaxNorm(recurrent, 0.0), "`max_norm`"),
        (lambda: Range(recurrent, PerMember([0.0, 2.0]), 1.0), "`low` of Range must not exceed `high`"),
        (lambda: Range(recurrent, PerMember([0.0, 0.0]), PerMember([1.0] * 3)), "`Range.low` .* 3 members"),
        (lambda: DalesLaw(recurrent, PerMember([[1.0, 0.5]])), "`signs` of DalesLaw"),
        (lambda: DalesLaw(recurrent, 1.0)(build(jax.random.key(0))), r"`signs` of DalesLaw.* 5 col.* \(\)"),
        (lambda: UnitNorm(recurrent, ())(build(jax.random.key(0))), r"`axis` must be .* got \(\)"),
        (lambda: SparsityMask(recurrent, jnp.ones((15, 5))), "`mask` of SparsityMask .* float32"),
        (lambda: dale_signs(4, 1.5), "`excitatory_fraction`"),
        (lambda: Range(recurrent, jnp.zeros(3), 1.0)(build(jax.random.key(0))), r"\[3\].*\[15,5\]"),
        (lambda: SpectralNorm(lambda m: m.cell.bias, 1.0)(build(jax.random.key(0))), "`where` of SpectralN"),
        (lambda: SparsityMask(recurrent, MASK[:5])(build(jax.random.key(0))), "`mask` of SparsityMask"),
        (lambda: ZeroDiagonal(lambda m: m.cell.weight_ih)(build(jax.random.key(0))), "`where` of ZeroDiag"),
    ],
)
def test_what_makes_no_sense_is_refused(as_users_run, make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_the_fraction_of_excitatory_units():
    assert dale_signs(5).tolist() == [1, 1, 1, 1, -1] and dale_signs(3, 0.0).tolist() == [-1, -1, -1]
