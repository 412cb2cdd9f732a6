"""Terms of losses, one file each. They compose: `PositionError() + 1e-5 * Effort()`.

| term | what it adds up | unit |
| --- | --- | --- |
| `PositionError` | the cursor's distance from the target | m² |
| `VelocityError` | the cursor's velocity less that of the target | m²/s² |
| `FinalPosition`, `FinalVelocity` | the same at the last step | m², m²/s² |
| `FinalState` | both at the last step | m² |
| `Straightness` | the cursor's distance from the line start-target | m² |
| `Hold` | the cursor's distance from start or target, in a window | m² |
| `Acceleration`, `Jerk` | of the hand | m²/s⁴, m²/s⁶ |
| `MuscleActivation` | the activation of muscles, from 0 to 1 | 1 |
| `MuscleForce`, `MuscleForceChange` | in maximal isometric forces, and per second | 1, 1/s² |
| `Effort`, `EffortChange` | the network's command, and its change per second | its own, squared |
| `HiddenActivity`, `HiddenActivityChange` | the units of the network, and their change per second | 1, 1/s² |
| `OutputError` | the mean squared error of the output, where it counts | its own, squared |
| `CrossEntropy` | the mean cross entropy with the right choice, where it counts | nats |
| `ChoiceError` | the mean probability of a wrong choice, where it counts | 1 |
| `WeightPenalty` | selected weights | 1 |

Those of cursor, hand and muscles need a body, the others do not. What adds up over time takes a `profile`,
how much each step counts: `InWindow(window)`, `PowerProfile(exponent, window=window)`,
`LateInEpochs(prefix, exponent)`, `FinalStep()` or `FinalSteps(duration)`. What is a distance takes a
`distance`: `SquaredDistance()`, `EuclideanDistance()`, `L1Distance()` or `HuberDistance(delta)`. A term whose
window is empty in a trial is zero there. Any function makes a term: `popsim.FunctionTerm(name, function)`.
"""

from popsim.losses.acceleration import Acceleration as Acceleration
from popsim.losses.choice_error import ChoiceError as ChoiceError
from popsim.losses.cross_entropy import CrossEntropy as CrossEntropy
from popsim.losses.distances import AbstractDistance as AbstractDistance
from popsim.losses.distances import EuclideanDistance as EuclideanDistance
from popsim.losses.distances import HuberDistance as HuberDistance
from popsim.losses.distances import L1Distance as L1Distance
from popsim.losses.distances import SquaredDistance as SquaredDistance
from popsim.losses.effort import Effort as Effort
from popsim.losses.effort_change import EffortChange as EffortChange
from popsim.losses.final_position import FinalPosition as FinalPosition
from popsim.losses.final_state import FinalState as FinalState
from popsim.losses.final_velocity import FinalVelocity as FinalVelocity
from popsim.losses.hidden_activity import HiddenActivity as HiddenActivity
from popsim.losses.hidden_activity_change import HiddenActivityChange as HiddenActivityChange
from popsim.losses.hold import Hold as Hold
from popsim.losses.jerk import Jerk as Jerk
from popsim.losses.muscle_activation import MuscleActivation as MuscleActivation
from popsim.losses.muscle_force import MuscleForce as MuscleForce
from popsim.losses.muscle_force_change import MuscleForceChange as MuscleForceChange
from popsim.losses.output_error import OutputError as OutputError
from popsim.losses.position_error import PositionError as PositionError
from popsim.losses.straightness import Straightness as Straightness
from popsim.losses.time_profile import AbstractTimeProfile as AbstractTimeProfile
from popsim.losses.time_profile import FinalStep as FinalStep
from popsim.losses.time_profile import FinalSteps as FinalSteps
from popsim.losses.time_profile import InWindow as InWindow
from popsim.losses.time_profile import LateInEpochs as LateInEpochs
from popsim.losses.time_profile import PowerProfile as PowerProfile
from popsim.losses.velocity_error import VelocityError as VelocityError
from popsim.losses.weight_penalty import WeightPenalty as WeightPenalty
