"""Control by performance: who stops when, what is held, what advances, what is resumed, what is skipped."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, member_of, train
from swept_runs import Swept

import popsim
from popsim.experiments import read_run_info, register_experiment, resume_run, run_experiment
from popsim.experiments.info_table import info_table
from popsim.training import (
    AbstractControl,
    Curriculum,
    EarlyStopping,
    PopulationBasedTraining,
    ReduceOnPlateau,
    TaskTrainer,
    adam,
    open_history,
    save_history,
    training_trials,
)
from popsim.training.loop._batch_loop import _map_blocks_with_active

pytestmark = pytest.mark.slow

N_MEMBERS, N_BATCHES, LOG_STEP = 16, 18, 2
STEEP = adam(popsim.PerMember(np.geomspace(1e-3, 1.0, N_MEMBERS)[np.random.default_rng(0).permutation(16)]))


def stepping(control=(), *, optimizer=STEEP, n_batches=N_BATCHES, trainer=None, **options):
    """16 members, of which those with high rates soon gain no more, in blocks of 4."""
    given = TaskTrainer(optimizer, control=control, **{"member_batch_size": 4, **(trainer or {})})
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
    assert (free[1].stopped_from == -1).all() and free[1].control is None


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


def test_controls_are_recorded_and_exported(stopped, tmp_path):
    history = stopped[1]
    assert history.control_batch.tolist() == history.validation_batch.tolist()
    state = history.control.state
    assert {*state} == {"EarlyStopping.best", "EarlyStopping.points_without_gain"}
    counts = state["EarlyStopping.points_without_gain"]
    assert counts.shape == (N_BATCHES // LOG_STEP, N_MEMBERS)
    assert ((counts[-1] == 1) == (history.stopped_from >= 0)).all()
    save_history(tmp_path / "history", history)
    dataset = open_history(tmp_path / "history")
    assert dataset["control.EarlyStopping.best"].dims == ("control_batch", "member")
    np.testing.assert_array_equal(dataset["stopped_from"], history.stopped_from)


def test_training_ends_when_all_are_stopped():
    control = [EarlyStopping(2, min_gain=1e3)]
    _, history = stepping(control)
    assert history.stopped_from.tolist() == [6] * N_MEMBERS and history.batch.size == 6


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
    given = TaskTrainer(LEARNING, control=control, validation_metrics=error, **trainer)
    return train(n_batches, n_members=4, task=SCALED, trainer=given, **{"log_step": LOG_STEP, **options})


@pytest.fixture(scope="module")
def advanced():
    return advancing(save_trial_specs=[0, 15])


def test_a_curriculum_advances_each_member_by_its_own_figure(advanced):
    _, history = advanced
    stage, figures = history.control.state["Curriculum.stage"], history.metrics["error"]
    is_active = np.ones(4, bool)
    by_hand = [np.zeros(4, int)]
    for batch, figure in zip(history.control_batch, figures, strict=True):
        by_hand.append(np.minimum(by_hand[-1] + (is_active & (figure <= 2.0)), 2))
        is_active = (history.stopped_from < 0) | (history.stopped_from > batch + 1)
    np.testing.assert_array_equal(stage, by_hand[1:])
    assert stage[-1, 0] == 0 and stage[-1].max() == 2
    np.testing.assert_array_equal(
        history.control.hyperparameters["task.scale"], STAGES[stage].astype(np.float32)
    )
    began = np.diff(np.concatenate([np.zeros((1, 4)), stage]), axis=0) > 0  # then the others begin anew
    assert np.isinf(history.control.state["EarlyStopping.best"][began]).all()
    assert (history.control.state["EarlyStopping.points_without_gain"][began] == 0).all()
    for member in range(4):  # the trials of the last batch, kept and trained, have the scale of the stage
        key = jax.random.fold_in(KEY, 15)
        of_scale_one = training_trials(RunningSum(), 4, batch=15, member_id=member, key=key)
        np.testing.assert_allclose(
            history.trial_specs[15].inputs[member],
            STAGES[stage[-2, member]] * np.asarray(of_scale_one.inputs),
            rtol=1e-5,
        )


def test_a_rate_is_reduced_on_a_plateau(advanced):
    _, history = advanced
    rate = history.control.hyperparameters["learning_rate"]
    given = np.float32([1e-4, 1e-2, 5e-2, 3e-1])
    reached = np.where(rate[-1] < given, rate[-1], given)
    np.testing.assert_array_equal(rate[-1], reached)
    assert rate[-1, 3] in np.float32([0.15, 0.1]) and (rate[:, :3] == given[:3]).all()
    used = history.learning_rate[LOG_STEP::LOG_STEP]
    trained = np.isfinite(used)
    np.testing.assert_array_equal(used[trained], rate[:-1][trained])


@pytest.mark.parametrize("last", [7, 8])
def test_a_controlled_training_goes_on_where_it_stopped(last, advanced, tmp_path):
    """After a logging point, and after the batch that follows it."""
    whole, history = advanced
    folder, done = {"chkpt_dir": tmp_path / "run"}, []
    _, part = advancing(
        trainer={**folder, "stop": lambda: bool(done)},
        batch_callbacks={last: [lambda: done.append(last)]},
        save_trial_specs=[0, 15],
    )
    assert part.batch.size == last + 1 and part.control_batch[-1] == 7
    resumed, own = advancing(trainer=folder, save_trial_specs=[0, 15], restore_checkpoint=True)
    assert_same(resumed, whole)
    for name in ("control", "metrics", "stopped_from", "opt_state", "trial_specs"):
        assert_same(getattr(own, name), getattr(history, name))
    np.testing.assert_array_equal(own.loss.total, history.loss.total)
    dataset = open_history(tmp_path / "run")
    np.testing.assert_array_equal(
        dataset["control.Curriculum.stage"], history.control.state["Curriculum.stage"]
    )
    assert dataset["hyperparameter.task.scale"].dims == ("control_batch", "member")
    np.testing.assert_array_equal(dataset["stopped_from"], history.stopped_from)
    other = (Curriculum("task.scale", STAGES, "error", 1.9, mode="min"), *CONTROLS[1:])
    with pytest.raises(ValueError, match=r"control.0.threshold`, 2.0 then and 1.9 now"):
        advancing(control=other, trainer=folder, restore_checkpoint=True)
    with pytest.raises(ValueError, match="`log_step`, 2 then and 4 now"):
        advancing(log_step=4, trainer=folder, restore_checkpoint=True)


def test_a_longer_training_is_as_if_it_had_been_longer(advanced, tmp_path):
    """The last batch, 10, has a logging point of its own, at which no control acts."""
    folder = {"chkpt_dir": tmp_path / "run"}
    advancing(11, trainer=folder)
    longer, own = advancing(trainer=folder, restore_checkpoint=True)
    assert_same(longer, advanced[0])
    assert_same(own.control, advanced[1].control)


class StopFirst(AbstractControl):
    """Stop the first member; keeps when."""

    def initial(self, value, *, n_members):
        return {"since": jnp.full(n_members, -1)}, value

    def __call__(self, state, figure, value, *, batch):
        stops = jnp.arange(figure.size) == 0
        return {"since": jnp.where(stops, batch, state["since"])}, value, stops


def test_a_single_model_and_a_control_of_your_own():
    _, history = train(
        9, n_members=0, trainer=TaskTrainer(OPTIMIZER, control=[StopFirst(), StopFirst()]), log_step=3
    )
    assert history.stopped_from == 3 and history.batch.size == 3
    assert {name: own.tolist() for name, own in history.control.state.items()} == {
        "StopFirst.since": [2],
        "StopFirst 2.since": [2],
    }
    with pytest.raises(ValueError, match="`hyperparameter` must be of .*learning_rate"):
        train(4, n_members=0, trainer=TaskTrainer(OPTIMIZER, control=[CONTROLS[0]], validation_metrics=error))


class Misshapen(StopFirst):
    def __call__(self, state, figure, value, *, batch):
        return {"since": jnp.zeros(7)}, value, figure > 0


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EarlyStopping(0), "`patience` must be a positive"),
        (lambda: EarlyStopping(1, min_gain=-1.0), "`min_gain` must be finite and at least zero"),
        (lambda: EarlyStopping(1, mode="low"), '`mode` must be "min" or "max"'),
        (lambda: ReduceOnPlateau("learning_rate", 2.0, 1), "`factor` must be above 0 and below 1"),
        (lambda: Curriculum("task.scale", [1.0], "error", 0.8), "`stages` must be the values of two"),
        (lambda: Curriculum(None, STAGES, "error", 0.8), "`hyperparameter` must be a name"),
        (lambda: TaskTrainer(OPTIMIZER, control=EarlyStopping(1)), "`control` must be a sequence"),
        (lambda: TaskTrainer(OPTIMIZER, control=["stop"]), "`control` must be of controls such as"),
        (lambda: TaskTrainer(OPTIMIZER, control=CONTROLS), "`metric` of Curriculum must be one of"),
        (
            lambda: TaskTrainer(OPTIMIZER, control=[EarlyStopping(1)], selection=PopulationBasedTraining(2)),
            "`control` must be empty with a `selection`",
        ),
        (
            lambda: TaskTrainer(OPTIMIZER, control=[ReduceOnPlateau("learning_rate", 0.5, 1)] * 2),
            "set each hyperparameter once, got 'learning_rate' in ReduceOnPlateau and ReduceOnPlateau 2",
        ),
        (lambda: advancing(control=[Curriculum("task.scle", STAGES, "error", 1.0)]), "meant task.scale"),
        (
            lambda: advancing(control=[Curriculum("task.scale", STAGES[:, None], "error", 1.0)]),
            r"`stages` must be values of `task.scale`, of shape \(\)",
        ),
        (lambda: advancing(reset_opt_state_at=[3]), "`reset_opt_state_at` must be empty"),
        (
            lambda: advancing(2, control=[EarlyStopping(1, metric="eror")]),
            "`metric` of EarlyStopping must be one of `validation_metrics`, error, got 'eror'",
        ),
        (lambda: advancing(2, control=[Misshapen()]), "the state of Misshapen must keep its"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(make, said, as_users_run):
    with pytest.raises(ValueError, match=said):
        make()


DEVICES = """
import sys
sys.path.insert(0, {tests!r})
import jax
jax.config.update("jax_num_cpu_devices", 2)
from test_control import EarlyStopping, stepping
_, history = stepping([EarlyStopping(1, min_gain=0.05)], trainer=dict(devices=jax.devices()))
print(history.stopped_from.tolist())
"""


def test_the_same_members_stop_on_two_devices(stopped):
    """Each device leaves out blocks of its own."""
    code = DEVICES.format(tests=str(Path(__file__).parent))
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert json.loads(told) == stopped[1].stopped_from.tolist()


def test_blocks_that_hold_only_held_members_are_not_computed():
    """Of 12 members in blocks of 4, 3 are active: one block is computed, with one of the others in it."""
    held = jnp.ones(12, bool).at[jnp.array([2, 5, 11])].set(False)
    counted = jnp.zeros(12)
    after, records = _map_blocks_with_active(lambda own: (own[0] + 1, own[0]), (counted,), held, 4)
    assert after.sum() == 4 and (after[~held] == 1).all()
    assert np.isfinite(records).sum() == 4 and (records[~held] == 0).all()


class StopBelow(AbstractControl):
    """Stops members by a figure, and counts its calls in place."""

    metric: str
    level: float

    def initial(self, value, *, n_members):
        return {"calls": np.zeros(n_members)}, value

    def __call__(self, state, figure, value, *, batch):
        state["calls"] += 1
        return state, value, figure < self.level


def test_a_member_that_advances_is_not_stopped_and_what_is_stopped_stays(advanced):
    half = float(np.median(advanced[1].metrics["error"][0]))
    control = (Curriculum("task.scale", STAGES, "error", half, mode="min"), StopBelow("error", np.inf))
    _, history = advancing(6, control=control)
    stage, calls = (history.control.state[name] for name in ("Curriculum.stage", "StopBelow.calls"))
    advances = stage[0] == 1
    assert advances.any() and not advances.all()
    np.testing.assert_array_equal(history.stopped_from == LOG_STEP, ~advances)
    assert (calls[:, ~advances] == 1).all()


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (lambda state, figure, value: None, "must return what it keeps, a value and who stops, got None"),
        (lambda state, figure, value: (state, value, figure), "by True or False for each of the 4 members"),
    ],
)
def test_what_a_control_returns_is_checked(returned, said):
    class Odd(StopBelow):
        def __call__(self, state, figure, value, *, batch):
            return returned(state, figure, value)

    with pytest.raises(ValueError, match=said):
        advancing(LOG_STEP, control=[Odd("error", 0.0)])


@register_experiment
@dataclasses.dataclass(frozen=True)
class StoppingSwept(Swept):
    """Of which no network gains enough."""

    name = "stopping-swept"

    def build_trainer(self, **options):
        return super().build_trainer(control=[EarlyStopping(2, 1e3)], **options)


def test_an_experiment_whose_members_all_stop_is_finished(tmp_path):
    run = run_experiment(StoppingSwept(n_batches=40, log_step=4), tmp_path / "run", quiet=True)
    assert run.is_finished and run.history.sizes["batch"] == 12
    info = read_run_info(run.folder.path)
    assert info.n_until_held == 12 and not info.frozen and {*info.stopped.values()} == {12}
    told = info_table(info)
    assert "finished: all members stopped after 12 of 40 batches" in told and "4 from batch 12 on" in told
    assert resume_run(run.folder.path, quiet=True).n_batches_trained == 12
