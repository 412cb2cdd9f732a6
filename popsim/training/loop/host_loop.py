"""The loop on the host, between calls of the compiled program."""

import contextlib
import dataclasses
import functools
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Int, PyTree, Shaped

from popsim._compiled import as_array
from popsim._shared.checks import warn_caller
from popsim._shared.member_values import check_values_of_members
from popsim.evaluation import Evaluation, evaluate_members, evaluate_trials, validation_trials
from popsim.policies import greedy
from popsim.randomness import key_stream
from popsim.task import differs_between_members
from popsim.training.loop.batch_loop import BatchLoop
from popsim.training.loop.batches import CallDivision
from popsim.training.loop.training_plan import TrainingPlan
from popsim.training.observers import FinishedBatches, LogEntry, Observer, TrainingStart, as_metrics
from popsim.training.population_updates.base import ValidationResults
from popsim.training.population_updates.divided_population import StoppedForSelection
from popsim.training.population_updates.population_view import with_present_values
from popsim.training.steps.member_step import NOT_FROZEN, NonfiniteError, with_fresh_optimizer
from popsim.training.steps.train_state import TrainState, copy_arrays
from popsim.trial import Trial

__all__ = ["HostLoop"]

Results = Callable[[], tuple[Any, Evaluation, Trial, dict[str, np.ndarray]]]
"""Returns the model of a state and its results on the validation trials: evaluation, trials, metrics."""


