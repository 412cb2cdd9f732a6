"""What the units of a network did together."""

from popsim.analysis.population.circular import RayleighTest as RayleighTest
from popsim.analysis.population.circular import rayleigh_test as rayleigh_test
from popsim.analysis.population.condition_decoding import chance_level as chance_level
from popsim.analysis.population.condition_decoding import decode_condition as decode_condition
from popsim.analysis.population.condition_decoding import (
    decode_condition_across_times as decode_condition_across_times,
)
from popsim.analysis.population.condition_decoding import (
    decode_shuffled_condition as decode_shuffled_condition,
)
from popsim.analysis.population.cosine_tuning import CosineTuning as CosineTuning
from popsim.analysis.population.cosine_tuning import cosine_tuning as cosine_tuning
from popsim.analysis.population.demixed_components import DemixedComponents as DemixedComponents
from popsim.analysis.population.demixed_components import demixed_components as demixed_components
from popsim.analysis.population.dimensionality import n_components_for as n_components_for
from popsim.analysis.population.dimensionality import participation_ratio as participation_ratio
from popsim.analysis.population.kinematic_decoding import KinematicDecoding as KinematicDecoding
from popsim.analysis.population.kinematic_decoding import decode_kinematics as decode_kinematics
from popsim.analysis.population.marginalization import average_by_factors as average_by_factors
from popsim.analysis.population.marginalization import marginalize as marginalize
from popsim.analysis.population.maximum_entropy import MaximumEntropyActivity as MaximumEntropyActivity
from popsim.analysis.population.maximum_entropy import maximum_entropy_activity as maximum_entropy_activity
from popsim.analysis.population.normalization import condition_mean_subtracted as condition_mean_subtracted
from popsim.analysis.population.normalization import soft_normalized as soft_normalized
from popsim.analysis.population.preferred_directions import (
    PreferredDirectionChange as PreferredDirectionChange,
)
from popsim.analysis.population.preferred_directions import (
    preferred_direction_change as preferred_direction_change,
)
from popsim.analysis.population.principal_components import PrincipalComponents as PrincipalComponents
from popsim.analysis.population.principal_components import principal_components as principal_components
from popsim.analysis.population.rotation_test import RotationTest as RotationTest
from popsim.analysis.population.rotation_test import rotation_test as rotation_test
from popsim.analysis.population.rotations import Rotations as Rotations
from popsim.analysis.population.rotations import rotations as rotations
from popsim.analysis.population.subspace_alignment import alignment_index as alignment_index
from popsim.analysis.population.subspace_alignment import random_alignment as random_alignment
from popsim.analysis.population.tangling import tangling as tangling
from popsim.analysis.population.tuning_curves import TuningCurves as TuningCurves
from popsim.analysis.population.tuning_curves import mean_in_time_bins as mean_in_time_bins
from popsim.analysis.population.tuning_curves import tuning_curves as tuning_curves
