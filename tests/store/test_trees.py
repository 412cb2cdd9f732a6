import equinox as eqx
import jax.numpy as jnp

from popsim.store import leaf_names


def build(key):
    return {"net": eqx.nn.MLP(2, 1, 3, 1, key=key), "scale": jnp.asarray(2.0), "count": jnp.arange(3)}


def test_arrays_are_named_by_their_path(getkey):
    names = leaf_names(build(getkey()))
    assert {"count", "scale", "net.layers.0.weight"} <= set(names)
    assert leaf_names(eqx.filter_eval_shape(build, getkey())) == names


def test_keys_with_dots_and_slashes_have_names_of_their_own():
    tree = {"a.b": jnp.zeros(1), "a": {"b": jnp.ones(1)}, "left/vision": jnp.full(1, 2.0)}
    assert len(leaf_names(tree)) == 3
    assert not any("/" in name for name in leaf_names(tree))
