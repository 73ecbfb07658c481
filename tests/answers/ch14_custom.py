"""Right and wrong answers of chapter 14."""

import gymnasium
import numpy as np
import torch
from gymnasium.spaces import Box
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module.observation_preprocessor import SingleAgentObservationPreprocessor
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis import ValueFunctionAPI
from ray.rllib.core.rl_module.torch import TorchRLModule
from torch import nn

from tests.answers import accepts, rejects

RAY = {"num_cpus": 2}


# Rescale: a connector that maps every number to -1 ... 1


class Preprocessor(SingleAgentObservationPreprocessor):
    """The right space; `preprocess` is up to the sample."""

    def recompute_output_observation_space(self, space, actions):
        return Box(-1, 1, space.shape, np.float32)

    def preprocess(self, observation, episode):
        space = self.input_observation_space
        return (2 * (observation - space.low) / (space.high - space.low) - 1).astype(np.float32)


@accepts("Rescale")
class FromTheMiddle(Preprocessor):
    def preprocess(self, observation, episode):
        space = self.input_observation_space
        middle, half = (space.high + space.low) / 2, (space.high - space.low) / 2
        return np.asarray((observation - middle) / half, np.float32)


@accepts("Rescale")
class APlainConnectorThatWritesIntoTheEpisode(ConnectorV2):
    def recompute_output_observation_space(self, space, actions):
        return Box(-1.0, 1.0, space.shape, np.float32)

    def __call__(self, *, batch, episodes, **kwargs):
        low, high = self.input_observation_space.low, self.input_observation_space.high
        for episode in self.single_agent_episode_iterator(episodes):
            new = 2 * (episode.get_observations(-1) - low) / (high - low) - 1
            episode.set_observations(at_indices=-1, new_data=new.astype(np.float32))
            episode.observation_space = self.observation_space
        return batch


@accepts("Rescale")
class RemembersTheScale(Preprocessor):
    def recompute_output_observation_space(self, space, actions):
        self.scale = 2 / (space.high - space.low)
        self.shift = -1 - space.low * self.scale
        return Box(-1, 1, space.shape)

    def preprocess(self, observation, episode):
        return observation * self.scale + self.shift


@rejects("Rescale")
class ChangesOnlyTheBatch(ConnectorV2):
    def recompute_output_observation_space(self, space, actions):
        return Box(-1.0, 1.0, space.shape, np.float32)

    def __call__(self, *, batch, episodes, **kwargs):
        low, high = self.input_observation_space.low, self.input_observation_space.high
        for episode in self.single_agent_episode_iterator(episodes):
            new = 2 * (episode.get_observations(-1) - low) / (high - low) - 1
            self.add_batch_item(batch, "obs", new.astype(np.float32), episode)
        return batch


@rejects("Rescale")
class FromZeroToOne(Preprocessor):
    def preprocess(self, observation, episode):
        space = self.input_observation_space
        return ((observation - space.low) / (space.high - space.low)).astype(np.float32)


@rejects("Rescale")
class KnowsOnlyTheBalloon(Preprocessor):
    def preprocess(self, observation, episode):
        low, high = np.array([89_000, -5, -1]), np.array([101_400, 5, 1])
        return (2 * (observation - low) / (high - low) - 1).astype(np.float32)


@rejects("Rescale", says="the module received")
class OneRangeForAllNumbers(Preprocessor):
    def preprocess(self, observation, episode):
        low, high = self.input_observation_space.low.min(), self.input_observation_space.high.max()
        return (2 * (observation - low) / (high - low) - 1).astype(np.float32)


@rejects("Rescale", says="the module received")
class TakesTheNewSpaceForTheOld(Preprocessor):
    def preprocess(self, observation, episode):
        space = self.observation_space
        return (2 * (observation - space.low) / (space.high - space.low) - 1).astype(np.float32)


@rejects("Rescale")
class ForgetsTheSpace(Preprocessor):
    def recompute_output_observation_space(self, space, actions):
        return space


@rejects("Rescale", says="(2, 3)")
class ASpaceOfOneDimension(Preprocessor):
    def recompute_output_observation_space(self, space, actions):
        return Box(-1, 1, (space.shape[0],), np.float32)


