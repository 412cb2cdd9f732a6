"""The history of a run: lazy arrays by name, and the trainables as a model."""

import dataclasses
from typing import Any

import jax
from jaxtyping import PyTree

from popsim.store import leaf_names
from popsim.training.history_arrays import PREFIXES
from popsim.training.history_rows import TRAINABLES


@dataclasses.dataclass(frozen=True)
class RunHistory:
    """The history of a run.

    What `dataset` has is found here, too: `history.loss.sel(member=2)`, `history["trainables.…"]`.

    - `dataset`: a lazy `xarray.Dataset`, see `open_history`.
    - `template`: the ensemble, of arrays or of their shapes.
    """

    dataset: Any
    template: PyTree

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("dataset", "template"):
            raise AttributeError(name)
        if hasattr(type(self), name):  # its own getter failed: say why
            return object.__getattribute__(self, name)
        return getattr(self.dataset, name)

    def __getitem__(self, name: str) -> Any:
        return self.dataset[name]

    @property
    def total_loss(self) -> Any:
        """The sum of the loss terms in each training batch, an `xarray.DataArray` (batch, member).

        NaN where a term is, as for members that were frozen: `loss.sum("term")` would leave such terms out.
        """
        return self.dataset["loss"].sum("term", skipna=False)

    @property
    def total_validation_loss(self) -> Any:
        """The sum of the loss terms in the validation trials, as `total_loss`: (validation_batch, member)."""
        return self.dataset["validation_loss"].sum("term", skipna=False)

    @property
    def trainables(self) -> PyTree:
        """The trainable arrays in the structure of the ensemble: at each leaf a lazy `xarray.DataArray` with
        the axes (trainables_batch, member, ...), and None where nothing was kept."""
        leaves, structure = jax.tree.flatten(self.template)
        kept: list[Any] = [None] * len(leaves)
        for name, index in leaf_names(self.template).items():
            if PREFIXES[TRAINABLES] + name in self.dataset:
                kept[index] = self.dataset[PREFIXES[TRAINABLES] + name]
        return jax.tree.unflatten(structure, kept)
