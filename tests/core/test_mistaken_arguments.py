"""Arguments of another kind than expected are refused in one line that names the argument."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_training import KEY, OPTIMIZER, RunningSum, build, train
from swept_runs import Swept

import popsim
from popsim import interventions, losses, networks, plants, schedules, tasks, windows
from popsim.experiments import (
    AbstractExperiment,
    CenterOut,
    devices_of_run,
    load_ensemble,
    open_run,
    read_run_info,
    register_experiment,
    resume_run,
    run_experiment,
    run_or_resume,
    save_ensemble,
    verify_run,
)
from popsim.report import compare_runs, report_run, report_sweep
from popsim.store import save_model
from popsim.sweeps import Sweep, make_sweep, open_sweep, run_cell, run_sweep, verify_sweep
from popsim.training import TaskTrainer
from popsim.trial import schedule_intervention

TIMELINE = popsim.Timeline(dt=0.01, n_steps=6)
SIGNAL = jnp.zeros((6, 1))
TASK = RunningSum()
ONE_TRIAL = TASK.trial(batch=0, key=KEY)
ENSEMBLE = popsim.make_ensemble(build, 2, key=KEY)
MODEL = popsim.member(ENSEMBLE, 0)


class NoTrials(RunningSum):
    """A task that is not validated."""

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[:0], super().validation_trials())


class Unfinished(AbstractExperiment):
    """An experiment without most of its methods."""

    name = "unfinished"

    def build_task(self):
        return TASK


@dataclasses.dataclass(frozen=True)
class Idle(Swept):
    """An experiment of which one method returns nothing."""

    method: str = "build_task"

    def build_task(self):
        return None if self.method == "build_task" else super().build_task()

    def build_trainer(self, **options):
        return None if self.method == "build_trainer" else super().build_trainer(**options)


def evaluated(task=TASK, model=MODEL, **arguments):
    return popsim.evaluate(model, task, **{"key": KEY, **arguments})


def two(*terms):
    return losses.PositionError() + losses.PositionError()


ENSEMBLES = {
    "text as values": (lambda: popsim.PerMember(["left"]), "`values` of PerMember must be numbers"),
    "nothing as values": (lambda: popsim.PerMember(None), "`values` of PerMember must be numbers"),
    "ragged values": (lambda: popsim.PerMember([[1, 2], [3]]), "`values` of PerMember must be numbers"),
    "ragged settings": (
        lambda: popsim.member_grid(2, tau=[[1, 2], [3]]),
        "`tau` must be a list of .* all of one shape",
    ),
    "a model to build": (
        lambda: popsim.make_ensemble(MODEL, 2, key=KEY),
        "`build` must be a function that makes one model from a key, such as .* got a NetworkModel",
    ),
    "a name to build": (
        lambda: popsim.make_ensemble("gru", 2, key=KEY),
        "`build` must be a func.* got 'gru'",
    ),
    "nothing built": (
        lambda: popsim.make_ensemble(lambda key: None, 2, key=KEY),
        "`build` must return a model, got a NoneType",
    ),
    "nothing built from settings": (
        lambda: popsim.build_members(lambda key, tau: None, popsim.member_grid(2, tau=[0.1, 0.2]), key=KEY),
        "`build` must return a model, got a NoneType",
    ),
    "a build without a key": (
        lambda: popsim.make_ensemble(lambda: MODEL, 2, key=KEY),
        "`build` must take a key",
    ),
    "a number of members as members": (
        lambda: popsim.build_members(build, 3, key=KEY),
        "`members` must be the Members of a popsim.member_grid.* got 3",
    ),
    "a name as settings": (
        lambda: popsim.build_members(build, popsim.member_grid(2, tau=[0.1]), settings="tau", key=KEY),
        r"`settings` must be a list of names, such as \['tau'\]",
    ),
    "half a member": (lambda: popsim.member(ENSEMBLE, 1.5), "`index` must be a member, .* got 1.5"),
    "a name of a member": (lambda: popsim.member(ENSEMBLE, "a"), "`index` must be a member, .* got 'a'"),
    "a share above one in the end": (
        lambda: popsim.interventions.InterventionPlan(
            "push", 1.0, probability=popsim.schedules.LinearSchedule(0.0, 2.0, last_batch=9)
        ),
        "`probability` must be from zero to one, got 2.0",
    ),
    "text as plans": (
        lambda: popsim.tasks.WithInterventions(TASK, "curl field"),
        "`plans` must be a list of plans of interventions, got",
    ),
    "a number as the name of an intervention": (
        lambda: popsim.interventions.InterventionPlan(5, 1.0),
        "`name` must be text, got 5",
    ),
    "an unknown dtype": (
        lambda: train(2, trainables_dtype="float12"),
        "`trainables_dtype` must be one of .* got 'float12'",
    ),
    "the class of an experiment": (
        lambda: popsim.experiments.run_experiment(popsim.experiments.CenterOut, "run"),
        "`experiment` must be an experiment",
    ),
    "a number as path of a run": (lambda: popsim.open_run(5), "`path` must be a path, got 5"),
    "text as muscles": (lambda: popsim.plants.arm26("Hill"), "`muscle` must be a muscle model .* got 'Hill'"),
    "text as muscles of a mass": (
        lambda: popsim.plants.muscled_point_mass("Hill"),
        "`muscle` must be a muscle model .* got 'Hill'",
    ),
    "a list as ensemble": (lambda: popsim.n_members([ENSEMBLE]), "`ensemble` must be an ensemble of models"),
    "too many members": (
        lambda: popsim.make_ensemble(build, 2**40, key=KEY),
        r"`n_members` must be below 2\*\*31, got 1099511627776",
    ),
    "too high a member": (
        lambda: popsim.make_ensemble(build, 2, first_member=2**40, key=KEY),
        r"`first_member` must be below 2\*\*31",
    ),
}
TRIALS = {
    "steps as timeline": (
        lambda: popsim.Trial((), SIGNAL, SIGNAL, 6),
        "`timeline` must be a Timeline.* got 6",
    ),
    "a list of conditions": (
        lambda: popsim.Trial((), SIGNAL, SIGNAL, TIMELINE, conditions=["left"]),
        "`conditions` must be a mapping of conditions by name",
    ),
    "text as condition": (
        lambda: popsim.Trial((), SIGNAL, SIGNAL, TIMELINE, conditions={"side": "left"}),
        r"`conditions\['side'\]` of a trial must be a number, got 'left'",
    ),
    "an array as intervention": (
        lambda: popsim.Trial((), SIGNAL, SIGNAL, TIMELINE, interventions={"push": SIGNAL}),
        r"`interventions\['push'\]` must be a schedule, got",
    ),
    "an epoch in seconds": (
        lambda: popsim.Timeline(0.01, 6, epochs={"hold": (0.0, 0.03)}),
        r"`epochs\['hold'\]` must be whole numbers",
    ),
    "a list of epochs": (
        lambda: popsim.Timeline(0.01, 6, epochs=["hold"]),
        "`epochs` must be time steps by name",
    ),
    "trials in a list": (
        lambda: evaluated(trials=[ONE_TRIAL, ONE_TRIAL]),
        r"`trials` must be stacked trials, .* got a list of 2: stack them by jax.tree.map",
    ),
    "one trial of many": (
        lambda: evaluated(trials=ONE_TRIAL),
        "`trials` must be stacked trials, .* got one trial",
    ),
    "a number of trials": (lambda: evaluated(trials=5), "`trials` must be stacked trials"),
    "trials of an ensemble in a list": (
        lambda: popsim.evaluate_ensemble(ENSEMBLE, TASK, trials=[ONE_TRIAL], key=KEY),
        "`trials` must be stacked trials",
    ),
    "stacked trials that are simulated": (
        lambda: popsim.simulate(MODEL, TASK.validation_trials(), key=KEY),
        "`trial` must be one trial, got 4 stacked ones: popsim.evaluate runs them all",
    ),
    "one trial that is repeated": (
        lambda: popsim.repeat_trials(ONE_TRIAL, 2),
        "`trials` must be stacked trials",
    ),
    "one trial with a force": (
        lambda: schedule_intervention(ONE_TRIAL, "push", 1.0),
        "`trials` must be stacked",
    ),
    "a force in words": (
        lambda: schedule_intervention(TASK.validation_trials(), "push", "strong"),
        "`parameters of push` must be a number, finite, got 'strong'",
    ),
    "no validation trials": (
        lambda: evaluated(NoTrials()),
        "`validation_trials` of `task` must return at least one trial, got none",
    ),
    "no validation trials in training": (
        lambda: train(1, task=NoTrials()),
        "`validation_trials` of `task` must",
    ),
    "a model as task": (lambda: evaluated(MODEL, TASK), r"`task` must be a task, .* got a NetworkModel\.$"),
    "too high a member id": (
        lambda: evaluated(member_id=2**40),
        "`member_id` must be whole numbers from 0 to",
    ),
    "many member ids": (
        lambda: evaluated(member_id=[0, 1]),
        "`member_id` must be one whole number, got 2: `evaluate_ensemble` takes the members",
    ),
    "half a member id": (lambda: evaluated(member_id=1.5), "`member_id` must be whole numbers from 0 to"),
    "names as member ids": (
        lambda: popsim.evaluate_ensemble(ENSEMBLE, TASK, member_ids=["a", "b"], key=KEY),
        "`member_ids` must be whole numbers",
    ),
    "a class to describe": (lambda: popsim.describe_task(RunningSum), "`task` must be a task, not its class"),
    "arrays as targets": (lambda: popsim.choice_accuracy(SIGNAL, SIGNAL), "`target` must be an OutputTarget"),
}
MODELS = {
    "a body as network": (
        lambda: popsim.NetworkModel(plants.PointMass(), dt=0.01),
        r"`network` must be a network such as GRUNetwork, got a PointMass\.$",
    ),
    "a class as network": (
        lambda: popsim.NetworkModel(networks.GRUNetwork, dt=0.01),
        "`network` must be a network",
    ),
    "a name as output function": (
        lambda: networks.GRUNetwork(3, 4, 2, output_fn="sigmoid", key=KEY),
        "`output_fn` must be a function such as jax.nn.sigmoid, got 'sigmoid'",
    ),
    "a name as nonlinearity": (
        lambda: networks.LeakyRNN(3, 4, 2, nonlinearity="relu", key=KEY),
        "`nonlinearity` must be a function such as jnp.tanh, got 'relu'",
    ),
    "text as noise": (lambda: popsim.GaussianNoise("a"), "`std` must be a number, .* got 'a'"),
    "no noise": (lambda: popsim.GaussianNoise(None), "`std` must be a number, .* got None"),
    "text as motor noise": (lambda: popsim.MotorNoise("a", 1), "`signal_dependent` must be a number"),
    "text as corner": (lambda: popsim.Workspace("a", "b"), "`low` must be a number"),
    "text in a schedule": (
        lambda: schedules.LinearSchedule("a", 1.0, last_batch=4),
        "`start` must be a number",
    ),
    "a bound of text": (
        lambda: popsim.training.constraints.Range(lambda m: m.network, "a", 1.0),
        "`low` must be a number",
    ),
    "two terms of one name": (two, "must have different names, .* by `name=`, such as"),
    "a loss of a vector": (lambda: np.ones(3) * losses.Effort(), r"`weights\['effort'\]` must be one number"),
    "weights in a list": (
        lambda: popsim.Loss((losses.Effort(),), [1.0]),
        r"`weights` must be a dict of the weight of each term by name, got \[1.0\]",
    ),
    "a term that is swapped": (
        lambda: popsim.FunctionTerm(two, "error"),
        "`name` must be the name of the term",
    ),
    "a term without a function": (
        lambda: popsim.FunctionTerm("error", 3),
        r"`function` must be a function \(states",
    ),
}
TRAININGS = {
    "a number as folder": (lambda: TaskTrainer(OPTIMIZER, chkpt_dir=3), "`chkpt_dir` must be a path, got 3"),
    "a list as folder": (
        lambda: TaskTrainer(OPTIMIZER, chkpt_dir=["a"]),
        r"`chkpt_dir` must be a path, got \['a'\]",
    ),
    "one device": (lambda: TaskTrainer(OPTIMIZER, devices=1), "`devices` must be different JAX devices"),
    "a number of members": (lambda: train(1, members=2), "`members` must be the Members of"),
    "text for ensembled": (lambda: train(1, ensembled="yes"), "`ensembled` must be True or False"),
    "text for where_train": (
        lambda: train(1, where_train="network"),
        "`where_train` must be a function such as",
    ),
    "too many batches": (lambda: train(2**31), r"`n_batches` must be below 2\*\*31, got 2147483648"),
    "too many trials": (lambda: train(1, batch_size=2**31), r"`batch_size` must be below 2\*\*31"),
    "a number as update": (
        lambda: train(1, trainer=TaskTrainer(OPTIMIZER, model_update_funcs=[lambda model, states: 3.0])),
        "must return a PyTree like the model, .* would add 3.0 to a NetworkModel",
    ),
    "a list of keys": (lambda: train(1, key=[KEY]), "`key` must be one key"),
    "jit around a trainer": (
        lambda: jax.jit(lambda key: train(1, key=key)[1].loss.total)(KEY),
        "a trainer must be called outside of jit, vmap and grad",
    ),
    "grad around a trainer": (
        lambda: eqx.filter_grad(lambda model: jnp.sum(train(1, ensemble=model)[1].loss.total))(ENSEMBLE),
        "a trainer must be called outside of jit, vmap and grad",
    ),
    "jit around saving": (
        lambda: eqx.filter_jit(lambda model: save_model("model.safetensors", model))(ENSEMBLE),
        "`model` must have numbers, got traced arrays",
    ),
    "a class of experiments in a sweep": (
        lambda: Sweep(CenterOut, {"n_units": [3]}, range(2)),
        r"`experiment` must be an experiment, such as CenterOut\(\), got <class",
    ),
    "a list of axes": (
        lambda: Sweep(CenterOut(), ["n_units"], range(2)),
        "`axes` must be lists of values by setting",
    ),
    "a path to report": (lambda: report_run("runs/a"), "`run` must be a run, such as popsim.open_run"),
    "an unfinished experiment": (
        lambda: register_experiment(Unfinished),
        "`experiment` must define all methods of AbstractExperiment, got Unfinished without build_model, ",
    ),
}
PATH_READERS = (
    *(open_run, resume_run, verify_run, read_run_info, devices_of_run, load_ensemble),
    *(open_sweep, verify_sweep, run_sweep),
)
FOLDERS = {
    **{
        f"{kind} for {reader.__name__}": (
            lambda reader=reader, path=path: reader(path),
            "`path` must be a path",
        )
        for reader in PATH_READERS
        for kind, path in {"a number": 3, "a list": ["runs/a"], "bytes": b"runs/a", "nothing": None}.items()
    },
    "a number to save at": (lambda: save_model(3, ENSEMBLE), "`path` must be a path, got 3"),
    "a model to save at": (lambda: save_model(ENSEMBLE, "m.safetensors"), "`path` must be a path"),
    "a number for a cell's sweep": (lambda: run_cell(3, 0), "`path` must be a path, got 3"),
    "a number to compare at": (lambda: compare_runs(["a", "b"], 3), "`out` must be a path, got 3"),
    **{
        f"{kind} to {function.__name__}": (
            lambda function=function, experiment=experiment: function(experiment, "out"),
            "`experiment` must be an experiment, such as CenterOut",
        )
        for function in (run_experiment, run_or_resume)
        for kind, experiment in {"a name": "center-out", "a class": CenterOut, "nothing": None}.items()
    },
    "a name to save with": (
        lambda: save_ensemble("e.safetensors", ENSEMBLE, "center-out"),
        "`experiment` must be an experiment",
    ),
    "an ensemble as experiment": (
        lambda: save_ensemble("e.safetensors", CenterOut(), ENSEMBLE),
        "`experiment` must be an experiment, .* got a NetworkModel",
    ),
    "a word as recording": (
        lambda: run_experiment(CenterOut(), "out", recording="all"),
        r"`recording` must be a Recording, such as Recording\(\"all\"\), got 'all'",
    ),
    "a word as recording of a sweep": (
        lambda: Sweep(CenterOut(), {"n_units": [3]}, range(2), recording="all"),
        "`recording` must be a Recording",
    ),
    "an experiment as sweep": (lambda: make_sweep(CenterOut(), "out"), "`sweep` must be a Sweep, got Cent"),
    "a path as sweep": (lambda: make_sweep("out", CenterOut()), "`sweep` must be a Sweep, got 'out'"),
    "a path of a sweep to report": (
        lambda: report_sweep("sweeps/a"),
        "`opened` must be a sweep, such as open",
    ),
    "one cell": (lambda: run_sweep("sweeps/a", 0), "`cells` must be a list of numbers of cells, got 0"),
    "a name of a cell": (lambda: run_sweep("sweeps/a", ["0"]), "`cells` must be a list of .* got '0' in it"),
    "a name to register": (
        lambda: register_experiment("mine"),
        "`experiment` must be a subclass of AbstractExperiment, got 'mine'",
    ),
    "one number for two": (lambda: CenterOut(vision_noise=3), "`vision_noise` must be 2 numbers, got 3"),
}
LOSS, WHERE = losses.PositionError, (lambda task: task.scale)
PARTS = {
    "a name as distance": (lambda: LOSS(distance="l2"), "`distance` must be an AbstractDistance, got 'l2'"),
    "a number as profile": (lambda: LOSS(profile=3), "`profile` must be an AbstractTimeProfile, got 3"),
    "a class as profile": (
        lambda: LOSS(profile=losses.PowerProfile),
        "`profile` must be an AbstractTimeProfile, got <class",
    ),
    "a number as name": (lambda: LOSS(name=3), "`name` must be text, got 3"),
    "an epoch as window of a profile": (
        lambda: losses.InWindow("hold"),
        "`window` must be an AbstractWindow",
    ),
    "an epoch as window of a term": (
        lambda: losses.Hold("hold", "target"),
        "`window` must be an AbstractWind",
    ),
    "a name as weights": (
        lambda: losses.WeightPenalty("network"),
        "`where` must be a function, got 'network'",
    ),
    "a name to constrain": (
        lambda: popsim.training.constraints.Range("network", 0.0, 1.0),
        "`where` must be a function, got 'network'",
    ),
    "a number as epoch": (lambda: windows.InEpoch(3), "`epoch` must be text, got 3"),
    "a number as event": (lambda: windows.FromEvent(3), "`event` must be text, got 3"),
    "no delay of a window": (
        lambda: windows.FromEvent("go", None),
        "`delay` must be a number, finite, got No",
    ),
    "no name of an epoch": (lambda: popsim.Epoch(None), "`name` must be text, got None"),
    "a number as event of an epoch": (
        lambda: popsim.Epoch("a", event=3),
        "`event` must be text or None, got 3",
    ),
    "names of epochs": (
        lambda: popsim.TrialPlan(["a"], duration=1.0, dt=0.1),
        "`epochs` must be a list of epochs, got 'a' in it",
    ),
    "a single epoch": (
        lambda: popsim.TrialPlan(popsim.Epoch("a"), duration=1.0, dt=0.1),
        "`epochs` must be a list of epochs, got an Epoch",
    ),
    "a number as intervention": (lambda: interventions.CurlField(3), "`name` must be text, got 3"),
    "another stage": (
        lambda: interventions.CurlField(after_stage="later"),
        "`after_stage` must be one of 'sense', 'think', 'act', 'move', got 'later'",
    ),
    "a number as channel": (lambda: interventions.FeedbackNoise(3), "`channel` must be text, got 3"),
    "a number as rule": (lambda: interventions.FromTrial(3), "`function` must be a function, got 3"),
    "a number to plan": (lambda: interventions.InterventionPlan(3, 1.0), "`name` must be text, got 3"),
    "one name in unless": (
        lambda: interventions.InterventionPlan("a", 1.0, unless="push"),
        "`unless` must be a list of names of interventions, got 'push'",
    ),
    "a name as response": (
        lambda: tasks.PerceptualDecision(response="late"),
        "`response` must be a GoResponse, got 'late'",
    ),
    **{
        f"a single task for {make.__name__}": (
            lambda make=make: make(TASK, [0]),
            "`tasks` must be a list of tasks, got a RunningSum",
        )
        for make in (tasks.Mixture, tasks.TaskCurriculum)
    },
    "a name in a mixture": (
        lambda: tasks.Mixture([TASK, "flip-flop"]),
        "`tasks` must be a list of tasks, got 'flip-flop' in it",
    ),
    "a list for names": (lambda: tasks.MultiTask([TASK]), "`tasks` must be tasks by name, such as"),
    "a number by name": (lambda: tasks.MultiTask({"a": 3}), "`tasks` must be a list of tasks, got 3 in it"),
    "one start": (
        lambda: tasks.TaskCurriculum([TASK, TASK], 3),
        "`starts` must be one batch for each of 2 tasks, got 3",
    ),
    "half a start": (
        lambda: schedules.PiecewiseSchedule([0, 1.5], [1.0, 2.0]),
        r"`starts` must be a list of numbers of batches, got 1\.5 in it",
    ),
    "text as batch": (
        lambda: schedules.LinearSchedule(0.0, 1.0, last_batch="a"),
        "`last_batch` must be the number of a batch, got 'a'",
    ),
    **{
        f"a class for {make.__name__}": (
            lambda make=make, more=more: make(RunningSum, *more),
            "`task` must be an AbstractTask, got <class",
        )
        for make, more in {
            tasks.WithFixation: (),
            tasks.WithInterventions: ([],),
            tasks.HeldOutConditions: (WHERE,),
            tasks.ParameterCurriculum: (WHERE, schedules.ConstantSchedule(1.0)),
        }.items()
    },
    "a number as end of fixation": (lambda: tasks.WithFixation(TASK, 3), "`until` must be text, got 3"),
    "a number held out": (
        lambda: tasks.HeldOutConditions(TASK, 3),
        "`is_held_out` must be a function, got 3",
    ),
    "a single plan": (
        lambda: tasks.WithInterventions(TASK, interventions.InterventionPlan("a", 1.0)),
        "`plans` must be a list of plans of interventions, got an InterventionPlan",
    ),
    "an intervention as plan": (
        lambda: tasks.WithInterventions(TASK, [interventions.CurlField()]),
        "`plans` must be a list of plans of interventions, got a CurlField in it",
    ),
    "a name of a parameter": (
        lambda: tasks.ParameterCurriculum(TASK, "scale", schedules.ConstantSchedule(1.0)),
        "`where` must be a function, got 'scale'",
    ),
    "a parameter that is not there": (
        lambda: tasks.ParameterCurriculum(TASK, lambda task: task.size, schedules.ConstantSchedule(1.0)),
        r"`where`, called with \(task\), raises AttributeError: .* has no attribute 'size'",
    ),
    "a number as schedule": (
        lambda: tasks.ParameterCurriculum(TASK, WHERE, 1.0),
        "`schedule` must be an AbstractBatchSchedule, got 1.0",
    ),
    "text as ramp": (lambda: tasks.adaptation_plan("a", 1.0, ramp="slow"), "`ramp` must be a positive whole"),
    "a number as settings": (
        lambda: popsim.build_members(build, popsim.member_grid(2, tau=[0.1]), settings=3, key=KEY),
        "`settings` must be a list of names of settings, got 3",
    ),
}
CHOICE = popsim.OutputTarget(jnp.zeros((6, 2)), jnp.ones(6))
CALLS = {
    "an ensemble as model": (
        lambda: popsim.simulate(ENSEMBLE, ONE_TRIAL, key=KEY),
        "`model` must run `trial`, a model of one member that takes its inputs, got a TypeError",
    ),
    "too many inputs": (
        lambda: popsim.simulate(MODEL, popsim.Trial((), jnp.zeros((6, 3)), SIGNAL, TIMELINE), key=KEY),
        "`model` must run `trial`, a model of one member that takes its inputs",
    ),
    "a list of outputs": (
        lambda: popsim.output_choice([0, 1], CHOICE),
        "`outputs` must be an array of outputs, got",
    ),
    "text as a batch": (
        lambda: popsim.sample_trials(TASK, 3, batch="a", key=KEY),
        "`batch` must be the number of a batch, got 'a'",
    ),
    "a number of callbacks": (
        lambda: train(1, batch_callbacks=3),
        "`batch_callbacks` must be functions by batch, such as .* got 3",
    ),
    "another dtype": (
        lambda: train(1, trainables_dtype="float17"),
        "`trainables_dtype` must be one of .* got 'float17'",
    ),
    "text as fraction": (
        lambda: popsim.training.Truncation("a"),
        "`fraction` must be above 0 and at most 0.5, got 'a'",
    ),
    "one hyperparameter": (
        lambda: popsim.training.PopulationBasedTraining(5, hyperparameters="learning_rate"),
        "`hyperparameters` must be a list of names of hyperparameters, got 'learning_rate'",
    ),
    "text as length of a decay": (
        lambda: popsim.training.cosine_decay(1e-3, "a"),
        "`n_batches` must be a number, finite and above zero, got 'a'",
    ),
}
MISTAKES = ENSEMBLES | TRIALS | MODELS | TRAININGS | FOLDERS | PARTS | CALLS


@pytest.mark.parametrize("mistake", MISTAKES)
def test_it_is_named_in_one_line(mistake, as_users_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message) as refused:
        make()
    assert "\n" not in str(refused.value)
    assert not [*tmp_path.iterdir()]


def test_a_name_that_is_not_there_is_suggested():
    with pytest.raises(AttributeError, match="make_ensemble"):
        _ = popsim.make_ensembles


def test_masks_of_stacked_trials_have_a_row_for_each():
    timeline = popsim.Timeline(
        0.01, 6, epochs={"hold": jnp.array([[0, 2], [1, 4]])}, events={"go": jnp.array([2, popsim.NEVER])}
    )
    for mask in (lambda line: line.since("go", 0.01), lambda line: line.in_epoch("hold")):
        rows = [mask(jax.tree.map(lambda leaf, i=i: leaf[i], timeline)) for i in range(2)]
        np.testing.assert_array_equal(mask(timeline), rows)


def test_a_loss_shows_its_weights_and_names():
    loss = losses.PositionError() + 1e-6 * losses.Effort(name="work")
    assert "'position error': 1 * PositionError()" in repr(loss)
    assert "'work': 1e-06 * Effort(name='work')" in repr(loss)
    assert [*sum([losses.PositionError(), losses.Effort()]).weights] == ["position error", "effort"]


def test_a_training_of_any_length_begins_at_once():
    n_calls = []
    trainer = TaskTrainer(OPTIMIZER, stop=lambda: n_calls.append(0) or True)
    _, history = train(2**31 - 1, log_step=2, trainer=trainer)
    assert n_calls and history.batch.size <= 2