@rejects("Rescale")
class ForgetsToReturn(Preprocessor):
    def preprocess(self, observation, episode):
        Preprocessor.preprocess(self, observation, episode)


# ScoreEach: one small network for all nodes


def small(features, hidden):
    return nn.Sequential(nn.Linear(features, hidden), nn.Tanh(), nn.Linear(hidden, 1))


class Scores(TorchRLModule, ValueFunctionAPI):
    """The right module; the samples change a part of it."""

    def setup(self):
        features, hidden = self.observation_space.shape[-1], self.model_config["hidden"]
        self.score, self.worth = small(features, hidden), small(features, hidden)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS]).squeeze(-1)}

    def compute_values(self, batch, embeddings=None):
        return self.worth(batch[Columns.OBS]).mean(dim=(-2, -1))


@accepts("ScoreEach")
class OneNetworkWithTwoHeads(Scores):
    def setup(self):
        features, hidden = self.observation_space.shape[-1], self.model_config["hidden"]
        self.body = nn.Sequential(nn.Linear(features, hidden), nn.ReLU())
        self.heads = nn.Linear(hidden, 2)

    def _forward(self, batch, **kwargs):
        return {"action_dist_inputs": self.heads(self.body(batch["obs"]))[..., 0]}

    def compute_values(self, batch, embeddings=None):
        return self.heads(self.body(batch["obs"]))[..., 1].mean(-1)


@rejects("ScoreEach")
class FlattensTheTable(Scores):
    def setup(self):
        nodes, features = self.observation_space.shape
        self.score = nn.Sequential(nn.Flatten(), nn.Linear(nodes * features, 16), nn.Tanh(), nn.Linear(16, nodes))
        self.worth = small(features, 16)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS])}


@rejects("ScoreEach", says="shapes cannot be multiplied")
class TakesTheNodesForTheFeatures(Scores):
    def setup(self):
        nodes, hidden = self.observation_space.shape[0], self.model_config["hidden"]
        self.score, self.worth = small(nodes, hidden), small(nodes, hidden)


@rejects("ScoreEach", says="one network computes both")
class ScoresAreTheValues(Scores):
    def compute_values(self, batch, embeddings=None):
        return self.score(batch[Columns.OBS]).mean(dim=(-2, -1))


@rejects("ScoreEach", says="the scores are exactly halfway")
class ScoresWithoutABend(Scores):
    def setup(self):
        super().setup()
        self.score[1] = nn.Identity()


@rejects("ScoreEach", says="the values are exactly halfway")
class ValuesWithoutABend(Scores):
    def setup(self):
        super().setup()
        self.worth[1] = nn.Identity()


@rejects("ScoreEach", says="returned a Tensor")
class ReturnsTheScoresAlone(Scores):
    def _forward(self, batch, **kwargs):
        return self.score(batch[Columns.OBS]).squeeze(-1)


@rejects("ScoreEach")
class AValueForEachNode(Scores):
    def compute_values(self, batch, embeddings=None):
        return self.worth(batch[Columns.OBS]).squeeze(-1)


@rejects("ScoreEach", says="The scores have the shape")
class ScoresKeepTheirLastDimension(Scores):
    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS])}


@rejects("ScoreEach")
class ReturnsProbabilities(Scores):
    def _forward(self, batch, **kwargs):
        scores = self.score(batch[Columns.OBS]).squeeze(-1)
        return {Columns.ACTION_DIST_INPUTS: torch.softmax(scores, dim=-1)}


@rejects("ScoreEach")
class ReturnsActions(Scores):
    def _forward(self, batch, **kwargs):
        return {Columns.ACTIONS: self.score(batch[Columns.OBS]).squeeze(-1).argmax(-1)}


@rejects("ScoreEach")
class ValueOfTheFirstNode(Scores):
    def compute_values(self, batch, embeddings=None):
        return self.worth(batch[Columns.OBS])[:, 0, 0]


@rejects("ScoreEach", says="isn't the mean of their values")
class ValuesAreAddedUp(Scores):
    def compute_values(self, batch, embeddings=None):
        return self.worth(batch[Columns.OBS]).sum(dim=(-2, -1))


@rejects("ScoreEach", says="isn't the mean of their values")
class ValueOfTheMeanNode(Scores):
    def compute_values(self, batch, embeddings=None):
        return self.worth(batch[Columns.OBS].mean(dim=1)).squeeze(-1)


