# lit configuration: every .sn and .test file under tests/ is a test whose RUN lines say what must hold.
#
#   /usr/lib/llvm-22/bin/lit tests                    the build in build/
#   /usr/lib/llvm-22/bin/lit --param build=DIR tests  another one
#
# Substitutions: %sinter the tool, %cxx (only with `REQUIRES: cxx`), %FileCheck, %not, %python, %ptxas (only with `REQUIRES: ptxas`), %valgrind, %chromium and %perfetto (likewise), %root the source tree, %build the build folder.
# Features: cuda (a CUDA device is present), cublaslt, cudnn (so are these), blas (a BLAS of the CPU), cxx (a C++ compiler), ptxas, valgrind, chromium, perfetto (trace_processor_shell, in PATH or build/perfetto), locales (%build/tests/locales), sanitizer (the build has sanitizers).
# A test that needs one says so with REQUIRES and is counted as skipped without it.

import ctypes
import glob
import os
import shutil
import sys

import lit.formats

LLVM_BIN = "/usr/lib/llvm-22/bin"


def program(name, *places):
    """Path of a program, or None."""
    path = os.pathsep.join([*places, os.environ.get("PATH", "")])
    return shutil.which(name, path=path)


def needed(name, *places):
    found = program(name, *places)
    if not found:
        lit_config.fatal(f"{name} not found (looked in {', '.join(places)} and PATH); ./dev test installs and builds it")
    return found


def opens(*libraries):
    """Can one of the shared libraries be opened?"""
    for name in libraries:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def cuda_devices():
    """Number of CUDA devices, by the driver alone."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


here = os.path.dirname(__file__)
root = os.path.dirname(here)
build = os.path.abspath(lit_config.params.get("build", os.path.join(root, "build")))

config.name = "sinter"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".sn", ".test"]
config.excludes = ["unit", "fuzz", "install", "check", "data", "Inputs"]
config.test_source_root = here
config.test_exec_root = os.path.join(build, "tests", "lit")

ptxas = program("ptxas", os.pathsep.join(["/usr/local/cuda/bin", *sorted(glob.glob("/usr/local/cuda-*/bin"))]))
valgrind = program("valgrind")
chromium = program("chromium")
perfetto = program("trace_processor_shell", os.path.join(build, "perfetto"))
cxx = program("c++")
config.substitutions += [
    ("%sinter", needed("sinter", build)),
    ("%cxx", cxx or "cxx-not-found"),
    ("%gcc", "gcc -fsanitize=address" if lit_config.params.get("sanitizer") else "gcc"),  # programs that load a library of ours
    ("%FileCheck", needed("FileCheck", LLVM_BIN)),
    ("%not", needed("not", LLVM_BIN)),
    ("%python", sys.executable),
    ("%ptxas", ptxas or "ptxas-not-found"),
    ("%chromium", chromium or ""),
    ("%perfetto", perfetto or "perfetto-not-found"),
    ("%valgrind", f"{valgrind} -q --leak-check=full --error-exitcode=9"),
    ("%root", root),
    ("%build", build),
]
config.environment["PATH"] = os.pathsep.join([build, LLVM_BIN, os.environ.get("PATH", "/usr/bin:/bin")])
config.environment["FILECHECK_OPTS"] = "--dump-input-filter=error --dump-input-context=5"
config.environment["SINTER_RECORD_DIR"] = "off"    # what somebody has timed here is no part of a test
config.environment["SINTER_CACHE"] = "off"         # nor what was compiled
config.environment["SINTER_PTXAS"] = "off"         # nor the toolkit
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

if ptxas:
    config.available_features.add("ptxas")
if cxx:
    config.available_features.add("cxx")
if perfetto:
    config.available_features.add("perfetto")
if chromium:
    config.available_features.add("chromium")
if valgrind and not lit_config.params.get("sanitizer"):
    config.available_features.add("valgrind")
if os.path.isdir(os.path.join(build, "tests", "locales", "de_DE.UTF-8")):
    config.available_features.add("locales")
if opens("libopenblas.so.0", "libblas.so.3"):
    config.available_features.add("blas")
if cuda_devices():
    config.available_features.add("cuda")
    if opens("libcublasLt.so.13", "libcublasLt.so.12"):
        config.available_features.add("cublaslt")
    if opens("libcudnn.so.9", "libcudnn.so.8"):
        config.available_features.add("cudnn")
if lit_config.params.get("sanitizer"):
    config.available_features.add("sanitizer")
