"""Jobs: what a form asks for, carried out in processes of their own, one at a time on each device.

dispatcher.py   claims jobs in the store, starts their processes, ends them
  └─ work.py    (beside this package) a job's process: carries the request out, writes the result
messages.py     what that process says as JSON lines, and the state of a job that follows from it
live.py         the states of running jobs, for those who watch

The files of a job lie in the folder ``jobs/ID`` of the studio, and runs go into the store as with the command line.
"""

from edgewise.studio.jobs.dispatcher import Dispatcher
from edgewise.studio.jobs.live import Live

__all__ = ["Dispatcher", "Live"]
