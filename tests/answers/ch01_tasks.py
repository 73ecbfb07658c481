"""Right and wrong answers of chapter 1."""

from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain, pairwise, zip_longest

import numpy as np
import ray

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4}


@accepts("as_task")
def with_options(function, x):
    return ray.remote(function).options(name="mine").remote(x)


@accepts("as_task")
def captures_both_in_a_decorated_function(function, x):
    @ray.remote
    def run():
        return function(x)

    return run.remote()


@rejects("as_task", says="type RemoteFunction")
def makes_the_remote_function_and_launches_nothing(function, x):
    return ray.remote(function)


@rejects("as_task", says="takes the function itself")
def wraps_what_a_call_returned(function, x):
    return ray.remote(function(x))


@rejects("as_task", says="but another one")
def launches_a_function_of_its_own(function, x):
    return ray.remote(lambda y: y * y).remote(x)


@rejects("as_task", says="the function's value")
def gets_the_value(function, x):
    return ray.get(ray.remote(function).remote(x))


@rejects("as_task", says="own process")
def puts_what_it_computed_here(function, x):
    return ray.put(function(x))


@rejects("as_task", says="AttributeError")
def calls_remote_on_the_function_itself(function, x):
    return function.remote(x)


@rejects("as_task")
def waits_before_it_returns(function, x):
    ref = ray.remote(function).remote(x)
    ray.wait([ref])
    return ref


@accepts("parallel_map")
def comprehension(function, xs):
    return ray.get([ray.remote(function).remote(x) for x in xs])


@accepts("parallel_map")
def an_array_of_results(function, xs):
    task = ray.remote(function)
    return np.array(ray.get([task.remote(x) for x in xs]))


@accepts("parallel_map")
def gets_one_by_one_after_all_are_launched(function, xs):
    task = ray.remote(function)
    refs = [task.remote(x) for x in xs]
    return [ray.get(ref) for ref in refs]


@accepts("parallel_map")
def through_futures(function, xs):
    task = ray.remote(function)
    return [future.result() for future in [task.remote(x).future() for x in xs]]


@rejects("parallel_map", says="Launch every task before")
def waits_in_the_loop(function, xs):
    return [ray.get(ray.remote(function).remote(x)) for x in xs]


