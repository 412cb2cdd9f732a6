"""The history of a training, as it is returned."""

from collections.abc import Iterator, Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, Int, PyTree, Shaped

from popsim._shared.text_checks import align, size_text, spread_text
from popsim.ensemble import Members
from popsim.loss import LossValues
from popsim.training.steps.member_step import NOT_FROZEN
from popsim.trial import Trial

__all__ = ["TaskTrainerHistory"]

BATCH = "batch"
MOST_SHAPES = 4  # that are listed of one record


class TaskTrainerHistory(eqx.Module):
    """The history of a training, as numpy arrays (trials and optimizer state: JAX arrays).

    Axes are (batch, member), without member for one model. If the history is stored in a folder,
    `model_trainables` holds `xarray.DataArray`s, read from disk on access.

    - `batch`: the number of each recorded training batch, from 0.
    - `loss`: the mean weighted terms over the trials of each batch, before its update; `.total` is their sum.
        NaN for a frozen or stopped member.
    - `learning_rate`: the rate of each update; NaN if the optimizer state does not hold it, and for a frozen
        or stopped member.
    - `loss_weights`: by term, the weights of each batch if `loss_update_func` changes them; else None.
    - `validation_batch`, `validation_loss`: the batches after which the validation trials were run, and the
        mean weighted terms over them, with the weights of the task.
    - `metrics`: the `validation_metrics` of each of these runs, by name, with axes (log, member, ...).
    - `trainables_batch`, `model_trainables`: the batches after which the trainable arrays were kept, and
        these arrays, in the structure of the model (leaves that are not trained are None), with axes (batch,
        member, ...). Arrays changed by model updates are included.
    - `trial_specs`: the trials of each requested batch, with axes (member, trial, ...); trials that members
        share have no member axis.
    - `frozen_from`: the batch in which a member's numbers were no longer finite, before which it stays; -1
        for a member that never froze.
    - `stopped_from`: the first batch that a member did not train as a population update stopped it, or -1.
    - `updates`: what population updates did: "selection" has that of `PopulationBasedTraining`, "control"
        that of all that act at log points, and other updates have their class. Each has the batches after
        which they acted, "batch", and arrays with axes (update, member, ...) by name, such as "parent",
        "control.EarlyStopping.best", or "hyperparameter.learning_rate": that from the next batch on.
    - `opt_state`: the optimizer state after the last batch, from which to continue.
    - `members`: the members; `history.members.group(history.loss.total, axis=1)` has axes (batch, *settings,
        seed). None if the trainer was not given them.
    """

    batch: Int[np.ndarray, " batch"]
    loss: LossValues
    learning_rate: Float[np.ndarray, "*axes"]
    loss_weights: Mapping[str, Float[np.ndarray, "*axes"]] | None
    validation_batch: Int[np.ndarray, " log"]
    validation_loss: LossValues
    metrics: dict[str, Shaped[np.ndarray, "log ..."]]
    trainables_batch: Int[np.ndarray, " recorded"]
    model_trainables: PyTree
    trial_specs: Mapping[int, Trial]
    frozen_from: Int[np.ndarray, "*member"]
    opt_state: PyTree
    members: Members | None = eqx.field(static=True)
    stopped_from: Int[np.ndarray, "*member"] = eqx.field(default_factory=lambda: np.asarray(NOT_FROZEN))
    updates: Mapping[str, Mapping[str, Shaped[np.ndarray, "update ..."]]] = eqx.field(default_factory=dict)

    def __repr__(self) -> str:
        is_whole = isinstance(self.batch, np.ndarray)  # and not mapped to shapes, for example
        return history_text(self) if is_whole else super().__repr__()


def history_text(history: TaskTrainerHistory) -> str:
    """List what was recorded: of which batches, with which axes, and how large. Lazy arrays are not read."""
    n_members, n_batches = np.shape(history.frozen_from), len(history.batch)
    who = f"{n_members[0]} members" if n_members else "one model"
    lines = [f"History: {n_batches} batches of {who}"]
    if n_batches:
        total = np.asarray(history.loss.total)
        first, last = (spread_text(np.atleast_1d(total[place])) for place in (0, -1))
        lines.append(f"loss {first} in the first batch, {last} in the last")
    for how, from_batch in {"frozen": history.frozen_from, "stopped": history.stopped_from}.items():
        batches = np.atleast_1d(from_batch)
        who = [f"{member} from batch {batches[member]} on" for member in np.flatnonzero(batches >= 0)]
        lines += [f"{how}: {', '.join(who)}"] if who else []
    head = ("recorded", "batches", "arrays", "size")
    return "\n".join([*lines, *align([head, *_recorded_rows(history)])])


def _recorded_rows(history: TaskTrainerHistory) -> Iterator[tuple[str, ...]]:
    """Yield the name, the batches, the shapes and the size of each record that is there."""
    logged = {f"metrics[{name!r}]": values for name, values in history.metrics.items()}
    records = [
        (f"loss ({', '.join(history.loss.terms)})", history.batch, history.loss.terms),
        ("learning_rate", history.batch, history.learning_rate),
        ("loss_weights", history.batch, history.loss_weights),
        ("validation_loss", history.validation_batch, history.validation_loss.terms),
        *((name, history.validation_batch, values) for name, values in logged.items()),
        ("model_trainables", history.trainables_batch, history.model_trainables),
        ("trial_specs", sorted(history.trial_specs), dict(history.trial_specs)),
        *(
            (f"updates[{name!r}]", rows[BATCH], {array: rows[array] for array in rows if array != BATCH})
            for name, rows in history.updates.items()
        ),
    ]
    for name, batches, tree in records:
        # Lazy arrays are leaves, with a shape and a size of their own.
        arrays: list[Any] = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "nbytes")]
        if arrays and len(batches):
            shapes = list(dict.fromkeys(" × ".join(map(str, array.shape)) for array in arrays))
            listed = ", ".join(shapes[:MOST_SHAPES]) + (", ..." if len(shapes) > MOST_SHAPES else "")
            count = f"{len(arrays)} of " if len(arrays) > 1 else ""
            size = size_text(sum(array.nbytes for array in arrays))
            yield name, f"{len(batches)}: {batches[0]} to {batches[-1]}", count + listed, size
