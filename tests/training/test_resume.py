"""A training that stops and goes on is a training that never stopped, bit for bit."""

import dataclasses
import importlib.metadata
import itertools
import json
import os
import shutil
import signal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from bit_flips import flip_bit
from short_form import mostly_in_full
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, build, network, train

import popsim
from popsim._compiled import program_text
from popsim.store import Checkpoints, GrowingArrays, MismatchError, SaveError
from popsim.store.identity import lock_holder
from popsim.training import TaskTrainer, adam, open_history, rules
from popsim.training.history.computation import Computation, compare_computations, sums_of
from popsim.training.history.recording import HistoryRecorder
from popsim.training.loop.batch_loop import BatchLoop
from popsim.training.loop.training_plan import TrainingPlan

pytestmark = pytest.mark.slow

N = 21
SCHEDULED = adam(optax.cosine_decay_schedule(1e-2, N), clip_norm=1.0)
RULE = rules.Hebb(rules.recurrent_synapses(), 1e-3)


def reweighted(loss, loss_values, gradients):
    return eqx.tree_at(lambda own: own.weights["activity"], loss, loss.weights["activity"] * 1.01)


def largest_output(states, trials):
    return {"largest output": jnp.abs(states.network.output).max(axis=(1, 2, 3))}


PLAN = {
    "save_model_trainables": np.array([0, 3, 4, 9, 10, 19, 20]),
    "save_trial_specs": [0, 5, 13, 20],
    "toggle_model_update_funcs": (np.arange(3, 17, 2),),
    "reset_opt_state_at": [8],
    "where_train": {0: lambda model: model.network.readout, 6: network},
    "log_step": 4,
}
OPTIONS = {
    "model_update_funcs": (RULE,),
    "loss_update_func": reweighted,
    "validation_metrics": largest_output,
}


def stopping_after(*n_calls):
    """Says stop after so many calls of the compiled loop."""
    counted = itertools.count(1)
    return lambda: next(counted) in n_calls


def resumed(folder, trainer=None):
    trainer = trainer or TaskTrainer(SCHEDULED, chkpt_dir=folder, **OPTIONS)
    return train(N, trainer=trainer, restore_checkpoint=True, **PLAN)


def assert_same_training(one, other):
    (model, history), (expected, expected_history) = one, other
    assert_same(model, expected)
    for name in {field.name for field in dataclasses.fields(history)} - {"members", "updates"}:
        assert_same(getattr(history, name), getattr(expected_history, name))


@pytest.fixture(scope="module")
def whole():
    """Never interrupted, and never on disk."""
    return train(N, trainer=TaskTrainer(SCHEDULED, **OPTIONS), **PLAN)


@pytest.mark.full  # in short: test_whatever_ends_a_training_what_is_finished_is_saved
def test_a_training_stopped_after_each_of_its_batches_is_the_same(whole, tmp_path, monkeypatch):
    """Resume of a resume, with schedules, phases, toggles, resets, updated losses and recorded trials."""
    monkeypatch.setattr("popsim.training.loop.training_plan.CAPACITY", 1)
    for made in range(1, N):
        trainer = TaskTrainer(SCHEDULED, chkpt_dir=tmp_path, stop=stopping_after(1), **OPTIONS)
        _, history = resumed(tmp_path, trainer)
        assert history.batch.tolist() == list(range(made))
    assert_same_training(resumed(tmp_path), whole)
    assert Checkpoints(tmp_path / "checkpoints").steps() == [N - 2, N - 1, N]


def in_call(n, function, owner, name, monkeypatch):
    """Lets `function` be called in the n-th call of a method, after it."""
    method, counted = getattr(owner, name), itertools.count(1)

    def called(*arguments, **options):
        returned = method(*arguments, **options)
        if next(counted) == n:
            function()
        return returned

    monkeypatch.setattr(owner, name, called)


def fail():
    raise RuntimeError("as was to be expected")


def press_ctrl_c():
    os.kill(os.getpid(), signal.SIGINT)


