"""Right and wrong answers of chapter 2."""

import numpy as np
import ray

from tests.answers import accepts, rejects

RAY = {"num_cpus": 4, "object_store_memory": 128 * 2**20}
KEPT = []


@accepts("share_once")
def with_a_keyword(function, array, xs):
    shared, task = ray.put(array), ray.remote(lambda x, values: function(values, x))
    return ray.get([task.remote(x, values=shared) for x in xs])


@accepts("share_once")
def returns_an_array(function, array, xs):
    shared, task = ray.put(array), ray.remote(function)
    return np.array(ray.get([task.remote(shared, x) for x in xs]))


@rejects("share_once", says="6 copies of the array")
def by_value_in_a_loop(function, array, xs):
    task = ray.remote(function)
    return ray.get([task.remote(array, x) for x in xs])


@rejects("share_once", says="never went into the object store")
def captures_the_array_in_a_closure(function, array, xs):
    task = ray.remote(lambda x: function(array, x))
    return ray.get([task.remote(x) for x in xs])


@rejects("share_once", says="before you wait for the first result")
def gets_in_the_loop(function, array, xs):
    shared, task = ray.put(array), ray.remote(function)
    return [ray.get(task.remote(shared, x)) for x in xs]


@rejects("share_once")
def one_task_for_everything(function, array, xs):
    return ray.get(ray.remote(lambda values: [function(values, x) for x in xs]).remote(ray.put(array)))


@rejects("share_once")
def hands_over_a_list_with_the_reference(function, array, xs):
    shared, task = ray.put(array), ray.remote(function)
    return ray.get([task.remote([shared], x) for x in xs])


@rejects("share_once")
def carries_the_reference_inside_the_function(function, array, xs):
    shared = ray.put(array)
    task = ray.remote(lambda x: function(ray.get(shared), x))
    return ray.get([task.remote(x) for x in xs])


@rejects("share_once", says="store neither it nor a view anywhere else")
def stores_the_reference(function, array, xs):
    KEPT[:] = [ray.put(array)]
    return ray.get([ray.remote(function).remote(KEPT[0], x) for x in xs])


@rejects("share_once", says="7 copies")
def gets_the_array_and_passes_that(function, array, xs):
    shared, task = ray.put(array), ray.remote(function)
    return ray.get([task.remote(ray.get(shared), x) for x in xs])


@rejects("share_once")
def returns_references(function, array, xs):
    shared, task = ray.put(array), ray.remote(function)
    return [task.remote(shared, x) for x in xs]


@accepts("column_sums")
def with_bounds(add_rows, ref, blocks):
    @ray.remote
    def add(matrix, i):
        begin, end = i * len(matrix) // blocks, (i + 1) * len(matrix) // blocks
        return add_rows(matrix[begin:end])

    return np.sum(ray.get([add.remote(ref, i) for i in range(blocks)]), axis=0)


@accepts("column_sums")
def counts_the_rows_in_the_driver(add_rows, ref, blocks):
    bounds = np.linspace(0, len(ray.get(ref)), blocks + 1).astype(int)
    add = ray.remote(lambda matrix, begin, end: add_rows(matrix[begin:end]))
    return list(sum(ray.get([add.remote(ref, *pair) for pair in zip(bounds, bounds[1:], strict=False)])))


@accepts("column_sums")
def passes_the_function_as_an_argument(add_rows, ref, blocks):
    add = ray.remote(lambda add_rows, matrix, i: add_rows(np.array_split(matrix, blocks)[i]))
    return sum(ray.get([add.remote(add_rows, ref, i) for i in range(blocks)]))


