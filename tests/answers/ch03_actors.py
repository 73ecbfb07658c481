"""Right and wrong answers of chapter 3."""

import asyncio
import math
import time
import uuid

import numpy as np
import ray
from ray.util import ActorPool

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


@accepts("count_up")
def gets_each_after_all_are_sent(Counter, amounts):
    handle = ray.remote(num_cpus=1)(Counter).remote()
    refs = [handle.add.remote(amount) for amount in amounts]
    return [ray.get(ref) for ref in refs]


@accepts("count_up")
def waits_for_all_and_gets_one_after_the_other(Counter, amounts):
    counter = ray.remote(Counter).options(max_restarts=1).remote()
    pending = list(map(counter.add.remote, amounts))
    ray.wait(pending, num_returns=len(pending))
    return tuple(ray.get(ref) for ref in pending)


@rejects("count_up")
def a_new_actor_for_each_call(Counter, amounts):
    return ray.get([ray.remote(Counter).remote().add.remote(amount) for amount in amounts])


@rejects("count_up")
def gets_in_the_loop(Counter, amounts):
    handle = ray.remote(Counter).remote()
    return [ray.get(handle.add.remote(amount)) for amount in amounts]


@rejects("count_up")
def an_object_in_the_notebook(Counter, amounts):
    counter = Counter()
    return [counter.add(amount) for amount in amounts]


@rejects("count_up")
def only_the_last_total(Counter, amounts):
    return gets_each_after_all_are_sent(Counter, amounts)[-1]


@rejects("count_up")
def returns_references(Counter, amounts):
    handle = ray.remote(Counter).remote()
    return [handle.add.remote(amount) for amount in amounts]


@rejects("count_up")
def calls_without_remote(Counter, amounts):
    handle = ray.remote(Counter).remote()
    return [handle.add(amount) for amount in amounts]


class Account:
    def __init__(self, pay_in, balance):
        self.pay_in, self.balance = pay_in, balance

    def book(self, amount):
        self.balance = self.pay_in(self.balance, amount)
        return self.balance

    def read(self):
        return self.balance

    def write(self, balance):
        self.balance = balance


@accepts("bank")
def with_the_last_balance(pay_in, balance, amounts):
    account = ray.remote(Account).remote(pay_in, balance)
    customer = ray.remote(lambda account, amount: ray.get(account.book.remote(amount)))
    return max(ray.get([customer.remote(account, amount) for amount in amounts]), key=len)


@accepts("bank")
def customers_find_the_account_by_its_name(pay_in, balance, amounts):
    name = uuid.uuid4().hex
    account = ray.remote(Account).options(name=name).remote(pay_in, balance)
    ray.get(account.read.remote())

    @ray.remote
    def customer(amount):
        return ray.get(ray.get_actor(name).book.remote(amount))

    ray.get([customer.remote(amount) for amount in amounts])
    return ray.get(account.read.remote())


@accepts("bank")
def an_async_account_that_awaits_nothing(pay_in, balance, amounts):
    @ray.remote
    class Bank:
        async def book(self, amount):
            self.balance = pay_in(getattr(self, "balance", balance), amount)

        async def read(self):
            return self.balance

    bank = Bank.remote()
    customer = ray.remote(lambda amount, bank: ray.get(bank.book.remote(amount)))
    ray.get([customer.remote(amount, bank) for amount in amounts])
    return ray.get(bank.read.remote())


@rejects("bank", says="must begin with that")
def starts_with_an_empty_list(pay_in, balance, amounts):
    return with_the_last_balance(pay_in, [], amounts)


@rejects("bank", says="before their payment had been booked")
def customers_send_their_payment_and_leave(pay_in, balance, amounts):
    account = ray.remote(Account).remote(pay_in, balance)

    @ray.remote
    def customer(account, amount):
        account.book.remote(amount)

    ray.get([customer.remote(account, amount) for amount in amounts])
    time.sleep(2)  # all are booked, by chance
    return ray.get(account.read.remote())


@rejects("bank", says="of 6. Receipts written by a process other than")
def reads_adds_and_writes_back(pay_in, balance, amounts):
    account = ray.remote(Account).remote(pay_in, balance)

    @ray.remote
    def customer(account, amount):
        new = pay_in(ray.get(account.read.remote()), amount)
        ray.get(account.write.remote(new))

    ray.get([customer.remote(account, amount) for amount in amounts])
    return ray.get(account.read.remote())


