"""Population updates: who stops when, what is held, what advances, what is resumed, what is skipped."""

import dataclasses
import functools
import re
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, build, member_of, planned, train

import popsim
from popsim.training import (
    AbstractPopulationUpdate,
    Curriculum,
    EarlyStopping,
    PopulationBasedTraining,
    ReduceOnPlateau,
    TaskTrainer,
    adam,
    open_history,
    training_trials,
)
from popsim.training.loop.batch_loop import _map_blocks_with_active
from popsim.training.population_updates.apply import plan_population_updates
from popsim.training.population_updates.base import Population, ValidationResults

pytestmark = pytest.mark.slow

N_MEMBERS, N_BATCHES, LOG_STEP = 16, 18, 2
STEEP = adam(popsim.PerMember(np.geomspace(1e-3, 1.0, N_MEMBERS)[np.random.default_rng(0).permutation(16)]))


def stepping(control=(), *, optimizer=STEEP, n_batches=N_BATCHES, trainer=None, **options):
    """16 members, of which those with high rates soon gain no more, in blocks of 4."""
    given = TaskTrainer(optimizer, population_updates=control, **{"member_batch_size": 4, **(trainer or {})})
    return train(n_batches, n_members=N_MEMBERS, trainer=given, log_step=LOG_STEP, **options)


@pytest.fixture(scope="module")
def free():
    return stepping(save_model_trainables=True)


@pytest.fixture(scope="module")
def stopped():
    return stepping([EarlyStopping(1, min_gain=0.05)], save_model_trainables=True)


def stops_by_hand(losses, patience, min_gain):
    """The first batch that a member does not train, from its validation losses without control."""
    best, without = np.float32(np.inf), 0
    for number, loss in enumerate(losses, start=1):
        best, without = (loss, 0) if loss < best - np.float32(min_gain) else (best, without + 1)
        if without == patience:
            return number * LOG_STEP
    return -1


def test_members_stop_at_the_batch_that_their_losses_say(free, stopped):
    losses = free[1].validation_loss.total
    by_hand = [stops_by_hand(losses[:, member], 1, 0.05) for member in range(N_MEMBERS)]
    history = stopped[1]
    assert history.stopped_from.tolist() == by_hand and (history.frozen_from == -1).all()
    assert len({*by_hand}) > 3 and 4 < np.sum(history.stopped_from >= 0) < N_MEMBERS
    assert (free[1].stopped_from == -1).all() and not free[1].updates


def test_the_stopped_are_held_and_the_others_are_as_without_control_to_the_bit(free, stopped):
    """Without control all blocks are computed; with it those that hold only stopped members are not."""
    first = stopped[1].stopped_from
    assert np.sum(first[first >= 0] < N_BATCHES - 2) >= 4  # so that a block is skipped
    for member in range(N_MEMBERS):
        end = first[member] if first[member] >= 0 else N_BATCHES
        ours, theirs = (own[1].loss.total[:, member] for own in (stopped, free))
        np.testing.assert_array_equal(ours[:end], theirs[:end])
        assert np.isnan(ours[end:]).all() and np.isfinite(theirs).all()
        kept, all_kept = (own[1].model_trainables for own in (stopped, free))
        for rows, all_rows in zip(jax.tree.leaves(kept), jax.tree.leaves(all_kept), strict=True):
            held = np.minimum(np.arange(N_BATCHES), end - 1)
            np.testing.assert_array_equal(rows[:, member], all_rows[held, member])
        if end == N_BATCHES:
            assert_same(member_of(stopped[0], member), member_of(free[0], member))


