"""What containers look like in a notebook."""

from html.parser import HTMLParser

import numpy as np
import pytest

import kernelquilt as kq

EVIL = "<script>alert('x')</script> & \"y\""


class Balanced(HTMLParser):
    """Collects text and checks that tags are closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags = [], "", []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def parsed(container):
    found = Balanced()
    found.feed(container._repr_html_())
    assert not found.open
    return found


def make_views(names=("rna", EVIL)):
    blocks = {name: np.arange(12.0).reshape(6, 2) for name in names}
    observed = np.ones((6, len(names)), dtype=bool)
    observed[:2, 1] = False
    return kq.MultiView(blocks).with_observed(observed)


@pytest.mark.parametrize("form", ["views", "stack", "factors"])
def test_names_sizes_presence_and_patterns(form):
    X = make_views()
    if form != "views":
        X = kq.ViewKernels("linear").fit_transform(X)
    if form == "factors":
        X = kq.LowRankStack.from_kernels(X)
    found = parsed(X)
    assert "script" not in found.tags
    assert EVIL in found.text
    assert "33.3 % absent" in found.text
    assert "0.0 % absent" in found.text
    assert "4 have rna" in found.text
    assert repr(X).splitlines()[0] in found.text
    if form == "views":
        assert "2 columns" in found.text


def test_nothing_absent_many_views_and_no_samples():
    X = make_views()
    assert "details" not in parsed(X[2:]).tags
    many = kq.MultiView([np.zeros((3, 1))] * 30)
    assert "and 18 more" in parsed(many).text
    assert "0 samples" in parsed(X[[]]).text
    rng = np.random.default_rng(0)
    blocks = [np.zeros((200, 1))] * 6
    mixed = kq.MultiView(blocks).with_observed(rng.random((200, 6)) < 0.5)
    assert "other patterns" in parsed(mixed).text


def test_bars_stay_within_their_frame():
    html = make_views()._repr_html_()
    assert "width:100.0%" in html
    assert "width:66.7%" in html
