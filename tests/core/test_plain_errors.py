"""Likely mistakes are answered by popsim, in one line that names the argument."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from short_form import every_nth
from small_training import KEY, OPTIMIZER, RunningSum, assert_same, train

import popsim
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.plants import PointMass, TwoLinkArm
from popsim.tasks import RandomReaches
from popsim.training import TaskTrainer

VISION = popsim.SensoryChannel(popsim.senses.vision)


def loop(plant=None, channels=None, network=GRUNetwork):
    plant, channels = (
        (PointMass() if plant is None else plant),
        ({"vision": VISION} if channels is None else channels),
    )
    return popsim.SensorimotorLoop(network(6, 4, 2, key=KEY), plant, channels, dt=0.01)


def noisy(noise):
    return loop(channels={"vision": popsim.SensoryChannel(popsim.senses.vision, noise=noise)})


def evaluated(model=None, task=None, key=KEY):
    model = small_training.build(KEY) if model is None else model
    return popsim.evaluate(model, RunningSum() if task is None else task, key=key)


def moved(**methods):
    """What a body of one's own does, of which a method is wrong."""
    evaluated(loop(type("Cart", (PointMass,), methods)()), REACHES)


def thinking(**methods):
    """What a network of one's own does, of which a method is wrong."""
    network = type("Net", (LeakyRNN,), methods)(1, 5, 1, tau=0.05, key=KEY)
    evaluated(popsim.NetworkModel(network, dt=0.01))


def with_interventions(interventions):
    return popsim.NetworkModel(small_training.build(KEY).network, interventions, dt=0.01)


def bare(task):
    """Validation trials with positions for targets."""
    trials = RandomReaches.validation_trials(task)
    return eqx.tree_at(lambda own: own.targets, trials, trials.targets.position)


