"""Gradients that are computed while trials run, beside back-propagation and beside NumPy."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import small_training
from short_form import mostly_in_full
from small_training import assert_same

import popsim
from popsim import losses, networks, plants, tasks
from popsim.randomness import trial_keys
from popsim.training import (
    AbstractGradient,
    BackpropThroughTime,
    BatchRun,
    TaskTrainer,
    adam,
    rules,
    select_trainables,
    training_trials,
)

DT, N_UNITS = 0.02, 6
FLIP_FLOP = tasks.FlipFlop(n_bits=2, duration=0.3, dt=DT)


def leaky(key, **options):
    return networks.LeakyRNN(2, N_UNITS, 2, tau=0.1, dt=DT, key=key, **options)


SPIKING = {"dt": DT, "tau": 0.1, "tau_out": 0.1, "refractory": 0.0, "gain": 4.0, "input_gain": 9.0}
BUILDERS = {
    "leaky": lambda key: leaky(key, noise_std=0.05),
    "leaky, tau of each unit": lambda key: networks.LeakyRNN(
        2, N_UNITS, 2, tau=np.linspace(0.04, 0.2, N_UNITS), dt=DT, key=key
    ),
    "vanilla": lambda key: networks.VanillaRNN(2, N_UNITS, 2, noise_std=0.05, key=key),
    "gru": lambda key: networks.GRUNetwork(2, N_UNITS, 2, key=key),
    "lstm": lambda key: networks.LSTMNetwork(2, N_UNITS, 2, key=key),
    "spiking": lambda key: networks.SpikingRNN(2, N_UNITS, 2, key=key, **SPIKING),
    "adaptive": lambda key: networks.SpikingRNN(2, N_UNITS, 2, adaptation=0.2, key=key, **SPIKING),
    "trainable start": lambda key: networks.TrainableStart(leaky(key), 0.1 * jnp.ones(N_UNITS)),
}


def model_of(network):
    return popsim.NetworkModel(network, dt=DT)


def without_recurrence(model):
    where = model.network.projections()["recurrent"].where
    return eqx.tree_at(lambda model: where(model.network), model, replace_fn=jnp.zeros_like)


def batch_run(model, task, n_trials=3, **options):
    key = jax.random.key(3)
    trials = training_trials(task, n_trials, batch=0, member_id=None, key=key)
    keys = trial_keys(key, n_trials, member_id=0)
    return BatchRun(model, trials, keys, task.loss.at_batch(0), jnp.asarray(0), **options)


def gradient_of(rule, model, task=FLIP_FLOP, where=small_training.network, **options):
    """The gradient by a rule at the first batch, the batch, and the carry after it."""
    params, _ = select_trainables(model, where)
    run = batch_run(model, task, **options)
    carry = rule.init(params, model, key=jax.random.key(0))
    return eqx.filter_jit(lambda run: rule(run, params, carry, key=jax.random.key(0)))(run)


def relative_error(one, other):
    one, other = (np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)]) for tree in (one, other))
    return np.abs(one - other).max() / np.abs(other).max()


@pytest.mark.parametrize("name", mostly_in_full(BUILDERS, ["leaky", "gru"]))
def test_rules_are_back_propagation_where_theory_says_so(name, float64, getkey):
    model = model_of(BUILDERS[name](getkey()))
    exact, batch, _ = gradient_of(BackpropThroughTime(), model, keeps_states=True)
    for n_minibatches in (1, 3):
        options = {"keeps_states": True, "n_minibatches": n_minibatches}
        forward, same_batch, _ = gradient_of(rules.RTRL(), model, **options)
        assert relative_error(forward, exact) < 1e-14
        assert_same(
            (same_batch.states, same_batch.losses), (batch.states, batch.losses), rtol=1e-12, atol=1e-14
        )
    cut = without_recurrence(model)
    assert (
        relative_error(gradient_of(rules.EProp(), cut)[0], gradient_of(BackpropThroughTime(), cut)[0]) < 1e-14
    )
    # With recurrence it is another gradient.
    recurrent = model.network.projections()["recurrent"].where
    traced = gradient_of(rules.EProp(), model)[0]
    assert relative_error(recurrent(traced.network), recurrent(exact.network)) > 0.01
    readout = model.network.projections()["readout"].where(model.network)
    aligned = rules.FeedbackAlignment(BackpropThroughTime(), readout)
    assert relative_error(gradient_of(aligned, model)[0], exact) < 1e-14
    random, _, _ = gradient_of(rules.FeedbackAlignment(BackpropThroughTime()), model)
    where = model.network.projections()["readout"].where
    assert relative_error(where(random.network), where(exact.network)) < 1e-14
    assert relative_error(random, exact) > 0.05


@pytest.mark.slow
def test_a_start_that_is_encoded_has_its_exact_derivative_and_e_prop_trains_what_is_within(float64, getkey):
    inputs, targets, spikes = jax.random.poisson(getkey(), 1.0, (3, 10, 8, 2)).astype(float)
    data = {"recordings": {"spikes": spikes}, "loss": 1.0 * losses.OutputError()}
    task = tasks.StoredTrials({"x": inputs}, targets, dt=DT, **data)
    model = model_of(networks.EncodedStart(leaky(getkey()), range(2), n_encoder=3, key=getkey()))
    exact = gradient_of(BackpropThroughTime(), model, task)[0]
    assert relative_error(gradient_of(rules.RTRL(), model, task)[0], exact) < 1e-14
    assert all(np.any(leaf) for leaf in jax.tree.leaves(exact.network.encoder))
    with pytest.raises(ValueError, match="act on one unit each for EProp, got the encoder of an Encoded"):
        gradient_of(rules.EProp(), model, task)
    cut, within = without_recurrence(model), {"where": lambda model: model.network.network}
    pair = (gradient_of(rule, cut, task, **within)[0] for rule in (rules.EProp(), BackpropThroughTime()))
    assert relative_error(*pair) < 1e-14


class OutsideLeak(networks.AbstractNetwork):
    """The network of Murray's code: h' = (1 - a) h + a tanh(W h + V u)."""

    recurrent_weights: jax.Array
    input_weights: jax.Array
    readout: eqx.nn.Linear
    n_inputs: int = eqx.field(static=True, default=2)
    n_outputs: int = eqx.field(static=True, default=2)

    def init(self, *, key):
        return 0.1 * jnp.ones(N_UNITS)

    def step(self, inputs, hidden, *, key):
        received = self.recurrent_weights @ hidden + self.input_weights @ inputs
        return 0.9 * hidden + 0.1 * jnp.tanh(received)

    def read_out(self, hidden):
        return self.readout(hidden)

    def projections(self):
        where = {"recurrent": lambda net: net.recurrent_weights, "readout": lambda net: net.readout.weight}
        return {name: networks.Projection(where=select) for name, select in where.items()}


@pytest.mark.parametrize("is_random", [True, False])
@pytest.mark.parametrize("is_outside", [True, False])
def test_local_rules_are_sums_of_traces_times_signals(is_outside, is_random, float64, getkey):
    """In the network of Murray's code, whose leak is outside of tanh, and in a leaky network, inside it."""
    weights = [jax.random.normal(getkey(), (N_UNITS, n)) for n in (N_UNITS, 2)]
    outside = OutsideLeak(*weights, eqx.nn.Linear(N_UNITS, 2, key=getkey()))
    inside = networks.LeakyRNN(2, N_UNITS, 2, tau=DT / 0.1, dt=DT, key=getkey())
    inside = eqx.tree_at(lambda net: (net.recurrent_weights, net.input_weights), inside, weights)
    model = model_of(outside if is_outside else inside)
    readout_weights = model.network.readout.weight
    feedback = jax.random.normal(getkey(), (2, N_UNITS)) if is_random else readout_weights
    rule = rules.RFLO(feedback) if is_random else rules.EProp()
    gradient, batch, _ = gradient_of(rule, model, n_trials=1)
    trial = jax.tree.map(lambda leaf: np.asarray(leaf[0]), batch.trials)
    (inputs,), counts = jax.tree.leaves(trial.inputs), trial.targets.counts / trial.targets.counts.sum()
    W, V = map(np.asarray, weights)
    readout, bias = np.asarray(model.network.readout.weight), np.asarray(model.network.readout.bias)
    h, p, q = (0.1 if is_outside else 0.0) * np.ones(N_UNITS), np.zeros_like(W), np.zeros_like(V)
    change_W, change_V = np.zeros_like(W), np.zeros_like(V)
    for u, target, count in zip(inputs, trial.targets.values, counts, strict=True):
        rates = h if is_outside else np.tanh(h)
        received = W @ rates + V @ u
        slope = 1 - np.tanh(received) ** 2 if is_outside else np.ones(N_UNITS)
        p, q = (0.9 * old + 0.1 * np.outer(slope, pre) for old, pre in ((p, rates), (q, u)))
        h = 0.9 * h + 0.1 * (np.tanh(received) if is_outside else received)
        rates, slope = (h, 1) if is_outside else (np.tanh(h), 1 - np.tanh(h) ** 2)
        error = count * (readout @ rates + bias - target)  # the mean over two outputs halves the slope of 2
        signal = slope * (np.asarray(feedback).T @ error)
        change_W, change_V = change_W + signal[:, None] * p, change_V + signal[:, None] * q
    own = (gradient.network.recurrent_weights, gradient.network.input_weights)
    assert relative_error(own, (change_W, change_V)) < 1e-14


