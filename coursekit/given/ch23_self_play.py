"""What chapter 23 hands out, and the probes that drive its answers."""

import os
from collections.abc import Callable
from typing import Any, TypedDict

import numpy as np
from gymnasium.spaces import Box, Discrete

from coursekit.given import four
from coursekit.given.recorded import recorded
from coursekit.ray_bridge import rendezvous


class ZooBridge:
    """The bridge in the words of PettingZoo's `ParallelEnv`; it follows that signature and does not import PettingZoo."""

    metadata = {"name": "bridge_v0"}  # noqa: RUF012

    def __init__(self, bridge: Any):
        self._bridge = bridge
        self.possible_agents = ["north", "south"]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Box:
        """Return what an agent sees."""
        return self._bridge.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """Return what an agent may do."""
        return self._bridge.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Return observations and infos, one of each for every agent; all agents are there again."""
        self.agents = list(self.possible_agents)
        observations, _ = self._bridge.reset(seed=seed, options=options)
        return observations, {agent: {} for agent in self.agents}

    def step(self, actions: dict) -> tuple[dict, dict, dict, dict, dict]:
        """Return observations, rewards, terminations, truncations, infos: one of each for every agent that acted."""
        observations, rewards, terminateds, truncateds, _ = self._bridge.step(actions)
        late = truncateds["__all__"]
        terminations = {agent: bool(terminateds.get(agent, False)) for agent in actions}
        truncations = {agent: bool(late and not terminations[agent]) for agent in actions}
        self.agents = [agent for agent in actions if not (terminations[agent] or truncations[agent])]
        return observations, rewards, terminations, truncations, {agent: {} for agent in actions}

    def close(self) -> None:
        """Close nothing: there is no window."""


def against_the_newest(seed: int, rounds: int, steps: int, games: int) -> list[four.Player]:
    """Return the members of a league that is raised against its newest member only."""
    rng, learner = np.random.default_rng(seed), four.Learner(four.new_player(seed))
    members = [learner.player()]
    for _ in range(rounds):
        for _ in range(steps):
            seeds = rng.integers(2**31, size=2).tolist()
            learner.learn(*(four.collect(learner.player(), members[-1], games, each) for each in seeds))
        members.append(learner.player())
    return members


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class Member:
    """Stands in for a player: it has a strength, and notes each process that opens it."""

    def __init__(self, point: str, number: int, strength: float):
        self.point, self.number, self.strength = point, number, strength

    def __setstate__(self, state: dict) -> None:
        self.__dict__ |= state
        rendezvous.note(self.point, f"opened {self.number} {os.getpid()}", True)


def _match_in(point: str, meets: list[list[int]], bonus: float) -> Callable:
    """Return a match between stand-ins, as a function; two of the matches wait until both are being played."""

    def match(first: Any, second: Any, games: int, seed: int = 0) -> float:
        """Return the points of the first, who has a little bonus for beginning."""
        pair = [first.number, second.number]
        if pair in meets:
            me = meets.index(pair)
            rendezvous.note(point, f"met {me}", rendezvous.meets(point, me, 1 - me))
        share = 1 / (1 + np.exp(second.strength - first.strength - bonus))
        return float(round(games * share * 2) / 2)

    return match


class Tournament(TypedDict):
    """The table of a league, whether two matches were being played at the same time, and which members this process opened."""

    table: Any
    met: bool
    opened_here: list[int]


def tournament(
    league: Callable, strengths: list[float], bonus: float, games: int, meets: list[list[int]]
) -> Tournament:
    """Return the table of a league of stand-ins, whether two matches met, and which members this process opened."""
    import ray

    point = rendezvous.new_point()
    members = [ray.put(Member(point, number, strength)) for number, strength in enumerate(strengths)]
    table = league(_match_in(point, meets, bonus), members, games)
    opened = [number for number in range(len(members)) if rendezvous.noted(point, f"opened {number} {os.getpid()}")]
    return {"table": table, "met": all(rendezvous.noted(point, f"met {me}") for me in (0, 1)), "opened_here": opened}


class League(TypedDict):
    """What came back as a league, and its players where these are refs."""

    returned: str
    players: list[dict[str, np.ndarray]]


def raised_by_itself(beats_its_past: Callable, seed: int, rounds: int) -> League:
    """Return the players that a league consists of after its rounds, as arrays."""
    import ray

    members = beats_its_past(seed, rounds)
    if not isinstance(members, list | tuple):
        return {"returned": type(members).__name__, "players": []}
    kinds = sorted({type(member).__name__ for member in members})
    if kinds != ["ObjectRef"]:
        return {"returned": f"list of {', '.join(kinds) or 'nothing'}", "players": []}
    return {
        "returned": "refs",
        "players": [dict(player) for player in ray.get(list(members))],
    }


class Step(TypedDict):
    """What a step of an environment returned, but the infos."""

    observations: dict
    rewards: dict
    terminateds: dict
    truncateds: dict


class Story(TypedDict):
    """What the bridge returned: for `reset`, and for each step of a plan."""

    reset: list[Any]
    steps: list[Step]


def play_plan(bridge: Any, plan: list[dict]) -> Story:
    """Return what the bridge returns for a plan, a dict of actions for each step."""
    env = bridge()
    reset, steps = list(env.reset(seed=0)), []
    for actions in plan:
        observations, rewards, terminateds, truncateds, _ = map(dict, env.step(actions))
        step: Step = {
            "observations": observations,
            "rewards": rewards,
            "terminateds": terminateds,
            "truncateds": truncateds,
        }
        steps.append(step)
    return {"reset": reset, "steps": steps}


def sampled_bridge(bridge: Any, episodes: int) -> list[tuple[int, dict[str, float]]]:
    """Return for each episode that RLlib's MultiAgentEnvRunner played at random: its steps, and every agent's last reward."""
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    config = recorded(bridge, {}).multi_agent(policies={"any"}, policy_mapping_fn=lambda *args, **kwargs: "any")
    runner = MultiAgentEnvRunner(config=config)
    played = runner.sample(num_episodes=episodes, random_actions=True)
    return [
        (episode.env_t, {agent: float(own.get_rewards(-1)) for agent, own in episode.agent_episodes.items()})
        for episode in played
    ]


class Minds(TypedDict):
    """What a function returned: where it is a config, its modules, where it sent each agent, and what each module saw.

    `raised` is what RLlib raised on it.
    """

    returned: str
    raised: str
    modules: list[str]
    mapped: list[tuple[str, str]]
    saw: dict[str, list[float]]


def who_thinks(two_minds: Callable, agents: list[str], numbers: list[float]) -> Minds:
    """Return the modules, where the mapping sent each agent, and which numbers each module saw; agent i sees `numbers[i]`."""
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    config = two_minds(recorded(_roll_call(agents, numbers), {}))
    if not isinstance(config, AlgorithmConfig):
        return {"returned": type(config).__name__, "raised": "", "modules": [], "mapped": [], "saw": {}}
    mapping = config.policy_mapping_fn
    mapped: list[tuple[str, str]] = []
    raised, saw = "", {}

    def noted(agent: str, *args: Any, **kwargs: Any) -> str:
        module = mapping(agent, *args, **kwargs)
        mapped.append((agent, str(module)))
        return module

    config.multi_agent(policy_mapping_fn=noted)

    try:
        runner = MultiAgentEnvRunner(config=config)
        runner.sample(num_timesteps=6)
        saw = {name: sorted({round(row[0], 3) for row in module.saw}) for name, module in runner.module.items()}
    except Exception as error:  # whatever the learner's object makes of it
        raised = f"{type(error).__name__}: {error}"
    modules = sorted(map(str, config.policies))
    return {"returned": "a config", "raised": raised, "modules": modules, "mapped": mapped, "saw": saw}


def _roll_call(agents: list[str], numbers: list[float]) -> Any:
    """Return the class of an environment in which each agent sees its own number, three steps long."""
    from ray.rllib.env.multi_agent_env import MultiAgentEnv

    class RollCall(MultiAgentEnv):
        def __init__(self, config: dict | None = None):
            super().__init__()
            self.agents = self.possible_agents = list(agents)
            self.observation_spaces = {agent: Box(0, 1, (1,), np.float32) for agent in agents}
            self.action_spaces: dict = {agent: Discrete(2) for agent in agents}

        def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
            self.steps = 0
            return self.seen(), {}

        def step(self, actions: dict) -> tuple[dict, dict, dict, dict, dict]:
            self.steps += 1
            over = {"__all__": self.steps == 3}
            return self.seen(), dict.fromkeys(agents, 0.0), over, {"__all__": False}, {}

        def seen(self) -> dict:
            return {agent: np.array([number], np.float32) for agent, number in zip(agents, numbers, strict=True)}

    return RollCall