WORKSPACE = PointMass().workspace
REACHES = RandomReaches(WORKSPACE, duration=0.05)
MISTAKES = {
    "an integer as key": (
        lambda: popsim.make_ensemble(small_training.build, 2, key=3),
        "`key` must be one key",
    ),
    "an integer as key of trials": (lambda: evaluated(key=3), "`key` must be one key"),
    "a name as plant": (
        lambda: loop(plant="arm26"),
        r"`plant` must be a body such as TwoLinkArm.arm26_skeleton\(\), got 'ar",
    ),
    "no plant": (
        lambda: popsim.SensorimotorLoop(GRUNetwork(6, 4, 2, key=KEY), None, {}, dt=0.01),
        "`plant` must be a body",
    ),
    "a name as network": (
        lambda: popsim.SensorimotorLoop("gru", PointMass(), {}, dt=0.01),
        "`network` must be a network",
    ),
    "an arm without numbers": (
        lambda: TwoLinkArm(),
        r"`mass` .* must be given; TwoLinkArm.arm26_skeleton\(\)",
    ),
    "channels in a list": (lambda: loop(channels=[VISION]), "`channels` must be channels by name"),
    "channels in a list that are counted": (
        lambda: popsim.n_network_inputs(REACHES.validation_trials(), PointMass(), [VISION]),
        "`channels` must be channels by name",
    ),
    "a name as sense": (
        lambda: popsim.SensoryChannel("vision"),
        "`sense` must be a function such as popsim.vision, got 'vision'",
    ),
    "a sense as channel": (
        lambda: loop(channels={"vision": popsim.senses.vision}),
        r"`channels\['vision'\]` must be a SensoryChannel",
    ),
    "noise of another length": (
        lambda: evaluated(noisy(popsim.GaussianNoise(jnp.ones(3))), REACHES),
        r"`channels\['vision'\].noise` must be for the 4 features",
    ),
    "members as a mass": (lambda: PointMass(popsim.PerMember([1.0, 2.0])), "`mass` .* popsim.build_members"),
    "an empty path": (
        lambda: TaskTrainer(OPTIMIZER, chkpt_dir=""),
        "`chkpt_dir` must be a path, got an empty one",
    ),
    "an empty folder of events": (
        lambda: TaskTrainer(OPTIMIZER, enable_tensorboard=True, tensorboard_logdir=""),
        "`tensorboard_logdir` must be a path, got an empty one",
    ),
    "one intervention": (
        lambda: with_interventions(popsim.interventions.SilenceUnits()),
        r"`interventions` must be a tuple of interventions, such as \(CurlField\(\),\), got Sil",
    ),
    "no interventions": (
        lambda: with_interventions(("curl field",)),
        "`interventions` must be a tuple of int",
    ),
    "a task in place of trials": (
        lambda: popsim.n_network_inputs(RunningSum()),
        r"`trials` must be stacked trials, such as task.validation_trials\(\), got a RunningSum",
    ),
    "one trial in place of trials": (
        lambda: popsim.n_network_inputs(RunningSum().trial(batch=0, key=KEY)),
        r"`trials` must be stacked trials, .* got one trial",
    ),
    "a function as model": (
        lambda: evaluated(small_training.build),
        r"`model` must be a model, or an ensemble such as .* got <function build",
    ),
    "a function as ensemble": (
        lambda: train(1, ensemble=small_training.build),
        "`model` must be a model, or an ensemble such as .* got <function build",
    ),
    "no such part": (
        lambda: train(1, n_members=0, where_train=lambda m: m.network.readuot),
        "`where_train` must pick parts .* no attribute 'readuot'.* A LeakyRNN has .* readout",
    ),
    "text as weight": (
        lambda: "0.1" * popsim.losses.Effort(),
        r"`weights\['effort'\]` must be a number, finite, got '0.1'",
    ),
    "a weight that is added": (
        lambda: popsim.losses.PositionError() + 1e-6,
        r"a loss adds terms, such as 1e-6 \* losses.Effort\(\), got 1e-06",
    ),
    "a weight to which is added": (lambda: 1e-6 + popsim.losses.PositionError(), "a loss adds terms"),
    "a weight that is added to a sum": (
        lambda: 1e-6 + 2.0 * popsim.losses.PositionError(),
        "a loss adds terms",
    ),
    "a raw key of another implementation": (
        lambda: evaluated(key=jax.random.PRNGKey(0, impl="rbg")),
        r"`key` must be one key, .* as of a PRNGKey\(0, impl=\"rbg\"\), whose draws depend",
    ),
    "another structure of dynamics": (
        lambda: moved(dynamics=lambda self, state, force, external_force: force),
        r"`dynamics` of Cart must return what is like the state, a Point.*, got an array of \(2,\)",
    ),
    "numpy in dynamics": (
        lambda: moved(dynamics=lambda self, state, force, external_force: np.exp(force)),
        "`dynamics` of Cart must compute with jax.numpy",
    ),
    "dynamics of another signature": (
        lambda: moved(dynamics=lambda self, state, force: state),
        r"`dynamics` of Cart, called with \(state, force, external_force\), raises TypeError",
    ),
    "a hand that is a tuple": (
        lambda: moved(hand=lambda self, state: (state.position, state.velocity)),
        r"`hand` of Cart must return a HandState\(position, velocity\), got a tuple",
    ),
    "a hand of another size": (
        lambda: moved(hand=lambda self, state: popsim.HandState(jnp.zeros(3), jnp.zeros(3))),
        r"`hand` of Cart must return a position of shape \(2,\), as its workspace has, got \(3,\)",
    ),
    "limits of another structure": (
        lambda: moved(enforce_limits=lambda self, state: state.position),
        "`end_step` of Cart must return what is like the state, a PointMassState",
    ),
    "numpy at rest": (
        lambda: moved(rest_state=lambda self, position: np.sin(position)),
        "`rest_state` of Cart must compute with jax.numpy",
    ),
    "numpy in what is reachable": (
        lambda: moved(is_reachable=lambda self, position: np.isfinite(position).all()),
        "`is_reachable` of Cart must compute with jax.numpy",
    ),
    "a position as state at rest": (
        lambda: moved(rest_state=lambda self, position: position),
        r"`hand` of Cart, .* AttributeError.*, for .* `rest_state` returned, an array of shape \(2,",
    ),
    "a hidden state without a key": (
        lambda: thinking(init=lambda self: jnp.zeros(5)),
        r"`init` of Net, called with \(\*, key\), raises TypeError",
    ),
    "a step of another structure": (
        lambda: thinking(step=lambda self, inputs, hidden, *, key: (hidden, hidden)),
        r"`step` of Net must return what is like the hidden state, an array of \(5,\), got a tuple of \[0\] ",
    ),
    "a step without a key": (
        lambda: thinking(step=lambda self, inputs, hidden: hidden),
        r"`step` of Net, called with \(inputs, hidden, \*, key\), raises TypeError: .*'key'",
    ),
    "a step that takes its arguments in another order": (
        lambda: thinking(step=lambda self, hidden, inputs, *, key: jnp.stack([*hidden]).reshape(5)),
        r"`step` of Net, .* reshape .*\(line \d+ of .*test_plain_errors.py, .*<lambda>\)",
    ),
    "numpy in a step": (
        lambda: thinking(step=lambda self, inputs, hidden, *, key: np.tanh(hidden)),
        "`step` of Net must compute with jax.numpy",
    ),
    "a readout of what is missing": (
        lambda: thinking(read_out=lambda self, hidden: self.w_out @ hidden),
        r"`read_out` of Net, called with \(hidden\), raises AttributeError: .*w_out.*"
        r"\(line \d+ of .*test_plain_errors.py, .*<lambda>\)",
    ),
    "a readout of another size": (
        lambda: thinking(read_out=lambda self, hidden: hidden),
        r"`read_out` of Net must return an array of shape \(1,\), .* got an array of shape \(5,\)",
    ),
    "a readout of another size in a loop": (
        lambda: evaluated(
            loop(network=type("Net", (GRUNetwork,), {"read_out": lambda self, hidden: hidden})), REACHES
        ),
        r"`read_out` of Net must return an array of shape \(2,\), .* got an array of shape \(4,\)",
    ),
    "an array as targets of a hand": (
        lambda: evaluated(loop(), type("Bare", (RandomReaches,), {"validation_trials": bare})(WORKSPACE)),
        r"`targets` of a trial must be a HandState, got an array of shape \(\d+, 2\)",
    ),
    "trials in place of a task": (
        lambda: evaluated(task=RunningSum().validation_trials()),
        "`task` must be a task, got a Trial: give it as `trials=`",
    ),
    "corners as a workspace": (lambda: RandomReaches([[0, 0], [1, 1]]), "`workspace` must be a Workspace"),
}


