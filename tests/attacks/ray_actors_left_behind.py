"""Starts a Ray, leaves detached actors and endless tasks in it, and never stops it."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import ray, time

ray.init(num_cpus=2, include_dashboard=False, namespace="left")

@ray.remote(num_cpus=0, lifetime="detached", name="left by an attack")
class Stays:
    def ping(self):
        return 1

@ray.remote(num_cpus=0)
def endless():
    time.sleep(STAY_SECONDS)

actor = Stays.remote()
ray.get(actor.ping.remote())
refs = [endless.remote() for _ in range(2)]
"""
}
