"""Run many cases: ``python tests/fuzz/run.py --cases 20000``; one case again with ``--seed``.

Cases run in a process of their own that is ended when one of them takes longer than 60 seconds of
the processor. Findings are written to a log, a line of JSON each, with the seed that repeats them.
"""

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

LIMIT = 60.0  # seconds of the processor that a case may take
PATIENCE = 900.0  # seconds on the clock after which a case counts as stuck


def limit_processor(seconds):
    """End this process once it has used more seconds, where the system can do that."""
    try:
        import resource
    except ImportError:
        return
    used = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, hard))


def work(connection):
    """Run the cases whose seeds arrive, and send what came of them."""
    from fuzz.cases import make_case, outcome_of

    while (seed := connection.recv()) is not None:
        limit_processor(LIMIT)
        begun = time.process_time()
        case = make_case(seed)
        outcome = outcome_of(case)
        connection.send((case.name, *outcome, time.process_time() - begun))


class Worker:
    """A process that runs cases, started anew after one that did not come back."""

    def __init__(self):
        self.process = None

    def run(self, seed):
        if self.process is None or not self.process.is_alive():
            context = multiprocessing.get_context("spawn")
            self.connection, other = context.Pipe()
            self.process = context.Process(target=work, args=(other,), daemon=True)
            self.process.start()
            other.close()
        self.connection.send(seed)
        try:
            if self.connection.poll(PATIENCE):
                return self.connection.recv()
        except EOFError:
            pass
        self.process.kill()
        self.process.join()
        self.process = None
        return "", "finding", "did not come back", LIMIT


def run_many(first, count, log):
    worker, counts, seconds = Worker(), Counter(), []
    with open(log, "w") as out:
        for seed in range(first, first + count):
            name, kind, about, took = worker.run(seed)
            counts[kind] += 1
            seconds.append(took)
            if kind == "finding":
                entry = {"seed": seed, "case": name, "about": about, "seconds": round(took, 2)}
                out.write(json.dumps(entry) + "\n")
                out.flush()
            if (seed - first + 1) % 500 == 0:
                sys.stdout.write(f"{seed - first + 1} cases: {dict(counts)}\n")
                sys.stdout.flush()
    sys.stdout.write(
        f"{count} cases from seed {first}: {dict(counts)}, {sum(seconds):.0f} s, "
        f"longest {max(seconds):.1f} s; findings are in {log}\n"
    )
    return counts["finding"]


def run_one(seed):
    from fuzz.cases import make_case, outcome_of

    case = make_case(seed)
    sys.stdout.write(f"seed {seed}: {case.name}\n{outcome_of(case)}\n")
    try:
        make_case(seed).run()
    except Exception:
        traceback.print_exc()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this case alone, and show its traceback")
    parser.add_argument("--log", default="fuzz.jsonl")
    given = parser.parse_args()
    if given.seed is not None:
        run_one(given.seed)
        return 0
    return 1 if run_many(given.first, given.cases, given.log) else 0


if __name__ == "__main__":
    sys.exit(main())