def called(update, metrics, **hyperparameters):
    """The population, and what is kept, after calls of an update with these values of a metric `m`."""
    none = np.zeros(2, bool)
    population = Population(None, hyperparameters, none, none, none, np.arange(2), 2)
    population, state = update.init(population)
    for metric in metrics:
        own = {"m": np.asarray(metric, float)}
        results = ValidationResults(lambda own=own: (None, None, own), is_single=False)
        population, state, _ = update(population, results, state, batch=0, key=KEY)
    return population, state


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("metric", [np.nan, np.inf, -np.inf])
def test_a_metric_that_is_not_finite_is_no_gain_and_reaches_nothing(metric, mode):
    stopped, kept = called(EarlyStopping(1, metric="m", mode=mode), [[metric, 1.0]])
    assert stopped.stopped.tolist() == [True, False] and np.isinf(kept["best"][0])
    curriculum = Curriculum("rate", [0.0, 1.0], "m", 1.0, mode=mode)
    assert called(curriculum, [[metric, 1.0]], rate=np.zeros(2))[1]["stage"].tolist() == [0, 1]


def test_a_rate_is_reduced_on_a_plateau_and_must_then_gain_on_what_it_had_reached():
    update = ReduceOnPlateau("rate", 0.5, 2, metric="m", minimum=0.3)
    metrics = [[1.0, 4.0], [1.0, 3.0], [2.0, 2.0]]
    population, kept = called(update, metrics, rate=np.ones(2))
    assert population.hyperparameters["rate"].tolist() == [0.5, 1.0]
    assert kept["points_without_gain"].tolist() == [0, 0] and kept["best"].tolist() == [1.0, 2.0]
    population, _ = called(update, metrics + [[1.0, 1.0], [1.0, 0.5]], rate=np.ones(2))
    assert population.hyperparameters["rate"].tolist() == [0.3, 1.0]


STAGES = np.array([1.0, 1.5, 2.0])
SCALED = eqx.tree_at(lambda task: task.scale, RunningSum(), popsim.PerMember([9.0] * 4))
LEARNING = adam(popsim.PerMember([1e-4, 1e-2, 5e-2, 3e-1]))


def error(states, trials):
    return {"error": jnp.mean((states.network.output - trials.targets) ** 2, axis=(1, 2, 3))}


CONTROLS = (
    Curriculum("task.scale", STAGES, "error", 2.0, mode="min"),
    ReduceOnPlateau("learning_rate", 0.5, 1, metric="error", minimum=0.1),
    EarlyStopping(2, metric="error"),
)


def advancing(n_batches=16, *, control=CONTROLS, **options):
    trainer = options.pop("trainer", {})
    given = TaskTrainer(LEARNING, population_updates=control, validation_metrics=error, **trainer)
    return train(n_batches, n_members=4, task=SCALED, trainer=given, **{"log_step": LOG_STEP, **options})


@functools.cache
def plan():
    """Of a training with all kinds of updates."""
    own = TaskTrainer(LEARNING, population_updates=(*CONTROLS, Odd("error", 0.0)), validation_metrics=error)
    return planned(4, n_members=4, task=SCALED, trainer=own, log_step=LOG_STEP)


def begun(*updates):
    """The population updates of a training, and its first state."""
    trainer = TaskTrainer(LEARNING, population_updates=updates, validation_metrics=error)
    of_all = plan()
    own = plan_population_updates(trainer, of_all.training, of_all.step, of_all.new_state, of_all.recorded)
    return own, own.with_first_states(of_all.new_state)


@pytest.fixture(scope="module")
def advanced():
    return advancing(save_trial_specs=[0, 15])


@pytest.mark.full
def test_a_curriculum_advances_each_member_by_its_own_figure(advanced):
    _, history = advanced
    stage, figures = history.updates["control"]["control.Curriculum.stage"], history.metrics["error"]
    is_active = np.ones(4, bool)
    by_hand = [np.zeros(4, int)]
    for batch, figure in zip(history.updates["control"]["batch"], figures, strict=True):
        by_hand.append(np.minimum(by_hand[-1] + (is_active & (figure <= 2.0)), 2))
        is_active = (history.stopped_from < 0) | (history.stopped_from > batch + 1)
    np.testing.assert_array_equal(stage, by_hand[1:])
    assert stage[-1, 0] == 0 and stage[-1].max() == 2
    np.testing.assert_array_equal(
        history.updates["control"]["hyperparameter.task.scale"], STAGES[stage].astype(np.float32)
    )
    began = np.diff(np.concatenate([np.zeros((1, 4)), stage]), axis=0) > 0  # then the others begin anew
    assert np.isinf(history.updates["control"]["control.EarlyStopping.best"][began]).all()
    assert (history.updates["control"]["control.EarlyStopping.points_without_gain"][began] == 0).all()
    for member in range(4):  # the trials of the last batch, kept and trained, have the scale of the stage
        key = jax.random.fold_in(KEY, 15)
        of_scale_one = training_trials(RunningSum(), 4, batch=15, member_id=member, key=key)
        np.testing.assert_allclose(
            history.trial_specs[15].inputs[member],
            STAGES[stage[-2, member]] * np.asarray(of_scale_one.inputs),
            rtol=1e-5,
        )