@rejects("bank")
def a_new_account_for_each_customer(pay_in, balance, amounts):
    @ray.remote
    def customer(amount):
        return ray.get(ray.remote(Account).remote(pay_in, balance).book.remote(amount))

    return ray.get([customer.remote(amount) for amount in amounts])[-1]


@rejects("bank")
def fires_and_forgets(pay_in, balance, amounts):
    account = ray.remote(Account).remote(pay_in, balance)
    ray.get(account.read.remote())  # it has started

    @ray.remote
    def customer(account, amount):
        ray.get(account.book.remote(amount))

    for amount in amounts:
        customer.remote(account, amount)
    return ray.get(account.read.remote())


@rejects("bank")
def a_variable_of_the_notebook(pay_in, balance, amounts):
    total = [balance]

    @ray.remote
    def customer(amount):
        total[0] = pay_in(total[0], amount)

    ray.get([customer.remote(amount) for amount in amounts])
    return total[0]


@rejects("bank")
def waits_for_each_customer(pay_in, balance, amounts):
    account = ray.remote(Account).remote(pay_in, balance)
    customer = ray.remote(lambda account, amount: ray.get(account.book.remote(amount)))
    for amount in amounts:
        ray.get(customer.remote(account, amount))
    return ray.get(account.read.remote())


@rejects("bank")
def no_customers(pay_in, balance, amounts):
    account = ray.remote(Account).remote(pay_in, balance)
    return ray.get([account.book.remote(amount) for amount in amounts])[-1]


@rejects("bank")
def threads_in_the_account(pay_in, balance, amounts):
    account = ray.remote(Account).options(max_concurrency=5).remote(pay_in, balance)
    customer = ray.remote(lambda account, amount: ray.get(account.book.remote(amount)))
    ray.get([customer.remote(account, amount) for amount in amounts])
    return ray.get(account.read.remote())


@accepts("BestSoFar")
class KeepsAll:
    def __init__(self):
        self.offers = []

    def offer(self, score, found):
        better = all(score > known for known, _ in self.offers)
        self.offers.append((score, found))
        return better

    def best(self):
        return max(self.offers, key=lambda pair: pair[0]) if self.offers else None


@accepts("BestSoFar")
class StartsAtMinusInfinity:
    def __init__(self):
        self.score, self.found, self.offers = -math.inf, None, 0

    def offer(self, score, found):
        self.offers += 1
        if score <= self.score:
            return False
        self.score, self.found = score, found
        return True

    def best(self):
        return [self.score, self.found] if self.offers else None


class Keeps:
    """A right one, to be spoilt below."""

    def __init__(self):
        self.kept = None

    def offer(self, score, found):
        better = self.kept is None or score > self.kept[0]
        if better:
            self.kept = (score, found)
        return better

    def best(self):
        return self.kept


@rejects("BestSoFar")
class StartsAtZero(Keeps):
    def __init__(self):
        self.kept = (0, None)


@rejects("BestSoFar")
class StartsAtZeroAndHidesIt(StartsAtZero):
    def best(self):
        return self.kept if self.kept[1] else None


@rejects("BestSoFar")
class NothingFoundMeansNothingYet(Keeps):
    def __init__(self):
        self.kept = (0, None)

    def offer(self, score, found):
        better = self.kept[1] is None or score > self.kept[0]
        if better:
            self.kept = (score, found)
        return better

    def best(self):
        return None if self.kept[1] is None else self.kept


@rejects("BestSoFar", says="the best one so far")
class SaysNothingWhereNothingWasFound(Keeps):
    def best(self):
        return self.kept if self.kept and self.kept[1] is not None else None


@rejects("BestSoFar")
class ZeroMeansNothingYet(Keeps):
    def offer(self, score, found):
        better = not self.kept or not self.kept[0] or score > self.kept[0]
        if better:
            self.kept = (score, found)
        return better


@rejects("BestSoFar")
class ATieReplaces(Keeps):
    def offer(self, score, found):
        better = self.kept is None or score >= self.kept[0]
        if better:
            self.kept = (score, found)
        return better


@rejects("BestSoFar")
class ScoreWithoutWhatBelongsToIt(Keeps):
    def offer(self, score, found):
        better = super().offer(score, found)
        self.kept = (self.kept[0], found)
        return better


@rejects("BestSoFar")
class AnswersNothing(Keeps):
    def offer(self, score, found):
        super().offer(score, found)


class Waits:
    """What our Batcher has without its gap."""

    def __init__(self, model, size, patience):
        self.model, self.size, self.patience = model, size, patience
        self.waiting = []

    def flush(self):
        batch, self.waiting = self.waiting, []
        if batch:
            for (_, future), one in zip(batch, self.model([x for x, _ in batch]), strict=True):
                future.set_result(one)


