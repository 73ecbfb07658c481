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
    """The bridge with the signatures of PettingZoo's `ParallelEnv`; it doesn't import PettingZoo."""

    metadata = {"name": "bridge_v0"}  # noqa: RUF012

    def __init__(self, bridge: Any):
        self._bridge = bridge
        self.possible_agents = ["north", "south"]
        self.agents: list[str] = []

    def observation_space(self, agent: str) -> Box:
        """Return the space of an agent's observations."""
        return self._bridge.observation_spaces[agent]

    def action_space(self, agent: str) -> Discrete:
        """Return the space of an agent's actions."""
        return self._bridge.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        """Return observations and infos of all agents, which are back in the game."""
        self.agents = list(self.possible_agents)
        observations, _ = self._bridge.reset(seed=seed, options=options)
        return observations, {agent: {} for agent in self.agents}

    def step(self, actions: dict) -> tuple[dict, dict, dict, dict, dict]:
        """Return five dicts with a key for each agent that acted: observations, rewards, terminations, truncations, infos."""
        observations, rewards, terminateds, truncateds, _ = self._bridge.step(actions)
        late = truncateds["__all__"]
        terminations = {agent: bool(terminateds.get(agent, False)) for agent in actions}
        truncations = {agent: bool(late and not terminations[agent]) for agent in actions}
        self.agents = [agent for agent in actions if not (terminations[agent] or truncations[agent])]
        return observations, rewards, terminations, truncations, {agent: {} for agent in actions}

    def close(self) -> None:
        """Do nothing, because there is no window to close."""


def against_the_latest(seed: int, rounds: int, steps: int, games: int) -> list[four.Player]:
    """Return the snapshots of a league whose player meets only the latest of them."""
    rng, learner = np.random.default_rng(seed), four.Learner(four.new_player(seed))
    snapshots = [learner.player()]
    for _ in range(rounds):
        for _ in range(steps):
            seeds = rng.integers(2**31, size=2).tolist()
            learner.learn(*(four.collect(learner.player(), snapshots[-1], games, each) for each in seeds))
        snapshots.append(learner.player())
    return snapshots


against_the_newest = against_the_latest  # as notebooks of 0.2 import it


# Probes: each drives a learner's object with the judge's inputs, and returns raw results.


class StandIn:
    """Stands in for a player: it has a strength, and records each process that opens it."""

    def __init__(self, point: str, number: int, strength: float):
        self.point, self.number, self.strength = point, number, strength

    def __setstate__(self, state: dict) -> None:
        self.__dict__ |= state
        rendezvous.note(self.point, f"opened {self.number} {os.getpid()}", True)


def _match_in(point: str, meets: list[list[int]], bonus: float) -> Callable:
    """Return a match between stand-ins, as a function; two of the matches wait until both of them are running."""

    def match(first: Any, second: Any, games: int, seed: int = 0) -> float:
        """Return the points of the first, which gets a bonus for moving first."""
        pair = [first.number, second.number]
        if pair in meets:
            me = meets.index(pair)
            rendezvous.note(point, f"met {me}", rendezvous.meets(point, me, 1 - me))
        share = 1 / (1 + np.exp(second.strength - first.strength - bonus))
        return float(round(games * share * 2) / 2)

    return match


class Tournament(TypedDict):
    """The table of a league, whether two matches ran at the same time, and which snapshots this process opened."""

    table: Any
    met: bool
    opened_here: list[int]


def tournament(
    league: Callable, strengths: list[float], bonus: float, games: int, meets: list[list[int]]
) -> Tournament:
    """Return the table of a league of stand-ins, whether two matches met, and which snapshots this process opened."""
    import ray

    point = rendezvous.new_point()
    snapshots = [ray.put(StandIn(point, number, strength)) for number, strength in enumerate(strengths)]
    table = league(_match_in(point, meets, bonus), snapshots, games)
    opened = [number for number in range(len(snapshots)) if rendezvous.noted(point, f"opened {number} {os.getpid()}")]
    return {"table": table, "met": all(rendezvous.noted(point, f"met {me}") for me in (0, 1)), "opened_here": opened}


class League(TypedDict):
    """What came back as a league, its players if these are refs, and of each call of `play_against` the seed, who played, and who was met.

    Both are places among the players; one that isn't among them counts as -1.
    """

    returned: str
    players: list[dict[str, np.ndarray]]
    played: list[int]
    met: list[int]
    seeds: list[int]