def reaching(plant, *, sees, recurs=True, muscles=False, key):
    """A model with a body, and the task of reaching with it."""
    loss = 1.0 * losses.PositionError() + 1e-4 * losses.Effort()
    task = tasks.CenterOutReaches(plant.workspace, duration=0.2, dt=DT, loss=loss)
    channels = {"vision": popsim.SensoryChannel(popsim.vision, delay=0.04)} if sees else {}
    n_inputs = popsim.n_network_inputs(task.validation_trials(), plant, channels)
    squash = {"output_fn": jax.nn.sigmoid, "output_bias": -2.0} if muscles else {}
    network = networks.LeakyRNN(n_inputs, 4, plant.n_commands, tau=0.1, dt=DT, key=key, **squash)
    model = popsim.SensorimotorLoop(network, plant, channels, dt=DT)
    return (model if recurs else without_recurrence(model)), task


THROUGH_BODY = rules.EProp(body=lambda state: state.plant)


@pytest.mark.parametrize("muscles", mostly_in_full((False, True), [False]))
def test_traces_through_a_body_are_exact_without_recurrence_and_senses(muscles, float64, getkey):
    plant = plants.arm26() if muscles else plants.PointMass()
    blind, task = reaching(plant, sees=False, recurs=False, muscles=muscles, key=getkey())
    exact = gradient_of(BackpropThroughTime(), blind, task)[0]
    assert relative_error(gradient_of(THROUGH_BODY, blind, task)[0], exact) < 1e-13
    seeing, task = reaching(plant, sees=True, muscles=muscles, key=getkey())
    exact = gradient_of(BackpropThroughTime(), seeing, task)[0]
    assert relative_error(gradient_of(rules.RTRL(), seeing, task)[0], exact) < 1e-13
    through_body = gradient_of(THROUGH_BODY, seeing, task)[0]
    instant = rules.EProp(signal=instantaneous)
    errors = [relative_error(found, exact) for found in (through_body, gradient_of(instant, seeing, task)[0])]
    assert 0.01 < errors[0] < 0.6 < errors[1]