class TupleTrials(RunningSum):
    def trial(self, *, batch, key):
        return 1, 2


class NoValidation(RunningSum):
    def validation_trials(self):
        return None


class OneValidationTrial(RunningSum):
    def validation_trials(self):
        return self.trial(batch=0, key=KEY)


class IfInTrial(RunningSum):
    def trial(self, *, batch, key):
        trial = super().trial(batch=batch, key=key)
        return trial if trial.inputs[0, 0] > 0 else jax.tree.map(jnp.negative, trial)


class NumpyInTrial(RunningSum):
    def trial(self, *, batch, key):
        return super().trial(batch=batch, key=jax.random.fold_in(key, np.exp(jax.random.uniform(key))))


class OtherSignature(RunningSum):
    def trial(self, key):
        return super().trial(batch=0, key=key)


class ShortTargets(RunningSum):
    def trial(self, *, batch, key):
        trial = super().trial(batch=batch, key=key)
        return popsim.Trial((), trial.inputs, trial.targets[:-1], trial.timeline)


def of_floats(states, trial, model):
    return jnp.asarray(math.sqrt(jnp.sum(states.network.output)))


def of_numpy(states, trial, model):
    return jnp.mean(jnp.asarray(np.exp(states.network.output)))


def of_branches(states, trial, model):
    return jnp.sum(states.network.output) if trial.targets[-1, 0] > 0 else jnp.asarray(0.0)


def with_loss(function):
    return RunningSum(1.0 * popsim.FunctionTerm("own", function))