class _Referee:
    """Passes calls of `play_against` on, and keeps their players, opponents, and seeds."""

    def __init__(self, play_against: Any):
        self._play_against = play_against
        self.mine: list[Any] = []
        self.opponents: list[Any] = []
        self.seeds: list[int] = []

    def remote(self, me: Any, other: Any, games: int, seed: int) -> Any:
        self.mine.append(me)
        self.opponents.append(other)
        self.seeds.append(int(seed))
        return self._play_against.remote(me, other, games, seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._play_against, name)


def raised_by_itself(beats_its_past: Callable, seed: int, rounds: int) -> League:
    """Return the players that a league consists of after its rounds, as arrays, and which of them its games were against."""
    import ray

    names = getattr(beats_its_past, "__globals__", {})
    play_against = names.get("play_against")
    referee = _Referee(play_against)
    if play_against is not None:
        names["play_against"] = referee
    try:
        snapshots = beats_its_past(seed, rounds)
    finally:
        if play_against is not None:
            names["play_against"] = play_against
    if not isinstance(snapshots, list | tuple):
        return {"returned": type(snapshots).__name__, "players": [], "played": [], "met": [], "seeds": []}
    kinds = sorted({type(snapshot).__name__ for snapshot in snapshots})
    if kinds != ["ObjectRef"]:
        held = ", ".join(kinds) or "nothing"
        return {"returned": f"list of {held}", "players": [], "played": [], "met": [], "seeds": []}
    players = [dict(player) for player in ray.get(list(snapshots))]
    played, met = _places(players, referee.mine), _places(players, referee.opponents)
    return {"returned": "refs", "players": players, "played": played, "met": met, "seeds": referee.seeds}


def _places(players: list[dict], seen: list) -> list[int]:
    """Return for each of those seen, a ref or a player, its place among these players, -1 for none of them."""
    import ray

    def weights(player: dict) -> bytes:
        return b"".join(np.asarray(player[name]).tobytes() for name in sorted(player))

    places = {weights(player): place for place, player in enumerate(players)}
    refs = {each for each in seen if isinstance(each, ray.ObjectRef)}
    known = {ref: places.get(weights(ray.get(ref)), -1) for ref in refs}
    return [known[each] if isinstance(each, ray.ObjectRef) else places.get(weights(each), -1) for each in seen]


class Step(TypedDict):
    """What a step of an environment returned, without the infos."""

    observations: dict
    rewards: dict
    terminateds: dict
    truncateds: dict


class Story(TypedDict):
    """What the bridge returned for `reset` and for each step of a plan."""

    reset: list[Any]
    steps: list[Step]


def play_plan(bridge: Any, plan: list[dict]) -> Story:
    """Return what the bridge returns for a plan, which is a dict of actions for each step."""
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
    """Return the steps and each agent's last reward of every episode that RLlib's MultiAgentEnvRunner sampled with random actions."""
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    config = recorded(bridge, {}).multi_agent(policies={"any"}, policy_mapping_fn=lambda *args, **kwargs: "any")
    runner = MultiAgentEnvRunner(config=config)
    played = runner.sample(num_episodes=episodes, random_actions=True)
    return [
        (episode.env_t, {agent: float(own.get_rewards(-1)) for agent, own in episode.agent_episodes.items()})
        for episode in played
    ]


class Minds(TypedDict):
    """What a function returned; if that's a config, also its modules, where it sent each agent, and what each module observed.

    `raised` is what RLlib raised because of it.
    """

    returned: str
    raised: str
    modules: list[str]
    mapped: list[tuple[str, str]]
    saw: dict[str, list[float]]


def who_thinks(two_minds: Callable, agents: list[str], numbers: list[float]) -> Minds:
    """Return the modules, where the mapping sent each agent, and which numbers each module observed; agent i observes `numbers[i]`."""
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
    except Exception as error:  # whatever the learner's object raises
        raised = f"{type(error).__name__}: {error}"
    modules = sorted(map(str, config.policies))
    return {"returned": "a config", "raised": raised, "modules": modules, "mapped": mapped, "saw": saw}


def _roll_call(agents: list[str], numbers: list[float]) -> Any:
    """Return the class of an environment of three steps, in which each agent observes its own number."""
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
