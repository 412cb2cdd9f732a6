"""The programs that are compiled before and after a training, and how."""

import equinox
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_experiment  # noqa: F401, which registers it
from small_reaches import small_reach_setup

import popsim
from popsim._compiled import as_array, compilation, is_tracing, jit_fast_compile, jit_low_memory
from popsim.cli import main

MOST = {"center-out": 30, "sum": 34}
TRAIN = ["train", "center-out", "--members", "1", "--n-batches", "2", "--batch-size", "2", "--n-units", "4"]
TRAIN += ["--duration", "0.1", "--plant", "point-mass", "--quiet"]  # as in test_cli
SUM = ["train", "sum", "--members", "1", "--n-batches", "2", "--batch-size", "2", "--quiet"]


@pytest.mark.slow
@pytest.mark.parametrize("train", [SUM, pytest.param(TRAIN, marks=pytest.mark.full)], ids=lambda own: own[1])
def test_a_training_compiles_few_programs(train, tmp_path, count_compilations):
    """Each takes a tenth of a second or more: what is small is computed with NumPy, or in one program."""
    equinox.clear_caches()
    jax.clear_caches()
    with count_compilations() as compiled:
        main([*train, "--out", str(tmp_path / "run")])
    assert 5 < len(compiled) <= MOST[train[1]]


def test_flags_of_the_user_stay_and_options_that_xla_does_not_know_are_left_out(monkeypatch):
    for flags, left in (
        ("", ["xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"]),
        ("--xla_backend_optimization_level=3", ["xla_cpu_use_fusion_emitters"]),
        ("--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=true", []),
        ("a file of flags", []),
    ):
        monkeypatch.setenv("XLA_FLAGS", flags)
        expected = {name: compilation.FAST_COMPILE[name] for name in left}
        known = {name: value for name, value in expected.items() if compilation._is_known(name, value)}
        on_cpu = known or None if jax.default_backend() == "cpu" else None
        assert compilation.compiler_options({**compilation.FAST_COMPILE, "xla_gone": True}) == on_cpu
    assert jit_low_memory(lambda x: 2 * x)(jnp.asarray(3)) == 6


def test_a_quick_program_is_one_of_its_own_or_a_part_of_another(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "")
    traced = []

    @jit_fast_compile
    def doubled(x, name):
        traced.append(is_tracing())
        return 2 * x, name

    assert not is_tracing()
    x = jnp.arange(3.0)
    for _ in range(2):
        values, name = doubled(x, "a")
    assert traced == [True] and name == "a"
    within = jax.jit(lambda x: doubled(x, "a")[0])(x)
    by_member = jax.vmap(lambda x: doubled(x, "a")[0])(x)
    gradient = jax.grad(lambda x: doubled(x, "a")[0].sum())(x)
    np.testing.assert_array_equal([within, by_member], [values, values])
    np.testing.assert_array_equal(gradient, np.full(3, 2.0))


def test_arrays_are_made_as_by_jax(count_compilations):
    values = [0.1, 3, True, [1, 2.5], np.arange(3), np.float64(0.3), (np.float32(1), 2)]
    expected = [jnp.asarray(value, jnp.float32) for value in values]
    with count_compilations() as compiled:
        arrays = [as_array(value, jnp.float32) for value in values]
    assert not compiled
    for array, own in zip(arrays, expected, strict=True):
        np.testing.assert_array_equal(array, own)
        assert (array.dtype, array.weak_type) == (own.dtype, own.weak_type)
    assert jax.jit(lambda x: as_array([x, 1.0], jnp.float32))(2.0).tolist() == [2.0, 1.0]


def test_zero_noise_is_no_noise_in_the_same_structure(getkey):
    task, build = small_reach_setup(n_units=2, duration=0.04)
    model = build(getkey())
    silent = popsim.noise.with_zero_noise(model)
    assert jax.tree.structure(silent) == jax.tree.structure(model)
    one, other = (
        popsim.evaluate(own, task, key=jax.random.key(0)) for own in (silent, popsim.without_noise(model))
    )
    np.testing.assert_allclose(one.losses.total, other.losses.total, rtol=1e-6)
