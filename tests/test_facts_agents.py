"""What chapter 23 says of environments with several agents and of ratings: each test is one sentence of it."""

import inspect
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from gymnasium.wrappers import TimeLimit
from ray import rllib
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv

from coursekit.author.definitions import definitions
from coursekit.given.recorded import recorded

SPACES = {"north": Box(0, 1, (1,), np.float32), "south": Box(0, 1, (1,), np.float32)}


@cache
def chapter() -> dict:
    return definitions("ch23_self_play")


class Zoo:
    """A parallel environment of three steps, in whose last north terminates and south is truncated."""

    def __init__(self):
        self.agents, self.calls = [], []

    def observation_space(self, agent):
        return SPACES[agent]

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = ["north", "south"], 0
        self.calls.append("reset")
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {}

    def close(self):
        pass

    def step(self, actions):
        self.steps += 1
        self.calls.append(sorted(actions))
        agents, over = self.agents, self.steps == 3
        if over:
            self.agents = []
        terminated = {agent: over and agent == "north" for agent in agents}
        truncated = {agent: over and agent == "south" for agent in agents}
        observations = {agent: np.zeros(1, np.float32) for agent in agents}
        return observations, dict.fromkeys(agents, 0.0), terminated, truncated, {agent: {} for agent in agents}


class Three(MultiAgentEnv):
    """Three steps, in whose first north terminates; it may get an observation after that."""

    def __init__(self, config=None):
        super().__init__()
        self.agents = self.possible_agents = ["north", "south"]
        self.observation_spaces, self.action_spaces = SPACES, dict.fromkeys(SPACES, Discrete(2))
        self.goes_on = (config or {}).get("goes_on", False)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return {agent: np.zeros(1, np.float32) for agent in self.agents}, {}

    def step(self, actions):
        self.steps += 1
        agents = ["north", "south"] if self.steps == 1 or self.goes_on else ["south"]
        seen = {agent: np.zeros(1, np.float32) for agent in agents}
        terminateds = {"north": True} if self.steps == 1 else {}
        over = self.steps == 3
        return seen, dict.fromkeys(agents, 0.0), terminateds | {"__all__": over}, {"__all__": False}, {}


def runner_of(env, mapping=lambda *args, **kwargs: "any", **env_config):
    config = recorded(env, env_config).multi_agent(policies={"any"}, policy_mapping_fn=mapping)
    return MultiAgentEnvRunner(config=config)


def test_if_one_agent_terminates_as_the_other_is_truncated_rllib_records_both_as_terminated_and_steps_once_more():
    zoo = Zoo()
    runner = runner_of(
        type("Wrapped", (ParallelPettingZooEnv,), {"__init__": lambda self, _: super(type(self), self).__init__(zoo)})
    )
    zoo.calls.clear()
    episode, *_ = runner.sample(num_timesteps=5, random_actions=True)
    assert episode.is_terminated
    assert {name: each.is_terminated for name, each in episode.agent_episodes.items()} == {"north": True, "south": True}
    both = ["north", "south"]
    assert zoo.calls[:6] == ["reset", both, both, both, [], "reset"]


def test_pettingzoo_does_not_have_to_be_installed():
    assert find_spec("pettingzoo") is None


def test_an_agent_that_is_done_must_not_appear_in_any_dict_again():
    assert runner_of(Three).sample(num_episodes=1, random_actions=True)[0].env_t == 3
    with pytest.raises(Exception, match="still received data"):
        runner_of(Three, goes_on=True).sample(num_episodes=1, random_actions=True)


def test_an_agent_keeps_its_module_in_an_episode_though_rllib_calls_the_mapping_again_where_it_cuts_it():
    chosen = {}

    def mapping(agent_id, episode, **kwargs):
        calls = chosen.setdefault((episode.id_, agent_id), [])
        calls.append("any" if not calls else "other")
        return calls[-1]

    config = recorded(Three, {}).multi_agent(policies={"any", "other"}, policy_mapping_fn=mapping)
    runner = MultiAgentEnvRunner(config=config)
    chunks = [chunk for _ in range(4) for chunk in runner.sample(num_timesteps=2, random_actions=True)]
    assert max(map(len, chosen.values())) > 1
    assert {each.module_id for chunk in chunks for each in chunk.agent_episodes.values()} == {"any"}


def test_a_time_limit_sets_truncated_to_true_where_rllib_expects_a_dict():
    env = TimeLimit(Three(), max_episode_steps=1)
    env.reset()
    assert env.step({"north": 0, "south": 0})[3] is True


def test_what_the_robots_can_earn_lies_between_minus_2_and_1_at_a_discount_of_0_9():
    waits = -0.2 * sum(0.9**step for step in range(20))
    falls = -0.2 * sum(0.9**step for step in range(19)) - 0.9**19
    assert -2 < falls < waits < 1


def test_rllib_has_the_parts_of_a_league():
    source = Path(rllib.__file__).parent / "examples/multi_agent/self_play_league_based_with_open_spiel.py"
    assert 'policies_to_train=["main"]' in source.read_text(encoding="utf-8")
    callback = source.parent / "utils/self_play_league_based_callback.py"
    used = callback.read_text(encoding="utf-8")
    assert all(part in used for part in ("on_train_result", "add_module(", "set_state(", "get_state()"))
    assert {"add_module", "get_module", "set_state"} <= set(dict(inspect.getmembers(Algorithm)))


def test_rating_samples_count_the_drawn_game_once():
    """With it counted twice, the ratings of a table would lie between their samples' mean and the average player."""
    names, rng = chapter(), np.random.default_rng(0)
    table = np.array([[0, 90, 99], [10, 0, 70], [1, 30, 0]], float)
    samples = np.concatenate([names["rating_samples"](table, rng) for _ in range(5)])
    error = samples.std(axis=0) / np.sqrt(len(samples))
    assert np.abs(np.median(samples, axis=0) - names["elo"](table)).max() < 5 * error.max()


def test_two_intervals_can_overlap_although_that_of_the_difference_excludes_0():
    rng = np.random.default_rng(0)
    first, second = rng.normal([1080, 1130], 15.3, (100_000, 2)).T
    ends = [np.percentile(each, [2.5, 97.5]).round(-1) for each in (first, second)]
    assert ends[0][1] > ends[1][0]
    low, high = np.percentile(second - first, [2.5, 97.5])
    assert (low, high) == (pytest.approx(8, abs=2), pytest.approx(92, abs=2))


def test_each_response_to_the_latest_loses_to_the_one_before_that_and_responses_to_all_lose_less_and_less():
    gain = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]])
    names = chapter()
    names["responses"].__globals__["GAIN"] = gain
    latest, everyone = (names["responses"](30, to_all) for to_all in (False, True))
    gains = latest @ gain @ latest.T
    assert all(gains[i, i - 1] > 0.5 for i in range(1, 31))
    assert all(gains[i, i - 2] < -0.5 for i in range(2, 31))
    far = np.abs(everyone - 1 / 3).max(axis=1)
    assert far[30] < far[10] < far[0]


def test_the_centralized_critic_teaches_faster_and_its_runs_are_closer_together():
    ends = {both: [np.mean(chapter()["porters"](both, seed)) for seed in range(20)] for both in (False, True)}
    assert np.mean(ends[True]) > np.mean(ends[False]) + 0.05
    assert np.std(ends[True]) < np.std(ends[False]) / 3
