"""Four in a row: boards, players that are dicts of arrays, and games played side by side.

A board is a row of 30 numbers, five rows of six columns from the bottom up: 1 for a disc of the player whose turn it is, -1 for one of
the other's, and 0 for an empty place. A player is a dict of arrays, the weights of a small network, so `ray.put` can store it.
"""

from typing import Any

import numpy as np

ROWS, COLUMNS = 5, 6
PLACES = ROWS * COLUMNS
Player = dict[str, np.ndarray]


def _lines() -> np.ndarray:
    """Return the 39 lines of four, shape [30, 39]: 1 where a place belongs to a line."""
    lines = []
    for row, column in np.ndindex(ROWS, COLUMNS):
        for up, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
            cells = [(row + k * up, column + k * right) for k in range(4)]
            if all(0 <= r < ROWS and 0 <= c < COLUMNS for r, c in cells):
                lines.append([float((r, c) in cells) for r, c in np.ndindex(ROWS, COLUMNS)])
    return np.array(lines, np.float32).T


LINES = _lines()


def new_player(seed: int, hidden: int = 64) -> Player:
    """Return an untrained player, for which all columns are almost equally likely."""
    rng, inputs = np.random.default_rng(seed), 2 * PLACES + 2 * LINES.shape[1]
    shapes = {
        "w1": (inputs, hidden),
        "b1": (hidden,),
        "w2": (hidden, COLUMNS),
        "b2": (COLUMNS,),
        "wv": (hidden, 1),
        "bv": (1,),
    }
    scales = {"w1": 2 / np.sqrt(inputs), "w2": 0.01, "wv": 0.01}
    return {name: (scales.get(name, 0.0) * rng.normal(size=shape)).astype(np.float32) for name, shape in shapes.items()}


def features(boards: np.ndarray) -> np.ndarray:
    """Return the network's inputs: both players' discs, and how full each of their lines is that the other hasn't blocked."""
    mine, yours = (boards == 1).astype(np.float32), (boards == -1).astype(np.float32)
    own, other = mine @ LINES, yours @ LINES
    return np.concatenate([mine, yours, (own * (other == 0) / 3) ** 2, (other * (own == 0) / 3) ** 2], axis=1)


def scores(player: Player, seen: np.ndarray) -> np.ndarray:
    """Return a score for each column, shape [B, 6]."""
    return np.maximum(seen @ player["w1"] + player["b1"], 0) @ player["w2"] + player["b2"]


def free(boards: np.ndarray) -> np.ndarray:
    """Return which columns still have a free place, shape [B, 6]."""
    return boards[:, -COLUMNS:] == 0


def choose(player: Player, boards: np.ndarray, rng: np.random.Generator | None) -> np.ndarray:
    """Return a column for each board: sampled from the softmax of the scores, or the best if `rng` is None."""
    score = np.where(free(boards), scores(player, features(boards)), -np.inf)
    return (score if rng is None else score + rng.gumbel(size=score.shape)).argmax(axis=1)


def drop(boards: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Drop a disc of the player whose turn it is into a column of each board; return on which boards that made four in a row."""
    boards_at = np.arange(len(boards))
    height = (boards.reshape(-1, ROWS, COLUMNS) != 0).sum(axis=1)[boards_at, columns]
    boards[boards_at, height * COLUMNS + columns] = 1
    return ((boards == 1).astype(np.float32) @ LINES == 4).any(axis=1)


def play(first: Player, second: Player, games: int, rng: np.random.Generator) -> tuple[np.ndarray, list]:
    """Return each game's result for the player that moves first (1, 0, or -1), and the moves: [player, games, boards, columns]."""
    boards, going = np.zeros((games, PLACES), np.int8), np.arange(games)
    results, moves = np.zeros(games, np.float32), []
    for turn in range(PLACES):
        now = boards[going]
        columns = choose((first, second)[turn % 2], now, rng)
        moves.append([turn % 2, going, now.copy(), columns])
        won = drop(now, columns)
        results[going[won]] = 1 - 2 * (turn % 2)
        boards[going] = -now  # the other player's turn
        going = going[~won]
        if not len(going):
            break
    return results, moves


def match(first: Player, second: Player, games: int, seed: int | None = None) -> float:
    """Return the points of the player that moves first: 1 per win, 0.5 per draw. Without a seed, no two matches share their randomness."""
    results, _ = play(first, second, games, np.random.default_rng(seed))
    return float((results + 1).sum() / 2)


def collect(me: Player, other: Player, games: int, seed: int) -> dict[str, np.ndarray]:
    """Return my moves in games against another player, in half of which I move first: "boards", "columns", and the "results" for me."""
    rng, parts = np.random.default_rng(seed), []
    for seat in (0, 1):
        results, moves = play(*((me, other) if seat == 0 else (other, me)), games // 2, rng)
        mine = [
            (boards, columns, (1 - 2 * seat) * results[going]) for who, going, boards, columns in moves if who == seat
        ]
        parts += mine
    return dict(zip(("boards", "columns", "results"), map(np.concatenate, zip(*parts, strict=True)), strict=True))


class Learner:
    """Trains a player by the policy gradient, with the value as a baseline."""

    def __init__(self, player: Player, lr: float = 0.01):
        import torch

        torch.set_num_threads(1)
        self._tensors = {name: torch.tensor(weights, requires_grad=True) for name, weights in player.items()}
        self._optimizer = torch.optim.Adam(self._tensors.values(), lr)

    def player(self) -> Player:
        """Return a copy of the current player."""
        return {name: weights.detach().numpy().copy() for name, weights in self._tensors.items()}

    def learn(self, *batches: dict[str, np.ndarray]) -> None:
        """Take one step: moves in games that went better than expected become more likely."""
        import torch

        boards, columns, results = (np.concatenate([batch[name] for batch in batches]) for name in batches[0])
        at, taken, result = torch.from_numpy(features(boards)), torch.from_numpy(columns), torch.from_numpy(results)
        p = self._tensors
        hidden = torch.relu(at @ p["w1"] + p["b1"])
        logp = torch.log_softmax((hidden @ p["w2"] + p["b2"]).masked_fill(~torch.from_numpy(free(boards)), -1e9), -1)
        value = torch.tanh((hidden @ p["wv"] + p["bv"])[:, 0])
        gain = logp.gather(1, taken[:, None])[:, 0] * (result - value.detach())
        entropy = -(logp.exp() * logp).sum(1)  # a small bonus for exploring
        loss = (0.5 * (result - value) ** 2 - gain - 0.003 * entropy).mean()
        self._optimizer.zero_grad()
        loss.backward()
        self._optimizer.step()


def one_game(first: Player, second: Player, seed: int) -> list[int]:
    """Return the columns of one game, move by move."""
    _, moves = play(first, second, 1, np.random.default_rng(seed))
    return [int(columns[0]) for _, _, _, columns in moves]


def draw_board(columns: list[int], ax: Any) -> Any:
    """Draw the board after these moves, each disc with its number; return the axes."""
    height = [0] * COLUMNS
    for number, column in enumerate(columns):
        color = ("#7c3aed", "#d97706")[number % 2]
        ax.scatter(column, height[column], s=420, color=color)
        ax.text(column, height[column], str(number + 1), ha="center", va="center", color="white")
        height[column] += 1
    ax.set(xlim=(-0.6, COLUMNS - 0.4), ylim=(-0.6, ROWS - 0.4), xticks=range(COLUMNS), yticks=[], aspect="equal")
    return ax
