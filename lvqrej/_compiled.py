"""How loops are compiled: once, kept on disk, with the arithmetic of IEEE 754 (no reordering, x / 0 = inf)."""

from numba import njit

#: For functions that Python calls.
compiled = njit(cache=True, error_model="numpy")
#: For functions that only compiled ones call: no wrappers, which halves the time to compile them.
inner = njit(cache=True, error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True)