@accepts("column_sums")
def every_nth_row(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(matrix[i::blocks]))
    return sum(ray.get([add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums")
def slices_in_the_driver(add_rows, ref, blocks):
    parts = np.array_split(ray.get(ref), blocks)
    return sum(ray.get([ray.remote(add_rows).remote(part) for part in parts]))


@rejects("column_sums")
def chooses_rows_with_a_list(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(matrix[list(range(i, len(matrix), blocks))]))
    return sum(ray.get([add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums")
def collects_views_in_a_list(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows([matrix[row] for row in range(i, len(matrix), blocks)]))
    return sum(ray.get([add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums", says="the task's own copy")
def carries_a_view_of_the_matrix_inside(add_rows, ref, blocks):
    matrix = ray.get(ref)
    add = ray.remote(lambda i: add_rows(np.array_split(matrix, blocks)[i]))
    return sum(ray.get([add.remote(i) for i in range(blocks)]))


@rejects("column_sums", says="rows of its own, with all of their columns")
def cuts_the_columns(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks, axis=1)[i]))
    return np.concatenate(ray.get([add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums")
def carries_the_reference_to_the_matrix_inside(add_rows, ref, blocks):
    add = ray.remote(lambda i: add_rows(np.array_split(ray.get(ref), blocks)[i]))
    return sum(ray.get([add.remote(i) for i in range(blocks)]))


@rejects("column_sums", says="and no others")
def adds_up_in_one_more_task(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks)[i]))
    return ray.get(ray.remote(lambda *parts: sum(parts)).remote(*[add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums", says="call `add_rows` in each of them")
def never_calls_the_function(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: np.array_split(matrix, blocks)[i].sum(axis=0))
    return sum(ray.get([add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums")
def gets_each_block_in_the_loop(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks)[i]))
    return sum(ray.get(add.remote(ref, i)) for i in range(blocks))


@rejects("column_sums", says="shape (64,)")
def returns_the_sums_of_each_block(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks)[i]))
    return ray.get([add.remote(ref, i) for i in range(blocks)])


@rejects("column_sums", says="exactly one block")
def forgets_the_last_rows(add_rows, ref, blocks):
    def add(matrix, i):
        height = len(matrix) // blocks
        return add_rows(matrix[i * height : (i + 1) * height])

    return sum(ray.get([ray.remote(add).remote(ref, i) for i in range(blocks)]))


@rejects("column_sums")
def all_rows_in_one_task(add_rows, ref, blocks):
    return ray.get(ray.remote(add_rows).remote(ref))


@rejects("column_sums")
def adds_in_the_driver(add_rows, ref, blocks):
    return sum(add_rows(part) for part in np.array_split(ray.get(ref), blocks))


@rejects("column_sums")
def passes_the_reference_in_a_list_and_slices_that(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks)[i]))
    return sum(ray.get([add.remote([ref], i) for i in range(blocks)]))


@accepts("pipeline")
def gets_the_list_inside_the_task(prepare, join, refs):
    prepared = [ray.remote(prepare).remote(ref) for ref in refs]
    return ray.remote(lambda nested: join(ray.get(nested))).remote(prepared)


@accepts("pipeline")
def launches_the_tasks_inside_a_task(prepare, join, refs):
    prepare_task = ray.remote(prepare)
    return ray.remote(lambda nested: join(ray.get([prepare_task.remote(ref) for ref in nested]))).remote(refs)


@rejects("pipeline")
def hands_a_list_of_references_to_join(prepare, join, refs):
    prepared = [ray.remote(prepare).remote(ref) for ref in refs]
    return ray.remote(join).remote(prepared)


@accepts("pipeline")
def hands_a_tuple_by_name(prepare, join, refs):
    prepared = [ray.remote(prepare).remote(ref) for ref in refs]
    return ray.remote(lambda *values: join(values=values)).remote(*prepared)


@rejects("pipeline")
def spreads_the_values_over_join(prepare, join, refs):
    return ray.remote(join).remote(*[ray.remote(prepare).remote(ref) for ref in refs])


@rejects("pipeline")
def gets_in_the_driver(prepare, join, refs):
    prepared = ray.get([ray.remote(prepare).remote(ref) for ref in refs])
    return ray.remote(join).remote(prepared)


@rejects("pipeline", says="waited for a value")
def waits_for_all_values_without_getting_them(prepare, join, refs):
    ray.wait(refs, num_returns=len(refs))
    return ray.remote(lambda *values: join(values)).remote(*[ray.remote(prepare).remote(ref) for ref in refs])


@rejects("pipeline", says="in the order of `refs`")
def turns_the_order_round(prepare, join, refs):
    prepared = [ray.remote(prepare).remote(ref) for ref in reversed(refs)]
    return ray.remote(lambda *values: join(values)).remote(*prepared)


@rejects("pipeline")
def returns_ray_put(prepare, join, refs):
    @ray.remote
    def join_all(*values):
        return ray.put(join(list(values)))

    return join_all.remote(*[ray.remote(prepare).remote(ref) for ref in refs])


@rejects("pipeline")
def prepares_with_ray_put(prepare, join, refs):
    prepare_task = ray.remote(lambda value: ray.put(prepare(value)))
    return ray.remote(lambda *values: join(list(values))).remote(*[prepare_task.remote(ref) for ref in refs])


@rejects("pipeline")
def returns_the_value(prepare, join, refs):
    prepared = [ray.remote(prepare).remote(ref) for ref in refs]
    return ray.get(ray.remote(lambda *values: join(list(values))).remote(*prepared))


@rejects("pipeline")
def prepares_references_in_a_list(prepare, join, refs):
    prepared = [ray.remote(prepare).remote([ref]) for ref in refs]
    return ray.remote(lambda *values: join(list(values))).remote(*prepared)


@rejects("pipeline")
def all_in_one_task(prepare, join, refs):
    return ray.remote(lambda *values: join([prepare(value) for value in values])).remote(*refs)


@rejects("pipeline")
def forgets_to_prepare(prepare, join, refs):
    return ray.remote(lambda *values: join(list(values))).remote(*refs)


@accepts("let_go")
def takes_the_row_in_a_task(refs):
    first = ray.remote(lambda array: array[0].tolist())
    return [np.array(row) for row in ray.get([first.remote(ref) for ref in refs])]


@accepts("let_go")
def copies_by_np_array(refs):
    return [np.array(ray.get(ref)[0]) for ref in refs]


@accepts("let_go")
def copies_all_rows_into_one_array(refs):
    return list(np.array([ray.get(ref)[0] for ref in refs]))


@accepts("let_go")
def an_array_of_all_first_rows(refs):
    return np.stack([ray.get(ref)[0] for ref in refs])


@rejects("let_go")
def copies_the_whole_array(refs):
    return [ray.get(ref).copy()[0] for ref in refs]


@rejects("let_go")
def keeps_a_view_of_the_row(refs):
    return [ray.get(ref)[0] for ref in refs]


@rejects("let_go")
def remembers_the_references(refs):
    KEPT[:] = refs
    return [ray.get(ref)[0].copy() for ref in refs]


@rejects("let_go")
def remembers_the_arrays(refs):
    KEPT[:] = ray.get(refs)
    return [array[0].copy() for array in KEPT]


@rejects("let_go", says="1 of the")
def still_has_the_last_array(refs):
    rows = []
    for ref in refs:
        KEPT[:] = [ray.get(ref)]
        rows.append(KEPT[0][0].copy())
    return rows


@rejects("let_go", says="something else is in it now")
def puts_a_copy_of_each_array(refs):
    KEPT[:] = [ray.put(ray.get(ref).copy()) for ref in refs]
    return [ray.get(ref)[0].copy() for ref in refs]


@rejects("let_go")
def returns_references_to_rows(refs):
    return [ray.put(ray.get(ref)[0]) for ref in refs]


@rejects("let_go", says="It returned a generator")
def yields_the_rows(refs):
    return (ray.get(ref)[0].copy() for ref in refs)


@rejects("let_go")
def takes_the_last_row(refs):
    return [ray.get(ref)[-1].copy() for ref in refs]


@accepts("read_once")
def a_task_for_each_block(functions, refs):
    work = ray.remote(lambda block: [function(block) for function in functions])
    by_block = ray.get([work.remote(ref) for ref in refs])
    return [[row[i] for row in by_block] for i in range(len(functions))]


@accepts("read_once")
def appends_to_each_list(functions, refs):
    results = [[] for _ in functions]
    for ref in refs:
        block = ray.get(ref)
        for function, column in zip(functions, results, strict=True):
            column.append(function(block))
    return results


@accepts("read_once")
def gets_the_block_again_while_it_is_in_the_store(functions, refs):
    return list(zip(*[[function(ray.get(ref)) for function in functions] for ref in refs], strict=True))


def _so_many_at_once(count, functions, refs):
    results = [[] for _ in functions]
    for start in range(0, len(refs), count):
        blocks = ray.get(refs[start : start + count])
        for function, column in zip(functions, results, strict=True):
            column.extend(map(function, blocks))
    return results


@accepts("read_once")
def four_blocks_at_once(functions, refs):
    return _so_many_at_once(4, functions, refs)


@rejects("read_once", says="held 5 blocks")
def five_blocks_at_once(functions, refs):
    return _so_many_at_once(5, functions, refs)


@rejects("read_once", says="worked on a copy")
def copies_the_blocks(functions, refs):
    blocks = [ray.get(ref).copy() for ref in refs]
    return [[function(block) for block in blocks] for function in functions]


@rejects("read_once", says="from disk 4")
def two_functions_in_each_pass(functions, refs):
    passes = [
        [[function(block) for function in pair] for block in map(ray.get, refs)]
        for pair in (functions[:2], functions[2:])
    ]
    return [list(results) for by_block in passes for results in zip(*by_block, strict=True)]


@rejects("read_once")
def functions_in_the_outer_loop(functions, refs):
    return [[function(ray.get(ref)) for ref in refs] for function in functions]


@rejects("read_once")
def gets_everything_first(functions, refs):
    blocks = ray.get(refs)
    return [[function(block) for block in blocks] for function in functions]


@rejects("read_once")
def forgets_to_turn_the_table(functions, refs):
    by_block = []
    for ref in refs:
        block = ray.get(ref)
        by_block.append([function(block) for function in functions])
    return by_block


@rejects("read_once")
def keeps_the_blocks_it_has_read(functions, refs):
    blocks, by_block = [], []
    for ref in refs:
        blocks.append(ray.get(ref))
        by_block.append([function(blocks[-1]) for function in functions])
    return list(zip(*by_block, strict=True))
