"""The capstone's environment: a robot fetches parcels in a warehouse, and has to find out what each customer is worth.

`Warehouse` is a single one, a Gymnasium environment whose rules you can read from top to bottom; `make_envs(count)` creates
many that step together in NumPy by the same rules. An action names a place, and the robot drives one square toward it: one of
eight shelves, the packing table, or the battery station. At a shelf, the robot takes the parcel that it came for; at the table,
it delivers what it carries, and only deliveries pay. A customer whose parcel was delivered may order again. The robot carries
up to three parcels. Its battery lasts for sixty squares; with an empty battery, it creeps.
"""

import functools
import time
from collections import deque
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from coursekit.given.warehouse_picture import draw_warehouse

VERSION = 3  # changes when scores stop being comparable
HALL = (
    ".........",
    ".###.###.",  # #: racks; eight of them become the shelves A to H, served from the square below
    ".........",
    ".###.###.",
    ".........",
    ".........",  # here stand the packing table (=) and the battery station (+)
)
SHELVES, TABLE, STATION = 8, 8, 9  # actions 0 to 7 are the shelves
PLACES = 10
KINDS = 4  # of parcels
EPISODE_STEPS = 150
ROOM = 3  # parcels that the robot carries
BATTERY, CREEP = 60, 4  # squares that a battery lasts for; steps that a square takes without
WAITING_STEPS = (20, 60)  # steps after which a colleague fetches a parcel: at least, below
WAIT = 0.0002  # seconds that the slow simulator takes for a step of one warehouse
FAR = 13  # squares: no way is longer

Policy = Callable[[np.ndarray], np.ndarray]


class World(NamedTuple):
    """What is drawn once per run and stays the same in all of its episodes."""

    prices: tuple[float, ...]  # what a parcel of each kind pays; no observation says so
    follows: tuple[int, ...]  # the kind that its customer orders next; -1: nothing more
    shares: tuple[float, ...]  # of each kind among the orders of new customers
    rates: tuple[float, ...]  # probability that a new customer orders at an empty shelf in a step
    plan: tuple[str, ...]  # the map


def draw_world(seed: int) -> World:
    """Return the world of a seed: the prices and habits of the four kinds of customers, how many of them come, and the map."""
    rng = np.random.default_rng(seed)
    # A trial costs, and brings a regular, who pays well. Whether trouble costs more than a trial is drawn, and whether a bait,
    # which pays, brings trouble or a trial: so which parcels are worth their price, no rank of a price can say.
    bait, trial, trouble, regular = kinds = rng.permutation(KINDS)
    trial_is_dear, bait_brings_trial = rng.integers(2, size=2)
    costs, pays = rng.integers([2, 4], [3, 6]), rng.integers(13, 17) + trial_is_dear
    prices, follows, shares = np.zeros(KINDS), np.full(KINDS, -1), np.zeros(KINDS)
    prices[kinds] = [rng.integers(2, 4), -costs[trial_is_dear], -costs[1 - trial_is_dear], pays]
    shares[kinds] = rng.dirichlet([60, 50, 55, 15] if bait_brings_trial else [80, 80, 20, 15])
    follows[bait], follows[trial] = trial if bait_brings_trial else trouble, regular
    rates = rng.uniform(0.02, 0.04, SHELVES)

    def plain(part: np.ndarray) -> tuple:
        return tuple(part.tolist())

    return World(plain(prices), plain(follows), plain(shares), plain(rates), _plan(rng))


def _plan(rng: np.random.Generator) -> tuple[str, ...]:
    """Return a map: the hall with eight shelves, the table and the station somewhere in it."""
    squares, width = list("".join(HALL)), len(HALL[0])
    racks = [square for square, mark in enumerate(squares) if mark == "#"]
    for square, letter in zip(sorted(rng.choice(racks, SHELVES, replace=False)), "ABCDEFGH", strict=True):
        squares[square] = letter
    for column, mark in zip(rng.choice(width, 2, replace=False), "=+", strict=True):
        squares[len(squares) - width + column] = mark
    return tuple("".join(squares[start : start + width]) for start in range(0, len(squares), width))


class Routes(NamedTuple):
    """Each place's square; for each place and square, the next square on a shortest way, and the steps left."""

    goals: np.ndarray
    towards: np.ndarray
    steps: np.ndarray