def press_ctrl_c_twice():
    press_ctrl_c()
    press_ctrl_c()


ENDS = {  # by what ends a training: what is raised, after how many batches, in which call of which method
    "a callback": (RuntimeError, 6),
    "the compiled loop": (RuntimeError, None, 3, fail, BatchLoop, "__call__"),
    "Ctrl-C": (KeyboardInterrupt, None, 3, press_ctrl_c, BatchLoop, "__call__"),
    "Ctrl-C twice": (KeyboardInterrupt, None, 3, press_ctrl_c_twice, HistoryRecorder, "on_batches"),
    "Ctrl-C in a commit": (KeyboardInterrupt, None, 4, press_ctrl_c, GrowingArrays, "_write"),
    "a log function that saves elsewhere": (SaveError, 8),
}


@pytest.mark.parametrize("end", mostly_in_full(ENDS, short=("Ctrl-C",)))
def test_whatever_ends_a_training_what_is_finished_is_saved(end, tmp_path, whole, monkeypatch):
    """And it continues as if it had not ended. That it is kept changes no bit."""
    raised, n_saved, *call = ENDS[end]
    seconds = 0.0 if end == "Ctrl-C in a commit" else 1e9
    monkeypatch.setattr("popsim.training.history.training_store.LOG_POINT_SECONDS", seconds)
    callbacks, seen = {5: [fail]} if end == "a callback" else None, []

    def log(entry):
        seen.append(entry.batch)
        if raised is SaveError and len(seen) == 2:
            raise SaveError("as was to be expected")

    with monkeypatch.context() as patch:
        if call:
            in_call(*call, patch)
        trainer = TaskTrainer(SCHEDULED, chkpt_dir=tmp_path, log_fns=[log], **OPTIONS)
        said = None if raised is KeyboardInterrupt else "as was to be expected"
        with pytest.raises(raised, match=said) as left:
            train(N, trainer=trainer, batch_callbacks=callbacks, **PLAN)
    (step,) = Checkpoints(tmp_path / "checkpoints").steps()
    assert 0 < step < N if n_saved is None else step == n_saved
    told = f"The training in {tmp_path} is saved after batch {step - 1}; to continue: restore_checkpoint=True"
    assert left.value.__notes__ == [told]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert open_history(tmp_path / "history.zarr").batch.values.tolist() == list(range(step))
    assert_same_training(resumed(tmp_path), whole)


def test_what_cannot_be_saved_hides_no_exception(tmp_path, monkeypatch):
    def full(*arguments):
        raise SaveError("the disk is full.")

    monkeypatch.setattr(Checkpoints, "save", full)
    with pytest.raises(RuntimeError, match="as was to be expected") as raised:
        train(4, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path), batch_callbacks={1: [fail]})
    assert raised.value.__notes__ == [
        "The training after batch 1 was not saved: the disk is full.",
        f"Nothing of the training in {tmp_path} is saved; it may begin anew there.",
    ]
    monkeypatch.undo()
    began = []
    train(4, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path), on_begin=began.append)
    assert began == [0] and open_history(tmp_path).sizes["batch"] == 4


def test_a_finished_training_is_returned_as_it_is_or_made_longer_with_log_and_history_cut(tmp_path):
    """A killed process may have logged more, the last line in part. It is not made shorter."""
    step = 4
    options = {"trainer": TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path), "restore_checkpoint": True}
    finished = train(step, log_step=1, **options)
    times = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    again = train(step, log_step=1, **options)
    assert_same((again[0], again[1].loss), (finished[0], finished[1].loss))
    changed = {path.name for path in times if path.stat().st_mtime_ns != times[path]}
    assert changed <= {"run.lock", "zarr.json", "log.jsonl"}
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    further = json.dumps({**json.loads(lines[-1]), "batch": step})
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write(f'{further}\n{{"batch": {step + 1}, "tor')
    with pytest.raises(ValueError, match=f"`n_batches` must be at least the {step}"):
        train(step - 1, log_step=1, **options)
    longer, whole = train(8, log_step=1, **options), train(8)
    assert_same((longer[0], longer[1].loss), (whole[0], whole[1].loss))
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["batch"] for line in lines] == list(range(8))
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert open_history(tmp_path).batch.values.tolist() == list(range(8))


