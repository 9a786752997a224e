"""Builds the extension of the Python package: libnereid by the Makefile, then python/native/ with it inside, for the
limited API, so that one wheel serves CPython 3.10 and later."""
import glob
import os
import re
import subprocess
import sys
import sysconfig

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("NEREID_WHEEL_BUILD") or "build/wheel"  # with SAME_FLAGS=1 one that is there, as it is


class BuildWithLibrary(build_ext):
    def run(self):
        flags = [] if os.environ.get("SAME_FLAGS") else ["CFLAGS=-O2"]
        subprocess.check_call(["make", "-s", f"-j{os.cpu_count() or 1}", "Q=@", f"BUILD={BUILD}", *flags,
                               f"{BUILD}/lib/libnereid.a"], cwd=ROOT)
        super().run()


def version():
    with open(os.path.join(ROOT, "include", "nereid.h"), encoding="utf-8") as f:
        return re.search(r'^#define NEREID_VERSION "(.*)"', f.read(), re.M).group(1)


if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
    sys.exit("Nereid is for CPython with the GIL: not for free-threaded builds, nor for other Pythons")
os.chdir(ROOT)
setup(
    version=version(),
    ext_modules=[
        Extension("nereid._native", sorted(glob.glob("python/native/*.c")), depends=glob.glob("python/native/*.h"),
                  include_dirs=["include"], extra_objects=[f"{BUILD}/lib/libnereid.a"],
                  extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden"],
                  extra_link_args=["-Wl,--exclude-libs,ALL", "-Wl,-s", "-lm", "-ldl", "-pthread"],
                  py_limited_api=True)
    ],
    cmdclass={"build_ext": BuildWithLibrary},
    options={"bdist_wheel": {"py_limited_api": "cp310"}},
)
