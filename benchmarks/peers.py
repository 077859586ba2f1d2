"""Run other multiple kernel learning packages beside ours, each in its own environment.

None of the peers is a dependency of this project. Each lives in a virtual environment of its own,
and an environment variable names that environment's Python; a peer whose variable is not set is
left out.

KERNELQUILT_PEER_MKLPY
    easymkl, gram, rmkl: ``pip install torch`` (a CPU build, first, or the next command may fetch
    one with CUDA), then ``pip install MKLpy==0.6 cvxopt``.
KERNELQUILT_PEER_SKMM
    skmm_mkl: ``pip install scikit-multimodallearn==0.1.0``.
KERNELQUILT_PEER_HIMALAYA
    himalaya_random: ``pip install himalaya==0.4.11 packaging`` (himalaya needs packaging without
    declaring it).

For example::

    python -m venv peers/himalaya
    peers/himalaya/bin/pip install himalaya==0.4.11 packaging
    export KERNELQUILT_PEER_HIMALAYA=$PWD/peers/himalaya/bin/python

From our side, with kernels in hand::

    peers.write_problem(path, K_train, K_test, y_train, y_test, C)
    peers.run_peer(peers.interpreter("easymkl"), "easymkl", path, timeout=150)

which starts ``PEER_PYTHON benchmarks/peers.py easymkl problem.npz``. That command prints one line
of JSON with the keys

- ``peer``: its name here;
- ``cpu_seconds``, ``wall_seconds``: of ``fit`` alone, with one BLAS thread, imports, loading and
  conversion of the kernels left out;
- ``accuracy``: on the test kernels;
- ``weights``: one per kernel, summing to 1; in a problem of several classes a list of those, in
  the order of the sorted classes;
- ``loaded_mb``, ``peak_mb``: the largest resident memory of the process before the peer is
  imported, with the training kernels loaded, and at the end of ``fit``;
- ``error``: None, or what went wrong, in which case what was not reached is None.

The settings are the packages' defaults except where a comment says otherwise. What the peers
minimise differs from one to the next and from ours: the value of our objective at their weights
says how far they stop from it, not that they are wrong.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "BLIS_NUM_THREADS": "1",
    "VECLIB_MAXIMUM_THREADS": "1",
}

VARIABLES = {
    "easymkl": "KERNELQUILT_PEER_MKLPY",
    "gram": "KERNELQUILT_PEER_MKLPY",
    "rmkl": "KERNELQUILT_PEER_MKLPY",
    "skmm_mkl": "KERNELQUILT_PEER_SKMM",
    "himalaya_random": "KERNELQUILT_PEER_HIMALAYA",
}

FIELDS = ("cpu_seconds", "wall_seconds", "accuracy", "weights", "loaded_mb", "peak_mb", "error")


# Our side: this part runs in the interpreter of the project.


def interpreter(name):
    """Return the Python which the environment names for a peer, or None."""
    return os.environ.get(VARIABLES[name]) or None


def write_problem(path, K_train, K_test, y_train, y_test, C):
    """Save kernels of shape (M, n, n) and (M, n_test, n) with labels and C for the peers."""
    import numpy as np

    K_train, K_test = np.asarray(K_train), np.asarray(K_test)
    y_train, y_test = np.asarray(y_train), np.asarray(y_test)
    M, n = K_train.shape[:2]
    if K_train.shape != (M, n, n) or K_test.shape != (M, len(y_test), n) or y_train.shape != (n,):
        raise ValueError(
            f"kernels of shape {K_train.shape} and {K_test.shape} do not fit "
            f"{len(y_train)} training and {len(y_test)} test labels"
        )
    with open(path, "wb") as file:
        np.savez(file, K_train=K_train, K_test=K_test, y_train=y_train, y_test=y_test, C=float(C))


def run_peer(interpreter: str | None, name: str, problem: Path, timeout: float) -> dict:
    """Fit a peer in a fresh process of its own interpreter and return what it reports.

    Never raises for what the peer does: a missing interpreter, a failure or running for longer
    than `timeout` seconds (of wall time, start and imports included) is told under "error".
    """
    result = {"peer": name, **dict.fromkeys(FIELDS)}
    if not interpreter:
        return result | {"error": f"skipped: {VARIABLES[name]} is not set"}
    try:
        done = subprocess.run(
            [interpreter, str(Path(__file__).resolve()), name, str(problem)],
            env={**os.environ, **ONE_THREAD},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return result | {"error": "timeout"}
    except OSError as error:
        return result | {"error": f"{type(error).__name__}: {error}"}
    try:
        return result | json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        lines = done.stderr.strip().splitlines()
        reason = lines[-1] if lines else "no output"
        return result | {"error": f"exit code {done.returncode}: {reason}"}


# The peers: each function runs in the interpreter of its package only. It gets the training
# kernels, the labels 0, 1, ... and C, and returns three functions: fit(), predict(kernels) and
# weights(), the last as an array (M,) or (classes, M).


def mklpy(algorithm, K, y, cost, **settings):
    import numpy as np
    import torch
    from MKLpy import algorithms
    from sklearn.svm import SVC

    def tensors(kernels):
        return [torch.from_numpy(kernel) for kernel in kernels]

    KL, Y = tensors(K), torch.from_numpy(y)
    model = getattr(algorithms, algorithm)(learner=SVC(C=cost), **settings)

    def weights():
        solution = model.solution
        if isinstance(solution, dict):
            return np.array([np.asarray(solution[label].weights) for label in sorted(solution)])
        return np.asarray(solution.weights)

    return lambda: model.fit(KL, Y), lambda kernels: model.predict(tensors(kernels)), weights


def easymkl(K, y, C):
    return mklpy("EasyMKL", K, y, C)


def gram(K, y, C):
    # 100 steps instead of 1000: there is no test of convergence, so all of them are made
    return mklpy("GRAM", K, y, C, max_iter=100)


def rmkl(K, y, C):
    # likewise; C goes to the final SVM, R-MKL's own constant keeps its default of 1
    return mklpy("RMKL", K, y, C, max_iter=100)


def skmm_mkl(K, y, C):
    import numpy as np
    from multimodal.kernels.lpMKL import MKL

    model = MKL(lmbda=1 / C, kernel="precomputed")
    return (
        lambda: model.fit(dict(enumerate(K)), y),
        lambda kernels: model.predict(dict(enumerate(kernels))),
        lambda: np.asarray(model.weights),
    )


def himalaya_random(K, y, C):
    # chooses its regulariser, so C is not used; 20 draws of weights instead of 100
    import numpy as np
    from himalaya.kernel_ridge import MultipleKernelRidgeCV

    labels = np.unique(y)
    columns = labels[1:] if len(labels) == 2 else labels
    targets = np.where(y[:, None] == columns, 1.0, -1.0)
    model = MultipleKernelRidgeCV(
        kernels="precomputed",
        solver="random_search",
        solver_params={"n_iter": 20, "alphas": np.logspace(-4, 4, 9), "progress_bar": False},
        cv=5,
        random_state=0,
    )

    def predict(kernels):
        scores = np.asarray(model.predict(kernels))
        return (scores[:, 0] > 0).astype(int) if len(columns) == 1 else scores.argmax(axis=1)

    def weights():
        found = np.exp(np.asarray(model.deltas_)).T
        return found[0] if len(columns) == 1 else found

    return lambda: model.fit(K, targets), predict, weights


PEERS = {
    "easymkl": easymkl,
    "gram": gram,
    "rmkl": rmkl,
    "skmm_mkl": skmm_mkl,
    "himalaya_random": himalaya_random,
}


def peak_mb():
    """Return the largest resident memory this process has had, in MB."""
    # not ru_maxrss where it can be avoided: on Linux a child inherits the peak of its parent
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024 / 1e6
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak * 1024 / 1e6


def measure(name, problem, result):
    """Fit one peer on a saved problem, filling in the result as it goes."""
    import numpy as np

    with np.load(problem) as data:
        K, C = data["K_train"], float(data["C"])
        labels, y = np.unique(data["y_train"], return_inverse=True)
        result["loaded_mb"] = peak_mb()

        fit, predict, weights = PEERS[name](K, y, C)
        cpu, wall = time.process_time(), time.perf_counter()
        fit()
        result["cpu_seconds"] = time.process_time() - cpu
        result["wall_seconds"] = time.perf_counter() - wall
        result["peak_mb"] = peak_mb()

        found = np.asarray(weights(), dtype=float)
        result["weights"] = (found / found.sum(axis=-1, keepdims=True)).tolist()
        predicted = np.asarray(predict(data["K_test"])).astype(int)
        result["accuracy"] = float(np.mean(labels[predicted] == data["y_test"]))


def main():
    parser = argparse.ArgumentParser(description="Fit one peer and print a line of JSON.")
    parser.add_argument("name", choices=PEERS)
    parser.add_argument("problem", type=Path, help="a file made by write_problem")
    arguments = parser.parse_args()

    os.environ.update(ONE_THREAD)  # before numpy is imported
    result = {"peer": arguments.name, **dict.fromkeys(FIELDS)}
    with contextlib.redirect_stdout(sys.stderr):
        try:
            measure(arguments.name, arguments.problem, result)
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
    print(json.dumps(result))


if __name__ == "__main__":
    main()