def stopped_and_resumed(folder, n_batches, *, resumed_with=None, **options):
    """What is returned by the rest of a training that stopped after the first call of its loop."""
    stopped = TaskTrainer(OPTIMIZER, chkpt_dir=folder, stop=stopping_after(1))
    train(n_batches, trainer=stopped, **options)
    rest = TaskTrainer(OPTIMIZER, chkpt_dir=folder)
    return train(n_batches, trainer=rest, restore_checkpoint=True, **options, **(resumed_with or {}))


@pytest.mark.full  # in short: test_task_trainer
def test_a_training_that_began_later_from_a_given_optimizer_state(tmp_path):
    half, first = train(4)
    began = {"ensemble": half, "opt_state": first.opt_state, "start_batch": 4}
    called = []
    callbacks = {batch: [lambda batch=batch: called.append(batch)] for batch in (4, 11)}
    model, history = stopped_and_resumed(tmp_path, 12, resumed_with={"batch_callbacks": callbacks}, **began)
    assert called == [11] and history.batch.tolist() == list(range(4, 12))
    assert_same(model, train(12, **began)[0])


@pytest.mark.full
def test_blocks_of_members_stay_those_of_the_beginning(tmp_path, monkeypatch):
    asked = []
    loops = TrainingPlan.loops
    monkeypatch.setattr(TrainingPlan, "loops", lambda plan, size: asked.append(size) or loops(plan, size))
    with monkeypatch.context() as small_cache:
        small_cache.setattr("popsim.training.loop.batch_loop.CACHE_BYTES", 1)
        train(8, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, stop=stopping_after(1)))
        whole, _ = train(8)
    model, _ = train(8, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path), restore_checkpoint=True)
    assert asked == [1, 1, 1]
    assert_same(model, whole)


@pytest.mark.full  # in short: an ensemble is resumed
def test_one_model_is_resumed_too(tmp_path):
    options, unread = {"n_members": 0, "save_model_trainables": True}, {"ensemble_random_trials": False}
    whole = train(8, **options)
    model, history = stopped_and_resumed(tmp_path, 8, resumed_with=unread, **options)
    assert_same((model, history.model_trainables), (whole[0], whole[1].model_trainables))
    assert history.loss.total.shape == (8,)
    run = popsim.open_run(tmp_path, task=RunningSum(), build=build)
    assert_same(run.ensemble, whole[0])
    assert run.evaluate(key=KEY).losses.total.ndim == 1


@pytest.fixture(scope="module")
def stopped_training(tmp_path_factory):
    """The folder of a training that was stopped, its model, and who had locked it at its log point."""
    folder, holders = tmp_path_factory.mktemp("stopped"), []
    log_fns = [lambda entry: holders.append(lock_holder(folder))]
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=folder, stop=stopping_after(2), log_fns=log_fns)
    return folder, train(6, trainer=trainer, log_step=2)[0], holders


@pytest.fixture
def stopped_folder(stopped_training):
    return stopped_training[0]


def test_the_training_of_a_script_locks_its_folder_and_is_opened_with_its_task_and_model(stopped_training):
    folder, trained, holders = stopped_training
    assert len(holders) == 1 and f"process {os.getpid()} " in holders[0]
    assert lock_holder(folder) is None
    run = popsim.open_run(folder, task=RunningSum(), build=build)
    assert_same(run.ensemble, trained)
    assert run.n_batches_trained == 2 and run.log[-1]["batch"] == 1
    other = popsim.open_run(folder, task=RunningSum(), build=lambda key: build(key, n_units=6))
    with pytest.raises(MismatchError, match="`build` must give what was trained .*recurrent_weights"):
        other.ensemble  # noqa: B018
    with pytest.warns(UserWarning, match="must be those trained .*`task.scale`, 1 then and 2 now"):
        popsim.open_run(folder, task=RunningSum(scale=jnp.asarray(2.0)), build=build).evaluate(key=KEY)


