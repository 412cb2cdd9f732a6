"""The progress bar."""

import numpy as np
from jaxtyping import Array, Float
from tqdm.auto import tqdm


class ProgressBar:
    """Shows loss, batches per second and time left; `disable` shows nothing."""

    def __init__(self, n_batches: int, first_batch: int, *, disable: bool):
        self._bar = tqdm(
            total=n_batches,
            initial=first_batch,
            disable=disable,
            unit="batch",
            desc="compiling",
            dynamic_ncols=True,
        )

    def update(self, count: int, total_loss: Float[Array | np.ndarray, "*member"] | np.floating) -> None:
        """Advance by `count` batches and show the mean loss over members that are not frozen."""
        self._bar.set_description_str("training", refresh=False)
        losses = np.asarray(total_loss)
        finite = losses[np.isfinite(losses)]
        shown = f"loss {finite.mean():.3g}" if finite.size else "all frozen"
        self._bar.set_postfix_str(shown, refresh=False)
        self._bar.update(count)

    def close(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()