class StopFirst(AbstractPopulationUpdate):
    """Stop the first member; keeps when."""

    may_stop = True

    def init(self, population):
        return population, {"since": jnp.full(population.n_members, -1)}

    def __call__(self, population, results, state, *, batch, key):
        stops = jnp.arange(population.n_members) == 0
        population = dataclasses.replace(population, stopped=population.stopped | stops)
        return population, {"since": jnp.where(stops, batch, state["since"])}, {}


class IntoTrials(StopFirst):
    recorded_as = "trials"


REFUSED = [
    (lambda: EarlyStopping(0), "`patience` must be a positive"),
    (lambda: EarlyStopping(1, every=0), "`every` must be a positive"),
    (lambda: EarlyStopping(1, restore="last"), "`restore` must be .best. or None, got .last."),
    (lambda: EarlyStopping(1, mode="low"), '`mode` must be "min" or "max"'),
    (lambda: ReduceOnPlateau("learning_rate", 2.0, 1), "`factor` must be above 0 and below 1"),
    (lambda: Curriculum("task.scale", [1.0], "error", 0.8), "`stages` must be the values of two"),
    (lambda: TaskTrainer(OPTIMIZER, population_updates=EarlyStopping(1)), "must be a list of updates"),
    (lambda: TaskTrainer(OPTIMIZER, population_updates=[IntoTrials()]), "`recorded_as` .* got 'trials'"),
    (lambda: TaskTrainer(OPTIMIZER, population_updates=CONTROLS), "`metric` of Curriculum must be one of"),
    (
        lambda: TaskTrainer(OPTIMIZER, population_updates=[PopulationBasedTraining(every=2)] * 2),
        "`population_updates` must have at most one that replaces members",
    ),
    (lambda: begun(*[ReduceOnPlateau("learning_rate", 0.5, 1)] * 2), "each hyperparameter once, got 'learni"),
    (lambda: begun(Curriculum("task.scle", STAGES, "error", 1.0)), "meant task.scale"),
    (lambda: begun(Curriculum("task.scale", STAGES[:, None], "error", 1.0)), r"`task.scale`, of shape \(\)"),
    (lambda: advancing(reset_opt_state_at=[3]), "`reset_opt_state_at` must be empty"),
    (lambda: called(EarlyStopping(1, metric="eror"), [[1.0, 1.0]]), "must be one of .*, m, got 'eror'"),
]


@pytest.mark.parametrize(("make", "said"), REFUSED)
def test_what_does_not_fit_is_refused_by_name(make, said, as_users_run):
    with pytest.raises(ValueError, match=said):
        make()


def test_a_single_model_and_an_update_of_your_own():
    updates = [StopFirst(), StopFirst()]
    _, history = train(9, n_members=0, trainer=TaskTrainer(OPTIMIZER, population_updates=updates), log_step=3)
    assert history.stopped_from == 3 and history.batch.size == 3
    assert {name: values.tolist() for name, values in history.updates["control"].items()} == {
        "batch": [2],
        "control.StopFirst.since": [2],
        "control.StopFirst 2.since": [2],
    }
    assert re.search(r"updates\['control'\] +1: 2 to 2 +2 of 1 ", repr(history))
    with pytest.raises(ValueError, match="`hyperparameters` of Curriculum must be of .*learning_rate"):
        train(
            4,
            n_members=0,
            trainer=TaskTrainer(OPTIMIZER, population_updates=[CONTROLS[0]], validation_metrics=error),
        )


