"""What a run keeps of the trainables, as a value that can be written down."""

import dataclasses
import re

import numpy as np
from jaxtyping import Int

from popsim.training import every_nth_batch, log_spaced_batches

HELP = '"logged" (at the logging points), "all", "none", "every 10", "log 50" (log-spaced), or "0 9 99"'


@dataclasses.dataclass(frozen=True)
class Recording:
    """After which batches a run keeps the trainable arrays, and how.

    - `trainables`: "logged" for the logging points, "all", "none", "every 10" for every tenth batch,
        "log 50" for 50 log-spaced ones, or the numbers of batches: "0 9 99".
    - `float16`: whether they are kept with half the digits, in half the space. What is rebuilt from them is
        then not exact.

    **Raises:** `ValueError` if `trainables` is none of these.
    """

    trainables: str = "logged"
    float16: bool = False

    def __post_init__(self):
        pattern = r"logged|all|none|every [1-9]\d{0,8}|log [1-9]\d{0,8}|\d{1,9}( \d{1,9})*"
        if not isinstance(self.trainables, str) or not re.fullmatch(pattern, self.trainables):
            raise ValueError(f"`trainables` must be {HELP}, got {self.trainables!r}.")
        numbers = [int(word) for word in self.trainables.split() if word.isdigit()]
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"`trainables` must name each batch once, got {self.trainables!r}.")

    def batches(self, n_batches: int, log_step: int) -> Int[np.ndarray, " kept"]:
        """The numbers of the batches, of a training of `n_batches` that logs every `log_step`.

        **Raises:** `ValueError` if one of them is not of this training.
        """
        match self.trainables.split():
            case ["logged"]:
                return every_nth_batch(n_batches, log_step)
            case ["all"]:
                return np.arange(n_batches)
            case ["none"]:
                return np.zeros(0, int)
            case ["every", n]:
                return every_nth_batch(n_batches, int(n))
            case ["log", n]:
                return log_spaced_batches(n_batches, int(n))
            case numbers:
                asked = np.unique(np.array(numbers, int))
        if asked[-1] >= n_batches:
            raise ValueError(f"`trainables` must be batches from 0 to {n_batches - 1}, got {asked[-1]}.")
        return asked

    @property
    def dtype(self) -> str | None:
        """The type in which they are kept; None for their own."""
        return "float16" if self.float16 else None
