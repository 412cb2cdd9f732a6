"""What the host does between the calls of the compiled loop."""

import dataclasses
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Int, Shaped

from popsim.evaluate import Evaluation
from popsim.training.batch_loop import BatchLoop
from popsim.training.finite import NonfiniteError
from popsim.training.history import HistoryRecorder, ValidationRecord
from popsim.training.log_entry import LogEntry
from popsim.training.member_carry import NEVER
from popsim.training.member_layout import MemberLayout
from popsim.training.progress import ProgressBar
from popsim.training.schedule import CallSchedule
from popsim.training.train_state import TrainState
from popsim.training.training_store import TrainingStore
from popsim.training.validation_metrics import ValidationMetrics, checked_metrics
from popsim.trial import Trial


@dataclasses.dataclass(frozen=True)
class HostLoop:
    """Calls the compiled loop until all batches are made.

    - `loops`: by first batch, the compiled loop that is called from it on.
    - `layout`: how the members lie on the devices.
    - `validation_trials`, `validate`: the validation trials, and what runs a model on them.
    - `metrics`: what is recorded of these runs beside the loss; None for nothing.
    - `log_batches`: after which batches to validate and log.
    - `kept_batches`: after which batches to keep the trainables.
    - `spec_batches`, `trials_of`: of which batches to keep the trials, and what draws them.
    - `enabled`: in which batches each model update is made; None for all.
    - `callbacks`: by batch, functions to call after it.
    - `log_fns`: functions that are given each logging point.
    - `reset_at`, `reset`: before which batches the optimizer's state is made anew, and how.
    - `raise_nonfinite`: whether to raise when a member freezes, rather than to warn.
    - `store`: where the training is kept; None for nowhere.
    - `stop`: asked after each call whether training ends there; None for never.
    """

    loops: Mapping[int, BatchLoop]
    layout: MemberLayout
    validation_trials: Trial
    validate: Callable[[Any], Evaluation]
    metrics: ValidationMetrics | None
    log_batches: Iterable[int]
    kept_batches: Int[np.ndarray, " kept"]
    spec_batches: Int[np.ndarray, " spec"]
    trials_of: Callable[[int], Trial]
    enabled: Bool[np.ndarray, "batch update"] | None
    callbacks: Mapping[int, Sequence[Callable[[], None]]]
    log_fns: Sequence[Callable[[LogEntry], None]]
    reset_at: Iterable[int]
    reset: Callable[[TrainState], TrainState]
    raise_nonfinite: bool
    store: TrainingStore | None
    stop: Callable[[], bool] | None

    def run(
        self, state: TrainState, recorder: HistoryRecorder, n_batches: int, *, disable_tqdm: bool
    ) -> TrainState:
        """Train from `state` up to batch `n_batches`, or until told to stop; the last state.

        **Raises:** `NonfiniteError` if a member freezes and `raise_nonfinite` is set; `SaveError` if what is
        kept cannot be written.
        """
        seconds_before = self.store.seconds_before if self.store else 0.0
        began = time.perf_counter() - seconds_before
        first_batch = int(state.step)
        log_batches, reset_at = frozenset(self.log_batches), frozenset(self.reset_at)
        before_stops = {batch - 1 for batch in {*reset_at, *self.loops}}
        calls = CallSchedule(
            first_batch,
            n_batches,
            {*log_batches, *self.callbacks, *before_stops},
            capacity=min(loop.capacity for loop in self.loops.values()),
        )
        bar = ProgressBar(n_batches, first_batch, disable=disable_tqdm)
        frozen_from = self.frozen_from(state)
        if self.raise_nonfinite:  # members may have frozen before, when that was allowed
            self._report_frozen(np.full_like(frozen_from, NEVER), state)
        stopped = False
        try:
            while not (calls.finished or stopped):
                if calls.next_batch in reset_at:
                    state = self.reset(state)
                state = self._call(state, recorder, calls)
                frozen_from = self._report_frozen(frozen_from, state)
                last = calls.next_batch - 1
                bar.update(calls.last_count, recorder.last_loss.total)
                if last in log_batches:
                    self._log(last, state, recorder, time.perf_counter() - began)
                for callback in self.callbacks.get(last, ()):
                    callback()
                stopped = self.stop is not None and self.stop()
                if self.store is not None and (self.store.is_due or stopped or calls.finished):
                    self.store.save(self.layout.gather_state(state), time.perf_counter() - began)
        finally:
            bar.close()
        if self.store is not None:
            self.store.wait()
        return state

    def _call(self, state: TrainState, recorder: HistoryRecorder, calls: CallSchedule) -> TrainState:
        began = time.perf_counter()
        first, count = calls.next_batch, calls.next_count()
        loop = self.loops[max(batch for batch in self.loops if batch <= first)]
        kept = self.kept_batches[(self.kept_batches >= first) & (self.kept_batches < first + count)]
        rows = np.full(loop.capacity, loop.n_kept)
        rows[kept - first] = np.arange(kept.size)
        enabled = None
        if self.enabled is not None:
            enabled = np.zeros((loop.capacity, self.enabled.shape[1]), bool)
            enabled[:count] = self.enabled[first : first + count]
            enabled = jnp.asarray(enabled)
        state, buffers = loop(state, count, jnp.asarray(rows), enabled)
        recorder.append(buffers, first, count, kept)
        for batch in self.spec_batches[(self.spec_batches >= first) & (self.spec_batches < first + count)]:
            recorder.append_trials(int(batch), self.trials_of(int(batch)))
        calls.made(count, time.perf_counter() - began)
        return state

    def frozen_from(self, state: TrainState) -> Int[np.ndarray, "*member"]:
        """The batch from which on each member is frozen; -1 where it is not."""
        return np.asarray(self.layout.gather(state.loss_fn_state.frozen_from))

    def _report_frozen(
        self, before: Int[np.ndarray, "*member"], state: TrainState
    ) -> Int[np.ndarray, "*member"]:
        frozen_from = self.frozen_from(state)
        new = np.flatnonzero((frozen_from != NEVER) & (before == NEVER))
        if new.size:
            who = "the model" if frozen_from.ndim == 0 else f"member {', '.join(map(str, new))}"
            when = ", ".join(map(str, np.atleast_1d(frozen_from)[new]))
            what = f"the loss, the parameters or the optimizer state of {who} were not finite in batch {when}"
            if self.raise_nonfinite:
                raise NonfiniteError(what + ".")
            warnings.warn(f"{what}: from then on it is kept as it was before.", stacklevel=5)
        return frozen_from

    def _log(self, batch: int, state: TrainState, recorder: HistoryRecorder, seconds: float) -> None:
        # A copy, which the log functions may keep: the next call of the loop takes the state's own arrays.
        gathered = self.layout.gather(state.model)
        model = jax.tree.map(lambda leaf: leaf.copy() if eqx.is_array(leaf) else leaf, gathered)
        validation = self.validate(model)
        loss = jax.device_get(jax.tree.map(lambda x: x.mean(axis=-1), validation.losses))
        metrics = self._metrics(validation)
        recorder.append_validation(batch, ValidationRecord(loss, metrics))
        entry = LogEntry(
            batch=batch,
            model=model,
            loss=recorder.last_loss,
            validation_trials=self.validation_trials,
            validation=validation,
            validation_loss=loss,
            metrics=metrics,
            frozen=np.asarray(self.frozen_from(state) != NEVER),
            learning_rate=recorder.last_learning_rate,
            seconds=seconds,
        )
        for log_fn in self.log_fns:
            log_fn(entry)

    def _metrics(self, validation: Evaluation) -> dict[str, Shaped[np.ndarray, "..."]]:
        if self.metrics is None:
            return {}
        losses = next(iter(validation.losses.terms.values()))
        n_members = losses.shape[0] if losses.ndim == 2 else None
        return checked_metrics(self.metrics(validation.states, self.validation_trials), n_members)
