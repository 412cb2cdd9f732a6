"""Whether an experiment fits into this machine, known before anything of it is made."""

from typing import Any

import equinox as eqx
import jax

from popsim.checks import memory_of_machine
from popsim.experiments.experiment import AbstractExperiment


def check_size(experiment: AbstractExperiment) -> None:
    """Refuse an experiment whose ensemble or validation trials are larger than the memory of the machine.

    **Raises:** `ValueError` naming the experiment and what is too large.
    """
    memory = memory_of_machine()
    parts = {
        "trials": lambda: experiment.build_task().validation_trials(),
        "ensemble": experiment.build_ensemble,
    }
    for name, build in parts.items():
        n_bytes = _n_bytes(eqx.filter_eval_shape(build))
        if memory is not None and n_bytes > memory:
            raise ValueError(
                f"the settings of {experiment.name} must fit into the {memory / 1e9:.3g} GB of memory: its "
                f"{name} would take {n_bytes / 1e9:.3g} GB."
            )


def _n_bytes(tree: Any) -> int:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if isinstance(leaf, jax.ShapeDtypeStruct)]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
