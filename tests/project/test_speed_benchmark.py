"""The command of benchmarks/speed.py on contestants that train nothing, and what XLA compiles for popsim."""

import argparse
import json
import sys

import jax
import pytest
from repository import ROOT
from short_form import mostly_in_full

BENCHMARKS = ROOT / "benchmarks"
CONTESTANT = """
from contestants import worker

work = worker.options()
worker.Clock().take_turns(lambda n_batches: sum(range(1000 * work.members * n_batches)), work)
"""


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)


def contestants(folder, *names):
    import side_by_side

    (folder / "standin.py").write_text(f"import sys\nsys.path.append({str(BENCHMARKS)!r})\n{CONTESTANT}")
    runner = folder / "python"
    runner.write_text(f'#!/bin/sh\nshift 2\nexec {sys.executable} {folder}/standin.py "$@"\n')
    runner.chmod(0o755)
    return [side_by_side.Contestant(name, str(runner), {"members": 2}, 4) for name in names]


def test_contestants_take_turns_and_are_compared_with_plain_jax(tmp_path):
    import side_by_side
    import speed
    from speed_works import Row

    turns = side_by_side.take_turns(contestants(tmp_path, "plain JAX", "popsim"), 3)
    assert [len(own) for own in turns.values()] == [3, 3]
    found = side_by_side.medians(turns)
    assert found["plain JAX"]["to plain JAX"] == 1.0
    assert found["popsim"]["least"] <= found["popsim"]["to plain JAX"] <= found["popsim"]["most"]
    assert side_by_side.first_call(contestants(tmp_path, "popsim")[0]).cpu > 0.0

    rows = [Row("point-mass", "2 members", name, values) for name, values in found.items()]
    sizes = (1.0, 4.0, 16.0, 64.0)
    rows += [Row("growth", f"{n} members", "members", {"size": n, "wall ms": n, "MB": 5.0}) for n in sizes]
    first, *lines = speed.table(rows[:2]).splitlines()
    assert "to plain JAX" in first
    assert [line.split()[2] for line in lines] == ["plain", "popsim"]
    speed.write(rows, tmp_path / "out")
    assert len(json.loads((tmp_path / "out" / "speed.json").read_text())["rows"]) == 6
    assert (tmp_path / "out" / "speed.png").stat().st_size > 10_000


def test_failing_contestant_is_named(tmp_path):
    import side_by_side

    broken = side_by_side.Contestant("broken", sys.executable, {}, module="no_such_module")
    with pytest.raises(side_by_side.ContestantError, match="broken failed.*\n.*no_such_module"):
        side_by_side.take_turns([broken], 1)


def test_growth_has_the_slope_of_its_larger_half():
    import numpy as np
    from speed_figure import slope

    size = np.array([1.0, 4.0, 16.0, 64.0])
    assert slope(size, 3.0 * size**2) == pytest.approx(2.0)
    assert slope(size, np.array([7.0, 7.0, 16.0, 64.0])) == pytest.approx(1.0)


def test_command_is_measured(tmp_path):
    from speed_works import run_command

    cost = run_command([sys.executable, "-c", "print('Finished XLA compilation of f')"], str(tmp_path))
    assert cost["programs"] == 1
    assert cost["CPU s"] > 0.0


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
