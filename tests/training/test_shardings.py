import os
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import popsim
from popsim.training import TrainState, build_train_step_fn

pytestmark = pytest.mark.slow

SHARDED_TRAINING = """
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from popsim.training import TrainState, build_train_step_fn

n_devices = jax.device_count()
assert n_devices == N_DEVICES
inputs = jax.random.normal(jax.random.key(0), (32, 4))
data = {"inputs": inputs, "labels": inputs[:, :1] * inputs[:, 1:2]}

def loss_fn(model, state, rng, *, inputs, labels):
    outputs = jax.vmap(model)(inputs)
    return jnp.mean((outputs - labels) ** 2), state + jnp.sum(outputs), {"outputs": outputs}

def new_state():
    model = eqx.nn.MLP(4, 1, 16, 2, key=jax.random.key(1))
    return TrainState.initial_state(model, optax.adam(1e-2), jax.random.key(2), jnp.asarray(0.0))

def arrays(tree):
    return jax.tree.leaves(eqx.filter(tree, eqx.is_array))

def assert_lies_as(tree, shardings):
    for leaf, sharding in zip(arrays(tree), jax.tree.leaves(shardings), strict=True):
        assert leaf.sharding.is_equivalent_to(sharding, leaf.ndim), (leaf.sharding, sharding)

alone = build_train_step_fn(loss_fn)
expected = [(new_state(), None)]
for _ in range(4):
    expected.append(alone(expected[-1][0], **data))

def check(mesh, of_leaf, batch_axis, donate):
    shardings = jax.tree.map(of_leaf(mesh), eqx.filter(new_state(), eqx.is_array))
    split = NamedSharding(mesh, P(batch_axis))
    of_data = dict.fromkeys(data, split)
    step = build_train_step_fn(loss_fn, True, donate, shardings, of_data, {"outputs": split})
    state, sharded_data = new_state(), jax.device_put(data, split)
    for number, (expected_state, expected_outputs) in enumerate(expected[1:]):
        given = jax.tree.map(lambda leaf: leaf.block_until_ready(), arrays(
            (state.params, state.opt_state, state.loss_fn_state)))
        state, outputs = step(state, **(data if number == 0 else sharded_data))
        assert [leaf.is_deleted() for leaf in given] == len(given) * [donate]
        by_one_device = arrays((expected_state.params, expected_outputs))
        for one, other in zip(arrays((state.params, outputs)), by_one_device, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-6)
        assert int(state.step) == number + 1
        for part in ("params", "opt_state", "loss_fn_state"):
            assert_lies_as(getattr(state, part), getattr(shardings, part))
        assert outputs["outputs"].sharding.is_equivalent_to(split, 2)
    static, dynamic = eqx.partition(state, lambda leaf: not eqx.is_array(leaf))

    def one_step(dynamic, data):
        return eqx.filter(step(eqx.combine(dynamic, static), **data), eqx.is_array)

    text = jax.jit(one_step).lower(dynamic, sharded_data).compile().as_text()
    return state, text

def copied(mesh):
    return lambda leaf: NamedSharding(mesh, P())

def rows_split(mesh):
    def of(leaf):
        split = leaf.ndim > 0 and leaf.shape[0] % mesh.shape["model"] == 0
        return NamedSharding(mesh, P("model") if split else P())
    return of

auto = AxisType.Auto
for axis_type in (auto, AxisType.Explicit):
    mesh = jax.make_mesh((n_devices,), ("batch",), axis_types=(axis_type,))
    state, text = check(mesh, copied, "batch", donate=axis_type == auto)
    assert "all-reduce" in text and "all-gather" not in text and "all-to-all" not in text
    assert f"f32[{32 // n_devices},4]" in text and "f32[32,4]" not in text

for shape in {(n_devices // 2, 2), (1, n_devices)}:
    mesh = jax.make_mesh(shape, ("batch", "model"), axis_types=(auto, auto))
    state, text = check(mesh, rows_split, "batch", donate=True)
    rows = 16 // mesh.shape["model"]
    for tree in (state.params, state.opt_state[0].mu):
        assert {shard.data.shape for shard in tree.layers[1].weight.addressable_shards} == {(rows, 16)}
    entry = text[text.index("ENTRY"):].split("->")[0]
    assert "f32[16,16]" not in entry and f"f32[{rows},16]" in entry

"""