def instantaneous(at, params, before, hidden):
    """dE_t/dh_t through the command of this step alone: the cost of effort, and what a step can move."""

    def cost(hidden):
        model = eqx.combine(params, at.model)
        command = model.network.read_out(hidden)
        state = eqx.tree_at(lambda state: (state.network.hidden, state.command), before, (hidden, command))
        return at.costs(params, state).total

    return jax.grad(cost)(hidden), jax.tree.map(jnp.zeros_like, params)


@pytest.mark.parametrize("kind", [popsim.interventions.StimulateUnits, popsim.interventions.SilenceUnits])
def test_units_that_are_changed_are_changed_once(kind, float64, getkey):
    """By e-prop without recurrence, where it is back-propagation."""
    model = dataclasses.replace(without_recurrence(model_of(leaky(getkey()))), interventions=(kind(),))
    parameters = jnp.linspace(0, 1, N_UNITS).round() if kind is popsim.interventions.SilenceUnits else 0.3
    plan = popsim.interventions.InterventionPlan(kind().name, parameters * jnp.ones(N_UNITS))
    task = tasks.WithInterventions(FLIP_FLOP, [plan])
    exact = gradient_of(BackpropThroughTime(), model, task)[0]
    assert relative_error(gradient_of(rules.EProp(), model, task)[0], exact) < 1e-14


