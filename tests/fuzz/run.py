"""Run many cases: ``python tests/fuzz/run.py --cases 20000``; one case again with ``--seed``.

Cases run in a process of their own that is ended when one of them takes longer than 60 seconds of
the processor. The log has a line of JSON for each case, with the seed that repeats it, and for
findings what was found. A run that was stopped goes on from its log; what it found is run again.
"""

import argparse
import json
import multiprocessing
import sys
import time
import traceback
from collections import Counter
from contextlib import suppress
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
    """Run the cases that a log does not have, and return how many findings there are."""
    done = {seed: entry for seed, entry in _read(log).items() if entry["kind"] != "finding"}
    worker = Worker()
    with open(log, "a") as out:
        for seed in range(first, first + count):
            if seed in done:
                continue
            name, kind, about, took = worker.run(seed)
            entry = {"seed": seed, "of": name.partition("(")[0], "kind": kind}
            entry |= {"seconds": round(took, 2)}
            entry |= {"case": name, "about": about} if kind == "finding" else {}
            done[seed] = entry
            out.write(json.dumps(entry) + "\n")
            out.flush()
            if len(done) % 500 == 0:
                _tell(done.values())
    _tell(done.values())
    return sum(entry["kind"] == "finding" for entry in done.values())


def _read(log):
    """Return the last entry of each seed in a log, whose last line may have been cut off."""
    found = {}
    for line in Path(log).read_text().splitlines() if Path(log).exists() else []:
        with suppress(ValueError):
            entry = json.loads(line)
            found[entry["seed"]] = entry
    return found


def _tell(entries):
    counts = Counter(entry["kind"] for entry in entries)
    seconds = [entry["seconds"] for entry in entries]
    sys.stdout.write(
        f"{len(seconds)} cases: {dict(counts)}, {sum(seconds) / len(seconds):.2f} s each, "
        f"longest {max(seconds):.1f} s\n"
    )
    sys.stdout.flush()


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