TASKS = {
    "the class": (RunningSum, "`task` must be a task, not its class or name"),
    "trials that are tuples": (TupleTrials(), "`trial` of `task` must return a Trial, got a tuple"),
    "no validation trials": (NoValidation(), "`validation_trials` of `task` must return a Trial, got a None"),
    "one validation trial": (OneValidationTrial(), "`validation_trials` of `task` must be stacked"),
    "float() in a loss": (with_loss(of_floats), r"term 'own' of `loss` .* jax.numpy \(jnp\)"),
    "numpy in a loss": (with_loss(of_numpy), "term 'own' of `loss` must compute with jax.numpy"),
    "if in a loss": (with_loss(of_branches), "term 'own' of `loss` .* jnp.where in place of `if`"),
    "a loss that misses a key": (
        with_loss(lambda states, trial, model: trial.conditions["direction"]),
        r"^term 'own' of `loss`, called with \(states, trial, model\), raises KeyError: 'direction'",
    ),
    "a loss that misses an attribute": (
        with_loss(lambda states, trial, model: states.hand),
        "^term 'own' of `loss`, .* raises AttributeError: .* has no attribute 'hand'",
    ),
    "a loss of two arguments": (
        with_loss(lambda states, trial: states.network.output),
        r"^term 'own' of `loss`, called with \(states, trial, model\), raises TypeError: ",
    ),
    "a loss without a value": (
        with_loss(lambda states, trial, model: None),
        "^term 'own' of `loss` must be a scalar, got NoneType",
    ),
    "a loss for each step": (
        with_loss(lambda states, trial, model: states.network.output[:, 0]),
        r"^term 'own' of `loss` must be a scalar, got shape \(6,\)",
    ),
    "another signature of trial": (
        OtherSignature(),
        r"`trial` of OtherSignature must be defined as `trial\(self, \*, batch, key\)`, "
        r"got `trial\(self, key\)`",
    ),
    "targets that end early": (
        ShortTargets(),
        r"`targets` of a trial must lead with the 6 time steps of its timeline, got .* \(5, 1\)",
    ),
    "numpy in a trial": (
        NumpyInTrial(),
        r"`trial` of the task must compute with jax.numpy \(jnp\).*"
        r"array \(line \d+ of .*test_plain_errors.py, NumpyInTrial.trial\)\. Use",
    ),
    "a term as loss": (
        RunningSum(popsim.losses.Effort()),
        r"`loss` of RunningSum must be a Loss, such as 1.0 \* .*, got an Effort",
    ),
    "if in a trial": (IfInTrial(), r"`trial` of the task .* jnp.where in place of `if`"),
}
OF_EVALUATE = (
    "a term as loss",
    "the class",
    "no validation trials",
    "one validation trial",
    "float() in a loss",
    "a loss that misses a key",
    "a loss for each step",
    "if in a trial",
)


@pytest.mark.parametrize("mistake", every_nth(TASKS, 4))
def test_a_mistake_in_a_task_is_named(mistake, as_users_run):
    task, said = TASKS[mistake]
    with pytest.raises(ValueError, match=said):
        train(1, n_members=0, task=task)


@pytest.mark.parametrize("mistake", OF_EVALUATE)
def test_a_mistake_in_a_task_is_named_when_it_is_evaluated(mistake, as_users_run):
    task, said = TASKS[mistake]
    said = "what `validation_trials` of `task` calls .*jnp" if mistake == "if in a trial" else said
    model = popsim.member(popsim.make_ensemble(small_training.build, 2, key=KEY), 0)
    with pytest.raises(ValueError, match=said):
        popsim.evaluate(model, task, key=KEY)
    with pytest.raises(ValueError, match=said):
        popsim.evaluate_ensemble(popsim.make_ensemble(small_training.build, 2, key=KEY), task, key=KEY)


@pytest.mark.full
def test_a_healthy_training_is_none_for_debug_nans():
    usual = train(2, n_members=0, save_model_trainables=True)
    with jax.debug_nans(True):
        model, history = train(2, n_members=0, save_model_trainables=True)
    assert_same(model, usual[0])
    assert_same(history.model_trainables, usual[1].model_trainables)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named(mistake, as_users_run):
    make, said = MISTAKES[mistake]
    with pytest.raises(ValueError, match=said) as refused:
        make()
    assert "Traced" not in str(refused.value)


def test_whole_numbers_of_numpy_are_taken(as_users_run, tmp_path):
    trainer = TaskTrainer(OPTIMIZER, chkpt_dir=tmp_path)
    _, history = train(
        np.int64(3), n_members=0, batch_size=np.int64(4), start_batch=np.int64(2), trainer=trainer
    )
    assert history.batch.tolist() == [2]
