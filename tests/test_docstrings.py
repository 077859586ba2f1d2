"""Docstrings have the form of numpydoc and an example, and tell the same in the same words."""

import doctest
import inspect
import re

import pytest
from numpydoc.docscrape import NumpyDocString
from numpydoc.validate import validate
from sklearn.utils._testing import assert_docstring_consistency

import kernelquilt as kq
from discovery import estimators, public, public_callables

# words that mean something else wherever they stand
WORDS = {
    *("eps", "estimator", "init", "lam", "method", "n_components", "n_landmarks", "rank", "ridge"),
    "solver",
}
# estimators in which a shared word means something else
APART = {
    "kernels": {
        kq.ViewKernels: "is what the others refer to",
        kq.kernels.SelectKernels: "positions or names, of kernels that there are",
    },
    "weights": {kq.completion.KNNFill: "of neighbours"},
    "verbose": {
        kq.MKLSearchCV: "of joblib",
        kq.completion.CompletionSearchCV: "of joblib",
    },
}
# what the texts have in common that go on about the estimator, or whose defaults differ
COMMON = {
    "C": "Penalty on (margin violations|errors beyond `epsilon`)",
    "c": "Penalty on the norm, of all kernels or of each: larger is smoother, unlike a `C`.$",
    "class_weight": r"Factors on .+ by class\.$",
    "completion": "What fills absent kernels, ",
    "kernels": "Kernels of the views, as in `ViewKernels`; ",
    "lam1": "Weight of the agreement between ",
    "lam2": "Weight of the l2,1 norms that make bases small",
    "max_iter": "Cap on the ",
    "multi_class": "One-vs-rest or one-vs-one for more than two classes",
    "n_jobs": "(Threads|Processes) over ",
    "n_landmarks": "Each view is learned in the span of at most so many of the samples that have ",
    "outer_tol": ".* at which to stop",
    "p": "Exponents? of the norm of the weights, at least 1",
    "param_grid": "Candidates, as in `GridSearchCV`",
    "random_state": "For ",
    "refit": "Whether to fit the best candidate to all ",
    "tol": "Relative duality gap|Residual|Norm of the gradient|.* at which to stop",
}
# the same for attributes
COMMON_ATTRIBUTES = {
    "classes_": "Class labels",
    "converged_": "Whether .*`tol`",
    "intercept_": "Biases|Their means, which are the scores of samples without any view",
    "n_features_in_": "Number of (columns of 2-D data, otherwise of views|kernels)",
    "n_support_": "Number of (support vectors|samples with a coefficient)",
    "training_rows_": "The training samples",
    "view_names_": "The names of the views",
}


def entries(section):
    """Return type and text by name and estimator; a reference to another estimator is followed."""
    found, references = {}, []
    for estimator in estimators():
        for joined, kind, lines in NumpyDocString(inspect.getdoc(estimator))[section]:
            text = " ".join(" ".join(lines).split())
            for name in joined.split(", "):
                if reference := re.fullmatch(r"As in `(\w+)`\.", text):
                    references.append((name, reference[1]))
                else:
                    found.setdefault(name, {})[estimator] = kind.partition(", default=")[0], text
    for name, reference in references:
        assert reference in {each.__name__ for each in found[name]}, f"{name}: as in {reference}?"
    return found


PARAMETERS = {
    name: {each: text for each, text in texts.items() if each not in APART.get(name, {})}
    for name, texts in entries("Parameters").items()
    if name not in WORDS
}


@pytest.mark.parametrize("name", [name for name, texts in PARAMETERS.items() if len(texts) > 1])
def test_parameters_are_told_in_the_same_words(name):
    texts = PARAMETERS[name]
    if name not in COMMON:
        assert_docstring_consistency(list(texts), include_params=[name])
        return
    for estimator, (_, text) in texts.items():
        assert re.match(COMMON[name], text), f"{estimator.__name__}: {text}"
    # a list of exponents to choose from, and None for no kernels, are for some estimators only
    if name not in ("p", "kernels"):
        assert len({kind for kind, _ in texts.values()}) == 1


@pytest.mark.parametrize(("name", "common"), COMMON_ATTRIBUTES.items())
def test_attributes_are_told_in_the_same_words(name, common):
    for estimator, (_, text) in entries("Attributes")[name].items():
        assert re.match(common, text), f"{estimator.__name__}: {text}"


def test_no_exception_is_left_over():
    shared = {name for name, texts in entries("Parameters").items() if len(texts) > 1}
    assert WORDS | set(APART) | set(COMMON) <= shared
    for name, classes in APART.items():
        assert set(classes) <= set(entries("Parameters")[name])


# rules of numpydoc that are not ours, and why
NOT_OURS = {
    "ES01": "a summary line may say all",
    "SA01": "the reference is ordered by family",
    "RT02": "what is returned has a name, as in scikit-learn",
}


def complaints(name, thing):
    """Yield what numpydoc finds, but for what our references to other docstrings explain."""
    text = inspect.getdoc(thing) or ""
    # the parameters of a record are its attributes, and another test compares them
    record = hasattr(thing, "__dataclass_fields__") or hasattr(thing, "_fields")
    excused = set(NOT_OURS)
    if record or "whose parameters and attributes it has" in " ".join(text.split()):
        excused.add("PR01")
    if re.search(r"^ +As in `", text, flags=re.MULTILINE):
        excused |= {"PR03", "PR04"}
    if "Yields\n------" in text:
        excused.add("RT01")
    if "." in name and inspect.isclass(public().get(name.rpartition(".")[0])):
        excused.add("EX01")
    for code, message in validate(f"kernelquilt.{name}")["errors"]:
        private = code == "PR01" and re.fullmatch(r"Parameters \{'_\w+'\} not documented", message)
        if code not in excused and not private:
            yield f"{code}: {message}"


@pytest.mark.parametrize(
    ("name", "thing"), public_callables().items(), ids=list(public_callables())
)
def test_docstrings_have_the_form_of_numpydoc(name, thing):
    assert not list(complaints(name, thing))


@pytest.mark.parametrize("name", public())
def test_every_public_name_has_an_example_that_runs(name):
    thing = public()[name]
    examples = doctest.DocTestFinder(recurse=False).find(thing, name, module=False, globs={})
    run = [line for each in examples for line in each.examples if doctest.SKIP not in line.options]
    assert len(run) > 1, "no example that runs"
    # numpy tells the types of its scalars since version 2 only
    assert not [line for line in run if re.search(r"\bnp\.\w+_?\b", line.want)]
    for each in examples:
        assert doctest.DocTestRunner().run(each).failed == 0