@pytest.mark.parametrize("n_devices", [2, 8])
@pytest.mark.full
def test_training_over_devices_is_training_on_one(n_devices):
    code = SHARDED_TRAINING.replace("N_DEVICES", str(n_devices))
    flags = f"{os.environ['XLA_FLAGS']} --xla_force_host_platform_device_count={n_devices}"
    environment = os.environ | {"XLA_FLAGS": flags}
    root = Path(popsim.__file__).parents[1]
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=root, env=environment)


def loss_fn(model, state, rng, *, inputs, labels):
    outputs = jax.vmap(model)(inputs)
    return jnp.mean((outputs - labels) ** 2), state, {"outputs": outputs, "count": 1}


@pytest.fixture
def here():
    """On the one device of the tests."""
    return NamedSharding(jax.make_mesh((1,), ("batch",), axis_types=(AxisType.Auto,)), PartitionSpec())


@pytest.fixture
def problem(getkey):
    model = eqx.nn.MLP(2, 1, 4, 1, key=getkey())
    state = TrainState.initial_state(model, optax.adam(1e-2), getkey(), where_train=lambda m: m.layers[0])
    inputs = np.asarray(jax.random.normal(getkey(), (8, 2)))
    return state, {"inputs": inputs, "labels": inputs[:, :1]}


def test_prefixes_and_parts_left_to_jax(problem, here):
    state, data = problem
    expected, _ = build_train_step_fn(loss_fn)(state, **data)
    of_leaves = jax.tree.map(lambda leaf: here, eqx.filter(state, eqx.is_array))
    of_parts = eqx.tree_at(
        lambda s: (s.params, s.opt_state), of_leaves, (here, (here, None)), is_leaf=lambda x: x is None
    )
    for shardings in (here, of_leaves, of_parts):
        step = build_train_step_fn(
            loss_fn, True, False, shardings, {"inputs": here}, {"outputs": here, "count": None}
        )
        after, outputs = step(state, **data)
        assert after.params.layers[0].weight.sharding == here and outputs["outputs"].sharding == here
        np.testing.assert_allclose(after.params.layers[0].weight, expected.params.layers[0].weight, rtol=1e-6)


def test_one_program_from_the_first_step_on(problem, here, count_compilations):
    state, data = problem
    step = build_train_step_fn(loss_fn, True, True, here, {"inputs": here, "labels": here}, here)
    state, _ = step(state, **data)
    with count_compilations() as compiled:
        for _ in range(3):
            state, _ = step(state, **data)
    assert not compiled


def test_what_lies_where_it_should_is_not_copied(problem, here):
    state, data = problem
    state, data = jax.tree.map(
        lambda leaf: jax.device_put(leaf, here) if eqx.is_array_like(leaf) else leaf, (state, data)
    )
    module = popsim.training.train_steps
    seen = module.StepShardings(here, {"inputs": here}, None)
    for given, placed in ((state, seen.map_state(module._place, state)), (data, seen.place_inputs(data))):
        assert all(
            one is other for one, other in zip(jax.tree.leaves(given), jax.tree.leaves(placed), strict=True)
        )


@pytest.mark.parametrize(
    "name, given, message",
    [
        (
            "train_state_shardings",
            lambda s, here: eqx.tree_at(lambda s: s.opt_state, s, (here,)),
            "opt_state",
        ),
        ("input_kwarg_shardings", lambda s, here: {"images": here}, r"'labels'\], got \['images'\]"),
        ("aux_output_shardings", lambda s, here: {"outputs": here, "loss": here}, "structure"),
    ],
)
def test_another_structure_is_refused(problem, here, name, given, message):
    state, data = problem
    of_leaves = jax.tree.map(lambda leaf: here, eqx.filter(state, eqx.is_array))
    step = build_train_step_fn(loss_fn, **{name: given(of_leaves, here)})
    with pytest.raises(ValueError, match=f"`{name}.*{message}"):
        step(state, **data)
