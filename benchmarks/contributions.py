"""How long `view_contributions` takes, in units of one prediction of the same samples.

python benchmarks/contributions.py
"""

import time

import numpy as np

import kernelquilt as kq

N_TRAIN, N_NEW, N_VIEWS = 300, 1000, 8
MODELS = (
    kq.LateFusionClassifier(),
    kq.SimpleMKLClassifier(),
    kq.QuiltClassifier(random_state=0),
)


def seconds(call):
    start = time.process_time()
    call()
    return time.process_time() - start


def main():
    rng = np.random.default_rng(0)
    n = N_TRAIN + N_NEW
    hidden = rng.normal(size=(n, 6))
    y = (hidden[:, 0] + 0.5 * rng.normal(size=n) > 0).astype(int)
    views = {
        f"v{k}": hidden @ rng.normal(size=(6, 5)) + rng.normal(size=(n, 5)) for k in range(N_VIEWS)
    }
    for ratio in (0.5, 0.4, 0.0):
        X = kq.MultiView(views)
        if ratio:
            X = kq.datasets.make_absent(X, ratio, mechanism="mcar", random_state=0)
        new = X[N_TRAIN:]
        subsets = np.mean(2.0 ** new.observed.sum(axis=1))
        for model in MODELS:
            model.fit(X[:N_TRAIN], y[:N_TRAIN])
            predict = getattr(model, "predict_proba", model.decision_function)
            kq.inspection.view_contributions(model, new[:10])  # compiles
            once = min(seconds(lambda call=predict, r=new: call(r)) for _ in range(5))
            whole = min(
                seconds(lambda m=model, r=new: kq.inspection.view_contributions(m, r))
                for _ in range(2)
            )
            print(
                f"{type(model).__name__:<22} {ratio:.0%} absent: {whole / once:5.1f} times one "
                f"{predict.__name__} ({once:.3f} s), {subsets:.0f} subsets a sample",
                flush=True,
            )


if __name__ == "__main__":
    main()
