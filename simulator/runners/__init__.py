"""Runners carry out the work of clients and server: one small interface (base), in this process or on Ray."""

from simulator.runners import in_process as in_process
from simulator.runners import ray as ray
from simulator.runners.base import POLL_SECONDS as POLL_SECONDS
from simulator.runners.base import Decision as Decision
from simulator.runners.base import Finished as Finished
from simulator.runners.base import Gate as Gate
from simulator.runners.base import Job as Job
from simulator.runners.base import Jobs as Jobs
from simulator.runners.base import Listener as Listener
from simulator.runners.base import LocalUpdate as LocalUpdate
from simulator.runners.base import RoundInterrupted as RoundInterrupted
from simulator.runners.base import Runner as Runner
from simulator.runners.base import Work as Work
from simulator.runners.base import always_go as always_go
from simulator.runners.base import carry_out as carry_out
from simulator.runners.base import get as get
from simulator.runners.base import names as names
from simulator.runners.base import names_within as names_within
from simulator.runners.base import register as register