def test_a_body_that_is_trained_gets_its_exact_gradient(float64, getkey):
    """Its start depends on what is trained."""
    model, task = reaching(plants.TwoLinkArm.arm26_skeleton(), sees=False, recurs=False, key=getkey())
    where = lambda model: (model.network, model.plant.length)  # noqa: E731
    exact = gradient_of(BackpropThroughTime(), model, task, where)[0]
    found = gradient_of(THROUGH_BODY, model, task, where)[0]
    assert relative_error(found.plant, exact.plant) < 1e-12 and relative_error(found, exact) < 1e-12


N_OUT, ALPHA = 1, 2.0


class Wave(popsim.AbstractTask):
    loss: popsim.Loss = eqx.field(default_factory=lambda: 1.0 * losses.OutputError())

    def trial(self, *, batch, key):
        values = jnp.sin(jnp.arange(20.0))[:, None]
        target = popsim.OutputTarget(values, jnp.ones(20), is_choice=False)
        inputs = {"drive": 0.3 * jnp.cos(jnp.arange(20.0))[:, None]}
        return popsim.Trial((), inputs, target, popsim.Timeline(dt=DT, n_steps=20))

    def validation_trials(self):
        return jax.tree.map(lambda leaf: leaf[None], self.trial(batch=0, key=None))


def build_feedback(key):
    network = networks.FeedbackRNN(1, N_UNITS, N_OUT, tau=0.1, dt=DT, key=key)
    return model_of(network)


def build_leaky(key):
    return model_of(networks.LeakyRNN(1, N_UNITS, N_OUT, tau=0.1, dt=DT, key=key))


READOUT = lambda model: model.network.readout.weight  # noqa: E731
BOTH = lambda model: (model.network.recurrent_weights, model.network.readout.weight)  # noqa: E731