@dataclasses.dataclass(frozen=True)
class HostLoop:
    """The loop on the host, which calls the compiled loop until all batches are done."""

    plan: TrainingPlan
    loops: Mapping[int, BatchLoop]
    observers: Sequence[Observer]
    _compiled: set[int | str] = dataclasses.field(default_factory=set, init=False)

    def run(self, state: TrainState, start: TrainingStart, start_time: float) -> TrainState:
        """Train from `state` to the last batch, or until `stop` returns True or no member trains any more."""
        with contextlib.ExitStack() as stack:
            # The stack unwinds backwards: each observer ends in the given order, also after one that raises.
            for observer in reversed(self.observers):
                stack.push(
                    lambda _, error, __, ending=observer: self._notify([ending], lambda o: o.on_end(error))
                )
            self._notify(self.observers, lambda observer: observer.on_begin(start))
            return self._train_batches(state, start_time)

    def _notify(self, observers: Sequence[Observer], call: Callable[[Observer], None]) -> None:
        """Call a method of each observer; Ctrl-C waits for those that record."""
        for observer in observers:
            with _interrupts_wait() if observer.is_recording else contextlib.nullcontext():
                call(observer)

    def _announce_compilation(self, program: str, identity: int | str) -> None:
        if identity not in self._compiled:
            self._compiled.add(identity)
            self._notify(self.observers, lambda observer: observer.on_compilation(program))

    def _train_batches(self, state: TrainState, start_time: float) -> TrainState:
        plan, updates = self.plan, self.plan.population_updates
        # A new phase, or a reset, comes before a batch.
        stops = {*plan.batches.callbacks, *(batch - 1 for batch in (*plan.batches.resets, *self.loops))}
        calls = CallDivision(
            int(state.step),
            plan.training.n_batches,
            [sorted(map(int, stops)), plan.batches.logged, *map(updates.batches, updates.updates)],
            next(iter(self.loops.values())).capacity,
        )
        frozen_from = self._frozen_from(state)
        if plan.trainer.nonfinite == "raise":  # members may have frozen before, under "freeze"
            self._report_frozen(np.full_like(frozen_from, NOT_FROZEN), frozen_from)
        if self._has_ended(state):
            if not calls.is_finished:
                warn_caller("training does not continue: every member is frozen or stopped.")
            return state
        finishes_calls = False  # the first one, which compiles, may be interrupted
        results: Results | None = None
        while not calls.is_finished:
            try:
                # Replacing comes at the start of a turn, after the pause in which the checkpoint was written:
                # where other trainings must be asked, this one ends here, and arrives here when resumed.
                results = results or self._results(state)
                state = self._update(state, calls.next_batch - 1, results, replaces=True)
            except StoppedForSelection:
                break
            results = None  # of which the memory is free while the next batches are made
            with _interrupts_wait() if finishes_calls else contextlib.nullcontext():
                # Read before the call, which donates the arrays of this state.
                frozen_from = self._frozen_from(state)
                state, batches = self._call(state, calls)
                ends = self._has_ended(state)
                self._report_frozen(frozen_from, batches.frozen_from, ends=ends)
                for observer in self.observers:
                    observer.on_batches(batches)
            finishes_calls = plan.trainer.folder is not None
            state, results = self._pause(state, batches, start_time)
            stop = plan.trainer.stop
            if self._has_ended(state) or (stop is not None and stop()):
                break
        return state

    def _pause(
        self, state: TrainState, batches: FinishedBatches, start_time: float
    ) -> tuple[TrainState, Results | None]:
        """Do what is due after the batches of a call, except replacing members."""
        # Evaluated only if the log or an update asks, and once for both.
        results = self._results(state)
        entry = self._log_entry(batches, results, start_time) if batches.logs else None
        updated = self._update(state, batches.last, results, replaces=False)
        has_changed = updated is not state
        if entry is None and has_changed and self._has_ended(updated):
            entry = self._log_entry(batches, results, start_time)  # the last batch has a log point
        if entry is not None:
            self._notify(self.observers, lambda observer: observer.on_log_point(entry))
        self._notify(self.observers, lambda observer: observer.on_pause(batches.last))
        return updated, None if has_changed else results

    def _has_ended(self, state: TrainState) -> bool:
        """Whether all members are frozen or stopped, and none can be replaced by one of another training."""
        if self.plan.training.population is not None:
            return False
        carry = state.loss_fn_state
        ends = self.plan.layout.gather((carry.frozen_from, carry.stops))
        return bool(np.all(np.not_equal(ends[0], NOT_FROZEN) | np.not_equal(ends[1], NOT_FROZEN)))

    def _results(self, state: TrainState) -> Results:
        """Return what runs the validation trials of a state, once; to be called before the next batch."""

        @functools.cache
        def results() -> tuple[Any, Evaluation, Trial, dict[str, np.ndarray]]:
            self._announce_compilation("validation", "validation")
            # Copied for the log functions: the next call of the loop donates the state's own arrays.
            model = copy_arrays(self.plan.layout.gather(state.model))
            return model, *_validate(self.plan, model, self.plan.layout.gather(state.hyperparameters))

        return results

    def _update(self, state: TrainState, last: int, results: Results, *, replaces: bool) -> TrainState:
        """Return the state after the updates due after batch `last`, those that replace members or others."""
        plan, updates = self.plan, self.plan.population_updates
        if not updates.due_updates(last, replaces=replaces):
            return state
        validation = ValidationResults(lambda: results()[1:], is_single=plan.count is None)
        updated, records = updates.apply(plan.layout.gather_state(state), validation, last, replaces=replaces)
        updated = plan.layout.spread_state(updated)
        frozen_from = self._frozen_from(updated)
        # What froze in these updates is marked with the next batch. A frozen state that was inherited was
        # reported when the parent froze.
        frozen_before = np.where(frozen_from == last + 1, NOT_FROZEN, frozen_from)
        self._report_frozen(frozen_before, frozen_from, subject="what population updates made")
        if replaces:
            self._notify(self.observers, lambda observer: observer.on_replacement(last, records))
        else:
            self._notify(self.observers, lambda observer: observer.on_updates(last, records, updated))
        return updated

    def _call(self, state: TrainState, calls: CallDivision) -> tuple[TrainState, FinishedBatches]:
        plan, start_time = self.plan, time.perf_counter()
        first, count = calls.next_batch, calls.next_count()
        if first in plan.batches.resets:
            state = with_fresh_optimizer(state, plan.layout.spread(plan.new_state.opt_state))
        phase = max(batch for batch in self.loops if batch <= first)
        self._announce_compilation("training", phase)
        loop = self.loops[phase]
        recorded = plan.batches.recorded_batches
        trainable_batches = recorded[(recorded >= first) & (recorded < first + count)]
        # A program writes in every step: steps that are not kept write to the spare last row.
        rows = np.full(loop.capacity, loop.n_kept)
        rows[trainable_batches - first] = np.arange(trainable_batches.size)
        enabled = None
        if plan.batches.enabled is not None:
            rows_now = plan.batches.enabled[first : first + count]
            # Padded to the capacity, so that one program serves calls of any length.
            enabled = jnp.asarray(np.pad(rows_now, ((0, loop.capacity - count), (0, 0))))
        state, buffers = loop(state, count, as_array(rows, int), enabled)
        frozen_from = self._frozen_from(state)
        ended = self._has_ended(state)
        if ended:  # batches after the last freeze changed nothing
            count = max(1, int(frozen_from.max()) + 1 - first)  # a selection may have left none to train
            trainable_batches = trainable_batches[trainable_batches < first + count]
            state = dataclasses.replace(state, step=jnp.full_like(state.step, first + count))
        last = first + count - 1
        batches = FinishedBatches(
            first=first,
            count=count,
            records=self._filled_rows(buffers.records, count),
            recorded_batches=trainable_batches,
            trainables=self._filled_rows(buffers.trainables, trainable_batches.size),
            state=state,
            frozen_from=frozen_from,
            logs=ended or last in plan.batches.logged or last == plan.training.n_batches - 1,
            updates=bool(plan.population_updates.due_updates(last, replaces=False)),
        )
        calls.record_call(count, time.perf_counter() - start_time)
        return state, batches

    def _filled_rows(self, buffer: PyTree, n_rows: int) -> PyTree:
        """Return views of the filled rows, of members that are no copies."""
        filled = np.s_[:n_rows] if self.plan.count is None else np.s_[:n_rows, : self.plan.count]
        return jax.tree.map(lambda rows: rows[filled], jax.device_get(buffer))

    def _frozen_from(self, state: TrainState) -> Int[np.ndarray, "*member"]:
        return np.asarray(self.plan.layout.gather(state.loss_fn_state.frozen_from))

    def _report_frozen(
        self,
        before: Int[np.ndarray, "*member"],
        now: Int[np.ndarray, "*member"],
        *,
        ends: bool = False,
        subject: str = "the loss, the parameters or the optimizer state",
    ) -> None:
        """Warn of, or raise for, the members that froze; `ends` is whether no other is left."""
        new = np.flatnonzero((now != NOT_FROZEN) & (before == NOT_FROZEN))
        if not new.size:
            return
        who = "the model" if now.ndim == 0 else f"member {', '.join(map(str, new))}"
        when = ", ".join(map(str, np.atleast_1d(now)[new]))
        failure = f"{subject} of {who} were not finite in batch {when}"
        if self.plan.trainer.nonfinite == "raise":
            raise NonfiniteError(failure + ".")
        no_other = "stopped or frozen" if np.any(now == NOT_FROZEN) else "frozen"
        end = f"; training ends, as every member is {no_other}" if ends else ""
        warn_caller(f"{failure}: from then on it is kept as it was before{end}.")

    def _log_entry(self, batches: FinishedBatches, results: Results, start_time: float) -> LogEntry:
        model, validation, trials, metrics = results()
        last = jax.tree.map(lambda rows: np.array(rows[-1]), batches.records)
        carry = batches.state.loss_fn_state
        return LogEntry(
            batch=batches.last,
            model=model,
            loss=last.loss,
            validation_trials=trials,
            validation=validation,
            validation_loss=jax.tree.map(lambda x: x.mean(axis=-1), jax.device_get(validation.losses)),
            metrics=metrics,
            frozen=np.asarray(batches.frozen_from != NOT_FROZEN),
            stopped=np.asarray(np.not_equal(self.plan.layout.gather(carry.stops), NOT_FROZEN)),
            learning_rate=last.learning_rate,
            seconds=time.perf_counter() - start_time,
        )