@rejects("ScoreEach")
class SixteenUnitsWhateverIsAsked(Scores):
    def setup(self):
        features = self.observation_space.shape[-1]
        self.score, self.worth = small(features, 16), small(features, 16)


@rejects("ScoreEach", says="in both networks")
class SixteenUnitsForTheValues(Scores):
    def setup(self):
        super().setup()
        self.worth = small(self.observation_space.shape[-1], 16)


@rejects("ScoreEach", says="didn't change the values")
class CutsTheValuesOffTheGradient(Scores):
    def compute_values(self, batch, embeddings=None):
        with torch.no_grad():
            return super().compute_values(batch)


@rejects("ScoreEach")
class LayersInAPlainList(Scores):
    def setup(self):
        features, hidden = self.observation_space.shape[-1], self.model_config["hidden"]
        torch.manual_seed(0)
        self.score, self.worths = small(features, hidden), [small(features, hidden)]

    def compute_values(self, batch, embeddings=None):
        return self.worths[0](batch[Columns.OBS]).mean(dim=(-2, -1))


@rejects("ScoreEach")
class WithoutAValueFunction(TorchRLModule):
    def setup(self):
        self.score = small(self.observation_space.shape[-1], 8)

    def _forward(self, batch, **kwargs):
        return {Columns.ACTION_DIST_INPUTS: self.score(batch[Columns.OBS]).squeeze(-1)}


# Diary: a callback


@accepts("Diary")
class CountsAtEveryStep(RLlibCallback):
    def __init__(self):
        self.back = {}

    def on_episode_step(self, *, episode, **kwargs):
        self.back[episode.id_] = self.back.get(episode.id_, 0) + (episode.get_actions(-1) == 0)

    def on_episode_end(self, *, episode, metrics_logger, **kwargs):
        metrics_logger.log_value("arrived", float(episode.is_terminated), reduce="mean")
        metrics_logger.log_value("steps_back", int(self.back.pop(episode.id_, 0)), reduce="mean")


def actions_of(pieces):
    return np.concatenate([piece.get_actions() for piece in pieces])


class Writes(RLlibCallback):
    """The right diary; the samples change a part of it."""

    def arrived(self, episode):
        return float(episode.is_terminated)

    def back(self, episode, earlier):
        return int(np.sum(actions_of([*earlier, episode]) == 0))

    def log(self, logger, name, value):
        logger.log_value(name, value, reduce="mean")

    def on_episode_end(self, *, episode, prev_episode_chunks, metrics_logger, **kwargs):
        self.log(metrics_logger, "arrived", self.arrived(episode))
        self.log(metrics_logger, "steps_back", self.back(episode, prev_episode_chunks))


@accepts("Diary")
class CountsOneByOneAndLogsADict(RLlibCallback):
    def on_episode_end(self, *, episode, prev_episode_chunks, metrics_logger, **kwargs):
        back = sum(int(action == 0) for chunk in [episode, *prev_episode_chunks] for action in chunk.get_actions())
        metrics_logger.log_dict({"arrived": int(episode.is_terminated), "steps_back": back}, reduce="mean")


@rejects("Diary", says='"steps_back"')
class LeavesOutTheLastChunk(Writes):
    def back(self, episode, earlier):
        return int(np.sum(actions_of(earlier) == 0)) if earlier else 0


@rejects("Diary", says="the mean over the episodes")
class LogsSums(Writes):
    def log(self, logger, name, value):
        logger.log_value(name, value, reduce="sum")


@rejects("Diary", says='"arrived"')
class ArrivedUnlessTruncated(RLlibCallback):
    def on_episode_end(self, *, episode, prev_episode_chunks, metrics_logger, **kwargs):
        back = sum(int(np.sum(np.asarray(each.get_actions()) == 0)) for each in [*prev_episode_chunks, episode])
        metrics_logger.log_value("arrived", float(not episode.is_truncated), reduce="mean")
        metrics_logger.log_value("steps_back", back, reduce="mean")


@rejects("Diary", says='"steps_back"')
class TheFractionOfStepsBack(Writes):
    def back(self, episode, earlier):
        return float(np.mean(actions_of([*earlier, episode]) == 0))


