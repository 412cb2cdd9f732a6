"""What the host does between the calls of the compiled loop."""

import dataclasses
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int

from popsim.evaluate import Evaluation
from popsim.training.batch_loop import BatchLoop
from popsim.training.history import HistoryRecorder
from popsim.training.log_entry import LogEntry
from popsim.training.progress import ProgressBar
from popsim.training.schedule import CallSchedule
from popsim.training.train_state import TrainState


@dataclasses.dataclass(frozen=True)
class HostLoop:
    """Calls the compiled loop until all batches are made.

    - `loop`: the compiled loop.
    - `validate`: runs a model on the validation trials.
    - `log_batches`: after which batches to validate and log.
    - `kept_batches`: after which batches to keep the trainables.
    - `callbacks`: by batch, functions to call after it.
    - `log_fns`: functions that are given each logging point.
    """

    loop: BatchLoop
    validate: Callable[[Any], Evaluation]
    log_batches: Iterable[int]
    kept_batches: Int[np.ndarray, " kept"]
    callbacks: Mapping[int, Sequence[Callable[[], None]]]
    log_fns: Sequence[Callable[[LogEntry], None]]

    def run(
        self, state: TrainState, recorder: HistoryRecorder, n_batches: int, *, disable_tqdm: bool
    ) -> TrainState:
        """Train from `state` up to batch `n_batches`, recording into `recorder`; the last state."""
        began = time.perf_counter()
        first_batch = int(state.step)
        log_batches = frozenset(self.log_batches)
        calls = CallSchedule(
            first_batch, n_batches, {*log_batches, *self.callbacks}, capacity=self.loop.capacity
        )
        bar = ProgressBar(n_batches, first_batch, disable=disable_tqdm)
        try:
            while not calls.finished:
                state = self._call(state, recorder, calls)
                last = calls.next_batch - 1
                bar.update(calls.last_count, recorder.last_loss.total)
                if last in log_batches:
                    self._log(last, state, recorder, time.perf_counter() - began)
                for callback in self.callbacks.get(last, ()):
                    callback()
        finally:
            bar.close()
        return state

    def _call(self, state: TrainState, recorder: HistoryRecorder, calls: CallSchedule) -> TrainState:
        began = time.perf_counter()
        first, count = calls.next_batch, calls.next_count()
        kept = self.kept_batches[(self.kept_batches >= first) & (self.kept_batches < first + count)]
        rows = np.full(self.loop.capacity, self.loop.n_kept)
        rows[kept - first] = np.arange(kept.size)
        state, buffers = self.loop(state, count, jnp.asarray(rows))
        recorder.append(buffers, count, kept.tolist())
        calls.made(count, time.perf_counter() - began)
        return state

    def _log(self, batch: int, state: TrainState, recorder: HistoryRecorder, seconds: float) -> None:
        # A copy, which the log functions may keep: the next call of the loop takes the state's own arrays.
        model = jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, state.model)
        validation = self.validate(model)
        recorder.append_validation(batch, jax.tree.map(lambda x: x.mean(axis=-1), validation.losses))
        entry = LogEntry(
            batch=batch,
            model=model,
            loss=recorder.last_loss,
            validation=validation,
            validation_loss=recorder.last_validation_loss,
            learning_rate=recorder.last_learning_rate,
            seconds=seconds,
        )
        for log_fn in self.log_fns:
            log_fn(entry)
