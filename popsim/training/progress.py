"""The progress bar."""

import numpy as np
from jaxtyping import Array, Float
from tqdm.auto import tqdm

from popsim.training.log_entry import LogEntry

Losses = Float[Array | np.ndarray, "*member"] | np.floating


class ProgressBar:
    """Shows loss, batches per second and time left, and the losses of each logging point above.

    `disable` shows nothing.
    """

    def __init__(self, n_batches: int, first_batch: int, *, disable: bool):
        self._bar = tqdm(
            total=n_batches,
            initial=first_batch,
            disable=disable,
            unit="batch",
            desc="compiling",
            dynamic_ncols=True,
        )
        self._columns: tuple[str, ...] = ()

    def update(self, count: int, total_loss: Losses) -> None:
        """Advance by `count` batches and show the mean loss over members that are not frozen."""
        self._bar.set_description_str("training", refresh=False)
        shown = _mean_of_finite(total_loss)
        self._bar.set_postfix_str(f"loss {shown}" if shown else "all frozen", refresh=False)
        self._bar.update(count)

    def write_losses(self, entry: LogEntry) -> None:
        """Write a row of a table: the loss of the batch, and that of the validation trials with its terms.

        Means over members that are not frozen; nothing where the bar is disabled.
        """
        if self._bar.disable:
            return
        validation = entry.validation_loss
        terms = validation.terms if len(validation.terms) > 1 else {}
        columns: tuple[str, ...] = ("batch", "loss", "validation", *terms)
        losses = (entry.loss.total, validation.total, *terms.values())
        row = (str(entry.batch), *(_mean_of_finite(loss) or "frozen" for loss in losses))
        rows = [row] if columns == self._columns else [columns, row]
        for one in rows:
            cells = (text.rjust(max(10, len(name))) for name, text in zip(columns, one, strict=True))
            self._bar.write("  ".join(cells), file=self._bar.fp)
        self._columns = columns

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()


def _mean_of_finite(losses: Losses) -> str:
    """The mean over members that are not frozen, in three digits; nothing if all are."""
    values = np.asarray(losses)
    finite = values[np.isfinite(values)]
    return f"{finite.mean():.3g}" if finite.size else ""
