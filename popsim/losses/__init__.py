"""Loss terms. They are combined by `PositionError() + 1e-5 * Effort()`.

| term | penalises | unit |
| --- | --- | --- |
| `PositionError` | the distance of the cursor from the target | m² |
| `VelocityError` | the difference in velocity between cursor and target | m²/s² |
| `FinalPosition`, `FinalVelocity` | the same at the last time step | m², m²/s² |
| `FinalState` | both at the last time step | m² |
| `Straightness` | the distance of the cursor from the line from start to target | m² |
| `Hold` | the distance of the cursor from start or target, in a window | m² |
| `ObstacleEntry` | how deep the cursor is in an obstacle | m² |
| `Acceleration`, `Jerk` | of the hand | m²/s⁴, m²/s⁶ |
| `MuscleActivation` | the activation of muscles, from 0 to 1 | 1 |
| `MuscleForce`, `MuscleForceChange` | force in maximal isometric forces, and its rate of change | 1, 1/s² |
| `Effort`, `EffortChange` | the network's command, and its rate of change | its own, squared |
| `HiddenActivity`, `HiddenActivityChange` | the hidden units, and their rate of change | 1, 1/s² |
| `OutputError` | the mean squared error of the output, where it counts | its own, squared |
| `CrossEntropy` | the mean cross entropy with the right choice, where it counts | nats |
| `ChoiceError` | the mean probability of a wrong choice, where it counts | 1 |
| `RateError` | the mean squared error of units against recorded rates | that of rates, squared |
| `SpikeCountLikelihood` | spike counts that the activity of units makes improbable | nats |
| `WeightPenalty` | selected weights | 1 |
| `RecurrentSensitivity` | the Jacobian of the recurrence along trajectories | 1 |
| `VanishingGradient` | gradients of an error that grow or shrink from step to step | 1 |
| `PolicyGradient` | rewards that were not got, with the gradient of a policy | that of the reward |
| `ValueRegression` | the difference between rewards to come and a critic's estimate | its own, squared |
| `Entropy` | policies that have decided | nats |
| `ChoiceLikelihood` | choices that a policy finds improbable | nats |

Terms on cursor, hand and muscles need a plant. Sums over time take a `profile`, the weights of the time
steps: `InWindow(window)`, `PowerProfile(exponent, window=window)`, `LateInEpochs(prefix, exponent)`,
`FinalStep()` or `FinalSteps(duration)`. Distances take a `distance`: `SquaredDistance()`,
`EuclideanDistance()`, `L1Distance()` or `HuberDistance(delta)`. A term is zero in trials where its window is
empty. `popsim.FunctionTerm(name, function)` makes a term of any function.
"""

from popsim.losses import effort, jacobians, output, profiles, rates, reach, reinforcement
from popsim.losses.effort import *
from popsim.losses.jacobians import *
from popsim.losses.output import *
from popsim.losses.profiles import *
from popsim.losses.rates import *
from popsim.losses.reach import *
from popsim.losses.reinforcement import *

__all__: list[str] = []
__all__ += effort.__all__
__all__ += jacobians.__all__
__all__ += output.__all__
__all__ += profiles.__all__
__all__ += rates.__all__
__all__ += reach.__all__
__all__ += reinforcement.__all__
