"""How fast, how far and how lastingly members learned."""

from popsim.analysis.learning.exponential_fit import ExponentialFit as ExponentialFit
from popsim.analysis.learning.exponential_fit import fit_exponential as fit_exponential
from popsim.analysis.learning.finite_members import finite_members as finite_members
from popsim.analysis.learning.learning_curve import LearningCurve as LearningCurve
from popsim.analysis.learning.learning_curve import learning_curve as learning_curve
from popsim.analysis.learning.learning_curve import smoothed as smoothed
from popsim.analysis.learning.savings import Savings as Savings
from popsim.analysis.learning.savings import savings_in_rate as savings_in_rate
from popsim.analysis.learning.savings import savings_in_time as savings_in_time
from popsim.analysis.learning.time_to_criterion import time_to_criterion as time_to_criterion
from popsim.analysis.learning.two_state_fit import TwoStateFit as TwoStateFit
from popsim.analysis.learning.two_state_fit import fit_two_states as fit_two_states
from popsim.analysis.learning.two_state_model import TwoStateCourse as TwoStateCourse
from popsim.analysis.learning.two_state_model import TwoStateParameters as TwoStateParameters
from popsim.analysis.learning.two_state_model import simulate_two_states as simulate_two_states
