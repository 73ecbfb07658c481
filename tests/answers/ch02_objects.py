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


@rejects("share_once", says="never in Ray's store")
def captures_the_array_in_a_closure(function, array, xs):
    task = ray.remote(lambda x: function(array, x))
    return ray.get([task.remote(x) for x in xs])


@rejects("share_once", says="does something wait before all are launched?")
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


@rejects("column_sums", says="carry the matrix inside")
def carries_a_view_of_the_matrix_inside(add_rows, ref, blocks):
    matrix = ray.get(ref)
    add = ray.remote(lambda i: add_rows(np.array_split(matrix, blocks)[i]))
    return sum(ray.get([add.remote(i) for i in range(blocks)]))


@rejects("column_sums", says="rows of its own")
def cuts_the_columns(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks, axis=1)[i]))
    return np.concatenate(ray.get([add.remote(ref, i) for i in range(blocks)]))


@rejects("column_sums")
def carries_the_reference_to_the_matrix_inside(add_rows, ref, blocks):
    add = ray.remote(lambda i: add_rows(np.array_split(ray.get(ref), blocks)[i]))
    return sum(ray.get([add.remote(i) for i in range(blocks)]))


@rejects("column_sums")
def gets_each_block_in_the_loop(add_rows, ref, blocks):
    add = ray.remote(lambda matrix, i: add_rows(np.array_split(matrix, blocks)[i]))
    return sum(ray.get(add.remote(ref, i)) for i in range(blocks))


@rejects("column_sums", says="has the shape")
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


@rejects("let_go")
def returns_references_to_rows(refs):
    return [ray.put(ray.get(ref)[0]) for ref in refs]


@rejects("let_go", says="it returned a generator")
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