def test_frozen_members_stay_frozen(tmp_path):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    broken = eqx.tree_at(lambda m: m.network.bias, ensemble, ensemble.network.bias.at[1, 0].set(jnp.nan))
    with pytest.warns(UserWarning, match="member 1") as told:
        whole = train(12, ensemble=broken)
        model, history = stopped_and_resumed(tmp_path, 12, ensemble=broken)
    assert len(told) == 2  # none when it is resumed
    assert_same((model, history.loss), (whole[0], whole[1].loss))
    assert history.frozen_from.tolist() == [-1, 0]
    assert open_history(tmp_path / "history.zarr").frozen_from.values.tolist() == [-1, 0]


def other_ensemble(**options):
    return popsim.make_ensemble(lambda key: build(key, **options), 2, key=jax.random.key(9))


NON_NEGATIVE = popsim.training.constraints.NonNegativity(lambda model: model.network.bias)
OTHERS = {  # than that of `stopped_folder`: what is called, with which trainer, what the refusal has to name
    "n_members": ({"n_members": 3}, {}, "n_members`, 2 then and 3 now"),
    "rate": ({}, {"optimizer": adam(2e-2, clip_norm=1.0)}, "`optimizer.learning_rate`, 0.01 then and 0.02"),
    "optimizer": ({}, {"optimizer": popsim.training.sgd(1e-2)}, "`optimizer."),
    "batch_size": ({"batch_size": 8}, {}, "`batch_size`, 4 then and 8 now"),
    "key": ({"key": jax.random.key(4)}, {}, "`key`"),
    "first weights": ({"ensemble": other_ensemble}, {}, "the numbers of `initial model.network"),
    "size": ({"ensemble": lambda: other_ensemble(n_units=6)}, {}, "float32 (2, 5, 5) then and float32"),
    "validation_metrics": ({}, {"validation_metrics": largest_output}, "`validation_metrics`"),
    "task": ({"task": RunningSum(scale=jnp.asarray(2.0))}, {}, "`task.scale`, 1 then and 2 now"),
    "loss weight": ({"task": RunningSum(loss=2.0 * RunningSum().loss.terms[0])}, {}, "`task.loss."),
    "where_train": ({"where_train": lambda m: m.network.readout}, {}, "`where_train."),
    "trials": ({"ensemble_random_trials": False}, {}, "`ensemble_random_trials`"),
    "model_update_funcs": ({}, {"model_update_funcs": (RULE,)}, "`model_update_funcs."),
    "loss_update_func": ({}, {"loss_update_func": reweighted}, "`loss_update_func`"),
    "resets": ({"reset_opt_state_at": [1]}, {}, "`reset_opt_state_at`"),
    "post_step_fns": ({}, {"post_step_fns": [NON_NEGATIVE]}, "`post_step_fns."),
}


@pytest.mark.parametrize("name", mostly_in_full(OTHERS, ("rate", "first weights", "task")))
def test_a_checkpoint_of_another_training_is_refused_by_name(name, stopped_folder):
    call, trainer, named = OTHERS[name]
    trainer = TaskTrainer(**{"optimizer": OPTIMIZER, "chkpt_dir": stopped_folder, **trainer})
    call = {option: value() if option == "ensemble" else value for option, value in call.items()}
    with pytest.raises(MismatchError) as refused:
        train(6, trainer=trainer, restore_checkpoint=True, **call)
    assert named in str(refused.value) and str(stopped_folder) in str(refused.value)


def stored(computation):
    return json.loads(json.dumps(computation.as_json(), allow_nan=False))


