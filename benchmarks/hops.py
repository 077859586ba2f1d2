"""Count what one small fit walks through: files, folders, functions, depth.

Run ``python benchmarks/hops.py``, or with ``--steps`` for the path itself. The problem has 60
samples of three views, 40 % of them absent, and two classes; the estimators have their default
parameters. The second fit is followed with `sys.setprofile`, after imports and compilation, and
only functions of the package count, told apart by file and qualified name.

* A *file* is a module of which a function runs; it is *outside the core* if not below ``core/``.
* A *folder* is the directory of the module below the package: ``core/svm`` and ``core/weights`` are
  two, the package itself is one. A *layer* is its first part: ``core``.
* A *step* is the first call of one function by another: what somebody reads who follows the fit and
  looks into every call once. Comprehensions and lambdas are no steps.
* A *change* of file, folder or layer is one between two steps that follow each other.
* *At first sight* leaves out the steps to functions that were called from elsewhere before.
* *As files are opened* counts the changes of folder in the list of files, each where it is first
  entered.
* The *depth* is the largest number of frames of the package below `fit`.
"""

import argparse
import os
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import PurePath

import kernelquilt as kq

PACKAGE = PurePath(kq.__file__).parent
ESTIMATORS = (kq.QuiltClassifier, kq.ConvexAbsentMKLClassifier)


@dataclass
class Walk:
    """The first calls in their order, every function that ran, and the largest depth."""

    steps: list[tuple[PurePath, str]] = field(default_factory=list)
    functions: set[tuple[PurePath, str]] = field(default_factory=set)
    depth: int = 0

    def figures(self):
        """Return the rows of the table."""
        files = {file for file, _ in self.functions}
        path = [file for file, _ in self.steps]
        first = [file for file, _ in dict.fromkeys(self.steps)]
        opened = dict.fromkeys(path)
        return {
            "files": len(files),
            "files outside the core": sum(layer(file) != "core" for file in files),
            "folders": len({file.parent for file in files}),
            "layers": len({layer(file) for file in files}),
            "functions": len(self.functions),
            "depth": self.depth,
            "steps": len(path),
            "changes of file": changes(path),
            "changes of folder": changes([file.parent for file in path]),
            "folder, at first sight": changes([file.parent for file in first]),
            "folder, as files are opened": changes([file.parent for file in opened]),
            "changes of layer": changes([layer(file) for file in path]),
            "layer, at first sight": changes([layer(file) for file in first]),
        }


def layer(file):
    """Return the first folder below the package, an empty name for the package itself."""
    return "" if len(file.parts) == 1 else file.parts[0]


def changes(path):
    """Count the places at which two neighbours differ."""
    return sum(one != other for one, other in pairwise(path))


def follow(call):
    """Return the walk of `call` through the package."""
    walk, pairs, depth = Walk(), set(), -1

    def own(frame):
        return PACKAGE in PurePath(frame.f_code.co_filename).parents

    def name(frame):
        code = frame.f_code
        return PurePath(code.co_filename).relative_to(PACKAGE), code.co_qualname

    def profile(frame, event, _):
        nonlocal depth
        if event not in ("call", "return") or not own(frame):
            return
        depth += 1 if event == "call" else -1
        walk.depth = max(walk.depth, depth)
        if event == "return":
            return
        callee = name(frame)
        walk.functions.add(callee)
        caller = frame.f_back
        while caller is not None and not own(caller):
            caller = caller.f_back
        pair = caller and name(caller), callee
        if pair not in pairs and not frame.f_code.co_name.startswith("<"):
            pairs.add(pair)
            walk.steps.append(callee)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def main():
    """Print the table, and the paths if asked to."""
    parser = argparse.ArgumentParser(description="What one fit walks through.")
    parser.add_argument("--steps", action="store_true", help="print the path of each fit")
    show_steps = parser.parse_args().steps
    X, y = kq.datasets.make_multiview(60, 3, random_state=0)
    X = kq.datasets.make_absent(X, 0.4, random_state=0)
    walks = {}
    for estimator in ESTIMATORS:
        model = estimator().fit(X, y)
        walks[f"{estimator.__name__}.fit"] = follow(partial(model.fit, X, y))
    columns = {name: walk.figures() for name, walk in walks.items()}
    print(f"{'':<28}", *columns)
    for row in next(iter(columns.values())):
        print(f"{row:<28}", *(f"{rows[row]:>{len(name)}}" for name, rows in columns.items()))
    if show_steps:
        for name, walk in walks.items():
            print(f"\n{name}")
            for file, function in walk.steps:
                print(f"  {file!s:<44} {function}")


if __name__ == "__main__":
    main()
