"""Many rules of response on rings of units, and suites of them."""

from popsim.tasks.rings import direction_codes, driscoll_tasks, ideal_rings, ring_rules, ring_task, yang_tasks
from popsim.tasks.rings.direction_codes import *
from popsim.tasks.rings.driscoll_tasks import *
from popsim.tasks.rings.ideal_rings import *
from popsim.tasks.rings.ring_rules import *
from popsim.tasks.rings.ring_task import *
from popsim.tasks.rings.yang_tasks import *

__all__: list[str] = []
__all__ += direction_codes.__all__
__all__ += driscoll_tasks.__all__
__all__ += ideal_rings.__all__
__all__ += ring_rules.__all__
__all__ += ring_task.__all__
__all__ += yang_tasks.__all__
