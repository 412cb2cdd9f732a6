"""A training that stops and goes on is a training that never stopped, bit for bit."""

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


def resumed(folder, trainer=None, n_batches=N, **options):
    options = PLAN | options
    trainer = trainer or TaskTrainer(SCHEDULED, chkpt_dir=folder, **OPTIONS)
    return train(n_batches, trainer=trainer, restore_checkpoint=True, **options)


def assert_same_training(one, other):
    (model, history), (expected, expected_history) = one, other
    assert_same(model, expected)
    for name in ("batch", "loss", "learning_rate", "loss_weights", "validation_batch", "validation_loss"):
        assert_same({"": getattr(history, name)}, {"": getattr(expected_history, name)})
    for name in (
        "metrics",
        "trainables_batch",
        "model_trainables",
        "trial_specs",
        "frozen_from",
        "opt_state",
    ):
        assert_same({"": getattr(history, name)}, {"": getattr(expected_history, name)})


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


def test_keeping_a_training_changes_no_bit_and_a_finished_one_is_returned_as_it_is(whole, tmp_path):
    assert_same_training(resumed(tmp_path), whole)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    assert_same_training(resumed(tmp_path), whole)
    after = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    changed = {path.name for path in before if after.get(path) != before[path]}
    assert changed <= {"run.lock", "zarr.json", "log.jsonl"}


def checkpointed_at_log_points(monkeypatch, *, seconds):
    """Lets so many seconds be between checkpoints at log points."""
    monkeypatch.setattr("popsim.training.history.training_store.LOG_POINT_SECONDS", seconds)


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


ENDS = {  # by what ends a training: what is raised, after how many batches, what arranges it
    "a callback": (RuntimeError, 6, lambda patch: {"batch_callbacks": {5: [fail]}}),
    "the compiled loop": (RuntimeError, None, lambda patch: in_call(3, fail, BatchLoop, "__call__", patch)),
    "Ctrl-C": (KeyboardInterrupt, None, lambda patch: in_call(3, press_ctrl_c, BatchLoop, "__call__", patch)),
    "Ctrl-C twice": (
        KeyboardInterrupt,
        None,
        lambda patch: in_call(3, press_ctrl_c_twice, HistoryRecorder, "on_batches", patch),
    ),
    "Ctrl-C in a commit": (
        KeyboardInterrupt,
        None,
        lambda patch: in_call(4, press_ctrl_c, GrowingArrays, "_write", patch),
    ),
    "a log function that saves elsewhere": (SaveError, 8, lambda patch: {}),
}


SHORT_ENDS = ("Ctrl-C",)


@pytest.mark.parametrize("end", mostly_in_full(ENDS, short=SHORT_ENDS))
def test_whatever_ends_a_training_what_is_finished_is_saved(end, tmp_path, whole, monkeypatch):
    raised, n_saved, arrange = ENDS[end]
    checkpointed_at_log_points(monkeypatch, seconds=0.0 if end == "Ctrl-C in a commit" else 1e9)
    seen = []

    def log(entry):
        seen.append(entry.batch)
        if raised is SaveError and len(seen) == 2:
            raise SaveError("as was to be expected")

    with monkeypatch.context() as patch:
        options = PLAN | (arrange(patch) or {})
        trainer = TaskTrainer(SCHEDULED, chkpt_dir=tmp_path, log_fns=[log], **OPTIONS)
        with pytest.raises(
            raised, match=None if raised is KeyboardInterrupt else "as was to be expected"
        ) as left:
            train(N, trainer=trainer, **options)
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


def test_a_finished_training_is_made_longer_with_log_and_history_cut_to_the_checkpoint(tmp_path):
    """A killed process may have logged more, the last line in part. It is not made shorter."""
    step = 4
    train(step, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path), log_step=1)
    lines = (tmp_path / "log.jsonl").read_text().splitlines()
    further = json.dumps({**json.loads(lines[-1]), "batch": step})
    with (tmp_path / "log.jsonl").open("a") as log:
        log.write(f'{further}\n{{"batch": {step + 1}, "tor')
    options = {"trainer": TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path), "restore_checkpoint": True}
    with pytest.raises(ValueError, match=f"`n_batches` must be at least the {step}"):
        train(step - 1, log_step=1, **options)
    longer, whole = train(8, log_step=1, **options), train(8)
    assert_same(longer[0], whole[0])
    assert_same(longer[1].loss, whole[1].loss)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["batch"] for line in lines] == list(range(8))
    seconds = [line["seconds"] for line in lines]
    assert seconds == sorted(seconds)
    assert open_history(tmp_path).batch.values.tolist() == list(range(8))