@functools.cache
def routes(plan: tuple[str, ...]) -> Routes:
    """Return the shortest ways on a map."""
    width = len(plan[0])
    marks = {mark: i for i, mark in enumerate("".join(plan))}
    goals = [marks[mark] + width for mark in "ABCDEFGH"] + [marks["="], marks["+"]]
    free = [mark in ".=+" for mark in "".join(plan)]
    towards = np.tile(np.arange(len(free)), (PLACES, 1))
    steps = np.full((PLACES, len(free)), 99)
    for place, goal in enumerate(goals):
        steps[place, goal] = 0
        queue = deque([goal])
        while queue:
            here = queue.popleft()
            for there in _neighbours(here, width, len(free)):
                if free[there] and steps[place, there] == 99:
                    towards[place, there], steps[place, there] = here, steps[place, here] + 1
                    queue.append(there)
    return Routes(np.array(goals), towards, steps)


def _neighbours(square: int, width: int, squares: int) -> list[int]:
    """Return the squares beside a square of the map."""
    sides = [square - 1] * (square % width > 0) + [square + 1] * (square % width < width - 1)
    return sides + [other for other in (square - width, square + width) if 0 <= other < squares]


WORLD = draw_world(0)  # the one that the notebook learns in
OWN = 3 + KINDS  # numbers of an observation about the robot itself
EACH = 2 + KINDS  # about a shelf
NUMBERS = OWN + SHELVES * EACH  # of an observation
VIEWS = np.array(
    [[*range(OWN), *range(start, start + EACH)] for start in range(OWN, NUMBERS, EACH)]
)  # [8, 13]: what concerns a shelf


def _episode(rng: np.random.Generator, world: World) -> np.ndarray:
    """Return what would be ordered at each step and shelf, shape [EPISODE_STEPS + 1, SHELVES, 2]: kind (-1: nothing), patience."""
    shape = (EPISODE_STEPS + 1, SHELVES)
    kinds = rng.choice(KINDS, size=shape, p=world.shares)
    kinds[1:][rng.random((EPISODE_STEPS, SHELVES)) >= world.rates] = -1
    kinds[0][rng.random(SHELVES) >= 0.5] = -1
    return np.stack([kinds, rng.integers(*WAITING_STEPS, size=shape)], axis=-1)