def test_blocks_that_hold_only_held_members_are_not_computed():
    """Of 12 members in blocks of 4, 3 are active: one block is computed, with one of the others in it."""
    held = jnp.ones(12, bool).at[jnp.array([2, 5, 11])].set(False)
    counted = jnp.zeros(12)
    after, records = _map_blocks_with_active(lambda own: (own[0] + 1, own[0]), (counted,), held, 4)
    assert after.sum() == 4 and (after[~held] == 1).all()
    assert np.isfinite(records).sum() == 4 and (records[~held] == 0).all()


class StopBelow(AbstractPopulationUpdate):
    """Stops members by a metric, and counts its calls in place."""

    metric: str
    level: float
    may_stop = True

    def init(self, population):
        return population, {"calls": np.zeros(population.n_members, np.int32)}

    def __call__(self, population, results, state, *, batch, key):
        state["calls"] += 1
        stopped = population.stopped | (results.metrics[self.metric] < self.level)
        return dataclasses.replace(population, stopped=stopped), state, {}


def replaced(**changes):
    return lambda population, state: (dataclasses.replace(population, **changes), state, {})


def with_other_tau(population, state):
    model = eqx.tree_at(lambda model: model.network.tau, population.model, replace_fn=lambda leaf: 2 * leaf)
    return dataclasses.replace(population, model=model), state, {}


RETURNED = [
    (replaced(stopped=np.ones(4, bool)), "Odd stops members, and must have `may_stop = True`"),
    (replaced(restarted=True), "what Odd returns must keep names and shapes"),
    (replaced(hyperparameters={"rate": np.ones(4)}), "`hyperparameters` of Odd must keep names and shapes"),
    (with_other_tau, "Odd must change leaves .* are trained.*tau` is constant in this training"),
    (lambda population, state: (population, {"calls": state["calls"] + 0.5}, {}), "of type int32, got float"),
    (lambda population, state: (population, {"calls": np.zeros(7, np.int32)}, {}), "must keep names and"),
    (lambda population, state: (population, state, {"a/b": np.ones(4)}), "plain names without '/'"),
    (lambda population, state: (population, state, {"a": 1.0}), "lead with the 4 members"),
    (lambda population, state: (population.take(np.arange(4)), state, {}), "with `replaces = True`"),
]


class Odd(StopBelow):
    """Returns what it is told to."""

    change: Callable = eqx.field(static=True, default=replaced())
    may_stop = False

    def __call__(self, population, results, state, *, batch, key):
        return self.change(population, state)


@pytest.mark.parametrize(("change", "said"), RETURNED)
def test_what_an_update_returns_is_checked(change, said, as_users_run):
    updates, state = begun(Odd("error", 0.0, change))
    with pytest.raises(ValueError, match=said):
        updates.apply(state, ValidationResults(None, is_single=False), LOG_STEP - 1, replaces=False)


class Rescale(AbstractPopulationUpdate):
    """Scale readouts to a norm and by a random factor; record the norm, keep the product of factors."""

    norm: float

    def init(self, population):
        return population, {"scale": np.ones(population.n_members)}

    def __call__(self, population, results, state, *, batch, key):
        readout = population.model.network.readout.weight
        norms = jnp.sqrt(jnp.sum(readout**2, axis=(1, 2)))
        factors = self.norm / norms * jax.random.uniform(key, norms.shape, minval=0.9)
        model = eqx.tree_at(
            lambda model: model.network.readout.weight, population.model, readout * factors[:, None, None]
        )
        population = dataclasses.replace(population, model=model)
        return population, {"scale": state["scale"] * factors}, {"norm": norms}


