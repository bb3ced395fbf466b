"""A program with processes of every kind and without PyTorch, none of which is a rank. Prints what they computed."""

import concurrent.futures
import multiprocessing
import sys


def square(number):
    return number * number


def put(queue, number):
    queue.put(square(number))
    if number == 3:
        sys.exit(7)


if __name__ == "__main__":
    results = []
    for how in ("spawn", "fork", "forkserver"):
        context = multiprocessing.get_context(how)
        queue = context.SimpleQueue()
        process = context.Process(target=put, args=(queue, 3))
        process.start()
        process.join()
        results.append((queue.get(), process.exitcode))
        with context.Pool(1) as pool:
            results.append(pool.map(square, [4]))
        with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
            results.append(list(pool.map(square, [5])))
    with multiprocessing.Manager() as manager:
        results.append(list(manager.list([6])))
    print(results)
