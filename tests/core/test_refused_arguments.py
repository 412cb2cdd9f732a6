"""Wrong arguments are refused in one line that names them, contract by contract, before anything compiles."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from small_training import KEY, OPTIMIZER, RunningSum, build, network, train
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import (
    Epoch,
    PerMember,
    Timeline,
    TrialPlan,
    distributions,
    interventions,
    losses,
    noise,
    plants,
    policies,
    schedules,
    senses,
    tasks,
    training,
    windows,
)
from popsim.environment import Box, HandMovement
from popsim.interventions import schedule_intervention
from popsim.networks import GRUNetwork, LeakyRNN
from popsim.session import join_trials, split_time
from popsim.training import TaskTrainer, rules

NAN, INF, MS = float("nan"), float("inf"), np.timedelta64(20, "ms")
TWO = PerMember([0.1, 0.2])
SIGNAL, TASK = jnp.zeros((6, 1)), RunningSum()
ONE_TRIAL, TRIALS = TASK.trial(batch=0, key=KEY), TASK.validation_trials()
ENSEMBLE = popsim.make_ensemble(build, 2, key=KEY)
MODEL = popsim.member(ENSEMBLE, 0)
WORKSPACE = plants.PointMass().workspace
GO = Timeline(0.01, 80, events={"go cue": jnp.array(10)})
VISION = popsim.SensoryChannel(popsim.vision)
SYNAPSES = rules.recurrent_synapses()


def evaluated(task=TASK, model=MODEL, **arguments):
    return popsim.evaluate(model, task, **{"key": KEY, **arguments})


def built(build=build, **arguments):
    return popsim.build_members(build, popsim.member_grid(2, tau=[0.1]), **{"key": KEY, **arguments})


def loop(plant=None, channels=None, network=None, **options):
    network = GRUNetwork(6, 4, 2, key=KEY) if network is None else network
    plant = plants.PointMass() if plant is None else plant
    channels = {"vision": VISION} if channels is None else channels
    return popsim.SensorimotorLoop(network, plant, channels, **{"dt": 0.01, **options})


def leaky(**options):
    return LeakyRNN(2, 5, 3, **{"key": KEY, **options})


def gated(**options):
    return GRUNetwork(2, 5, 3, **{"key": KEY, **options})


def plan(*epochs, **options):
    return TrialPlan(epochs or (Epoch("all"),), **{"duration": 1.0, "dt": 0.1, **options})


def trial(inputs=SIGNAL, targets=SIGNAL, **options):
    return popsim.Trial((), inputs, targets, Timeline(0.01, 6), **options)


def two_grids():
    return popsim.member_grid(2, noise=[0.1, 0.2])


def without_axis(ensemble=ENSEMBLE):
    return jax.tree.map(lambda leaf: leaf[0] if leaf.ndim == 2 else leaf, ensemble)


ENSEMBLES = [
    ("values", lambda: PerMember(1.0)),
    ("values", lambda: PerMember([])),
    ("tau", lambda: popsim.member_grid(2, tau=0.1)),
    ("tau", lambda: popsim.member_grid(2, tau=[])),
    ("n_seeds", lambda: popsim.member_grid(0)),
    ("n_seeds", lambda: popsim.member_grid(1.5)),
    ("settings", lambda: popsim.member_grid(2, seed=[1, 2])),
    ("values['a']", lambda: two_grids().group({"a": np.zeros((5, 4))}, axis=0)),
    ("index", lambda: two_grids().select(4)),
    ("name", lambda: two_grids().per_member("mass")),
    ("build", lambda: popsim.make_ensemble(lambda key: None, 2, key=KEY)),
    ("build", lambda: built(lambda *, key, tau: None)),
    ("settings", lambda: built(settings="tau")),
    ("key", lambda: popsim.make_ensemble(build, 2, key=3)),
    ("key", lambda: popsim.make_ensemble(build, 2, key=jax.random.split(KEY))),
    ("n_members", lambda: popsim.make_ensemble(build, 0, key=KEY)),
    ("n_members", lambda: popsim.make_ensemble(build, 2**40, key=KEY)),
    ("first_member", lambda: popsim.make_ensemble(build, 2, first_member=2**40, key=KEY)),
    *(("index", lambda index=index: popsim.member(ENSEMBLE, index)) for index in (-1, 2, 1.5, "a")),
    ("index", lambda: popsim.select_member(PerMember([1.0]), 3)),
    ("ensemble", lambda: popsim.n_members(noise.NoNoise())),
    ("ensemble", lambda: popsim.n_members(without_axis())),
    ("ensemble", lambda: popsim.n_members(jax.tree.map(lambda _: TWO, noise.GaussianNoise(0.1)))),
]
TRIALS_AND_TIMES = [
    ("inputs", lambda: trial(inputs=jnp.zeros((5, 1)))),
    ("targets", lambda: trial(targets=jnp.zeros((5, 1)))),
    ("inputs", lambda: trial(inputs=jnp.zeros(6))),
    ("targets", lambda: trial(targets=jnp.zeros(6))),
    ("inputs['a']", lambda: trial(inputs={"a": jnp.zeros((6, 1), int)})),
    ("interventions['push']", lambda: trial(interventions=scheduled(jnp.ones(5, bool)))),
    ("timeline", lambda: popsim.Trial((), (), (), Timeline(0.01, 6))),
    ("trials", lambda: evaluated(trials=[ONE_TRIAL, ONE_TRIAL])),
    ("trials", lambda: evaluated(trials=ONE_TRIAL)),
    ("trials", lambda: popsim.evaluate_ensemble(ENSEMBLE, TASK, trials=5, key=KEY)),
    ("trial", lambda: popsim.simulate(MODEL, TRIALS, key=KEY)),
    ("trials", lambda: popsim.repeat_trials(ONE_TRIAL, 2)),
    ("n_repeats", lambda: popsim.repeat_trials(TRIALS, 0)),
    ("trials", lambda: schedule_intervention(ONE_TRIAL, "push", 1.0)),
    ("parameters of push", lambda: schedule_intervention(TRIALS, "push", "strong")),
    ("active", lambda: schedule_intervention(TRIALS, "push", 1.0, jnp.ones(5, bool))),
    ("active", lambda: schedule_intervention(TRIALS, "push", 1.0, 1.0)),
    ("carry", lambda: join_trials(TRIALS, carry=("weights",))),
    ("axis", lambda: split_time(jnp.zeros((4, 7)), 6, axis=1)),
    ("target", lambda: popsim.output_choice(
        SIGNAL, popsim.OutputTarget(SIGNAL, jnp.ones(6), is_choice=False))),
    ("outputs", lambda: popsim.output_choice(SIGNAL[1:], popsim.OutputTarget(SIGNAL, jnp.ones(6)))),
    *(("dt", lambda dt=dt: Timeline(dt, 6)) for dt in (0.0, -0.01, NAN, "0.01", MS)),
    *(("n_steps", lambda n=n: Timeline(0.01, n)) for n in (0, -3, 2.5)),
    ("epochs['hold']", lambda: Timeline(0.01, 6, epochs={"hold": (0.0, 0.03)})),
    ("epochs['hold']", lambda: Timeline(0.01, 6, epochs={"hold": jnp.array([1, 2, 3])})),
    ("events['go']", lambda: Timeline(0.01, 6, events={"go": jnp.array(0.1)})),
    *(("name", lambda w=w: w(GO)) for w in (windows.InEpoch("go cue"), windows.Before("hold"))),
    ("epoch", lambda: windows.InEpoch(3)),
    ("event", lambda: windows.FromEvent(3)),
    ("delay", lambda: windows.FromEvent("go cue", NAN)),
    ("delay", lambda: windows.FromEvent("go cue", [0.1, 0.2])),
    ("delay", lambda: windows.FromEvent("go cue", delay=200.0)(GO)),
    ("duration", lambda: windows.FromEvent("go cue", 0.0, -0.1)),
    ("start", lambda: windows.Between(-0.1, 0.2)),
    ("start", lambda: windows.Between(20.0, 50.0)(GO)),
    *(("stop", lambda stop=stop: windows.Between(0.2, stop)) for stop in (0.1, NAN, INF)),
    ("epochs", lambda: TrialPlan((), duration=1.0, dt=0.1)),
    ("epochs", lambda: TrialPlan(Epoch("a"), duration=1.0, dt=0.1)),
    ("epochs", lambda: plan(Epoch("a", 0.1), Epoch("a"))),
    ("epochs", lambda: plan(Epoch("a"), Epoch("b"))),
    ("epochs", lambda: plan(Epoch("a", distributions.Uniform(0.0, 0.8)), Epoch("b", 0.3))),
    ("epochs", lambda: plan(Epoch("a", distributions.Uniform(0.2, PerMember([0.6, 3.0]))), Epoch("b"))),
    ("duration", lambda: plan(Epoch("a", distributions.Uniform(-0.1, 0.3)))),
    ("duration", lambda: plan(Epoch("a", distributions.Normal(0.3, 0.1)))),
    ("duration", lambda: plan(Epoch("a", [0.1, 0.2]))),
    *(("duration", lambda duration=duration: plan(duration=duration)) for duration in (1.005, 0.0)),
    ("dt", lambda: plan(dt=0.0)),
    ("catch_event", lambda: plan(Epoch("a", event="go"), catch_event="go")),
    ("catch_probability", lambda: plan(catch_probability=0.1)),
    ("catch_probability", lambda: plan(Epoch("a", 0.1), Epoch("b", event="go"), catch_event="go",
                                       catch_probability=1.1)),
]  # fmt: skip
DISTRIBUTIONS_AND_SCHEDULES = [
    ("value", lambda: distributions.Constant(NAN)),
    ("low", lambda: distributions.Uniform(-INF, 0.0)),
    ("high", lambda: distributions.Uniform(1.0, 0.0)),
    ("high", lambda: distributions.Uniform([0.0, 0.0], 1.0)),
    ("high", lambda: distributions.TruncatedExponential(1.0, 0.5, 0.1)),
    ("scale", lambda: distributions.TruncatedExponential(0.0, 1.0, 0.0)),
    ("scale", lambda: distributions.TruncatedExponential(0.1, 0.2, [0.1, 0.2])),
    ("mean", lambda: distributions.Normal(INF, 1.0)),
    ("std", lambda: distributions.Normal(0.0, -1.0)),
    *(("values", lambda values=values: distributions.Choice(values)) for values in ([], 1.0, [1.0, NAN])),
    ("value", lambda: schedules.ConstantSchedule(NAN)),
    ("start", lambda: schedules.LinearSchedule("a", 1.0, last_batch=4)),
    ("stop", lambda: schedules.LinearSchedule(0.0, NAN, last_batch=3)),
    ("factor", lambda: NAN * schedules.LinearSchedule(0.0, 1.0, last_batch=4)),
    ("last_batch", lambda: schedules.LinearSchedule(0.0, 1.0, first_batch=4, last_batch=4)),
    ("starts", lambda: schedules.PiecewiseSchedule([1, 2], [1.0, 2.0])),
    ("values", lambda: schedules.PiecewiseSchedule([0, 1], [1.0, 2.0, 3.0])),
    ("low", lambda: popsim.Workspace("a", "b")),
    ("low", lambda: popsim.Workspace([0.0, NAN], [1.0, 1.0])),
    ("high", lambda: popsim.Workspace([0.0, 1.0], [1.0, 0.5])),
    ("low` and `high", lambda: popsim.Workspace([0.0, 0.0], [1.0, 1.0, 1.0])),
    ("side", lambda: popsim.Workspace.around(jnp.zeros(2), [0.1, 0.2])),
]
MODELS = [
    ("network", lambda: popsim.NetworkModel(plants.PointMass(), dt=0.01)),
    ("network", lambda: loop(network="gru")),
    ("plant", lambda: loop(plant="arm26")),
    ("mass", lambda: plants.TwoLinkArm()),
    ("mass", lambda: plants.PointMass(TWO)),
    ("muscle", lambda: plants.arm26("Hill")),
    ("channels['vision']", lambda: loop(channels={"vision": popsim.vision})),
    ("model", lambda: evaluated(
        tasks.RandomReaches(WORKSPACE, duration=0.05),
        loop(channels={"vision": popsim.SensoryChannel(popsim.vision, 0.0, noise.GaussianNoise([1, 1, 1]))}),
    )),
    ("sense", lambda: popsim.SensoryChannel("vision")),
    *(("delay", lambda delay=delay: popsim.SensoryChannel(popsim.vision, delay)) for delay in
      (-0.01, NAN, INF, [0.1, 0.1], TWO)),
    ("own_delay", lambda: popsim.SensoryChannel(popsim.vision, 0.1, own_delay=0.2)),
    ("own_delay", lambda: popsim.SensoryChannel(popsim.vision, 0.1, own_delay=TWO)),
    ("noise", lambda: popsim.SensoryChannel(popsim.vision, noise=0.1)),
    *(("plant", lambda sense=sense: sense(None, plants.PointMass())) for sense in
      (senses.muscle_stretch, senses.muscle_force, senses.spindle_firing)),
    *(("std", lambda std=std: noise.GaussianNoise(std)) for std in
      ("a", None, [0.1, -1.0], np.ones((2, 1)), TWO, np.datetime64("2020-01-01"), np.complex64(0.1 + 1j))),
    ("signal_dependent", lambda: noise.MotorNoise(-0.1, 0.0)),
    ("signal_dependent", lambda: noise.MotorNoise([0.1, 0.1], 0.0)),
    ("constant", lambda: noise.MotorNoise(0.0, NAN)),
    ("constant", lambda: noise.MotorNoise(0.0, TWO)),
    ("scale", lambda: popsim.Scaling(0.0, 0.0)),
    ("center", lambda: popsim.Scaling(INF, 1.0)),
    ("output_fn", lambda: gated(output_fn="sigmoid")),
    ("nonlinearity", lambda: leaky(nonlinearity="relu")),
    *((name, lambda make=make, name=name, value=value: make(**{name: value}))
      for make, names in ((leaky, ("tau", "noise_std", "gain", "dt")), (gated, ("noise_std", "output_bias")))
      for name in names for value in ([0.1] * 4, TWO)),
    ("tau", lambda: leaky(tau=MS, dt=0.01)),
    ("density", lambda: leaky(signs=[1, 1, 1, -1, -1], density=[0.1] * 5)),
    ("dt", lambda: popsim.NetworkModel(gated(), dt=[0.1, 0.1])),
    ("name", lambda: interventions.CurlField(3)),
    ("center", lambda: interventions.CursorRotation([NAN, 0.0])),
    *((name, lambda walls=walls: interventions.ForceChannelParameters(*walls)) for name, *walls in (
        ("direction", [0.0, 0.0], [1.0, 1.0]), ("direction", [0.0, 0.0], [1.0, 0.0, 0.0]),
        ("start", [0.0, NAN], [1.0, 0.0]), ("stiffness", [0.0, 0.0], [1.0, 0.0], -1.0))),
    ("after_stage", lambda: interventions.CurlField(after_stage="later")),
    ("channel", lambda: interventions.FeedbackNoise(3)),
    ("name", lambda: interventions.InterventionPlan(3, 1.0)),
    ("unless", lambda: interventions.InterventionPlan("a", 1.0, unless="push")),
    ("probability", lambda: interventions.InterventionPlan(
        "push", 1.0, probability=schedules.LinearSchedule(0.0, 2.0, last_batch=9))),
    ("trials", lambda: popsim.n_network_inputs(TASK)),
    ("trials", lambda: popsim.n_network_inputs(ONE_TRIAL)),
    ("model", lambda: evaluated(model=build)),
    ("model", lambda: popsim.simulate(ENSEMBLE, ONE_TRIAL, key=KEY)),
    ("model", lambda: popsim.simulate(MODEL, trial(inputs=jnp.zeros((6, 3))), key=KEY)),
    ("targets", lambda: evaluated(Bare(WORKSPACE), loop())),
]  # fmt: skip
ENVIRONMENTS_AND_POLICIES = [
    ("low", lambda: Box(2, low=1.0, high=0.0)),
    ("of", lambda: HandMovement("arm")),
    ("std", lambda: policies.Gaussian(2, std=-1.0)),
    ("std", lambda: policies.Gaussian(2, std=[1.0, 1.0, 1.0])),
    ("mean_fn", lambda: policies.Deterministic(2, mean_fn=3)),
]
LOSSES = [
    ("terms", lambda: losses.Effort() + losses.Effort()),
    ("weights", lambda: popsim.Loss((losses.Effort(),), {"work": 1.0})),
    *(("weights['effort']", lambda weight=weight: weight * losses.Effort()) for weight in
      (np.ones(3), NAN, "0.1", PerMember([1.0, NAN]))),
    ("name", lambda: popsim.FunctionTerm(build, "error")),
    ("function", lambda: popsim.FunctionTerm("error", 3)),
    ("loss.weights['effort']", lambda: (TWO * losses.Effort())((), ONE_TRIAL, MODEL)),
    ("distance", lambda: losses.PositionError(distance="l2")),
    ("profile", lambda: losses.PositionError(profile=losses.PowerProfile)),
    ("window", lambda: losses.Hold("hold", "target")),
    ("where", lambda: losses.WeightPenalty("network")),
    ("delta", lambda: losses.HuberDistance([0.1, 0.1])),
    *(("duration", lambda duration=duration: losses.FinalSteps(duration)(GO)) for duration in
      (0.0, -0.1, 0.81, 0.015)),
    *(("units", lambda units=units: losses.RateError(units=units)) for units in ([0, 0, 1], 3)),
    ("unit_weights", lambda: losses.RateError(unit_weights=[1.0, -1.0, 1.0])),
    ("baseline", lambda: losses.SpikeCountLikelihood(baseline=0.0)),
    ("discount", lambda: losses.PolicyGradient(discount=1.5)),
    ("cut_credit", lambda: losses.ValueRegression(cut_credit=1)),
    ("bound", lambda: losses.VanishingGradient(losses.Effort(), bound=0.0)),
    ("n_directions", lambda: losses.RecurrentSensitivity(n_directions=0)),
]  # fmt: skip
TASKS = [
    ("task", lambda: evaluated(MODEL, TASK)),
    ("task", lambda: evaluated(RunningSum)),
    ("task", lambda: evaluated(TRIALS)),
    ("task", lambda: evaluated(RunningSum(scale=TWO))),
    ("loss", lambda: evaluated(RunningSum(losses.Effort()))),
    ("validation_trials", lambda: evaluated(NoTrials())),
    ("validation_trials", lambda: evaluated(OneValidationTrial())),
    ("member_id", lambda: evaluated(member_id=2**40)),
    ("member_id", lambda: evaluated(member_id=[0, 1])),
    ("member_ids", lambda: popsim.evaluate_ensemble(ENSEMBLE, TASK, member_ids=["a", "b"], key=KEY)),
    ("member_ids", lambda: popsim.evaluate_ensemble(ENSEMBLE, TASK, member_ids=jnp.arange(3), key=KEY)),
    ("task.scale", lambda: popsim.evaluate_ensemble(ENSEMBLE, RunningSum(scale=PerMember([1.0])), key=KEY)),
    ("workspace", lambda: tasks.RandomReaches([[0, 0], [1, 1]])),
    ("frequency", lambda: tasks.SineGeneration(frequency=PerMember([1.0, -1.0]))),
    ("pairs", lambda: tasks.DelayedComparison(pairs=PerMember([[[1.0, 2.0]], [[3.0, 3.0]]]))),
    ("tasks", lambda: tasks.Mixture([TASK, "flip-flop"])),
    ("tasks", lambda: tasks.MultiTask([TASK])),
    ("carry", lambda: tasks.Session(TASK, 2, carry=("body",))),
    ("n_trials", lambda: tasks.Session(TASK, 0)),
    ("task", lambda: tasks.WithFixation(RunningSum)),
]  # fmt: skip
TRAININGS = [
    *(("learning_rate", lambda rate=rate: training.adam(rate)) for rate in (MS, [1e-3, 1e-2])),
    ("low", lambda: training.constraints.Range(lambda m: m.network, "a", 1.0)),
    *(("rate", lambda rate=rate: rules.Hebb(SYNAPSES, rate)) for rate in (-1.0, np.ones(2))),
    ("time_constant", lambda: rules.BCM(SYNAPSES, 0.1, time_constant=0.0)),
    ("std", lambda: rules.NodePerturbation(SYNAPSES, 0.1, std=0.0)),
    ("decay", lambda: rules.RewardModulatedHebb(SYNAPSES, 0.1, baseline=rules.BatchBaseline(), decay=1.1)),
    ("n", lambda: training.log_spaced_batches(9, 1)),
    ("optimizer", lambda: TaskTrainer(optax.adam)),
    *((next(iter(options)), lambda options=options: TaskTrainer(OPTIMIZER, **options)) for options in (
        {"chkpt_dir": ""}, {"checkpoint_seconds": 5.0}, {"post_step_fns": [3]}, {"nonfinite": "ignore"},
        {"devices": jax.devices()[0]}, {"n_minibatches": 0}, {"enable_tensorboard": True},
        {"enable_tensorboard": False, "tensorboard_logdir": "somewhere"}, {"validation_figures": dict})),
    *((next(iter(options)), lambda options=options: train(**options)) for options in (
        {"n_batches": 0}, {"start_batch": 6}, {"start_batch": -1}, {"reset_opt_state_at": [9]},
        {"opt_state": {"count": 3}}, {"save_model_trainables": np.array([6])}, {"key": 0},
        {"batch_callbacks": {99: []}}, {"batch_callbacks": [print]}, {"restore_checkpoint": True},
        {"ensembled": False}, {"where_train": lambda m: m.interventions}, {"where_train": {1: network}},
        *({"where_train": {0: network, batch: network}} for batch in ("3", -1, 6)))),
    ("batch_callbacks[5]", lambda: train(batch_callbacks={5: print})),
    ("member_batch_size", lambda: train(n_members=0, trainer=TaskTrainer(OPTIMIZER, member_batch_size=1))),
    ("members", lambda: train(1, members=2)),
    ("members", lambda: train(1, members=popsim.member_grid(5))),
    ("task.scale", lambda: train(1, task=RunningSum(scale=PerMember([1.0, 2.0, 3.0])))),
    ("task", lambda: train(1, task=RunningSum(scale=PerMember([1.0])), n_members=0)),
    ("learning_rate", lambda: train(1, trainer=TaskTrainer(training.adam(PerMember([1e-3] * 5))))),
    ("where_train", lambda: train(1, where_train="network")),
    ("where_train", lambda: train(1, n_members=0, where_train=lambda m: m.network.readuot)),
    ("n_batches", lambda: train(2**31)),
    ("key", lambda: train(1, key=[KEY])),
    ("task", lambda: train(1, n_members=0, task=RunningSum)),
]  # fmt: skip


def scheduled(active):
    return {"push": interventions.InterventionSchedule(jnp.ones(()), active)}


class NoTrials(RunningSum):
    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[:0], super().validation_trials())


class OneValidationTrial(RunningSum):
    def validation_trials(self):
        return self.trial(batch=0, key=KEY)


class Bare(tasks.RandomReaches):
    """Reaches whose validation trials have positions for targets."""

    def validation_trials(self):
        trials = super().validation_trials()
        return eqx.tree_at(lambda own: own.targets, trials, trials.targets.position)


@pytest.mark.filterwarnings("ignore:A JAX array is being set as static")
@pytest.mark.usefixtures("as_users_run")
@wrong_arguments(
    ensembles=ENSEMBLES,
    trials=TRIALS_AND_TIMES,
    distributions=DISTRIBUTIONS_AND_SCHEDULES,
    models=MODELS,
    environments=ENVIRONMENTS_AND_POLICIES,
    losses=LOSSES,
    tasks=TASKS,
    trainings=TRAININGS,
)
def test_a_wrong_argument_is_named_in_one_line(argument, call):
    assert_named_in_one_line(argument, call)


def test_a_trainer_is_not_called_while_jax_traces():
    for transformed in (
        lambda: jax.jit(lambda key: train(1, key=key)[1].loss.total)(KEY),
        lambda: eqx.filter_grad(lambda model: train(1, ensemble=model)[1].loss.total.sum())(ENSEMBLE),
    ):
        with pytest.raises(ValueError, match="outside of jit, vmap and grad"):
            transformed()


def test_a_name_that_is_not_there_is_suggested():
    with pytest.raises(AttributeError, match="make_ensemble"):
        _ = popsim.make_ensembles


def test_one_number_for_each_unit_is_accepted():
    units = jnp.full(5, 0.1)
    assert leaky(tau=units, noise_std=units).tau.shape == (5,)
    bias = gated(noise_std=units, output_bias=[1.0, 2.0, 3.0]).readout.bias
    np.testing.assert_allclose(bias, gated().readout.bias + jnp.array([1.0, 2.0, 3.0]), rtol=1e-6)


def test_whole_numbers_of_numpy_are_taken(as_users_run):
    _, history = train(np.int64(3), n_members=0, batch_size=np.int64(4), start_batch=np.int64(2))
    assert history.batch.tolist() == [2]