def all_of_them(*, stop_after=None, restore=False, threshold=2.0, log_step=5, folder=None):
    """Selection of rates, with early stopping, a curriculum, and weights that are scaled every 3 batches."""
    updates = [
        PopulationBasedTraining(every=4, hyperparameters=("learning_rate",)),
        Curriculum("task.scale", STAGES, "error", threshold, mode="min"),
        EarlyStopping(2, metric="error", every=3, restore="best"),
        Rescale(0.5, every=3),
    ]
    told, options = [], {"log_step": log_step, "save_model_trainables": True, "restore_checkpoint": restore}
    if stop_after is not None:
        options["batch_callbacks"] = {stop_after: [lambda: told.append("stop")]}
    rest = {"validation_metrics": error, "chkpt_dir": folder, "stop": lambda: bool(told)}
    given = TaskTrainer(LEARNING, population_updates=updates, **rest)
    return train(12, n_members=4, task=SCALED, trainer=given, **options)


@pytest.mark.parametrize("last", [pytest.param(4, marks=pytest.mark.full), 5])
def test_all_kinds_of_updates_act_together_and_resume_bit_for_bit(last, tmp_path):
    """Stopped before a selection, and after an update without a log point."""
    whole, history = all_of_them()
    updates = history.updates
    assert {name: rows["batch"].tolist() for name, rows in updates.items()} == {
        "selection": [3, 7],
        "control": [4, 9],
        "EarlyStopping": [2, 5, 8, 11],
        "Rescale": [2, 5, 8, 11],
    }
    scale, norms = updates["Rescale"]["Rescale.scale"], updates["Rescale"]["Rescale.norm"]
    readout = np.asarray(history.model_trainables.network.readout.weight)
    np.testing.assert_allclose(norms[0], np.sqrt(np.sum(readout[2] ** 2, axis=(1, 2))), rtol=1e-5)
    replaced = updates["selection"]["parent"][0] != np.arange(4)
    assert replaced.any() and not replaced.all()
    stage = updates["control"]["control.Curriculum.stage"]
    begins_anew = replaced | (stage[0] > 0)  # by the selection after batch 3, or the curriculum after 4
    last_factors = scale[1] / np.where(begins_anew, 1.0, scale[0])
    for factors, before in ((scale[0], norms[0]), (last_factors, norms[1])):
        assert ((factors * before > 0.45 - 1e-3) & (factors * before < 0.5 + 1e-3)).all()
    scales = updates["control"]["hyperparameter.task.scale"]
    np.testing.assert_array_equal(scales, STAGES[stage].astype(np.float32))
    assert all_of_them(stop_after=last, folder=tmp_path)[1].batch[-1] == last
    resumed, own = all_of_them(folder=tmp_path, restore=True)
    assert_same(resumed, whole)
    dataset = open_history(tmp_path)
    assert dataset["Rescale.scale"].dims == ("Rescale_batch", "member")
    for name, rows in updates.items():
        np.testing.assert_array_equal(dataset[f"{name}_batch"], rows["batch"])
        for array in {*rows} - {"batch"}:
            np.testing.assert_array_equal(dataset[array], rows[array])
            np.testing.assert_array_equal(own.updates[name][array], rows[array])
    with pytest.raises(ValueError, match="`log_step`, 5 then and 4 now.*1.threshold`, 2.0 then and 1.9"):
        all_of_them(folder=tmp_path, restore=True, threshold=1.9, log_step=4)


class CopyBest(AbstractPopulationUpdate):
    """At log points all members take the weights of the one with the lowest loss."""

    replaces = True

    def __call__(self, population, results, state, *, batch, key):
        scores = population.gather_scores(results.total_loss)
        best = np.full(population.n_members, int(np.argmin(scores)))
        return population.take(best), state, {"from": best}


