"""What an entry may use."""

from dataclasses import dataclass

from coursekit.sandbox.limits import Limits

OVER = 1.1  # times its budget: there an entry is stopped
OURS = 32.0  # the mean lead over the baseline of the chapter's agent after eighty rounds, some ten CPU seconds, in six worlds
DECIDING = 5.0  # CPU seconds that a policy has for the judge's episodes, beside what it left of its budget


@dataclass(frozen=True)
class Rules:
    """What an entry may use, and where it runs; `seed`, of the world and the judge's episodes, is secret and new where it is None."""

    seconds: float = 60.0  # CPU seconds; in the league by the clock, seconds
    by_clock: bool = False  # the slow simulator, a sampler that is killed, and `cores` cores
    cores: int = 2
    seed: int | None = None
    isolated: bool = True
    memory_mb: int = 6000
    learning_clock: float = 0.0  # seconds by the clock; 0: enough for a busy machine, too little to wait forever
    deciding_clock: float = 120.0  # for all of the judge's episodes
    imports: bool = True  # Ray, torch and the course are there from the start, and cost the entry nothing

    @property
    def clock(self) -> float:
        """Return the seconds by the clock that learning may take."""
        return self.learning_clock or (OVER * self.seconds if self.by_clock else 60 + 5 * self.seconds)

    @property
    def most(self) -> float:
        """Return the CPU seconds at which learning is stopped: by the clock, what that many cores can compute."""
        return OVER * self.seconds * (self.cores if self.by_clock else 1)

    def limits(self) -> Limits:
        """Return them as grading's sandbox knows them."""
        total = self.clock + self.deciding_clock + 60
        return Limits(self.clock, total, self.memory_mb, output_bytes=4_000_000, reply_bytes=4_000_000)