@accepts("Batcher")
class WithATimer(Waits):
    async def predict(self, x):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.waiting.append((x, future))
        if len(self.waiting) >= self.size:
            self.flush()
        timer = loop.call_later(self.patience, lambda: None if future.done() else self.flush())
        try:
            return await future
        finally:
            timer.cancel()


@accepts("Batcher")
class WithAnEvent(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.patience)
        except TimeoutError:
            self.flush()
            return await future


@accepts("Batcher")
class OneTimerForEachBatch(Waits):
    timer = None

    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == 1:
            self.timer = asyncio.get_running_loop().call_later(self.patience, self.flush)
        if len(self.waiting) == self.size:
            self.timer.cancel()
            self.flush()
        return await future


@accepts("Batcher")
class LooksNowAndThen(Waits):
    async def predict(self, x):
        future, begun = asyncio.get_running_loop().create_future(), time.monotonic()
        self.waiting += [(x, future)]
        while not future.done():
            if len(self.waiting) >= self.size or time.monotonic() - begun >= self.patience:
                self.flush()
            await asyncio.sleep(0.005)
        return future.result()


@rejects("Batcher", says="read before it had one")
class ReadsItsFutureAfterTheWait(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        await asyncio.wait([future], timeout=self.patience)
        return future.result()


@rejects("Batcher", says="made it wait longer")
class EachCallRestartsTheTimer(Waits):
    timer = None

    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if self.timer:
            self.timer.cancel()
        if len(self.waiting) == self.size:
            self.flush()
        else:
            self.timer = asyncio.get_running_loop().call_later(self.patience, self.flush)
        return await future


@rejects("Batcher", says="The answer is in `future.result()`")
class ReturnsWhatTheWaitGives(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        return await asyncio.wait([future], timeout=self.patience)


@rejects("Batcher")
class TheTimerIsNeverCancelled(Waits):
    async def predict(self, x):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self.waiting.append((x, future))
        if len(self.waiting) >= self.size:
            self.flush()
        else:
            loop.call_later(self.patience, self.flush)
        return await future


@rejects("Batcher")
class FlushesAfterItsWaitWhateverCame(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        await asyncio.wait([future], timeout=self.patience)
        self.flush()
        return future.result()


@rejects("Batcher", says="able to run while one waits")
class BlocksTheLoop(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        end = time.monotonic() + self.patience
        while len(self.waiting) < self.size and time.monotonic() < end:
            time.sleep(0.01)
        self.flush()
        return future.result()


@rejects("Batcher")
class OneCallAtATime(Waits):
    async def predict(self, x):
        return self.model([x])[0]


@rejects("Batcher")
class NotAsync(Waits):
    def predict(self, x):
        self.waiting.append(x)
        if len(self.waiting) == self.size:
            batch, self.waiting = self.waiting, []
            return self.model(batch)[-1]
        return None


@rejects("Batcher")
class WaitsForAFullBatchForever(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        return await future


@rejects("Batcher")
class FlushesOnlyWhenPatienceEnds(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        await asyncio.sleep(self.patience)
        self.flush()
        return await future


@rejects("Batcher")
class TimeOutCancelsTheFuture(Waits):
    async def predict(self, x):
        future = asyncio.get_running_loop().create_future()
        self.waiting.append((x, future))
        if len(self.waiting) == self.size:
            self.flush()
        try:
            return await asyncio.wait_for(future, self.patience)
        except TimeoutError:
            self.flush()
            return future.result()


@rejects("Batcher")
class AllGetTheLastAnswer(WithATimer):
    def flush(self):
        batch, self.waiting = self.waiting, []
        if batch:
            answers = self.model([x for x, _ in batch])
            for _, future in batch:
                future.set_result(answers[-1])


class Server:
    def __init__(self, weights, rate=0.0):
        self.weights, self.rate = weights, rate

    def get(self):
        return self.weights

    def set(self, weights):
        self.weights = weights

    def apply(self, gradient):
        self.weights = self.weights - self.rate * gradient


def run_workers(work, shards, server):
    ray.get([ray.remote(work).remote(server, shard) for shard in shards])
    return ray.get(server.get.remote())


@accepts("async_sgd")
def with_worker_actors(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights), rate)

    @ray.remote(num_cpus=0)
    class Worker:
        def work(self, server, shard):
            for _ in range(steps):
                server.apply.remote(gradient(ray.get(server.get.remote()), shard))
            ray.get(server.get.remote())

    workers = [Worker.remote() for _ in shards]
    ray.get([worker.work.remote(server, shard) for worker, shard in zip(workers, shards, strict=True)])
    return ray.get(server.get.remote())


@accepts("async_sgd")
def asks_for_the_next_weights_while_it_computes(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights), rate)

    @ray.remote
    def work(server, shard):
        coming, sent = server.get.remote(), []
        for _ in range(steps):
            current, coming = ray.get(coming), server.get.remote()
            sent.append(server.apply.remote(gradient(current, shard)))
        ray.get(sent)

    ray.get([work.remote(server, shard) for shard in shards])
    return ray.get(server.get.remote())


@accepts("async_sgd")
def the_server_answers_with_the_new_weights(gradient, weights, shards, steps, rate):
    @ray.remote
    class Parameters:
        def __init__(self):
            self.weights = np.asarray(weights)

        def step(self, change):
            self.weights = self.weights - rate * change
            return self.weights

    @ray.remote
    def work(server, shard, current):
        for _ in range(steps):
            current = ray.get(server.step.remote(gradient(current, shard)))

    server = Parameters.remote()
    ray.get([work.remote(server, shard, weights) for shard in shards])
    return ray.get(server.step.remote(0.0))


@rejects("async_sgd")
def steps_uphill(gradient, weights, shards, steps, rate):
    return with_worker_actors(gradient, weights, shards, steps, -rate)


@rejects("async_sgd")
def sends_weights_back(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights))

    def work(server, shard):
        for _ in range(steps):
            mine = ray.get(server.get.remote())
            ray.get(server.set.remote(mine - rate * gradient(mine, shard)))

    return run_workers(work, shards, server)


@rejects("async_sgd")
def waits_for_all_gradients_of_a_step(gradient, weights, shards, steps, rate):
    weights = np.array(weights)
    for _ in range(steps):
        for one in ray.get([ray.remote(gradient).remote(weights, shard) for shard in shards]):
            weights = weights - rate * one
    return weights


@rejects("async_sgd")
def fetches_the_weights_once(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights), rate)

    def work(server, shard):
        mine = ray.get(server.get.remote())
        for _ in range(steps):
            ray.get(server.apply.remote(gradient(mine, shard)))

    return run_workers(work, shards, server)


@rejects("async_sgd", says="that the server never had")
def steps_a_copy_of_its_own(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights), rate)

    def work(server, shard):
        mine = ray.get(server.get.remote())
        for _ in range(steps):
            change = gradient(mine, shard)
            ray.get(server.apply.remote(change))
            mine = mine - rate * change

    return run_workers(work, shards, server)


@rejects("async_sgd")
def forgets_the_rate(gradient, weights, shards, steps, rate):
    return with_worker_actors(gradient, weights, shards, steps, 1.0)


@rejects("async_sgd")
def does_not_wait_for_the_workers(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights), rate)

    @ray.remote
    def work(server, shard):
        for _ in range(steps):
            ray.get(server.apply.remote(gradient(ray.get(server.get.remote()), shard)))

    for shard in shards:
        work.remote(server, shard)
    return ray.get(server.get.remote())


