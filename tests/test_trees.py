import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from popsim.store import leaf_names, open_arrays, read_tree, write_arrays, write_tree


def build(key):
    return {"net": eqx.nn.MLP(2, 1, 3, 1, key=key), "scale": jnp.asarray(2.0), "count": jnp.arange(3)}


def test_a_tree_comes_back_bit_for_bit_from_a_template_of_shapes(tmp_path, getkey):
    tree = build(getkey())
    write_tree(tmp_path / "t.zarr", tree)
    template = eqx.filter_eval_shape(build, getkey())
    assert eqx.tree_equal(read_tree(tmp_path / "t.zarr", template), tree)


def test_arrays_are_named_by_their_path(getkey):
    names = leaf_names(build(getkey()))
    assert {"count", "scale", "net.layers.0.weight"} <= set(names)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda t: {**t, "extra": jnp.ones(2)}, "extra"),
        (lambda t: {k: v for k, v in t.items() if k != "scale"}, "scale"),
        (lambda t: {**t, "count": jnp.arange(4)}, "count"),
        (lambda t: {**t, "count": jnp.arange(3.0)}, "count"),
    ],
)
def test_a_tree_that_does_not_fit_is_refused_by_the_name_of_the_array(change, named, tmp_path, getkey):
    tree = build(getkey())
    write_tree(tmp_path / "t.zarr", tree)
    with pytest.raises(ValueError, match=named):
        read_tree(tmp_path / "t.zarr", change(tree))


def test_a_flipped_bit_is_noticed(tmp_path):
    tree = {"x": jax.random.normal(jax.random.key(0), (100,))}
    write_tree(tmp_path / "t.zarr", tree)
    chunk = max((tmp_path / "t.zarr").rglob("c/*"), key=lambda path: path.stat().st_size)
    damaged = bytearray(chunk.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    chunk.write_bytes(damaged)
    with pytest.raises(Exception, match=r"(?i)checksum|decompress|corrupt"):
        read_tree(tmp_path / "t.zarr", tree)


def test_named_axes_and_attributes_are_kept(tmp_path):
    loss = np.arange(200.0).reshape(100, 2)
    arrays = {"loss": (("batch", "member"), loss), "batch": (("batch",), np.arange(100))}
    write_arrays(tmp_path / "a.zarr", arrays, attributes={"terms": ["effort"]})
    dataset = open_arrays(tmp_path / "a.zarr")
    assert dataset.loss.dims == ("batch", "member") and dataset.attrs["terms"] == ["effort"]
    np.testing.assert_array_equal(dataset.sel(batch=70).loss, loss[70])


@pytest.mark.parametrize("dims", [("batch",), ("batch", "batch")])
def test_axes_that_do_not_match_are_refused(dims, tmp_path):
    with pytest.raises(ValueError, match="axes|axis"):
        write_arrays(tmp_path / "a.zarr", {"loss": (dims, np.ones((3, 2)))})
    assert not (tmp_path / "a.zarr").exists()


def test_a_missing_group_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no\.zarr"):
        open_arrays(tmp_path / "no.zarr")
    with pytest.raises(ValueError, match=r"no\.zarr"):
        read_tree(tmp_path / "no.zarr", {})


def test_keys_with_dots_and_slashes_have_names_of_their_own(tmp_path):
    tree = {"a.b": jnp.zeros(1), "a": {"b": jnp.ones(1)}, "left/vision": jnp.full(1, 2.0)}
    assert len(leaf_names(tree)) == 3
    write_tree(tmp_path / "t.zarr", tree)
    assert eqx.tree_equal(read_tree(tmp_path / "t.zarr", tree), tree)
