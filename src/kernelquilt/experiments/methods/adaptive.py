"""Methods of the paper on sample-adaptive MKL, and its label-coding form as a diagnostic."""

from kernelquilt.experiments.methods._recipes import Method, OnKernels
from kernelquilt.mkl.norms.lp import LpMKLClassifier
from kernelquilt.mkl.norms.simple import SimpleMKLClassifier
from kernelquilt.mkl.per_sample.localized import LocalizedMKLClassifier
from kernelquilt.mkl.per_sample.sample_adaptive import SampleAdaptiveMKLClassifier

SWITCHING = ("C", "m0", "max_iter")

METHODS = {
    "SAMKL": Method(
        "sample-adaptive MKL, the kernels of most influence stay on",
        OnKernels(SampleAdaptiveMKLClassifier(), tuned=SWITCHING),
    ),
    "SAMKL max": Method(
        "the same, kernels that agree with the label stay on: a diagnostic",
        OnKernels(SampleAdaptiveMKLClassifier(tie="max"), tuned=SWITCHING),
    ),
    "LMKL": Method(
        "localized MKL, softmax gates on the leading coordinates of the kernels",
        OnKernels(LocalizedMKLClassifier()),
    ),
    "SimpleMKL": Method("l1-norm MKL", OnKernels(SimpleMKLClassifier())),
    "l2-MKL": Method("l2-norm MKL", OnKernels(LpMKLClassifier(p=2.0))),
    "l4-MKL": Method("l4-norm MKL", OnKernels(LpMKLClassifier(p=4.0))),
    "l8-MKL": Method("l8-norm MKL", OnKernels(LpMKLClassifier(p=8.0))),
}
