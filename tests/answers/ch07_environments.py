"""Right and wrong answers of chapter 7."""

import random

import gymnasium
import numpy as np

from tests.answers import accepts, rejects


class Corridor(gymnasium.Env):
    """A right corridor, with one method for each thing that people get wrong."""

    def __init__(self, length=10, max_steps=50):
        self.length, self.max_steps = length, max_steps
        self.observation_space = gymnasium.spaces.Box(0.0, float(length - 1), (1,), np.float32)
        self.action_space = gymnasium.spaces.Discrete(2)

    def start(self):
        return int(self.np_random.integers(self.length // 2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.position, self.steps = self.start(), 0
        return self.observe(), {}

    def observe(self):
        return np.array([self.position], np.float32)

    def move(self, action):
        self.position = int(np.clip(self.position + (1 if action == 1 else -1), 0, self.length - 1))

    def step(self, action):
        self.move(action)
        self.steps += 1
        arrived = self.position == self.length - 1
        return self.observe(), 1.0 if arrived else -0.1, arrived, self.steps >= self.max_steps, {}


accepts("SimpleCorridor")(Corridor)


@accepts("SimpleCorridor")
class not_truncated_on_arrival(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, np.float64(reward), np.bool_(terminated), truncated and not terminated, {"steps": self.steps}


@rejects("SimpleCorridor")
class returns_four_values(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, info


@rejects("SimpleCorridor", says="`bool(...)`")
class truncated_is_a_truth_value_of_numpys(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, np.bool_(truncated), info  # Gymnasium takes it for a truncated episode


@rejects("SimpleCorridor")
class terminates_when_time_is_up(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated or truncated, False, info


@rejects("SimpleCorridor", says="`terminated` must say")
class truncated_wins_in_the_last_step(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated and not truncated, truncated, info


@rejects("SimpleCorridor")
class truncated_whenever_it_ends(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward, terminated, terminated or truncated, info


@rejects("SimpleCorridor")
class one_step_too_many(Corridor):
    def step(self, action):
        obs, reward, terminated, _, info = super().step(action)
        return obs, reward, terminated, self.steps > self.max_steps, info


@rejects("SimpleCorridor")
class never_sets_its_steps_back(Corridor):
    steps_so_far = 0

    def reset(self, *, seed=None, options=None):
        first = super().reset(seed=seed)
        self.steps = self.steps_so_far
        return first

    def step(self, action):
        result = super().step(action)
        self.steps_so_far = self.steps
        return result


@rejects("SimpleCorridor")
class reset_ignores_the_seed(Corridor):
    def start(self):
        return random.randrange(self.length // 2)


@rejects("SimpleCorridor", says="the starts without a seed weren't the same")
class draws_from_numpys_global_generator(Corridor):
    def reset(self, *, seed=None, options=None):
        if seed is not None:
            np.random.seed(seed)
        return super().reset(seed=seed)

    def start(self):
        return np.random.randint(self.length // 2)


@rejects("SimpleCorridor")
class forgets_to_hand_the_seed_on(Corridor):
    def reset(self, *, seed=None, options=None):
        self.position, self.steps = self.start(), 0
        return self.observe(), {}


@rejects("SimpleCorridor")
class always_starts_on_the_same_square(Corridor):
    def start(self):
        return 0


@rejects("SimpleCorridor")
class seeds_every_reset(Corridor):
    def reset(self, *, seed=None, options=None):
        return super().reset(seed=seed or 0)


@rejects("SimpleCorridor")
class makes_new_random_numbers_at_every_reset(Corridor):
    def reset(self, *, seed=None, options=None):
        self.np_random = np.random.default_rng(seed)
        self.position, self.steps = self.start(), 0
        return self.observe(), {}


@rejects("SimpleCorridor")
class starts_anywhere(Corridor):
    def start(self):
        return int(self.np_random.integers(self.length))


@rejects("SimpleCorridor")
class never_starts_on_the_last_square_of_the_left_half(Corridor):
    def start(self):
        return int(self.np_random.integers(0, self.length // 2 - 1))  # NumPy leaves the upper end out


@rejects("SimpleCorridor")
class rounds_the_half_up(Corridor):
    def start(self):
        return int(self.np_random.integers((self.length + 1) // 2))


@rejects("SimpleCorridor")
class observation_outside_the_space(Corridor):
    def observe(self):
        return self.position


@rejects("SimpleCorridor")
class changes_the_array_that_it_gave_away(Corridor):
    def reset(self, *, seed=None, options=None):
        self.array = np.zeros(1, np.float32)
        return super().reset(seed=seed)

    def observe(self):
        self.array[0] = self.position
        return self.array


@rejects("SimpleCorridor")
class walks_through_the_wall(Corridor):
    def move(self, action):
        self.position += 1 if action == 1 else -1


@rejects("SimpleCorridor")
class left_and_right_exchanged(Corridor):
    def move(self, action):
        super().move(1 - action)


@rejects("SimpleCorridor")
class pays_for_the_last_step_too(Corridor):
    def step(self, action):
        obs, reward, terminated, truncated, info = super().step(action)
        return obs, reward - 0.1 * terminated, terminated, truncated, info


@rejects("SimpleCorridor")
class a_space_of_numbers_of_squares(Corridor):
    def __init__(self, length=10, max_steps=50):
        super().__init__(length, max_steps)
        self.observation_space = gymnasium.spaces.Discrete(length)

    def observe(self):
        return self.position


@rejects("SimpleCorridor", says="type float64")
class everything_in_float64(Corridor):
    def __init__(self, length=10, max_steps=50):
        super().__init__(length, max_steps)
        self.observation_space = gymnasium.spaces.Box(0, length - 1, (1,), np.float64)

    def observe(self):
        return np.array([self.position], float)


@rejects("SimpleCorridor")
class a_space_one_too_large(Corridor):
    def __init__(self, length=10, max_steps=50):
        super().__init__(length, max_steps)
        self.observation_space = gymnasium.spaces.Box(0, length, (1,), np.float32)


def episode_of(obs, actions, rewards, terminated):
    return {"obs": obs, "actions": actions, "rewards": rewards, "terminated": terminated}


@accepts("rollout")
def loops_forever_and_breaks(env, policy, seed):
    obs, actions, rewards = [env.reset(seed=seed)[0]], [], []
    while True:
        actions.append(policy(obs[-1]))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        obs.append(observation)
        rewards.append(reward)
        if terminated or truncated:
            return episode_of(np.array(obs), np.array(actions), np.array(rewards), terminated)


@accepts("rollout")
def also_says_truncated(env, policy, seed):
    return loops_forever_and_breaks(env, policy, seed) | {"truncated": False}


@rejects("rollout")
def stops_only_when_terminated(env, policy, seed):
    obs, actions, rewards, terminated = [env.reset(seed=seed)[0]], [], [], False
    while not terminated:
        actions.append(policy(obs[-1]))
        observation, reward, terminated, _, _ = env.step(actions[-1])
        obs.append(observation)
        rewards.append(reward)
    return episode_of(obs, actions, rewards, terminated)


@rejects("rollout")
def asks_the_policy_about_the_first_observation_only(env, policy, seed):
    first, _ = env.reset(seed=seed)
    return loops_forever_and_breaks(env_already_reset(env, first), lambda _: policy(first), seed)


class env_already_reset:
    def __init__(self, env, first):
        self.env, self.first, self.step = env, first, env.step

    def reset(self, seed):
        return self.first, {}


@rejects("rollout")
def ignores_the_seed(env, policy, seed):
    return loops_forever_and_breaks(env_already_reset(env, env.reset()[0]), policy, seed)


@rejects("rollout")
def resets_before_every_step(env, policy, seed):
    obs, actions, rewards = [], [], []
    for _ in range(5):
        observation, _ = env.reset(seed=seed)
        obs.append(observation)
        actions.append(policy(observation))
        observation, reward, terminated, truncated, _ = env.step(actions[-1])
        rewards.append(reward)
    return episode_of([*obs, observation], actions, rewards, terminated)


@rejects("rollout")
def leaves_out_the_last_observation(env, policy, seed):
    episode = loops_forever_and_breaks(env, policy, seed)
    return episode | {"obs": episode["obs"][:-1]}


@rejects("rollout")
def drops_the_last_reward(env, policy, seed):
    episode = loops_forever_and_breaks(env, policy, seed)
    return episode | {"rewards": episode["rewards"][:-1]}


@rejects("rollout")
def says_terminated_for_any_end(env, policy, seed):
    return loops_forever_and_breaks(env, policy, seed) | {"terminated": True}


@rejects("rollout", says="`terminated` was True")
def says_terminated_unless_it_was_truncated(env, policy, seed):
    flags = []

    class Watched(gymnasium.Wrapper):
        def step(self, action):
            result = self.env.step(action)
            flags.append(result[3])
            return result

    return loops_forever_and_breaks(Watched(env), policy, seed) | {"terminated": not flags[-1]}


@rejects("rollout")
def returns_the_sum_of_the_rewards(env, policy, seed):
    return loops_forever_and_breaks(env, policy, seed)["rewards"].sum()


@accepts("discounted_returns")
def sums_for_each_step(rewards, gamma, bootstrap=0.0):
    future = [*rewards, bootstrap]
    return [sum(gamma**k * r for k, r in enumerate(future[t:])) for t in range(len(rewards))]


@rejects("discounted_returns", says="last step's comes first")
def forgets_to_turn_them_around(rewards, gamma, bootstrap=0.0):
    return sums_for_each_step(rewards, gamma, bootstrap)[::-1]


@rejects("discounted_returns", says="only integers")
def an_array_like_the_rewards(rewards, gamma, bootstrap=0.0):
    returns, following = np.zeros_like(rewards), bootstrap
    for step in reversed(range(len(rewards))):
        following = rewards[step] + gamma * following
        returns[step] = following
    return returns


@rejects("discounted_returns")
def one_return_for_the_episode(rewards, gamma, bootstrap=0.0):
    return sums_for_each_step(rewards, gamma, bootstrap)[0]


@rejects("discounted_returns")
def adds_up_what_has_been(rewards, gamma, bootstrap=0.0):
    return sums_for_each_step(rewards[::-1], gamma, bootstrap)[::-1]


@rejects("discounted_returns")
def discounts_from_the_start_of_the_episode(rewards, gamma, bootstrap=0.0):
    discounted = [gamma**t * reward for t, reward in enumerate([*rewards, bootstrap])]
    return [sum(discounted[t:]) for t in range(len(rewards))]


@rejects("discounted_returns")
def forgets_the_bootstrap(rewards, gamma, bootstrap=0.0):
    return sums_for_each_step(rewards, gamma)


@rejects("discounted_returns")
def does_not_discount_the_bootstrap(rewards, gamma, bootstrap=0.0):
    return [value + bootstrap for value in sums_for_each_step(rewards, gamma)]


def collected(envs, policy, steps, seed, resets_everything=False):
    """Return everything that came back, with what is needed to choose from it."""
    obs, _ = envs.reset(seed=seed)
    rows, over = [], np.zeros(envs.num_envs, bool)
    for _ in range(steps):
        actions = policy(obs)
        following, rewards, terminated, truncated, _ = envs.step(actions)
        rows += zip(obs, actions, rewards, following, terminated, truncated, over, strict=True)
        obs, over = following, terminated | truncated
        if resets_everything and over.any():
            obs, over = envs.reset()[0], np.zeros(envs.num_envs, bool)
    return rows


def as_columns(rows):
    names = ("obs", "actions", "rewards", "next_obs", "terminated")
    return {name: [row[column] for row in rows] for column, name in enumerate(names)}


@accepts("vector_rollout")
def row_by_row(envs, policy, steps, seed):
    return as_columns([row for row in collected(envs, policy, steps, seed) if not row[6]])


@accepts("vector_rollout")
def one_environment_after_the_other(envs, policy, steps, seed):
    rows = collected(envs, policy, steps, seed)
    mine = [row for i in range(envs.num_envs) for row in rows[i :: envs.num_envs] if not row[6]]
    return {name: np.array(values) for name, values in as_columns(mine).items()}


@accepts("vector_rollout")
def with_the_other_flag_too(envs, policy, steps, seed):
    rows = [row for row in collected(envs, policy, steps, seed) if not row[6]]
    return as_columns(rows) | {"truncated": np.array([row[5] for row in rows])}


@rejects("vector_rollout")
def counts_the_resets_as_experience(envs, policy, steps, seed):
    return as_columns(collected(envs, policy, steps, seed))


@rejects("vector_rollout", says="lead from one episode")
def leaves_out_the_last_step_in_place_of_the_reset(envs, policy, steps, seed):
    return as_columns([row for row in collected(envs, policy, steps, seed) if not (row[4] or row[5])])


@rejects("vector_rollout")
def drops_the_last_step_and_the_reset(envs, policy, steps, seed):
    return as_columns([row for row in collected(envs, policy, steps, seed) if not (row[4] or row[5] or row[6])])


@rejects("vector_rollout")
def knows_resets_only_after_terminated(envs, policy, steps, seed):
    rows, kept, over = collected(envs, policy, steps, seed), [], [False] * envs.num_envs
    for number, row in enumerate(rows):
        if not over[number % envs.num_envs]:
            kept.append(row)
        over[number % envs.num_envs] = row[4]
    return as_columns(kept)


@rejects("vector_rollout")
def takes_a_reward_of_zero_for_a_reset(envs, policy, steps, seed):
    return as_columns([row for row in collected(envs, policy, steps, seed) if row[2] != 0])


@rejects("vector_rollout")
def takes_truncated_for_terminated(envs, policy, steps, seed):
    right = row_by_row(envs, policy, steps, seed)
    rows = [row for row in collected(envs, policy, steps, seed) if not row[6]]
    return right | {"terminated": [row[4] or row[5] for row in rows]}


@rejects("vector_rollout")
def resets_everything_when_one_ends(envs, policy, steps, seed):
    return as_columns(collected(envs, policy, steps, seed, resets_everything=True))


@rejects("vector_rollout")
def gives_no_seed(envs, policy, steps, seed):
    return row_by_row(envs, policy, steps, None)


@rejects("vector_rollout")
def the_observation_after_the_step(envs, policy, steps, seed):
    right = row_by_row(envs, policy, steps, seed)
    return right | {"obs": right["next_obs"]}


@rejects("vector_rollout")
def stops_at_the_first_end(envs, policy, steps, seed):
    rows = collected(envs, policy, steps, seed)
    ends = [number // envs.num_envs for number, row in enumerate(rows) if row[4] or row[5]]
    return as_columns(rows[: envs.num_envs * (ends[0] + 1)])


@rejects("vector_rollout")
def one_row_for_each_step_of_all(envs, policy, steps, seed):
    columns = as_columns(collected(envs, policy, steps, seed))
    return {name: np.array(values).reshape(steps, envs.num_envs, -1) for name, values in columns.items()}


@accepts("cartpole_policy")
def also_looks_at_the_cart(obs):
    return np.int64(obs @ [0.1, 0.2, 1.0, 1.0] > 0)


@accepts("cartpole_policy")
def an_array_without_dimensions(obs):
    return np.array(obs[2] + obs[3] > 0, int)


@accepts("cartpole_policy")
def a_truth_value_of_python(obs):
    return bool(obs[2] + obs[3] > 0)  # CartPole takes it: True is an integer


@rejects("cartpole_policy", says="of type numpy.bool")
def a_truth_value(obs):
    return obs[2] + obs[3] > 0  # CartPole's own `step` refuses NumPy's


@rejects("cartpole_policy")
def only_the_angle(obs):
    return int(obs[2] > 0)


@rejects("cartpole_policy")
def only_the_angular_velocity(obs):
    return int(obs[3] > 0)


@rejects("cartpole_policy")
def away_from_where_it_leans(obs):
    return int(obs[2] + obs[3] < 0)


@rejects("cartpole_policy")
def the_push_instead_of_the_action(obs):
    return float(np.sign(obs[2] + obs[3]))
