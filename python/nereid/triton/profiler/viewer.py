"""What stands in a profile, as a tree of scopes."""
import os
import sys

from ... import _native


def parse(metrics, filename, include=None, exclude=None, threshold=None):
    """(what print_tree takes, metrics): filename is NAME.hatchet, beside which NAME.trace stands."""
    trace = os.path.splitext(filename)[0] + ".trace"
    if not os.path.exists(trace):
        raise FileNotFoundError(f"{trace}, the trace of {filename}, is not there")
    return trace, metrics


def print_tree(tree, metrics=None, depth=100, format=None, print_sorted=False):
    sys.stdout.flush()
    _native.prof_view(tree, "tree", None)