@pytest.mark.parametrize("is_full", [False, True])
def test_recursive_least_squares_are_those_of_numpy(is_full, float64, getkey):
    """Two trials, one after the other; P and the weights of the first are where the second begins."""
    model = (build_leaky if is_full else build_feedback)(getkey())
    rule, where = (rules.FullFORCE, BOTH) if is_full else (rules.FORCE, READOUT)
    change, batch, (P_after, other) = gradient_of(
        rule(alpha=ALPHA, every=3), model, Wave(), where, n_trials=2, keeps_states=True
    )
    net = jax.tree.map(np.asarray, model.network)
    W, w, b, P = net.recurrent_weights, net.readout.weight, net.bias, np.eye(N_UNITS) / ALPHA
    for trial in range(2):
        x = np.asarray(batch.initial_states.network.hidden[trial])
        driven, values = x, np.asarray(batch.trials.targets.values[trial])
        drive = np.asarray(batch.trials.inputs["drive"][trial])
        for t in range(20):
            r, outside = np.tanh(x), net.input_weights @ drive[t] + b
            learns = t > 0 and (t - 1) % 3 == 0
            k = P @ r
            gain = learns / (1 + r @ k)
            if is_full:
                sent = np.asarray(other[0]) @ np.tanh(driven) + np.asarray(other[1]) @ values[t]
                driven = driven + DT / 0.1 * (sent + outside - driven)
                if_wrong = W @ r - sent
                W = W - gain * np.outer(if_wrong, k)
            error = w @ r + net.readout.bias - values[t - 1]
            w = w - gain * np.outer(error, k)
            P = P - gain * np.outer(k, k)
            back = 0 if is_full else net.feedback_weights @ (w @ r)
            x = x + DT / 0.1 * (W @ r + back + outside - x)
            np.testing.assert_allclose(batch.states.network.hidden[trial, t], x, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(P_after, P, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(change.network.readout.weight, w - net.readout.weight, rtol=1e-9, atol=1e-12)
    if is_full:
        changed = change.network.recurrent_weights
        np.testing.assert_allclose(changed, W - net.recurrent_weights, rtol=1e-9, atol=1e-12)


TRAINED = {
    "e-prop": (
        rules.EProp(),
        adam(1e-2),
        FLIP_FLOP,
        lambda key: model_of(leaky(key)),
        small_training.network,
    ),
    "RFLO": (rules.RFLO(), adam(1e-2), FLIP_FLOP, lambda key: model_of(leaky(key)), small_training.network),
    "FORCE": (rules.FORCE(), None, Wave(), build_feedback, READOUT),
    "full-FORCE": (rules.FullFORCE(), None, Wave(), build_leaky, BOTH),
}


@pytest.mark.parametrize("name", mostly_in_full(TRAINED, ["RFLO", "FORCE"]))
def test_members_learn_by_a_rule_and_resume_bit_for_bit(name, tmp_path):
    gradient, optimizer, task, build, where = TRAINED[name]
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))

    def train(n_batches, folder=None, **options):
        optimizers = {} if optimizer is None else {"optimizer": optimizer}
        trainer = TaskTrainer(gradient=gradient, chkpt_dir=folder, **optimizers)
        return small_training.train(
            n_batches, trainer=trainer, task=task, ensemble=ensemble, where_train=where, **options
        )

    whole, history = train(60)
    total = np.asarray(history.loss.total)
    assert np.all(total[-10:].mean(axis=0) < 0.9 * total[0])
    train(30, tmp_path / "run")
    resumed, _ = train(60, tmp_path / "run", restore_checkpoint=True)
    assert_same(resumed, whole)


class OldGradient(AbstractGradient):
    def init(self, params):
        return None

    def __call__(self, run, params, carry, *, key):
        return params, run(params), carry


def body_model(key):
    return reaching(plants.PointMass(), sees=False, key=key)[0]


def refused(gradient, build, task=FLIP_FLOP, where=small_training.network, **options):
    optimizers = {} if gradient.returns_change else {"optimizer": adam(1e-2)}
    trainer = TaskTrainer(gradient=gradient, **optimizers, **options)
    ensemble = popsim.make_ensemble(build, 2, key=jax.random.key(0))
    small_training.train(trainer=trainer, task=task, ensemble=ensemble, where_train=where)


REACHES = reaching(plants.PointMass(), sees=False, key=jax.random.key(0))[1]


def encoded(kind, **options):
    def build(key):
        encoder = eqx.nn.Linear(2, N_UNITS, key=key)
        inner = kind(N_UNITS, N_UNITS, 2, key=key, **options)
        return model_of(networks.EncodedNetwork(inner, encoder, n_inputs=2))

    return build


def wrapped(function, **options):
    return lambda key: model_of(function(leaky(key, **options)))


class Doubled(networks.LeakyRNN):
    """A network that applies its weights in another way."""

    def recurrent_input(self, rates):
        return (2.0 * self.recurrent_weights) @ rates


