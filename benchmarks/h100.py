"""Compile programs for an NVIDIA H100 on a machine without a GPU.

Needs JAX with its CUDA plugin, in an environment of its own (`pip install popsim[cuda]`), and neither a GPU
nor a driver: `JAX_PLATFORMS=cpu JAX_SKIP_CUDA_CONSTRAINTS_CHECK=1`. XLA takes what it has to know of the card
from `h100.textproto`. Such a program can be read, and not run.
"""

import pathlib
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding

DESCRIPTION = pathlib.Path(__file__).with_suffix(".textproto")


def compile_for_h100(function: Callable[..., Any], *arguments: Any) -> jax.stages.Compiled:
    """Return the program of a function of PyTrees, whose arrays are its arguments."""
    description = topologies.get_topology_desc(
        platform="cuda", topology_name="", target_config=DESCRIPTION.read_text(), topology="1x1x1"
    )
    on_card = SingleDeviceSharding(description.devices[0])
    arrays, static = eqx.partition(arguments, eqx.is_array)

    def of_arrays(arrays: Any) -> Any:
        return eqx.filter(function(*eqx.combine(arrays, static)), eqx.is_array)

    shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype), arrays)
    traced = jax.jit(of_arrays, in_shardings=on_card, out_shardings=on_card).trace(shapes)
    return traced.lower(lowering_platforms=("cuda",)).compile()
