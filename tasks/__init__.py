"""The task library, with one family of tasks per file."""

if __name__ != "popsim.tasks":
    raise ImportError(f"import this package as `popsim.tasks`, not as `{__name__}`.")

from popsim.tasks import (
    adaptation,
    bandits,
    block_priors,
    changing_environment,
    choice_parts,
    decisions,
    degeneracy_suite,
    detection,
    direction_codes,
    directions,
    driscoll_tasks,
    dual_matching,
    economic_choice,
    flip_flop,
    hierarchical_reasoning,
    ideal_blocks,
    ideal_decisions,
    ideal_intervals,
    ideal_rings,
    ideal_timing,
    interactive_reaches,
    interception,
    interval_production,
    intervals,
    library,
    matching,
    memory,
    multi_task,
    multisensory,
    obstacles,
    path_integration,
    players,
    probabilistic_reasoning,
    pulses,
    reach_sequences,
    reaching,
    ring_rules,
    ring_task,
    selected_environment,
    session,
    staircase,
    stored_trials,
    timed_clicks,
    timed_decisions,
    timed_responses,
    timing,
    tracking,
    trial_parts,
    two_step,
    two_targets,
    wrappers,
    yang_tasks,
)
from popsim.tasks.adaptation import *
from popsim.tasks.bandits import *
from popsim.tasks.block_priors import *
from popsim.tasks.changing_environment import *
from popsim.tasks.choice_parts import *
from popsim.tasks.decisions import *
from popsim.tasks.degeneracy_suite import *
from popsim.tasks.detection import *
from popsim.tasks.direction_codes import *
from popsim.tasks.directions import *
from popsim.tasks.driscoll_tasks import *
from popsim.tasks.dual_matching import *
from popsim.tasks.economic_choice import *
from popsim.tasks.flip_flop import *
from popsim.tasks.hierarchical_reasoning import *
from popsim.tasks.ideal_blocks import *
from popsim.tasks.ideal_decisions import *
from popsim.tasks.ideal_intervals import *
from popsim.tasks.ideal_rings import *
from popsim.tasks.ideal_timing import *
from popsim.tasks.interactive_reaches import *
from popsim.tasks.interception import *
from popsim.tasks.interval_production import *
from popsim.tasks.intervals import *
from popsim.tasks.library import *
from popsim.tasks.matching import *
from popsim.tasks.memory import *
from popsim.tasks.multi_task import *
from popsim.tasks.multisensory import *
from popsim.tasks.obstacles import *
from popsim.tasks.path_integration import *
from popsim.tasks.players import *
from popsim.tasks.probabilistic_reasoning import *
from popsim.tasks.pulses import *
from popsim.tasks.reach_sequences import *
from popsim.tasks.reaching import *
from popsim.tasks.ring_rules import *
from popsim.tasks.ring_task import *
from popsim.tasks.selected_environment import *
from popsim.tasks.session import *
from popsim.tasks.staircase import *
from popsim.tasks.stored_trials import *
from popsim.tasks.timed_clicks import *
from popsim.tasks.timed_decisions import *
from popsim.tasks.timed_responses import *
from popsim.tasks.timing import *
from popsim.tasks.tracking import *
from popsim.tasks.trial_parts import *
from popsim.tasks.two_step import *
from popsim.tasks.two_targets import *
from popsim.tasks.wrappers import *
from popsim.tasks.yang_tasks import *

__all__: list[str] = []
__all__ += adaptation.__all__
__all__ += bandits.__all__
__all__ += block_priors.__all__
__all__ += changing_environment.__all__
__all__ += choice_parts.__all__
__all__ += decisions.__all__
__all__ += degeneracy_suite.__all__
__all__ += detection.__all__
__all__ += direction_codes.__all__
__all__ += directions.__all__
__all__ += driscoll_tasks.__all__
__all__ += dual_matching.__all__
__all__ += economic_choice.__all__
__all__ += flip_flop.__all__
__all__ += hierarchical_reasoning.__all__
__all__ += ideal_blocks.__all__
__all__ += ideal_decisions.__all__
__all__ += ideal_intervals.__all__
__all__ += ideal_rings.__all__
__all__ += ideal_timing.__all__
__all__ += interactive_reaches.__all__
__all__ += interception.__all__
__all__ += interval_production.__all__
__all__ += intervals.__all__
__all__ += library.__all__
__all__ += matching.__all__
__all__ += memory.__all__
__all__ += multi_task.__all__
__all__ += multisensory.__all__
__all__ += obstacles.__all__
__all__ += path_integration.__all__
__all__ += players.__all__
__all__ += probabilistic_reasoning.__all__
__all__ += pulses.__all__
__all__ += reach_sequences.__all__
__all__ += reaching.__all__
__all__ += ring_rules.__all__
__all__ += ring_task.__all__
__all__ += selected_environment.__all__
__all__ += session.__all__
__all__ += staircase.__all__
__all__ += stored_trials.__all__
__all__ += timed_clicks.__all__
__all__ += timed_decisions.__all__
__all__ += timed_responses.__all__
__all__ += timing.__all__
__all__ += tracking.__all__
__all__ += trial_parts.__all__
__all__ += two_step.__all__
__all__ += two_targets.__all__
__all__ += wrappers.__all__
__all__ += yang_tasks.__all__
