"""How loops are compiled: once, kept on disk, with IEEE 754's arithmetic (no reordering, x / 0 = inf)."""

from typing import Any

from numba import njit

#: For functions that Python calls.
compiled: Any = njit(cache=True, error_model="numpy")
#: For functions that only compiled ones call: no wrappers, which saves half the time to compile them.
_BARE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
inner: Any = njit(cache=True, error_model="numpy", **_BARE)
