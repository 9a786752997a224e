"""python -m nereid.triton SCRIPT ARGS... (or -m MODULE ARGS..., or -c CODE): runs a program in which `import triton`
means Nereid."""
import os
import runpy
import sys

from .._as_triton import install


def main():
    args = sys.argv[1:]
    if not args:
        sys.exit(__doc__)
    install()
    if args[0] == "-m" and len(args) > 1:
        sys.argv = args[1:]
        sys.path.insert(0, os.getcwd())
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
    elif args[0] == "-c" and len(args) > 1:
        sys.argv = ["-c", *args[2:]]
        sys.path.insert(0, "")
        exec(compile(args[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        sys.argv = args
        sys.path[0] = os.path.dirname(os.path.abspath(args[0]))
        runpy.run_path(args[0], run_name="__main__")


if __name__ == "__main__":
    main()
