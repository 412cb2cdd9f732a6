"""What is printed of a history."""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np

from popsim._text_checks import align, size_text, spread_text
from popsim.loss import LossValues

MOST_NAMES = 4
HEAD = ("recorded", "batches", "arrays", "size")


def history_text(history: Any) -> str:
    """List what a `TaskTrainerHistory` recorded: of which batches, with which axes, and how large.

    Lazy arrays of a stored history are not read.
    """
    n_members = np.shape(history.frozen_from)
    who = f"{n_members[0]} members" if n_members else "one model"
    rows = [(name, _batches(batches), *_arrays(tree)) for name, batches, tree in _records(history)]
    return "\n".join(
        [f"History: {len(history.batch)} batches of {who}", *_state(history), *align([HEAD, *rows])]
    )


def _records(history: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, the batches and the arrays of each record that is there."""
    yield f"loss ({', '.join(history.loss.terms)})", history.batch, history.loss
    yield "learning_rate", history.batch, history.learning_rate
    if history.loss_weights is not None:
        yield "loss_weights", history.batch, history.loss_weights
    yield "validation_loss", history.validation_batch, history.validation_loss
    for name, values in history.metrics.items():
        yield f"metrics[{name!r}]", history.validation_batch, values
    if history.model_trainables is not None:
        yield "model_trainables", history.trainables_batch, history.model_trainables
    if history.trial_specs:
        yield "trial_specs", np.array(sorted(history.trial_specs)), dict(history.trial_specs)
    for name, update in history.updates.items():
        yield f"updates[{name!r}]", update["batch"], {key: update[key] for key in update if key != "batch"}


def _batches(batches: Any) -> str:
    """Return the numbers of batches: their count, the first and the last."""
    count = len(batches)
    return f"{count}: {batches[0]} to {batches[-1]}" if count > 1 else f"1: {batches[0]}" if count else "none"


def _arrays(tree: Any) -> tuple[str, str]:
    """Return the shapes of arrays, each shape once, and the size of all."""
    # Lazy arrays are leaves, with a shape and a size of their own.
    leaves = [leaf for leaf in jax.tree.leaves(tree) if hasattr(leaf, "nbytes") and hasattr(leaf, "shape")]
    if isinstance(tree, LossValues):
        leaves = list(tree.terms.values())
    shapes = list(dict.fromkeys(" × ".join(map(str, leaf.shape)) for leaf in leaves))
    listed = ", ".join(shapes[:MOST_NAMES]) + (", ..." if len(shapes) > MOST_NAMES else "")
    count = f"{len(leaves)} of " if len(leaves) > 1 else ""
    return f"{count}{listed}" if leaves else "none", size_text(sum(leaf.nbytes for leaf in leaves))


def _state(history: Any) -> list[str]:
    """Return lines on the loss, and on members that are inactive."""
    lines = []
    if len(history.batch):
        first, last = (np.atleast_1d(np.asarray(history.loss.total)[place]) for place in (0, -1))
        texts = [spread_text(values) for values in (first, last)]
        lines.append(f"loss {texts[0]} in the first batch, {texts[1]} in the last")
    named: Mapping[str, Any] = {"frozen": history.frozen_from, "stopped": history.stopped_from}
    for how, from_batch in named.items():
        batches = np.atleast_1d(np.asarray(from_batch))
        texts = [f"{member} from batch {batches[member]} on" for member in np.flatnonzero(batches >= 0)]
        lines += [f"{how}: {', '.join(texts)}"] if texts else []
    return lines
