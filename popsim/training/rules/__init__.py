"""Learning rules: updates of the model that do not come from gradients."""

from popsim.training.rules.hebbian import (
    BCM,
    AbstractLocalRule,
    AntiHebb,
    CovarianceHebb,
    DifferentialHebb,
    Hebb,
    Oja,
    RunningAverage,
    mean_product,
)
from popsim.training.rules.perturbation import NodePerturbation, PerturbedNodes, WeightPerturbation
from popsim.training.rules.reward_modulated import (
    AbstractRewardBaseline,
    BatchBaseline,
    RewardModulatedHebb,
    RunningBaseline,
)
from popsim.training.rules.synapses import (
    AbstractSynapticRule,
    Synapses,
    TrialActivity,
    input_synapses,
    network_steps,
    readout_synapses,
    recurrent_synapses,
)

__all__ = [
    "AbstractLocalRule",
    "AbstractRewardBaseline",
    "AbstractSynapticRule",
    "AntiHebb",
    "BCM",
    "BatchBaseline",
    "CovarianceHebb",
    "DifferentialHebb",
    "Hebb",
    "NodePerturbation",
    "Oja",
    "PerturbedNodes",
    "RewardModulatedHebb",
    "RunningAverage",
    "RunningBaseline",
    "Synapses",
    "TrialActivity",
    "WeightPerturbation",
    "input_synapses",
    "mean_product",
    "network_steps",
    "readout_synapses",
    "recurrent_synapses",
]