@rejects("async_sgd")
def does_not_wait_for_the_last_gradient(gradient, weights, shards, steps, rate):
    server = ray.remote(Server).remote(np.array(weights), rate)

    @ray.remote
    def work(server, shard):
        for _ in range(steps):
            server.apply.remote(gradient(ray.get(server.get.remote()), shard))

    ray.get([work.remote(server, shard) for shard in shards])
    return ray.get(server.get.remote())


@rejects("async_sgd")
def one_worker_after_the_other(gradient, weights, shards, steps, rate):
    weights = np.array(weights)
    for shard in shards:
        for _ in range(steps):
            weights = weights - rate * gradient(weights, shard)
    return weights


_scores_of_all = {}


@accepts("tournament")
def a_player_in_each_task(make_player, seeds):
    game = ray.remote(lambda seed: make_player().play(seed))
    return dict(zip(seeds, ray.get([game.remote(seed) for seed in seeds]), strict=True))


@accepts("tournament")
def two_actors_with_a_player_each(make_player, seeds):
    @ray.remote
    class Table:
        def __init__(self):
            self.player = make_player()

        def game(self, seed):
            return seed, self.player.play(seed)

    pool = ActorPool([Table.remote() for _ in range(2)])
    return dict(pool.map_unordered(lambda table, seed: table.game.remote(seed), seeds))


