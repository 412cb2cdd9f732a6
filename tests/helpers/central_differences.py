"""Gradients against central differences."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


def assert_gradients_agree(function, inputs, key, *, steps=(1e-5,), rtol=1e-6, atol=1e-9):
    """Compare the gradient of `function(inputs)` by each array in `inputs`, along a random direction.

    Of several `steps` the one that agrees best counts: a large one is cut off, a small one rounded. Returns
    where the arrays are that have no effect.
    """
    value_and_gradient = eqx.filter_jit(eqx.filter_value_and_grad(function))
    leaves, structure = jax.tree.flatten(inputs)
    leaves = [jnp.asarray(leaf, leaf.dtype) for leaf in leaves]  # shifted, a weak type would compile anew
    inputs = jax.tree.unflatten(structure, leaves)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(inputs)]
    gradients = jax.tree.leaves(value_and_gradient(inputs)[1])
    assert len(gradients) == len(leaves)
    for i, (path, leaf, gradient) in enumerate(zip(paths, leaves, gradients, strict=True)):
        direction = jax.random.normal(jax.random.fold_in(key, i), leaf.shape)

        def shifted(by, i=i, leaf=leaf, direction=direction):
            moved = [*leaves[:i], leaf + by * direction, *leaves[i + 1 :]]
            return value_and_gradient(jax.tree.unflatten(structure, moved))[0]

        along = jnp.sum(gradient * direction)
        differences = [(shifted(h) - shifted(-h)) / (2 * h) for h in steps]
        closest = min(differences, key=lambda difference: abs(difference - along))
        np.testing.assert_allclose(along, closest, rtol=rtol, atol=atol, err_msg=path)
    return [path for path, gradient in zip(paths, gradients, strict=True) if not jnp.any(gradient)]
