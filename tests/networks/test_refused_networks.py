"""Arguments that make no network or model, and trials that do not fit one, are refused by name."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from relay import DT, stacked
from wrong_arguments import assert_named_in_one_line, wrong_arguments

import popsim
from popsim import interventions
from popsim.networks import (
    AreaRNN,
    Areas,
    CellNetwork,
    DifferentiablePlasticity,
    EncodedNetwork,
    EncodedStart,
    FastWeights,
    GRUNetwork,
    LeakyRNN,
    LowRankRNN,
    LSTMNetwork,
    ShortTermPlasticity,
    Sparse,
    StackedNetwork,
    TrainableStart,
    VanillaRNN,
    draw_weights,
    spectral_weights,
)

KEY, FORWARD = jax.random.key(3), ("PMd", "M1")
GRU, VANILLA, LSTM = (kind(3, 5, 4, key=KEY) for kind in (GRUNetwork, VanillaRNN, LSTMNetwork))


class Odd(eqx.Module):
    """A cell that forgets what it got."""

    input_size: int = 3
    hidden_size: int = 5

    def __call__(self, inputs, hidden):
        return inputs


def leaky(n_units=5, **options):
    return LeakyRNN(3, n_units, 2, **options, key=KEY)


def plan(**changes):
    forward = {FORWARD: Sparse(0.3), ("M1", "PMd"): Sparse(0.2, from_excitatory=True)}
    return Areas({"PMd": 10, "M1": 8}, **{"connections": forward, "excitatory": 0.8} | changes)


def areas(plasticity=None, **changes):
    return AreaRNN(plan(**changes), {"target": 2}, 2, dt=DT, plasticity=plasticity, key=KEY)


def low_rank_drawn():
    low_rank = LowRankRNN(3, 5, 4, key=KEY)
    return draw_weights(low_rank, lambda n: n.recurrent_weights, spectral_weights(), key=KEY)


def encoded_start(n_read):
    return EncodedStart(leaky(), range(n_read), key=KEY)


TWO_RECORDED = {"spikes": popsim.tasks.RecordedActivity(jnp.ones((5, 2)), jnp.ones((5, 1)))}


def trials(n_inputs=3, dt=DT, targets=(), **options):
    inputs = {"stimulus": jnp.ones((5, n_inputs))}
    return stacked(popsim.Trial((), inputs, targets, popsim.Timeline(dt=dt, n_steps=5), **options))


def model(*held, network=None, dt=DT):
    return popsim.NetworkModel(leaky() if network is None else network, held, dt=dt)


def scheduled(name, parameters):
    planned = interventions.schedule_intervention(trials(), name, parameters)
    model(interventions.UnitNoise()).check(planned)


PLANT = popsim.plants.PointMass()


def reaches():
    return popsim.tasks.CenterOutReaches(PLANT.workspace).validation_trials()


LEAKY = [
    ("tau", lambda: leaky(tau=0.0)),
    ("dt", lambda: leaky(dt=-0.01)),
    ("dt", lambda: leaky(tau=0.01, dt=0.02)),
    ("gain", lambda: leaky(gain=-1.0)),
    ("signs` must be one for each of 5 units, got shape (2,)", lambda: leaky(signs=[1, -1])),
    ("signs` must be +1 and -1, one for each unit and both", lambda: leaky(signs=[1] * 5)),
    ("signs` must be +1 and -1", lambda: leaky(signs=[1, -1, 0, 1, 1])),
    ("signs` must be of at least 4 units, got 3", lambda: leaky(3, signs=[1, 1, -1])),
    ("density` must be above 0", lambda: leaky(signs=[1, 1, 1, 1, -1], density=0.0)),
    ("density` needs `signs`", lambda: leaky(density=0.5)),
    ("rate_scale` must be one number", lambda: ShortTermPlasticity(0.5, 0.2, 0.2, rate_scale=np.ones(5))),
    ("release` must be one number, or one for each of 5 units", lambda: leaky(
        plasticity=ShortTermPlasticity.alternating(4))),
    ("plasticity` must have a time step in its equation to be moved to dt = 0.005 s", lambda: leaky(
        plasticity=DifferentiablePlasticity(5, key=KEY)).with_dt(0.005)),
]  # fmt: skip
AREAS = [
    ("connections` must name areas, PMd, M1, got 'M2'", lambda: plan(connections={("PMd", "M2"): Sparse()})),
    ("connections[('PMd', 'M1')]` must be a Sparse, or a mask of booleans [to, from] of shape (8, 10)",
     lambda: plan(connections={FORWARD: np.ones((10, 8), bool)})),
    ("delays` must be of areas that `connections` connects",
     lambda: plan(delays={FORWARD: 0.02}, connections=None)),
    ("excitatory['PMd']` must be from zero to one, got 1.5", lambda: plan(excitatory=1.5)),
    ("excitatory` must leave units of both kinds", lambda: plan(excitatory=1.0)),
    ("excitatory` must be given for connections with `from_excitatory`", lambda: plan(excitatory=None)),
    ("outputs` must name areas, PMd, M1, got 'V1'", lambda: plan(outputs="V1")),
    ("outputs` must name at least one area", lambda: plan(outputs=[])),
    ("inputs['PMd']` must be a list of names of inputs", lambda: plan(inputs={"PMd": "target"})),
    ("inputs['PMd']` must name inputs of the network, target, got 'targets'. Perhaps you meant target",
     lambda: areas(inputs={"PMd": ["targets"]})),
    ("delays[('PMd', 'M1')]` must be a multiple of the time step dt = 0.01 s",
     lambda: areas(delays={FORWARD: 0.025})),
    ("plasticity` must be None for areas with delays",
     lambda: areas(FastWeights(0.2, 1.0), delays={FORWARD: 0.02})),
]  # fmt: skip
COMPOSED = [
    ("cell` must return what is like its hidden state, an array or a pair", lambda: CellNetwork(
        Odd(), 2, key=KEY)),
    ("gain", lambda: VanillaRNN(3, 5, 2, gain=-1.0, key=KEY)),
    ("initial_hidden` must be of the structure of the hidden state of the network, ((5,), (5,)), got (5,)",
     lambda: TrainableStart(LSTM, jnp.zeros(5))),
    ("initial_hidden` must be finite, got nan", lambda: TrainableStart(VANILLA, jnp.full(5, jnp.nan))),
    ("network` must have a hidden state of one array, with a number for each unit, got a LSTMNetwork",
     lambda: EncodedStart(LSTM, range(2), key=KEY)),
    ("units` must name each unit once, got [1, 1]", lambda: EncodedStart(VANILLA, [1, 1], key=KEY)),
    ("n_encoder` must be a positive whole number", lambda: EncodedStart(
        VANILLA, range(2), n_encoder=0, key=KEY)),
    ("network` must have a time step in its equation to be moved to dt = 0.005 s, got an EncodedStart",
     lambda: encoded_start(2).with_dt(0.005)),
    ("where` must select an array that is stored in the LowRankRNN", low_rank_drawn),
    ("layers[1]` must have as many inputs as layers[0] has outputs, 4, got 3",
     lambda: StackedNetwork([GRU, GRU])),
    ("encoder` must return the 3 inputs of the network, got 2 numbers",
     lambda: EncodedNetwork(GRU, lambda x: x[:2], n_inputs=6)),
    ("encoder`, called with a vector of 6 numbers, raises TypeError: ",
     lambda: EncodedNetwork(GRU, jnp.zeros((3, 5)).__matmul__, n_inputs=6)),
    ("n_inputs` must be given with", lambda: EncodedNetwork(GRU, jnp.sin)),
    ("readout` must return a vector, got a tuple", lambda: EncodedNetwork(GRU, readout=lambda y: (y, y))),
    ("projections` of StackedNetwork must hold 'input'",
     lambda: StackedNetwork([GRU]).with_unit_input(jnp.ones(5))),
]  # fmt: skip
MODELS = [
    ("network` must take the 4 inputs", lambda: model().check(trials(n_inputs=4))),
    ("recording` of EncodedStart must be one of the recordings of the trial, [], got 'spikes'",
     lambda: model(network=encoded_start(2)).check(trials())),
    ("units` of EncodedStart must be numbers of recorded units, from 0 to 1, got 2",
     lambda: model(network=encoded_start(3)).check(trials(recordings=TWO_RECORDED))),
    ("dt` must be that of the model, 0.01 s", lambda: model().check(trials(dt=0.02))),
    ("dt` must be that of the network, 0.01 s", lambda: model(network=leaky(dt=0.01), dt=0.02)),
    *((f"targets` of a trial that are one array must be as wide as the network's output, 2, got {axes}",
       lambda shape=shape: model().check(trials(targets=jnp.ones(shape))))
      for shape, axes in (((5, 1), "(time, 1)"), ((5, 2, 1), "(time, 2, 1)"))),
    *((f"interventions` of a NetworkModel must follow one of ('sense', 'think'), got '{held.name}', which "
       f"follows '{held.after_stage}'", lambda held=held: model(held))
      for held in (interventions.CursorShift(), interventions.CommandNoise())),
    ("interventions` must have different names", lambda: model(*[interventions.UnitNoise()] * 2)),
    ("interventions` of the model must hold those that the trials schedule, ['kick'], got ['unit noise']",
     lambda: scheduled("kick", 0.1)),
    ("parameters of unit noise` must be finite", lambda: scheduled("unit noise", np.nan)),
    ("model` must be one with a body", lambda: model(network=GRUNetwork(2, 4, 2, key=KEY)).check(reaches())),
    ("plant` and `channels` must be given together", lambda: popsim.n_network_inputs(reaches(), PLANT)),
]  # fmt: skip


@pytest.mark.usefixtures("as_users_run")
@wrong_arguments(leaky=LEAKY, areas=AREAS, composed=COMPOSED, models=MODELS)
def test_what_makes_no_network_or_does_not_fit_it_is_named_in_one_line(argument, call):
    assert_named_in_one_line(argument, call)


def test_what_fits_is_taken():
    model().check(trials(targets=jnp.ones((5, 2))))
    model().check(trials(targets={"velocity": jnp.ones((5, 1))}))  # for a loss that compares it
    scheduled("unit noise", 0.1)
    assert popsim.n_network_inputs(reaches()) == 2
    assert leaky(plasticity=FastWeights(0.2, 30.0)).with_dt(0.005).dt == 0.005
