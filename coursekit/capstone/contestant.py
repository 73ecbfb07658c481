"""An entry in its sandbox, as the judge meets it: it is told to learn, then asked for actions, and ended when it goes too far."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from coursekit.capstone.actor_killer import Strike
from coursekit.capstone.entry import Entry, EntryFailed, printable
from coursekit.capstone.referee import NotActions, checked
from coursekit.capstone.rules import DECIDING, Rules
from coursekit.capstone.usage_watch import Curve, Watch, separated
from coursekit.judging import wire
from coursekit.sandbox.limits import SandboxDied
from coursekit.sandbox.nursery import NurseryFailed
from coursekit.sandbox.sandbox import Sandbox

# Where an entry lives: no sandbox can open it, so its nursery brings it along.
INSIDE = "coursekit.capstone.entry_process"
NO_ANSWER = "its process sent something that is not an answer."
EARLIER = "Stop sooner: continue only while `budget.left()` is enough for another iteration."


class Learned(NamedTuple):
    """What learning cost, in CPU seconds and by the clock, what was printed, and the curve: the entry's own word."""

    cpu: float
    wall: float
    output: str
    curve: Curve


class Contestant:
    """One entry in one sandbox; whatever it does wrong ends in EntryFailed."""

    def __init__(self, entry: Entry, rules: Rules, sandbox: Sandbox, tick: Callable[[float], object], world: int = 0):
        self._entry, self._rules, self._sandbox = entry, rules, sandbox
        began = sandbox.run(f"from {INSIDE} import decide, learn, prepare, result")
        if began.error:
            raise NurseryFailed(f"The capstone could not be loaded in its sandbox: {began.error['message']}.")
        self._curve, self._until = Curve(), 0.0
        self._over = ""  # what is said where too many CPU seconds were used
        self._ask("prepare", 60.0, entry.source, entry.file, rules.seconds, world, rules.by_clock)
        self.watch = Watch(sandbox, tick)
        self.strike = Strike(sandbox.pid, rules.seconds)

    def learn(self) -> Learned:
        """Have it learn until it returns a policy."""
        rules, watch = self._rules, self.watch
        watch.limit = rules.most
        self._over = (
            f"it used more than {rules.most:.4g} of its {rules.seconds:.4g} CPU seconds, and was stopped. {EARLIER}"
        )
        began = time.monotonic()
        if rules.by_clock:
            self._over = (
                f"it used more than the {rules.most:.4g} CPU seconds that {rules.cores} cores have, and was stopped."
            )
            self.strike.begin(watch)
        try:
            told = self._sandbox.run("learn()", rules.clock)
        except SandboxDied as died:
            _, self._curve = separated(self._sandbox.last_output(), rules.most)
            raise self._ended(died) from None
        output, self._curve = separated(told.output, rules.most)
        late = bool(told.error and told.error["kind"] == "TimeoutError")
        # A busy process is given more time to stop.
        if rules.by_clock and (late or time.monotonic() - began > rules.clock):
            raise self._failed(
                f"it had {rules.seconds:.4g} s of wall-clock time and took more than {rules.clock:.4g}. {EARLIER}{self._struck()}"
            )
        if late:
            raise self._failed(
                f"it was stopped after {rules.clock:.0f} s of wall-clock time, of which it computed for {watch.spent():.1f} s, so it "
                f"mostly waited. A Ray task that requests more CPUs than there are waits forever."
            )
        problem = self._ask("result", 60.0).get("failed")  # which an entry can replace, so it is part of learning
        wall, cpu = time.monotonic() - began, watch.spent()
        watch.also = lambda: None  # what has learned is safe
        if cpu > watch.limit:
            raise self._failed(self._over)
        if problem:
            raise self._failed(f"{problem}.{self._struck()}")
        return Learned(cpu, wall, output, self._curve)

    def be_asked(self, learned: Learned) -> None:
        """Get ready for the judge's episodes: what a policy may use for all of them counts from here."""
        left = 0.0 if self._rules.by_clock else self._rules.seconds - learned.cpu
        seconds = DECIDING + max(0.0, left)
        self._over = self._too_slow(f"{seconds:.4g} CPU seconds")
        self.watch.limit = self.watch.spent() + seconds
        self._until = time.monotonic() + self._rules.deciding_clock

    def counted(self, learned: Learned) -> Learned:
        """Return what learning cost, once all is judged: what deciding took beyond its own seconds was left for learning."""
        return learned._replace(cpu=max(learned.cpu, self.watch.spent() - DECIDING))

    def decide(self, observations: np.ndarray) -> np.ndarray:
        """Return the actions of its policy, int [N], for observations [N, K]; both travel as plain data."""
        reply = self._ask("decide", max(0.1, self._until - time.monotonic()), observations)
        if "failed" in reply:
            raise self._failed(f"{reply['failed']}.")
        try:
            return checked(reply.get("actions"), len(observations))
        except NotActions as problem:
            raise self._failed(str(problem)) from None

    def _ask(self, name: str, seconds: float, *args: object) -> dict[str, Any]:
        """Return what a function of `inside` returns, {} for None."""
        request = wire.encode({"op": "call", "args": args})
        try:
            value, raised = _opened(self._sandbox.ask(name, request, seconds))
        except SandboxDied as died:
            raise self._ended(died) from None
        except (ValueError, KeyError, TypeError):
            raise self._failed(NO_ANSWER) from None
        if raised.get("kind") == "TimeoutError":
            raise self._failed(self._too_slow(f"{self._rules.deciding_clock:.0f} s of wall-clock time"))
        if raised:
            raise self._failed(f"its policy can't be asked for actions. {raised.get('message')}")
        return value

    def _struck(self) -> str:
        """Return what the judge has done to the entry, "" for nothing."""
        return (
            f" The judge had killed one of its actors, {self.strike.victim}: continue without it, or start another one."
            if self.strike.victim
            else ""
        )

    def _too_slow(self, limit: str) -> str:
        return f"its policy is too slow: the judge's episodes took more than {limit}. Compute the actions of all observations together, in NumPy or PyTorch."

    def _failed(self, reason: str) -> EntryFailed:
        return EntryFailed(f"{self._entry.file}: {printable(reason)[:2000]}", self._curve)

    def _ended(self, died: SandboxDied) -> Exception:
        """Return why an entry whose sandbox has ended gets no score."""
        if self.watch.passed:
            return self._failed(self._over)
        if self._sandbox.lost():
            return NurseryFailed("The sandbox was lost, through no fault of the entry. Run it again.")
        if "memory" in died.reason:
            return self._failed(f"it {died.reason}. Use less: fewer environments at a time, or smaller buffers.")
        if "longer" in died.reason:
            return self._failed(f"it {died.reason}, and it didn't stop when it was interrupted.")
        return self._failed(
            f"it {died.reason}. It has to return a policy and keep running until the policy has been evaluated."
        )


def _opened(reply: bytes) -> tuple[dict, dict]:
    """Return value and exception of a reply, {} where there is none; raises ValueError, KeyError or TypeError for another thing."""
    told = wire.decode(reply)
    value, raised = (told["value"], None) if "value" in told else (None, told["raised"])
    if not isinstance(value, dict | None) or not isinstance(raised, dict | None):
        raise ValueError("not what was asked for")
    return value or {}, raised or {}