@rejects("parallel_map", says="it saw 4")
def a_task_for_each_cpu(function, xs):
    run = ray.remote(lambda part: [function(x) for x in part])
    parts = ray.get([run.remote(xs[i::4]) for i in range(4)])
    return [parts[i % 4][i // 4] for i in range(len(xs))]


@rejects("parallel_map", says="in the order of the inputs")
def results_as_they_end(function, xs):
    task, results = ray.remote(function), []
    pending = [task.remote(x) for x in xs]
    while pending:
        done, pending = ray.wait(pending)
        results += ray.get(done)
    return results


@rejects("parallel_map")
def returns_references(function, xs):
    return [ray.remote(function).remote(x) for x in xs]


@accepts("first_k")
def keeps_a_set(function, xs, k):
    task = ray.remote(function)
    waiting, results = {task.remote(x) for x in xs}, []
    for _ in range(k):
        (ready,), _ = ray.wait(list(waiting), num_returns=1)
        waiting.remove(ready)
        results.append(ray.get(ready))
    return results


@accepts("first_k")
def returns_a_tuple(function, xs, k):
    return tuple(keeps_a_set(function, xs, k))


@accepts("first_k")
def as_futures_complete(function, xs, k):
    task = ray.remote(function)
    done = as_completed([task.remote(x).future() for x in xs])
    return [next(done).result() for _ in range(k)]


@rejects("first_k", says="Leave such calls running")
def cancels_the_rest(function, xs, k):
    task, results = ray.remote(function), []
    pending = [task.remote(x) for x in xs]
    while len(results) < k:
        (ready,), pending = ray.wait(pending)
        results.append(ray.get(ready))
    for ref in pending:
        ray.cancel(ref)
    return results


@rejects("first_k", says="With k inputs")
def returns_only_while_something_is_pending(function, xs, k):
    task, results = ray.remote(function), []
    pending = [task.remote(x) for x in xs]
    while pending:
        if len(results) == k:
            return results
        (ready,), pending = ray.wait(pending)
        results.append(ray.get(ready))
    return None


@rejects("first_k", says="in which they ended")
def in_the_order_of_the_inputs(function, xs, k):
    ready, _ = ray.wait([ray.remote(function).remote(x) for x in xs], num_returns=k)
    return ray.get(ready)


@rejects("first_k", says="one flat list of results")
def keeps_what_get_returns_for_a_list(function, xs, k):
    pending, results = [ray.remote(function).remote(x) for x in xs], []
    while len(results) < k:
        ready, pending = ray.wait(pending)
        results.append(ray.get(ready))
    return results


@rejects("first_k", says="the result of one call 3 times")
def keeps_what_is_ready_in_the_list(function, xs, k):
    refs = [ray.remote(function).remote(x) for x in xs]
    return [ray.get(ray.wait(refs)[0][0]) for _ in range(k)]


@rejects("first_k", says="which ends last")
def gets_the_first_k_of_the_list(function, xs, k):
    return ray.get([ray.remote(function).remote(x) for x in xs][:k])


@rejects("first_k", says="as soon as it has k")
def waits_for_all(function, xs, k):
    pending, results = [ray.remote(function).remote(x) for x in xs], []
    while pending:
        done, pending = ray.wait(pending)
        results += ray.get(done)
    return results[:k]


@rejects("first_k", says="a task for every input")
def the_first_k_of_the_list(function, xs, k):
    return ray.get([ray.remote(function).remote(x) for x in xs[:k]])


@accepts("batched")
def with_a_named_task(function, xs, size):
    @ray.remote
    def run(batch):
        return list(map(function, batch))

    refs = [run.remote(xs[i : i + size]) for i in range(0, len(xs), size)]
    return sum(ray.get(refs), [])


@accepts("batched")
def in_batches_of_nearly_equal_size(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    count = -(-len(xs) // size)
    ends = [len(xs) * i // count for i in range(count + 1)]
    refs = [run.remote(xs[start:end]) for start, end in pairwise(ends)]
    return list(chain.from_iterable(ray.get(refs)))


@rejects("batched", says="it saw 3")
def launches_an_empty_batch(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    refs = [run.remote(xs[i * size : (i + 1) * size]) for i in range(len(xs) // size + 1)]
    return [value for batch in ray.get(refs) for value in batch]


@rejects("batched")
def one_task_for_each_input(function, xs, size):
    return ray.get([ray.remote(function).remote(x) for x in xs])


@rejects("batched", says="There must be one per input")
def drops_the_short_batch(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    refs = [run.remote(xs[i : i + size]) for i in range(0, len(xs) - size + 1, size)]
    return [value for batch in ray.get(refs) for value in batch]


@rejects("batched", says="each is a list of results")
def returns_a_list_of_lists(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    return ray.get([run.remote(xs[i : i + size]) for i in range(0, len(xs), size)])


@rejects("batched")
def takes_size_for_the_number_of_batches(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    length = -(-len(xs) // size)
    return [
        value
        for batch in ray.get([run.remote(xs[i : i + length]) for i in range(0, len(xs), length)])
        for value in batch
    ]


@rejects("batched")
def gets_each_batch_before_the_next(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    return [value for i in range(0, len(xs), size) for value in ray.get(run.remote(xs[i : i + size]))]


@rejects("batched", says="results are there")
def takes_every_nth_input(function, xs, size):
    run = ray.remote(lambda batch: [function(x) for x in batch])
    count = -(-len(xs) // size)
    return sum(ray.get([run.remote(xs[i::count]) for i in range(count)]), [])


@rejects("batched", says="isn't what the function returns")
def returns_the_inputs(function, xs, size):
    run = ray.remote(lambda batch: batch)
    return sum(ray.get([run.remote(xs[i : i + size]) for i in range(0, len(xs), size)]), [])


@rejects("batched")
def batches_as_they_end(function, xs, size):
    run, results = ray.remote(lambda batch: [function(x) for x in batch]), []
    pending = [run.remote(xs[i : i + size]) for i in range(0, len(xs), size)]
    while pending:
        (done,), pending = ray.wait(pending)
        results += ray.get(done)
    return results


@accepts("tree_sum")
def recursive(add, refs):
    if len(refs) == 1:
        return refs[0]
    half = len(refs) // 2
    return ray.remote(add).remote(recursive(add, refs[:half]), recursive(add, refs[half:]))


@accepts("tree_sum")
def with_a_queue(add, refs):
    add_task, queue = ray.remote(add), list(refs)
    while len(queue) > 1:
        queue.append(add_task.remote(queue.pop(0), queue.pop(0)))
    return queue[0]


@accepts("tree_sum")
def adds_the_odd_ones_at_the_end(add, refs):
    add_task, refs, odd_ones = ray.remote(add), list(refs), []
    while len(refs) > 1:
        if len(refs) % 2:
            odd_ones.append(refs.pop())
        refs = [add_task.remote(a, b) for a, b in zip(refs[::2], refs[1::2], strict=True)]
    [total] = refs
    for ref in odd_ones:
        total = add_task.remote(total, ref)
    return total


@rejects("tree_sum", says="waited for a value")
def gets_inside(add, refs):
    while len(refs) > 1:
        values = ray.get(refs)
        pairs = zip(values[::2], values[1::2], strict=False)
        refs = [ray.remote(add).remote(a, b) for a, b in pairs] + refs[len(refs) // 2 * 2 :]
    return refs[0]


@rejects("tree_sum")
def a_chain_instead_of_a_tree(add, refs):
    total = refs[0]
    for ref in refs[1:]:
        total = ray.remote(add).remote(total, ref)
    return total


@rejects("tree_sum", says="additions in a row")
def two_chains_instead_of_a_tree(add, refs):
    if len(refs) == 1:
        return refs[0]
    half = len(refs) // 2
    return ray.remote(add).remote(
        a_chain_instead_of_a_tree(add, refs[:half]), a_chain_instead_of_a_tree(add, refs[half:])
    )


@rejects("tree_sum", says="The last of an odd number")
def forgets_the_odd_one(add, refs):
    while len(refs) > 1:
        refs = [ray.remote(add).remote(a, b) for a, b in zip(refs[::2], refs[1::2], strict=False)]
    return refs[0]


@rejects("tree_sum", says="inside a list")
def pairs_in_a_list(add, refs):
    task = ray.remote(lambda pair: add(*pair))
    while len(refs) > 1:
        pairs = [refs[i : i + 2] for i in range(0, len(refs), 2)]
        refs = [task.remote(pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return refs[0]


@rejects("tree_sum", says="`add` received `0`")
def pads_with_zero(add, refs):
    while len(refs) > 1:
        refs = refs + [ray.put(0)] * (len(refs) % 2)
        refs = [ray.remote(add).remote(a, b) for a, b in zip(refs[::2], refs[1::2], strict=True)]
    return refs[0]


@rejects("tree_sum", says="your total is")
def adds_the_odd_one_to_itself(add, refs):
    while len(refs) > 1:
        pairs = zip_longest(refs[::2], refs[1::2], fillvalue=refs[-1])
        refs = [ray.remote(add).remote(a, b) for a, b in pairs]
    return refs[0]


@rejects("tree_sum", says="the total itself")
def returns_the_value(add, refs):
    return ray.get(recursive(add, refs))


@rejects("tree_sum", says="type list")
def returns_the_list_with_the_total(add, refs):
    return [recursive(add, refs)]


@accepts("bounded_map")
def with_a_dictionary(function, xs, limit):
    task, position, results = ray.remote(function), {}, [None] * len(xs)
    todo = list(enumerate(xs))
    while todo or position:
        while todo and len(position) < limit:
            i, x = todo.pop(0)
            position[task.remote(x)] = i
        (ready,), _ = ray.wait(list(position))
        results[position.pop(ready)] = ray.get(ready)
    return results


@accepts("bounded_map")
def a_thread_for_each_place(function, xs, limit):
    task = ray.remote(function)
    with ThreadPoolExecutor(limit) as threads:
        return list(threads.map(lambda x: ray.get(task.remote(x)), xs))


@accepts("bounded_map")
def waits_for_all_but_limit_of_them(function, xs, limit):
    task, refs = ray.remote(function), []
    for x in xs:
        if len(refs) >= limit:
            ray.wait(refs, num_returns=len(refs) - limit + 1)
        refs.append(task.remote(x))
    return ray.get(refs)


@rejects("bounded_map", says="whichever task ends first")
def waits_for_the_oldest(function, xs, limit):
    task, refs = ray.remote(function), []
    for i, x in enumerate(xs):
        if i >= limit:
            ray.wait([refs[i - limit]])
        refs.append(task.remote(x))
    return ray.get(refs)


@rejects("bounded_map")
def in_waves(function, xs, limit):
    results = []
    for i in range(0, len(xs), limit):
        results += ray.get([ray.remote(function).remote(x) for x in xs[i : i + limit]])
    return results


@rejects("bounded_map")
def fills_the_window_before_the_loop(function, xs, limit):
    task = ray.remote(function)
    refs = [task.remote(xs[i]) for i in range(limit)]
    pending = list(refs)
    for x in xs[limit:]:
        _, pending = ray.wait(pending)
        refs.append(task.remote(x))
        pending.append(refs[-1])
    return ray.get(refs)


@rejects("bounded_map", says="seven tasks")
def one_long_task_for_each_place(function, xs, limit):
    run = ray.remote(lambda part: [function(x) for x in part])
    parts = ray.get([run.remote(xs[i::limit]) for i in range(limit)])
    return [parts[i % limit][i // limit] for i in range(len(xs))]


@rejects("bounded_map")
def one_too_many(function, xs, limit):
    return with_a_dictionary(function, xs, limit + 1)


@rejects("bounded_map")
def one_too_few(function, xs, limit):
    return with_a_dictionary(function, xs, limit - 1)


@rejects("bounded_map")
def leaves_it_to_the_resources(function, xs, limit):
    task = ray.remote(function).options(num_cpus=4 // limit)
    return ray.get([task.remote(x) for x in xs])


@rejects("bounded_map", says="yours has")
def a_list_of_waves(function, xs, limit):
    waves = [xs[i : i + limit] for i in range(0, len(xs), limit)]
    return [ray.get([ray.remote(function).remote(x) for x in wave]) for wave in waves]


@rejects("bounded_map", says="must be in the order of the inputs")
def results_in_the_order_of_the_ends(function, xs, limit):
    task, pending, results = ray.remote(function), [], []
    for x in xs:
        if len(pending) == limit:
            done, pending = ray.wait(pending)
            results += ray.get(done)
        pending.append(task.remote(x))
    while pending:
        done, pending = ray.wait(pending)
        results += ray.get(done)
    return results