PLASTIC = networks.FastWeights(0.2, 30.0)
REFUSALS = {
    r"`loss` must be a sum over time steps .* 'squared_error'": (
        rules.EProp(), small_training.build, small_training.RunningSum(),
    ),
    "`body` must be given for a model with a body": (rules.EProp(), body_model, REACHES),
    '`model.network` must have a projection "recurrent" for EProp': (
        rules.EProp(), lambda key: model_of(networks.LowRankRNN(2, 4, 2, dt=DT, key=key)),
    ),
    r"act on one unit each for EProp, got network\.encoder\.weight": (
        rules.EProp(), encoded(networks.LeakyRNN, dt=DT),
    ),
    r"act on one unit each for EProp, got network\.encoder\.(weight|bias)": (
        rules.EProp(), encoded(networks.GRUNetwork),
    ),
    "alone for EProp, got a Doubled; see `with_given_rates`": (
        rules.EProp(), lambda key: model_of(Doubled(2, N_UNITS, 2, dt=DT, key=key)),
    ),
    "numbers of its units alone for EProp": (
        rules.EProp(), lambda key: model_of(leaky(key, plasticity=PLASTIC)),
    ),
    "linear in its rates for FORCE, so without `output_fn`, got a EncodedNetwork": (
        rules.FORCE(), wrapped(networks.EncodedNetwork, output_fn=jnp.tanh), FLIP_FLOP,
        lambda model: model.network.network.readout.weight,
    ),
    "`model.network` must be a LeakyRNN or a VanillaRNN without plasticity for FullFORCE, got a GRU": (
        rules.FullFORCE(), lambda key: model_of(networks.GRUNetwork(2, N_UNITS, 2, key=key)), FLIP_FLOP,
        lambda model: (model.network.cell.weight_hh, model.network.readout.weight),
    ),
    "nothing else, not even a bias.": (
        rules.FullFORCE(), build_feedback, Wave(), {0: BOTH, 2: READOUT},
    ),
    "`gradient` must not return the change of weights itself, got a FORCE": (
        lambda: rules.FeedbackAlignment(rules.FORCE()),
    ),
    r"`gradient` must be an EProp\(\), got": (lambda: rules.RFLO(gradient=BackpropThroughTime()),),
    "`feedback` must be finite": (lambda: rules.RFLO([[np.nan] * N_UNITS] * 2),),
    r"act on one unit each for EProp, got network\.tau": (
        rules.EProp(), lambda key: model_of(leaky(key, train_tau=True)),
    ),
    'of the projection "recurrent" alone for EProp, got a FeedbackRNN': (
        rules.EProp(), build_feedback, Wave(), lambda model: model.network.recurrent_weights,
    ),
    r"`feedback` must have the shape of the weights of the readout, \(2, 6\)": (
        rules.RFLO(feedback=jnp.ones((2, 3))), lambda key: model_of(leaky(key)),
    ),
    "and nothing else, not even a bias": (
        rules.FORCE(), build_feedback, Wave(), lambda model: model.network.readout,
    ),
    "`model` must be a NetworkModel whose network": (rules.FORCE(), body_model, REACHES, READOUT),
    r"`init` of `gradient`, called with \(params, model, \*, key\)": (
        OldGradient(), lambda key: model_of(leaky(key)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("message", REFUSALS)
def test_what_a_rule_cannot_do_is_refused_by_name(message, as_users_run):
    first, *others = REFUSALS[message]
    with pytest.raises(ValueError, match=message):
        refused(first, *others) if others else first()


def test_a_rule_that_returns_changes_takes_no_optimizer():
    with pytest.raises(ValueError, match="`optimizer` must be left out .* got a FORCE and"):
        TaskTrainer(adam(1e-2), gradient=rules.FORCE())
    with pytest.raises(ValueError, match="an optax optimizer such as adam.*got a EProp and none"):
        TaskTrainer(gradient=rules.EProp())
    with pytest.raises(ValueError, match="`n_minibatches` must be 1 for FORCE, got 2"):
        refused(rules.FORCE(), build_feedback, Wave(), READOUT, n_minibatches=2)
    with pytest.warns(UserWarning, match="RTRL carries the derivative of the whole state by each of 1,"):
        many = model_of(networks.LeakyRNN(2, 30, 2, dt=DT, key=jax.random.key(0)))
        rules.RTRL().init(many, many, key=jax.random.key(0))