@accepts("tournament")
def the_player_itself_is_the_actor(make_player, seeds):
    players = [ray.remote(make_player).remote() for _ in range(2)]
    refs = {seed: players[i % 2].play.remote(seed) for i, seed in enumerate(seeds)}
    return {seed: ray.get(ref) for seed, ref in refs.items()}


@accepts("tournament")
def an_actor_keeps_the_scores(make_player, seeds):
    @ray.remote
    class Scores:
        def __init__(self):
            self.scores = {}

        def add(self, seed, score):
            self.scores[seed] = score

        def all(self):
            return self.scores

    @ray.remote
    def game(scores, seed):
        ray.get(scores.add.remote(seed, make_player().play(seed)))

    scores = Scores.remote()
    ray.get([game.remote(scores, seed) for seed in seeds])
    return ray.get(scores.all.remote())


@accepts("tournament")
def as_they_end(make_player, seeds):
    @ray.remote
    def game(seed):
        return np.array([seed, make_player().play(seed)])

    pending, scores = [game.remote(seed) for seed in seeds], {}
    while pending:
        (ready,), pending = ray.wait(pending)
        seed, score = ray.get(ready)
        scores[seed] = score
    return scores


@accepts("tournament")
def in_threads_of_one_actor(make_player, seeds):
    @ray.remote(max_concurrency=len(seeds))
    class Hall:
        def game(self, seed):
            return {seed: make_player().play(seed)}

    hall, scores = Hall.remote(), {}
    for score in ray.get([hall.game.remote(seed) for seed in seeds]):
        scores |= score
    return scores


@accepts("tournament")
def two_tasks_with_half_the_seeds(make_player, seeds):
    @ray.remote
    def games(some):
        player = make_player()
        return [(seed, player.play(seed)) for seed in some]

    return dict(sum(ray.get([games.remote(seeds[::2]), games.remote(seeds[1::2])]), []))


@rejects("tournament", says="reference")
def forgets_to_get_the_scores(make_player, seeds):
    game = ray.remote(lambda seed: make_player().play(seed))
    refs = {seed: game.remote(seed) for seed in seeds}
    ray.wait(list(refs.values()), num_returns=len(refs))
    return refs


@rejects("tournament", says="no score for the seeds")
def waits_for_one_game_only(make_player, seeds):
    game = ray.remote(lambda seed: (seed, make_player().play(seed)))
    ready, _ = ray.wait([game.remote(seed) for seed in seeds])
    return dict(ray.get(ready))


@rejects("tournament", says="couldn't pickle")
def leaves_it_broken(make_player, seeds):
    player, scores = make_player(), {}

    @ray.remote
    def game(seed):
        scores[seed] = player.play(seed)

    ray.get([game.remote(seed) for seed in seeds])
    return scores


@rejects("tournament", says="only the copy in its worker")
def still_writes_into_a_dict_of_the_driver(make_player, seeds):
    scores = {}

    @ray.remote
    def game(seed):
        scores[seed] = make_player().play(seed)

    ray.get([game.remote(seed) for seed in seeds])
    return scores


@rejects("tournament", says="couldn't pickle")
def passes_the_player_as_an_argument(make_player, seeds):
    player = make_player()
    game = ray.remote(lambda player, seed: player.play(seed))
    return {seed: ray.get(game.remote(player, seed)) for seed in seeds}


@rejects("tournament", says="in your notebook's process")
def plays_at_home(make_player, seeds):
    player = make_player()
    return {seed: player.play(seed) for seed in seeds}


@rejects("tournament", says="at the same time")
def waits_in_the_loop_of_games(make_player, seeds):
    game = ray.remote(lambda seed: make_player().play(seed))
    return {seed: ray.get(game.remote(seed)) for seed in seeds}


@rejects("tournament", says="at the same time")
def one_actor_plays_all(make_player, seeds):
    player = ray.remote(make_player).remote()
    return dict(zip(seeds, ray.get([player.play.remote(seed) for seed in seeds]), strict=True))


@rejects("tournament", says="needs a new dict")
def adds_to_a_global_dict(make_player, seeds):
    _scores_of_all.update(a_player_in_each_task(make_player, seeds))
    return _scores_of_all


@rejects("tournament", says="the score of its seed")
def scores_in_the_order_of_their_end(make_player, seeds):
    scores = a_player_in_each_task(make_player, seeds)
    return dict(zip(seeds, sorted(scores.values()), strict=True))