class Warehouse(gymnasium.Env):
    """One warehouse, with the observations of `make_envs`: shape [55], all numbers between 0 and 1.

    An observation holds the battery, the distances to the table and to the station, and how many parcels of each kind are
    loaded; then, for each shelf, the distance, how much longer its parcel will wait (0 if the shelf is empty), and the kind of
    the parcel, as four numbers of which one is 1.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 8}

    def __init__(self, world: World = WORLD, render_mode: str | None = None):
        self.world, self.render_mode = world, render_mode
        self.goals, self._towards, self._ways = routes(world.plan)
        self.observation_space = Box(0, 1, (NUMBERS,), np.float32)
        self.action_space = Discrete(PLACES)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return the first observation: the robot is at the table, with a full battery and nothing loaded."""
        super().reset(seed=seed)
        self.coming = _episode(self.np_random, self.world)
        self.steps, self.square, self.battery, self.earned = 0, int(self.goals[TABLE]), BATTERY, 0.0
        self.load: list[int] = []
        self.kind, self.patience = [-1] * SHELVES, [0] * SHELVES
        self._receive_orders()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Drive one square toward a place, and return the five values; an episode is truncated after EPISODE_STEPS."""
        place, self.steps = int(action), self.steps + 1
        if self.battery > 0 or self.steps % CREEP == 0:
            before, self.square = self.square, int(self._towards[place, self.square])
            self.battery = max(self.battery - (self.square != before), 0)
        reward = self._serve(place) if self.square == self.goals[place] else 0.0
        self._let_orders_expire()
        self._receive_orders()
        self.earned += reward
        return self._observation(), reward, False, self.steps == EPISODE_STEPS, {}

    def _serve(self, place: int) -> float:
        """Do what there is to do at the place that the robot has reached; return what it pays."""
        if place == STATION:
            self.battery = BATTERY
        elif place == TABLE:
            delivered, self.load = sorted(self.load), []
            for kind in delivered:
                self._order_again(self.world.follows[kind])
            return float(sum(self.world.prices[kind] for kind in delivered))
        elif self.kind[place] >= 0 and len(self.load) < ROOM:
            self.load.append(self.kind[place])
            self.kind[place], self.patience[place] = -1, 0
        return 0.0

    def _order_again(self, kind: int) -> None:
        """Put what a customer orders next on the first empty shelf, if there is one."""
        if kind >= 0 and -1 in self.kind:
            shelf = self.kind.index(-1)
            self.kind[shelf], self.patience[shelf] = kind, WAITING_STEPS[1]

    def _let_orders_expire(self) -> None:
        for shelf in range(SHELVES):
            self.patience[shelf] = max(self.patience[shelf] - 1, 0)
            if self.patience[shelf] == 0:
                self.kind[shelf] = -1

    def _receive_orders(self) -> None:
        for shelf, (kind, patience) in enumerate(self.coming[self.steps].tolist()):
            if self.kind[shelf] < 0 <= kind:
                self.kind[shelf], self.patience[shelf] = kind, patience

    def _observation(self) -> np.ndarray:
        ways = self._ways[:, self.square] / FAR
        numbers = [self.battery / BATTERY, ways[TABLE], ways[STATION]]
        numbers += [self.load.count(kind) / ROOM for kind in range(KINDS)]
        for shelf in range(SHELVES):
            kinds = [float(self.kind[shelf] == kind) for kind in range(KINDS)]
            numbers += [ways[shelf], self.patience[shelf] / WAITING_STEPS[1], *kinds]
        return np.array(numbers, np.float32)

    def render(self) -> Any:
        """Return a picture, shape [height, width, 3], if the environment was created with `render_mode="rgb_array"`."""
        if self.render_mode != "rgb_array":
            return None
        return draw_warehouse(self, WAITING_STEPS[1], BATTERY)


class Warehouses(VectorEnv):
    """Many warehouses that step together; each one is reset in the step after its last (NEXT_STEP, Gymnasium's default)."""

    metadata: dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}

    def __init__(self, num_envs: int, world: World = WORLD):
        self.num_envs, self.world, self.prices = num_envs, world, np.array(world.prices)
        self._goals, self._towards, self._ways = routes(world.plan)
        self.single_observation_space, self.single_action_space = Box(0, 1, (NUMBERS,), np.float32), Discrete(PLACES)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._every = np.arange(num_envs)
        self._dice = [np.random.default_rng() for _ in range(num_envs)]

    def reset(self, *, seed: Any = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        """Return the first observations, shape [N, 55]; warehouse i gets the seed `seed + i`, or `seed[i]` of a list."""
        if seed is not None:
            seeds = range(seed, seed + self.num_envs) if isinstance(seed, int | np.integer) else seed
            self._dice = [np.random.default_rng(each) for each in seeds]
        n = self.num_envs
        self._coming = np.zeros((n, EPISODE_STEPS + 1, SHELVES, 2), int)
        self._steps, self._square, self._battery = np.zeros((3, n), int)
        self._load = np.zeros((n, KINDS), int)
        self._kind, self._patience = np.zeros((2, n, SHELVES), int)
        self._begin(np.ones(n, bool))
        return self._observations(), {}

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Return observations, rewards, terminated (never), truncated and an empty dict; arrays of length N."""
        places, over = np.asarray(actions, int), self._steps == EPISODE_STEPS
        self._steps += 1
        self._drive(places)
        rewards = self._serve(places)
        self._patience = np.maximum(self._patience - 1, 0)
        self._kind[self._patience == 0] = -1
        self._steps[over] = 0
        self._receive_orders()
        if over.any():
            self._begin(over)
            rewards[over] = 0.0
        return self._observations(), rewards, np.zeros(self.num_envs, bool), self._steps == EPISODE_STEPS, {}

    def _begin(self, which: np.ndarray) -> None:
        """Start an episode where `which` is True."""
        for i in np.flatnonzero(which):
            self._coming[i] = _episode(self._dice[i], self.world)
        self._steps[which], self._square[which], self._battery[which] = 0, self._goals[TABLE], BATTERY
        self._load[which], self._kind[which], self._patience[which] = 0, -1, 0
        self._receive_orders(which[:, None])

    def _drive(self, places: np.ndarray) -> None:
        moves = (self._battery > 0) | (self._steps % CREEP == 0)
        square = np.where(moves, self._towards[places, self._square], self._square)
        self._battery = np.maximum(self._battery - (square != self._square), 0)
        self._square = square

    def _serve(self, places: np.ndarray) -> np.ndarray:
        arrived = self._square == self._goals[places]
        self._battery[arrived & (places == STATION)] = BATTERY
        delivers = arrived & (places == TABLE)
        rewards = np.where(delivers, self._load @ self.prices, 0.0)
        for kind, following in enumerate(self.world.follows):
            for number in range(ROOM if following >= 0 else 0):
                self._order_again(np.flatnonzero(delivers & (self._load[:, kind] > number)), following)
        self._load[delivers] = 0
        robots = np.flatnonzero(arrived & (places < SHELVES) & (self._load.sum(axis=1) < ROOM))
        robots = robots[self._kind[robots, places[robots]] >= 0]
        shelves = places[robots]
        self._load[robots, self._kind[robots, shelves]] += 1
        self._kind[robots, shelves], self._patience[robots, shelves] = -1, 0
        return rewards

    def _order_again(self, robots: np.ndarray, kind: int) -> None:
        """Put a parcel of this kind on the first empty shelf of each of these warehouses that has one."""
        robots = robots[(self._kind[robots] < 0).any(axis=1)]
        shelves = (self._kind[robots] < 0).argmax(axis=1)
        self._kind[robots, shelves], self._patience[robots, shelves] = kind, WAITING_STEPS[1]

    def _receive_orders(self, which: Any = True) -> None:
        kinds, patience = np.moveaxis(self._coming[self._every, self._steps], -1, 0)
        new = which & (self._kind < 0) & (kinds >= 0)
        self._kind[new], self._patience[new] = kinds[new], patience[new]

    def _observations(self) -> np.ndarray:
        obs = np.empty((self.num_envs, NUMBERS), np.float32)
        ways = (self._ways[:, self._square] / FAR).T
        obs[:, 0], obs[:, 1:3], obs[:, 3:OWN] = self._battery / BATTERY, ways[:, SHELVES:], self._load / ROOM
        shelves = obs[:, OWN:].reshape(self.num_envs, SHELVES, -1)
        shelves[..., 0], shelves[..., 1] = ways[:, :SHELVES], self._patience / WAITING_STEPS[1]
        shelves[..., 2:] = self._kind[..., None] == np.arange(KINDS)
        return obs


class SlowWarehouses(Warehouses):
    """The same warehouses in a simulator that makes its caller wait, as games and robots do: twice as long for twice as many."""

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Wait, then return what `Warehouses` returns."""
        time.sleep(WAIT * self.num_envs)
        return super().step(actions)


def make_envs(count: int, world: World = WORLD, *, slow: bool = False) -> VectorEnv:
    """Return this many warehouses of the same world, which step together."""
    return (SlowWarehouses if slow else Warehouses)(count, world)


def random_actions(observations: np.ndarray) -> np.ndarray:
    """Return a random action for each observation: [N, 55] -> [N]."""
    return np.random.default_rng().integers(PLACES, size=len(observations))


def baseline(observations: np.ndarray, kinds: Collection[int] = range(KINDS)) -> np.ndarray:
    """Return the actions of a sensible rule, [N, 55] -> [N]: fetch the nearest parcel until the robot is full, then go to the table.

    With less than a quarter of the battery left, go to the station. The rule fetches only parcels of these kinds.
    """
    battery, loaded = observations[:, 0], observations[:, 3:OWN].sum(axis=1)
    shelves = observations[:, OWN:].reshape(len(observations), SHELVES, EACH)
    ways, wanted = shelves[..., 0], np.any(shelves[..., [2 + kind for kind in kinds]], axis=2)
    nearest = np.where(wanted, ways, np.inf).argmin(axis=1)
    work = np.where(wanted.any(axis=1) & (loaded < 0.99), nearest, TABLE)
    return np.where(battery < 0.25, STATION, work)


def paying(prices: Collection[float]) -> Policy:
    """Return the rule that knows all prices: the baseline, except that it fetches only what pays."""
    return functools.partial(baseline, kinds=[kind for kind, price in enumerate(prices) if price > 0])


def evaluate(
    policy: Policy, episodes: int = 200, seed: int = 0, make_envs: Callable[[int], VectorEnv] = make_envs
) -> np.ndarray:
    """Return an array with what the policy earned in each episode; with the same seed, every policy gets the same new customers."""
    if callable(seed):
        raise TypeError(
            "evaluate(policy, episodes, seed, make_envs): the third is the seed, a number, and make_envs is the fourth."
        )
    envs = make_envs(episodes)
    obs, _ = envs.reset(seed=seed)
    returns = np.zeros(episodes)
    for _ in range(EPISODE_STEPS):
        obs, rewards, _, _, _ = envs.step(policy(obs))
        returns += rewards
    return returns


if "Warehouse-v0" not in gymnasium.registry:
    gymnasium.register(
        "Warehouse-v0",
        entry_point="coursekit.given.warehouse:Warehouse",
        vector_entry_point="coursekit.given.warehouse:Warehouses",
    )
