"""Blocks of work on several threads: each once, nested, with exceptions, after a fork."""

import multiprocessing
import os
import sys
import threading
import time

import numpy as np
import pytest

from polymargin.problem.problem import OutOfTimeError, computed_ahead, row_blocks, run_blocks


@pytest.mark.parametrize("n_jobs", [1, 2, 5])
def test_every_block_is_worked_on_once(n_jobs):
    seen = np.zeros(103, dtype=int)

    def work(block):
        seen[block] += 1

    run_blocks(work, len(seen), 10, n_jobs)
    assert (seen == 1).all()


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_results_that_are_computed_ahead_come_in_order(n_jobs):
    blocks = list(row_blocks(57, 4))
    found = list(computed_ahead(lambda block: block.start, blocks, n_jobs))
    assert found == [block.start for block in blocks]


def test_who_needs_no_more_results_waits_for_work_that_has_begun():
    begun, ended = [], []

    def work(block):
        begun.append(block)
        time.sleep(0.02)
        ended.append(block)

    results = computed_ahead(work, list(row_blocks(40, 1)), 2)
    next(results)
    results.close()
    assert len(begun) == len(ended) < 40


def test_shared_work_inside_shared_work_ends():
    total = np.zeros((20, 30))

    def outer(rows):
        def inner(columns):
            total[rows, columns] += 1

        run_blocks(inner, 30, 3, 2)
        assert sum(computed_ahead(lambda block: 1, list(row_blocks(8, 1)), 2)) == 8

    done = threading.Thread(target=run_blocks, args=(outer, 20, 1, 2), daemon=True)
    done.start()
    done.join(timeout=60)
    assert not done.is_alive()
    assert (total == 1).all()


def test_an_exception_of_any_block_comes_back_and_ends_the_work():
    seen = []

    def work(block):
        seen.append(block.start)
        if block.start == 3:
            raise ValueError("block 3")

    with pytest.raises(ValueError, match="block 3"):
        run_blocks(work, 10_000, 1, 2)
    assert len(seen) < 10_000


def test_work_is_given_up_when_the_fit_has_to_end():
    with pytest.raises(OutOfTimeError):
        run_blocks(lambda block: None, 100, 1, 2, lambda: "max_time")


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_threads_of_its_own():
    run_blocks(lambda block: None, 4, 1, 2)  # the threads of this process stand ready

    def child():
        seen = set()
        run_blocks(lambda block: seen.add(block.start), 50, 1, 2)
        os._exit(0 if len(seen) == 50 else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(timeout=60)
    assert process.exitcode == 0
