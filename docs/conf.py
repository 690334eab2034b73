"""Sphinx configuration: ``make docs`` builds the site without network and without warnings."""

import importlib.util
import os
import shutil
import sys
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE.parent / "src")]

import polymargin  # noqa: E402

# Cells of executed pages run `polymargin` and compile once: the tool of this very environment.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
# No progress lines inside pages; kernels set TERM again when they start.
startup = HERE.parent / "build" / "ipython" / "profile_default" / "startup"
startup.mkdir(parents=True, exist_ok=True)
(startup / "terminal.py").write_text('import os\nos.environ["TERM"] = "dumb"\n', encoding="utf-8")
os.environ["IPYTHONDIR"] = str(startup.parents[1])
os.environ["PYTHONPATH"] = os.pathsep.join(
    [str(HERE.parent / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
)

project = "polymargin"
author = "The polymargin developers"
copyright = "the polymargin developers, BSD-3-Clause"
version = release = polymargin.__version__

extensions = [
    "myst_nb",  # Markdown pages; those with code cells are executed
    "numpydoc",  # docstrings
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.viewcode",  # the source of every public name, inside the site
    "sphinx_click",  # the command line, from the program
    "sphinx_copybutton",
    "sphinx_design",  # cards and grids of the home page
    "sphinx_gallery.gen_gallery",  # scripts of examples/gallery: run, drawn, to be downloaded
    "both_anchors",  # source pages lead back to the reference
    "equation_labels",  # (1.2) and A8 are anchors, and links wherever they are mentioned
    "plain_docstrings",  # docstrings are plain text: C_ and |x| mean what they say
    "small_inventories",  # names of other libraries, without network
]
root_doc = "index"
templates_path = ["_templates"]
exclude_patterns = ["_*", "**/.ipynb_checkpoints", "gallery/*.ipynb", "**sg_execution_times.rst"]

# -- pages -----------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 3
myst_dmath_double_inline = True
nb_execution_mode = "cache"  # a page runs again when its code has changed
nb_execution_cache_path = str(HERE.parent / "build" / "pages")
nb_execution_timeout = 180
nb_execution_in_temp = True  # what a page writes does not stay
nb_execution_raise_on_error = True
nb_merge_streams = True
nb_output_stderr = "remove"  # the note of the first compilation; what `!` runs writes to stdout
nb_ipywidgets_js = {}  # would be fetched from elsewhere

# -- reference -------------------------------------------------------------------------------
autosummary_generate = True
toc_object_entries_show_parents = "hide"  # fit(), not MulticlassSVC.fit(): too wide
autodoc_typehints = "none"  # the docstrings name the types
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # _templates/autosummary/class.rst lists them
numpydoc_xref_param_type = False
default_role = None

# -- gallery ---------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all of them run; `-D plot_gallery=0` builds without running
    "within_subsection_order": "gallery_order.ReadingOrder",
    "doc_module": ("polymargin",),
    "backreferences_dir": "generated/examples",  # which scripts use a name: at the end of its page
    "reference_url": {"polymargin": None},
    "abort_on_example_error": True,
    "show_signature": False,
    "show_memory": False,
    "min_reported_time": 1e9,
}

# -- output ----------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "polymargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "secondary_sidebar_items": ["page-toc"],
    "show_toc_level": 2,
}
html_sidebars = {"index": []}
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = r">>> |\.\.\. |\$ |In \[\d*\]: "
copybutton_prompt_is_regexp = True
suppress_warnings = ["config.cache", "myst-nb.lexer"]  # cells of pages that are not executed

mathjax_path = "mathjax/tex-svg.js"  # one file; glyphs are paths, no fonts to fetch
mathjax3_config = {
    "tex": {
        "macros": {
            "norm": [r"\lVert #1 \rVert", 1],
            "inner": [r"\langle #1, #2 \rangle", 2],
            "R": r"\mathbb{R}",
            "argmax": r"\operatorname*{argmax}",
        }
    },
    "options": {"enableMenu": False},
}


def copy_mathjax(app: Sphinx, failure: Exception | None) -> None:
    """MathJax from the installed package into the site: one file of two megabytes."""
    if failure is None and app.builder.format == "html":
        package = importlib.util.find_spec("sphinx-mathjax-offline")
        source = Path(str(package.origin)).parent / "static" / "mathjax" / "tex-svg.js"
        target = Path(app.outdir) / "_static" / "mathjax"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def setup(app: Sphinx) -> None:
    app.connect("build-finished", copy_mathjax)
