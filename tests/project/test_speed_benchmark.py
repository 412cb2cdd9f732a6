"""The command of benchmarks/speed.py on contestants that train nothing, and what XLA compiles for popsim."""

import argparse

import jax
import pytest
from repository import ROOT
from short_form import mostly_in_full

BENCHMARKS = ROOT / "benchmarks"


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.mark.full
@pytest.mark.slow
def test_operations_of_the_compiled_training_step():
    import compiled_operations

    work = argparse.Namespace(body="point-mass", members=1, trials=64, steps=100, units=50)
    compiled = compiled_operations.compiled_training(compiled_operations.reference_training(work))
    counts = compiled_operations.counts(compiled)
    assert counts.forward.operations <= 33
    assert counts.forward.fused <= 90
    assert counts.backward.operations <= 40
    assert counts.backward.fused <= 150  # sums and products of stored gates are repeated
    assert counts.outside.operations <= 235
    assert counts.outside.fused <= 5100  # the hashes of all draws, each in one
    most = 1640 if jax.__version_info__ < (0, 11) else 1790
    assert compiled_operations.bytes_held(compiled, work) <= most


def operations_of_a_step(compiled):
    import compiled_operations

    forward, backward, _ = compiled_operations.counts(compiled)
    return forward.operations + backward.operations


@pytest.mark.slow
@pytest.mark.parametrize("name", mostly_in_full(["gru", "tanh"], ["gru"]))
def test_a_network_takes_no_more_operations_than_a_plain_scan(name):
    import compiled_operations

    ours = compiled_operations.compiled_training(compiled_operations.network_training(name, 2))
    with jax.numpy_dtype_promotion("standard"):  # for optax's Adam
        plain = compiled_operations.compiled_plain(name, 2)
    assert 0 < operations_of_a_step(ours) <= operations_of_a_step(plain)


@pytest.mark.slow
def test_a_network_takes_no_more_kernels_than_a_plain_scan():
    pytest.importorskip("jax_plugins.xla_cuda12", reason="compiles for a GPU, of which none is needed")
    import compiled_operations

    training = compiled_operations.network_training("low-rank", 2)
    ours = compiled_operations.compiled_training(training, for_h100=True)
    with jax.numpy_dtype_promotion("standard"):
        plain = compiled_operations.compiled_plain("low-rank", 2, for_h100=True)
    assert 0 < operations_of_a_step(ours) <= operations_of_a_step(plain)
