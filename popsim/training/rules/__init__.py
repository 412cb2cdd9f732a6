"""Learning rules: updates of the model that no gradient makes, one file each."""

from popsim.training.rules.anti_hebb import AntiHebb as AntiHebb
from popsim.training.rules.bcm import BCM as BCM
from popsim.training.rules.covariance_hebb import CovarianceHebb as CovarianceHebb
from popsim.training.rules.differential_hebb import DifferentialHebb as DifferentialHebb
from popsim.training.rules.hebb import Hebb as Hebb
from popsim.training.rules.local_rule import AbstractLocalRule as AbstractLocalRule
from popsim.training.rules.local_rule import mean_product as mean_product
from popsim.training.rules.node_perturbation import NodePerturbation as NodePerturbation
from popsim.training.rules.node_perturbation import PerturbedNodes as PerturbedNodes
from popsim.training.rules.oja import Oja as Oja
from popsim.training.rules.reward_baseline import AbstractRewardBaseline as AbstractRewardBaseline
from popsim.training.rules.reward_baseline import BatchBaseline as BatchBaseline
from popsim.training.rules.reward_baseline import RunningBaseline as RunningBaseline
from popsim.training.rules.reward_modulated_hebb import RewardModulatedHebb as RewardModulatedHebb
from popsim.training.rules.running_average import RunningAverage as RunningAverage
from popsim.training.rules.synapses import Synapses as Synapses
from popsim.training.rules.synapses import TrialActivity as TrialActivity
from popsim.training.rules.synapses import input_synapses as input_synapses
from popsim.training.rules.synapses import network_steps as network_steps
from popsim.training.rules.synapses import readout_synapses as readout_synapses
from popsim.training.rules.synapses import recurrent_synapses as recurrent_synapses
from popsim.training.rules.weight_perturbation import WeightPerturbation as WeightPerturbation
