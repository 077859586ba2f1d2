"""Warnings name the line of the user, whatever stands in between."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

import kernelquilt as kq


@pytest.mark.parametrize("pipeline", [False, True])
@pytest.mark.parametrize(
    "completer", [kq.completion.MeanFill(), kq.TransferFill(), kq.completion.SVTFill(max_iter=1)]
)
def test_warnings_of_completers_are_of_the_line_that_called_them(completer, pipeline):
    A = np.random.RandomState(0).normal(size=(3, 12, 4))
    observed = np.arange(12)[:, None] % 3 != np.arange(3)
    observed[0] = observed[11] = False
    stack = kq.KernelStack(A @ A.transpose(0, 2, 1), observed)
    model = make_pipeline(kq.ScaleKernels(), completer) if pipeline else completer
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(stack[:8])
        model.fit_transform(stack[:8])
        model.transform(stack[8:])
    texts = [str(each.message) for each in caught]
    assert sum("no observed kernel" in text for text in texts) == 3
    assert {each.filename for each in caught} == {__file__}
    if completer.__class__.__name__ == "SVTFill":
        assert any(each.category is ConvergenceWarning for each in caught)


def test_warnings_of_solvers_are_of_the_line_that_called_fit():
    X = np.random.RandomState(0).normal(size=(20, 2))
    model = kq.mkl.SampleAdaptiveMKLClassifier(views={"one": [0], "two": [1]})
    with pytest.warns(UserWarning, match="no kernel is switched") as caught:
        model.fit(X, np.arange(20) % 2)
    assert caught[0].filename == __file__