@pytest.mark.full  # in short: test_task_trainer
def test_a_training_that_began_later_from_a_given_optimizer_state(tmp_path):
    half, first = train(4)
    began = {"ensemble": half, "opt_state": first.opt_state, "start_batch": 4}
    whole = train(12, **began)
    stopped = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, stop=stopping_after(1))
    train(12, trainer=stopped, **began)
    called = []
    model, history = train(
        12,
        trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path),
        restore_checkpoint=True,
        batch_callbacks={4: [lambda: called.append(4)], 11: [lambda: called.append(11)]},
        **began,
    )
    assert called == [11] and history.batch.tolist() == list(range(4, 12))
    assert_same(model, whole[0])


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
    whole = train(8, n_members=0, save_model_trainables=True)
    stopped = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, stop=stopping_after(1))
    train(8, n_members=0, trainer=stopped, save_model_trainables=True)
    rest = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    options = {"save_model_trainables": True, "ensemble_random_trials": False}  # the latter says nothing here
    model, history = train(8, n_members=0, trainer=rest, restore_checkpoint=True, **options)
    assert_same(model, whole[0])
    assert_same(history.model_trainables, whole[1].model_trainables)
    assert history.loss.total.shape == (8,)
    run = popsim.open_run(tmp_path, task=RunningSum(), build=build)
    assert_same(run.ensemble, whole[0])
    assert run.evaluate(key=KEY).losses.total.ndim == 1


def test_the_training_of_a_script_locks_its_folder_and_is_opened_with_its_task_and_model(tmp_path):
    holders = []
    log_fns = [lambda entry: holders.append(lock_holder(tmp_path))]
    trained, _ = train(6, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, log_fns=log_fns))
    assert len(holders) == 1 and f"process {os.getpid()} " in holders[0]
    assert lock_holder(tmp_path) is None
    run = popsim.open_run(tmp_path, task=RunningSum(), build=build)
    assert_same(run.ensemble, trained)
    assert run.n_batches_trained == 6 and run.log[-1]["batch"] == 5
    other = popsim.open_run(tmp_path, task=RunningSum(), build=lambda key: build(key, n_units=6))
    with pytest.raises(MismatchError, match="`build` must give what was trained .*recurrent_weights"):
        other.ensemble  # noqa: B018
    with pytest.warns(UserWarning, match="must be those trained .*`task.scale`, 1 then and 2 now"):
        popsim.open_run(tmp_path, task=RunningSum(scale=jnp.asarray(2.0)), build=build).evaluate(key=KEY)


def test_frozen_members_stay_frozen(tmp_path):
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    broken = eqx.tree_at(lambda m: m.network.bias, ensemble, ensemble.network.bias.at[1, 0].set(jnp.nan))
    with pytest.warns(UserWarning, match="member 1"):
        whole = train(12, ensemble=broken)
    stopped = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, stop=stopping_after(1))
    with pytest.warns(UserWarning, match="member 1"):
        train(12, ensemble=broken, trainer=stopped)
    rest = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    model, history = train(12, ensemble=broken, trainer=rest, restore_checkpoint=True)
    assert_same(model, whole[0])
    assert_same(history.loss, whole[1].loss)
    assert history.frozen_from.tolist() == [-1, 0]
    assert open_history(tmp_path / "history.zarr").frozen_from.values.tolist() == [-1, 0]


@pytest.fixture(scope="module")
def stopped_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stopped")
    train(6, trainer=TaskTrainer(OPTIMIZER, chkpt_dir=folder, stop=stopping_after(2)), log_step=2)
    return folder


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

    then = json.loads(json.dumps(described(table).as_json(), allow_nan=False))
    assert compare_computations(then, described(table), {"small": table}).refused == []
    small, large = compare_computations(then, described(other), {"small": table}).refused
    assert f"`small[{place}]`, {table[place]:.6g} then and {number:.6g} now" == small and "`large`" in large


def test_any_two_numbers_that_were_swapped_are_seen_in_the_sums_of_a_large_array():
    random = np.random.default_rng(0)
    table = random.normal(size=300).astype(np.float32)
    then = {"sums": sums_of({"table": table})}
    for places in random.integers(0, 300, (200, 2)):
        swapped = table.copy()
        swapped[places] = table[places[::-1]]
        refused = compare_computations(
            json.loads(json.dumps({**Computation().as_json(), **then})),
            Computation(sums=sums_of({"table": swapped})),
            {},
        ).refused
        assert len(refused) == (places[0] != places[1])


@pytest.mark.parametrize(
    ("numbers", "named"), [((2, 2), "1 then and 2 now"), ((1, 2), "no known code differs, but a global")]
)
def test_a_global_array_that_changed_is_told_however_xla_writes_its_numbers(numbers, named):
    def computation(numbers):
        return Computation(
            texts={"a step": program_text(lambda x: x * np.array(numbers, np.float32), jnp.ones(2))}
        )

    then = json.loads(json.dumps(computation((1, 1)).as_json()))
    (refused,) = compare_computations(then, computation(numbers), {}).refused
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


def test_a_damaged_checkpoint_is_passed_over_with_a_warning(tmp_path):
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path, checkpoint_seconds=1e-9)
    whole = train(12, trainer=trainer, log_step=3)
    loss = jax.tree.map(np.array, whole[1].loss)  # before the folder from which it may be read is damaged
    data = tmp_path / "checkpoints" / "000000012.safetensors"
    bits = bytearray(data.read_bytes())
    bits[len(bits) // 2] ^= 1
    data.write_bytes(bytes(bits))
    again = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    with pytest.warns(UserWarning, match=data.name):
        model, history = train(12, trainer=again, restore_checkpoint=True, log_step=3)
    assert_same(model, whole[0])
    assert_same(history.loss, loss)
    assert Checkpoints(tmp_path / "checkpoints").verify(12)["step"] == 12
