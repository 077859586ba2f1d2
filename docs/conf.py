"""How Sphinx makes the site: `make docs`."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

from docutils import nodes
from sphinx.addnodes import pending_xref

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import citation  # noqa: E402
import reference  # noqa: E402

import kernelquilt  # noqa: E402

project = "kernelquilt"
author = "The kernelquilt developers"
copyright = author
version = release = kernelquilt.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
# names in single backticks are those of Python objects, linked where they are public
default_role = "py:obj"

myst_enable_extensions = ["attrs_block", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
myst_url_schemes = {"http": None, "https": None, "mailto": None}

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
doctest_global_setup = "import matplotlib; matplotlib.use('Agg')"

html_theme = "pydata_sphinx_theme"
html_title = "kernelquilt"
html_show_sourcelink = False
html_copy_source = False
html_sidebars = {"index": [], "start": []}
html_css_files = ["site.css"]
html_context = {"default_mode": "auto"}
html_theme_options = {
    "logo": {"text": "kernelquilt"},
    "header_links_before_dropdown": 7,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"write_patients\.py",
    "within_subsection_order": "gallery_order.Order",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("kernelquilt",),
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}

# formulas are drawn by a copy of MathJax within the site, which needs no network
mathjax_path = "mathjax/tex-chtml.js"
_MATHJAX = ("tex-chtml.js", "output/chtml/fonts/woff-v2")
html_static_path = ["_static", "_build/static"]


def bundle_mathjax(target: Path) -> None:
    """Copy what pages need of the 24 MB in the package sphinx-mathjax-offline."""
    spec = importlib.util.find_spec("sphinx-mathjax-offline")
    source = Path(spec.origin).parent / "static" / "mathjax"
    for name in _MATHJAX:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source / name, target / name)


def remove_all_but(folder: Path, names: set[str]) -> None:
    """Remove pages that an earlier build made of what is no longer there."""
    for page in folder.glob("*.rst"):
        if page.stem not in names:
            page.unlink()


_HOMES = reference.homes()
bundle_mathjax(HERE / "_build" / "static" / "mathjax")
reference.write(HERE / "api")
citation.write(HERE / "_build" / "citation")
remove_all_but(HERE / "api" / "generated", set(_HOMES.values()))
_EXAMPLES = {path.stem for path in (HERE.parent / "examples").glob("*.py")} - {"write_patients"}
remove_all_but(HERE / "gallery", {"index", *_EXAMPLES})

_NAME = re.compile(r"(?:kq\.|kernelquilt\.)?(?:\w+\.)?(\w+)(?:\(.*\))?")

_NO_LINKS = (nodes.reference, nodes.title, pending_xref)


def link_names(app, doctree):
    """Let public names in the text point to their pages."""
    for literal in list(doctree.findall(nodes.literal)):
        found = _NAME.fullmatch(literal.astext())
        if (
            found
            and found[1] in _HOMES
            and not any(isinstance(e, _NO_LINKS) for e in above(literal))
        ):
            link = pending_xref(
                "", refdomain="py", reftype="obj", reftarget=_HOMES[found[1]], refexplicit=True
            )
            literal.replace_self(link)
            link += literal


def above(node):
    """Yield the nodes that hold one."""
    while node.parent is not None:
        node = node.parent
        yield node


def find_home(app, env, node, contnode):
    """Resolve a name in a docstring that is given without its module."""
    target = _HOMES.get(node.get("reftarget", "").rpartition(".")[2])
    if node.get("refdomain") != "py" or target is None:
        return None
    domain = env.get_domain("py")
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", target, node, contnode)


def skip_foreign(app, what, name, thing, skip, options):
    """Leave out what scikit-learn documents."""
    function = getattr(thing, "fget", thing)
    module = getattr(function, "__module__", None)
    return True if module and not module.startswith("kernelquilt") else None


def setup(app):
    """Connect the functions above."""
    app.connect("doctree-read", link_names)
    app.connect("missing-reference", find_home)
    app.connect("autodoc-skip-member", skip_foreign)
