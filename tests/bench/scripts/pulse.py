"""Reports points at a steady rate and computes nothing: `pulse.py --per-second 1000 --seconds 15 [--lines 0]`."""

import argparse
import math
import time

import trainyard

TICK_SECONDS = 0.005


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--per-second", type=float, default=1000.0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--lines", type=float, default=0.0, help="lines of log per second")
    arguments = parser.parse_args()
    began, points, lines = time.monotonic(), 0, 0
    while (passed := time.monotonic() - began) < arguments.seconds and not trainyard.should_stop():
        while points < passed * arguments.per_second:
            trainyard.report(points, loss=math.sin(points / 100))
            points += 1
        while lines < passed * arguments.lines:
            print(f"line {lines}: the loss is {math.sin(points / 100):.6f}", flush=True)
            lines += 1
        time.sleep(TICK_SECONDS)


if __name__ == "__main__":
    main()
