"""Calls trainyard.report() 20,000 times, a step every 200 µs (a fast small model), and prints what each call cost.

`report_calls.py PLAIN` measures appending a JSON line to the file PLAIN instead. Prints one JSON object, microseconds.
"""

import json
import statistics
import sys
import time

STEPS, STEP_SECONDS = 20_000, 200e-6


def main():
    if len(sys.argv) > 1:
        with open(sys.argv[1], "a", encoding="utf-8") as file:  # noqa: PTH123
            costs = costs_of(lambda step: file.write(json.dumps({"step": step, "loss": 0.5}) + "\n"))
    else:
        import trainyard

        costs = costs_of(lambda step: trainyard.report(step, loss=0.5))
    centiles = statistics.quantiles(costs, n=100)
    print(json.dumps({"median": statistics.median(costs), "p99": centiles[98], "most": max(costs)}), flush=True)


def costs_of(call):
    """Between the calls the thread computes, as a training step does."""
    clock, costs = time.perf_counter, []
    for step in range(STEPS):
        started = clock()
        call(step)
        ended = clock()
        costs.append((ended - started) * 1e6)
        while clock() - ended < STEP_SECONDS:
            pass
    return costs


if __name__ == "__main__":
    main()