@pytest.mark.parametrize(
    "place, number", [(3, 1.0), (3, np.nan), (7, 1.0), (7, np.inf), (9, -np.inf), (9, 0.0)]
)
def test_numbers_beside_nan_and_infinity_are_compared_and_these_themselves(place, number):
    table = np.random.default_rng(0).normal(size=300).astype(np.float32)
    table[[7, 9]] = np.nan, np.inf
    other = table.copy()
    other[place] = number

    def described(numbers):
        return Computation(sums=sums_of({"large": numbers}), arrays={"small": numbers})

    then = stored(described(table))
    assert compare_computations(then, described(table), {"small": table}).refused == []
    small, large = compare_computations(then, described(other), {"small": table}).refused
    assert f"`small[{place}]`, {table[place]:.6g} then and {number:.6g} now" == small and "`large`" in large


def test_any_two_numbers_that_were_swapped_are_seen_in_the_sums_of_a_large_array():
    random = np.random.default_rng(0)
    table = random.normal(size=300).astype(np.float32)
    then = stored(Computation(sums=sums_of({"table": table})))
    for places in random.integers(0, 300, (200, 2)):
        swapped = table.copy()
        swapped[places] = table[places[::-1]]
        now = Computation(sums=sums_of({"table": swapped}))
        assert len(compare_computations(then, now, {}).refused) == (places[0] != places[1])


@pytest.mark.parametrize(
    ("numbers", "named"), [((2, 2), "1 then and 2 now"), ((1, 2), "no known code differs, but a global")]
)
def test_a_global_array_that_changed_is_told_however_xla_writes_its_numbers(numbers, named):
    def computation(numbers):
        text = program_text(lambda x: x * np.array(numbers, np.float32), jnp.ones(2))
        return Computation(texts={"a step": text})

    (refused,) = compare_computations(stored(computation((1, 1))), computation(numbers), {}).refused
    assert refused.startswith("what a step computes (") and named in refused


def test_other_versions_are_told_by_name(stopped_folder, tmp_path, monkeypatch):
    """Versions and what another version computes may differ; settings may not."""
    history, true = "popsim.training.history", importlib.metadata.version
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.9.0" if name == "jax" else true(name))
    monkeypatch.setattr(f"{history}.computation.__version__", "0.0.9")
    monkeypatch.setattr("platform.python_version_tuple", lambda: ("3", "99", "1"))
    another_text = program_text(jnp.sin, 1.0)
    monkeypatch.setattr(f"{history}.computation.program_text", lambda *_, **__: another_text)
    folder = shutil.copytree(stopped_folder, tmp_path / "copy")
    with pytest.warns(UserWarning, match="with other code than it began with") as told:
        model, _ = train(6, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=folder), restore_checkpoint=True)
    named = ("`jax`, ", "then and 0.9.0 now", "0.0.9 now", "`python`", "3.99 now")
    assert all(name in str(told[0].message) for name in named)
    assert_same(model, train(6)[0])
    with pytest.raises(MismatchError, match="`optimizer.learning_rate`, 0.01 then and 0.02 now"):
        trainer = TaskTrainer(adam(2e-2, clip_norm=1.0), chkpt_dir=stopped_folder)
        train(6, trainer=trainer, restore_checkpoint=True)


def test_a_training_is_not_begun_where_another_one_is(stopped_folder):
    with pytest.raises(ValueError, match="restore_checkpoint=True continues it"):
        train(6, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=stopped_folder))


@pytest.mark.full  # in short: store/test_checkpoints
def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, checkpoint_seconds=1e-9)
    whole = train(12, trainer=trainer, log_step=3)
    loss = jax.tree.map(np.array, whole[1].loss)  # before the folder from which it may be read is damaged
    data = tmp_path / "checkpoints" / "000000012.safetensors"
    data.write_bytes(flip_bit(data.read_bytes(), np.random.default_rng(0)))
    again = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    with pytest.warns(UserWarning, match=data.name):
        model, history = train(12, trainer=again, restore_checkpoint=True, log_step=3)
    assert_same((model, history.loss), (whole[0], loss))
    assert Checkpoints(tmp_path / "checkpoints").verify(12)["step"] == 12