@pytest.mark.full
def test_what_replaces_members_is_a_class_of_ten_lines(tmp_path):
    """It acts after all others of a log point, and not after the last batch."""

    def copying(n_batches, **trainer):
        restore = trainer.pop("restore", False)
        updates = [CopyBest(), ReduceOnPlateau("learning_rate", 0.5, 1)]
        given = TaskTrainer(adam(1e-2), population_updates=updates, **trainer)
        return train(n_batches, n_members=4, trainer=given, log_step=3, restore_checkpoint=restore)

    whole, history = copying(9)
    assert history.updates["CopyBest"]["batch"].tolist() == [2, 5]
    assert history.updates["control"]["batch"].tolist() == [2, 5, 8]
    best = history.updates["CopyBest"]["CopyBest.from"][:, 0]
    np.testing.assert_array_equal(best, np.argmin(history.validation_loss.total[:2], axis=1))
    copying(4, chkpt_dir=tmp_path / "run")
    resumed, own = copying(9, chkpt_dir=tmp_path / "run", restore=True)
    assert_same(resumed, whole)
    np.testing.assert_array_equal(own.updates["CopyBest"]["CopyBest.from"][:, 0], best)


@pytest.mark.full
def test_numbers_that_are_not_finite_freeze_their_member():
    """It keeps what it had. The readout has no bias, which is no leaf of the model."""

    class Divide(AbstractPopulationUpdate):
        def __call__(self, population, results, state, *, batch, key):
            weights = population.model.network.readout.weight
            factors = jnp.where(jnp.arange(weights.shape[0]) == batch, jnp.inf, 0.5)
            where = lambda model: model.network.readout.weight  # noqa: E731
            model = eqx.tree_at(where, population.model, weights * factors[:, None, None])
            return dataclasses.replace(population, model=model), state, {}

    def without_bias(key):
        model = build(key)
        return eqx.tree_at(lambda model: model.network.readout.bias, model, None)

    ensemble = popsim.make_ensemble(without_bias, 3, key=jax.random.key(0))
    trainer = TaskTrainer(adam(1e-2), population_updates=[Divide(every=2)])
    with pytest.warns(
        UserWarning, match="what population updates made of member 1 were not finite in batch 2"
    ):
        trained, history = train(4, n_members=3, ensemble=ensemble, trainer=trainer)
    assert history.frozen_from.tolist() == [-1, 2, -1]
    assert np.isfinite(trained.network.readout.weight).all()


def restoring(n_batches, *, n_members=N_MEMBERS, folder=None, **options):
    optimizer = STEEP if n_members else adam(1.0)
    given = TaskTrainer(optimizer, population_updates=[EarlyStopping(5, restore="best")], chkpt_dir=folder)
    options = {"save_model_trainables": True, "log_step": LOG_STEP, **options}
    return train(n_batches, n_members=n_members, trainer=given, **options)


@pytest.mark.parametrize("n_members", [N_MEMBERS, 0])
def test_members_end_with_their_best_weights_and_a_longer_run_equals_one_resumed(n_members, tmp_path):
    model, history = restoring(N_BATCHES, n_members=n_members)
    best = history.updates["control"]["control.EarlyStopping.best_batch"][-1]
    losses, stops = history.validation_loss.total, history.stopped_from
    trained = (stops == -1) | (history.validation_batch.reshape(-1, *[1] * stops.ndim) < stops)
    np.testing.assert_array_equal(
        best, history.validation_batch[np.argmin(np.where(trained, losses, np.inf), axis=0)]
    )
    if n_members:
        assert np.any(stops >= 0) and np.any((stops == -1) & (best < N_BATCHES - 1))
    readouts = history.model_trainables.network.readout, model.network.readout
    for rows, leaf in zip(*map(jax.tree.leaves, readouts), strict=True):
        at_best = rows[best, np.arange(n_members)] if n_members else rows[best]
        np.testing.assert_array_equal(at_best, leaf)
    before, _ = restoring(N_BATCHES - 5, n_members=n_members, folder=tmp_path)
    opened = functools.partial(popsim.open_run, tmp_path, build=build, task=RunningSum())
    assert_same(opened().ensemble, before)
    resumed, _ = restoring(N_BATCHES, n_members=n_members, folder=tmp_path, restore_checkpoint=True)
    assert_same(resumed, model)
    assert_same(opened().ensemble, model)