def _validate(
    plan: TrainingPlan, model: Any, hyperparameters: PyTree = None
) -> tuple[Evaluation, Trial, dict[str, Shaped[np.ndarray, "..."]]]:
    """Return the results of a model on the validation trials, these trials, and the metrics."""
    task, trials, metrics_of = plan.training.task, plan.validation_trials, plan.trainer.validation_metrics
    if hyperparameters is not None:  # which population updates have set since the plan was checked
        task = with_present_values(task, hyperparameters, plan.step)
        check_values_of_members("task", task)
        trials = validation_trials(task, plan.count or 1) if differs_between_members(task) else trials
    key = key_stream(plan.training.key, "validation")
    if plan.trainer.greedy_validation:
        model = greedy(model)
    if plan.training.ensembled:
        by_member, block = differs_between_members(task), plan.trainer.member_batch_size
        results = evaluate_members(model, task, trials, by_member, key, plan.member_ids, block)
    else:
        results = evaluate_trials(model, task, trials, key, plan.member_ids)
    metrics: Mapping[str, Any] = {} if metrics_of is None else metrics_of(results.states, trials)
    return results, trials, as_metrics(metrics, plan.count)


@contextlib.contextmanager
def _interrupts_wait() -> Iterator[None]:
    """Delay Ctrl-C to the end of the block (in the main thread, which gets it); a second one acts at once."""
    act = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(act):
        yield
        return
    interrupts: list[tuple[Any, ...]] = []

    def remember(*arguments: Any) -> None:
        signal.signal(signal.SIGINT, act)
        interrupts.append(arguments)

    signal.signal(signal.SIGINT, remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, act)
    if interrupts:
        act(*interrupts[0])
