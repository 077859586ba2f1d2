"""What the runner of experiments costs, and whether it survives being killed.

Run with ``python benchmarks/experiments.py [--data-dir DIRECTORY] [--kills 100]``. Cells are timed
on ionosphere (351 samples) if the data directory has it, otherwise on a synthetic set of its size.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from core import report
from kernelquilt.experiments.running.runner import count_open, run_study
from kernelquilt.experiments.running.store import Store
from kernelquilt.experiments.study.protocol import DataSet, load_protocol
from kernelquilt.experiments.study.sources import DataDirectory
from kernelquilt.experiments.study.splits import make_split

LIMITS = {"I-AMKL": 20.0, "EM": np.inf, "SVT": np.inf}
RATIOS = [0.1, 0.5, 0.9]
N_TASKS = 9 * 9 * 30  # sets, ratios and repetitions of the full protocol


def directory_of(data_dir, temporary):
    """Return a directory with the data set to time, and its name."""
    if data_dir and (Path(data_dir) / "ionosphere.npz").is_file():
        return Path(data_dir), "ionosphere"
    print("     no ionosphere.npz in the data directory: a synthetic set of its size is used")
    rng = np.random.default_rng(0)
    y = np.where(rng.random(351) < 0.36, -1, 1)
    X = rng.normal(size=(351, 33)) + 0.35 * y[:, None]
    np.savez(temporary / "synthetic.npz", X=X, y=y)
    return temporary, "synthetic"


def first_study(name, **changes):
    study = load_protocol("absent-mkl")[0]
    return replace(study, datasets=[DataSet(name)], **changes)


def cell_costs(directory, name, path):
    """Time the cells of the first table of absent MKL: 5 folds x 9 penalties, and the last fit.

    CPU time, with the kernels and the store, so that other programs do not count.
    """
    study = first_study(name, settings=RATIOS, repetitions=1)
    load = DataDirectory(directory)
    run_study(replace(study, settings=[0.3]), path, load)  # compiles

    def seconds_of(some, store):
        seconds = []
        for ratio in RATIOS:
            begun = time.process_time()
            run_study(replace(some, settings=[ratio]), store, load)
            seconds.append(time.process_time() - begun)
        return seconds

    at = f"CPU seconds at {', '.join(f'{ratio:.0%}' for ratio in RATIOS)} absent"
    what = "absent-mkl Table 1, n = 351, M = 20"
    for method in study.methods:
        seconds = seconds_of(replace(study, methods=[method]), path)
        limit = LIMITS.get(method, 3.0)
        report(
            f"{what}, one cell of {method!r}: {at}",
            ", ".join(f"{value:.2f}" for value in seconds),
            "-" if limit == np.inf else f"< {limit:g}",
            np.mean(seconds) < limit,
        )
    seconds = seconds_of(study, path.with_name("tasks.sqlite"))
    mean = float(np.mean(seconds))
    report(
        f"{what}, all methods of a task, which share their kernels: {at}",
        f"{', '.join(f'{value:.1f}' for value in seconds)}, {mean:.1f} on average",
        "< 12",
        mean < 12.0,
    )
    print(f"     {N_TASKS * mean / 3600:.0f} core hours for {N_TASKS} such tasks")


def overhead(directory, name, path):
    """Compare cheap cells, and the making of their kernels, with the run around them."""
    study = first_study(name, methods=["ZF", "MF", "zero SVC", "C-AMKL"], repetitions=2)
    load = DataDirectory(directory)
    run_study(replace(study, settings=[0.3], repetitions=1), path, load)
    path.unlink()
    begun = time.perf_counter()
    run_study(study, path, load)
    elapsed = time.perf_counter() - begun
    with Store(path) as store:
        spent = sum(row.seconds for row in store.rows())
    begun = time.perf_counter()
    for cell in replace(study, methods=["ZF"]).cells():
        _ = make_split(cell, load(cell.dataset)).stacks
    kernels = time.perf_counter() - begun
    share = (elapsed - spent - kernels) / spent
    report(
        f"runner and store beside the four cheapest methods, {len(study.settings) * 2} tasks",
        f"{share:.2%} (and kernels {kernels / spent:.1%})",
        "< 5 %",
        share < 0.05,
    )


SWEEP = """
import sys
from pathlib import Path
from kernelquilt.experiments.running.runner import run_study
from kernelquilt.experiments.study.sources import DataDirectory
sys.path.insert(0, sys.argv[1])
from experiments import sweep
directory, path = Path(sys.argv[2]), Path(sys.argv[3])
run_study(sweep(sys.argv[4]), path, DataDirectory(directory), n_jobs=2)
"""


def sweep(name):
    """Return a study of 900 short cells."""
    methods = ["ZF", "zero SVC", "observed fraction", "C-AMKL", "complete only"]
    study = first_study(name, methods=methods, repetitions=20, folds=2)
    return replace(study, grid={"C": [1.0, 8.0]})


def kills(directory, name, path, count):
    """Kill a running sweep again and again, then compare its rows with an undisturbed run."""
    study = sweep(name)
    undisturbed = path.with_name("undisturbed.sqlite")
    run_study(study, undisturbed, DataDirectory(directory), n_jobs=2)
    rng = np.random.default_rng(0)
    total = count_open(study, path)
    command = [
        sys.executable, "-c", SWEEP, str(Path(__file__).parent), str(directory), str(path), name
    ]  # fmt: skip
    killed = 0
    while left := count_open(study, path):
        process = subprocess.Popen(command, start_new_session=True)
        # strike at a random moment, early enough that all strikes find work in progress
        target = max(left - rng.integers(1, 2 * total // max(count, 1)), total // 50)
        while process.poll() is None:
            time.sleep(rng.uniform(0.0, 0.02))
            if killed < count and count_open(study, path) <= target:
                os.killpg(process.pid, signal.SIGKILL)
                killed += 1
        process.wait()
    with Store(path) as one, Store(undisturbed) as other:
        rows = [{row.key: _lasting(row) for row in store.rows()} for store in (one, other)]
    lost = sum(rows[0].get(key) != row for key, row in rows[1].items())
    report(
        f"{killed} SIGKILLs of a sweep of {total} cells: rows that differ from an undisturbed run",
        f"{lost + len(rows[0]) - len(rows[1])}",
        "0",
        lost == 0 and len(rows[0]) == len(rows[1]),
    )


def _lasting(row):
    figures = {k: v for k, v in row.figures.items() if not k.endswith("seconds")}
    return replace(row, seconds=0.0, figures=figures)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", default=os.environ.get("KERNELQUILT_DATA"))
    parser.add_argument("--kills", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        temporary = Path(place)
        directory, name = directory_of(options.data_dir, temporary)
        cell_costs(directory, name, temporary / "costs.sqlite")
        overhead(directory, name, temporary / "overhead.sqlite")
        kills(directory, name, temporary / "killed.sqlite", options.kills)
