"""What learning did to the weights: measures of saved histories of trainables."""

from popsim.analysis.trainables.distances import Distance as Distance
from popsim.analysis.trainables.distances import distance_from_start as distance_from_start
from popsim.analysis.trainables.distances import distance_travelled as distance_travelled
from popsim.analysis.trainables.eigenvalues import recurrent_eigenvalues as recurrent_eigenvalues
from popsim.analysis.trainables.eigenvalues import spectral_radius as spectral_radius
from popsim.analysis.trainables.gaussian_null import (
    gaussian_participation_ratio as gaussian_participation_ratio,
)
from popsim.analysis.trainables.gaussian_null import gaussian_singular_values as gaussian_singular_values
from popsim.analysis.trainables.loss_line import LossLine as LossLine
from popsim.analysis.trainables.loss_line import loss_along_line as loss_along_line
from popsim.analysis.trainables.member_alignment import input_output_change as input_output_change
from popsim.analysis.trainables.member_alignment import member_alignment as member_alignment
from popsim.analysis.trainables.recorded import arrays_by_name as arrays_by_name
from popsim.analysis.trainables.recorded import recorded_arrays as recorded_arrays
from popsim.analysis.trainables.recorded import with_arrays as with_arrays
from popsim.analysis.trainables.singular_modes import SingularModes as SingularModes
from popsim.analysis.trainables.singular_modes import final_modes as final_modes
from popsim.analysis.trainables.singular_modes import mode_strengths as mode_strengths
from popsim.analysis.trainables.spectra import change_singular_values as change_singular_values
from popsim.analysis.trainables.spectra import effective_rank as effective_rank
from popsim.analysis.trainables.spectra import (
    participation_ratio_of_singular_values as participation_ratio_of_singular_values,
)
from popsim.analysis.trainables.spectra import truncated as truncated
from popsim.analysis.trainables.update_alignment import (
    update_gradient_alignment as update_gradient_alignment,
)