@rejects("Diary", says='"steps_back"')
class OnlyTheLastPiece(Writes):
    def back(self, episode, earlier):
        return int(np.sum(np.array(episode.get_actions()) == 0))


@rejects("Diary")
class WithoutReduce(Writes):
    def log(self, logger, name, value):
        logger.log_value(name, value)


@rejects("Diary")
class EveryEndIsAnArrival(Writes):
    def arrived(self, episode):
        return float(episode.is_done)


@rejects("Diary")
class KeepsItToItself(RLlibCallback):
    def __init__(self):
        self.notes = []

    def on_episode_end(self, *, episode, **kwargs):
        self.notes.append(float(episode.is_terminated))


@rejects("Diary")
class LogsEveryStep(Writes):
    def on_episode_step(self, *, episode, metrics_logger, **kwargs):
        metrics_logger.log_value("arrived", float(episode.is_terminated), reduce="mean")


# Shaped: a potential


class Hints(gymnasium.Wrapper):
    """The right wrapper; the samples change a part of it."""

    def __init__(self, env, potential, gamma):
        super().__init__(env)
        self.potential, self.gamma = potential, gamma

    def reset(self, *, seed=None, options=None):
        obs, info = self.env.reset(seed=seed, options=options)
        self.before = self.potential(obs)
        return obs, info

    def hint(self, reward, before, after):
        return reward + self.gamma * after - before

    def after(self, obs, terminated, truncated):
        return 0.0 if terminated else self.potential(obs)

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        after = self.after(obs, terminated, truncated)
        before, self.before = self.before, after
        return obs, self.hint(reward, before, after), terminated, truncated, info


@accepts("Shaped")
class KeepsTheObservation(Hints):
    def reset(self, **kwargs):
        self.last, info = self.env.reset(**kwargs)
        return self.last, info

    def step(self, action):
        obs, reward, terminated, truncated, info = self.env.step(action)
        reward -= self.potential(self.last)
        if not terminated:
            reward += self.gamma * self.potential(obs)
        self.last = obs
        return obs, reward, terminated, truncated, info


@accepts("Shaped")
class MultipliesByWhetherTheEpisodeContinues(gymnasium.Wrapper):
    def __init__(self, env, potential, gamma):
        super().__init__(env)
        self.height, self.discount = potential, gamma

    def reset(self, **kwargs):
        result = super().reset(**kwargs)
        self.heights = [self.height(result[0])]
        return result

    def step(self, action):
        obs, reward, *ends, info = super().step(action)
        self.heights.append(self.height(obs) * (not ends[0]))
        return obs, reward + self.discount * self.heights[-1] - self.heights[-2], *ends, info


@rejects("Shaped")
class TruncationComesFirst(Hints):
    def after(self, obs, terminated, truncated):
        return self.potential(obs) if truncated or not terminated else 0.0


@rejects("Shaped")
class TheSignsAreTurnedAround(Hints):
    def hint(self, reward, before, after):
        return reward + before - self.gamma * after


@rejects("Shaped")
class TheShapedRewardReplacesTheOther(Hints):
    def hint(self, reward, before, after):
        return self.gamma * after - before


@rejects("Shaped")
class NeverUpdatesThePotentialBefore(Hints):
    def step(self, action):
        before = self.before
        result = super().step(action)
        self.before = before
        return result


@rejects("Shaped", says="Pass both on")
class ForgetsTheSeed(Hints):
    def reset(self, *, seed=None, options=None):
        return super().reset()


@rejects("Shaped", says="Pass both on")
class PassesOnlyTheSeedOn(Hints):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed)


@rejects("Shaped", says="the observation and the info")
class ForgetsTheInfoOfReset(Hints):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed, options=options)[0], {}


@rejects("Shaped")
class ForgetsGamma(Hints):
    def hint(self, reward, before, after):
        return reward + after - before


@rejects("Shaped")
class PotentialAfterTheEnd(Hints):
    def after(self, obs, terminated, truncated):
        return self.potential(obs)


@rejects("Shaped")
class NoPotentialWhenTimeIsUp(Hints):
    def after(self, obs, terminated, truncated):
        return 0.0 if terminated or truncated else self.potential(obs)


@rejects("Shaped")
class RemembersThroughReset(Hints):
    before = None

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        if self.before is None:
            self.before = self.potential(obs)
        return obs, info
