"""Starts a Ray cluster as a daemon that is meant to live on when the notebook has ended, and fills its object store."""

SCORE = 2
REASON = ""
CELLS = {
    "first": """
import os, subprocess, sys

ray_command = os.path.join(os.path.dirname(sys.executable), "ray")
subprocess.run([ray_command, "start", "--head", "--include-dashboard=false", "--num-cpus=1", "--port=6399"], check=True)
import ray
ray.init(address="127.0.0.1:6399")
import numpy as np
kept = [ray.put(np.ones(4_000_000)) for _ in range(4)]
ray.shutdown()
"""
}
