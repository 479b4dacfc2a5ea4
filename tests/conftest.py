"""What all tests share: how random examples are drawn, and which tests `make check` leaves to `make test`.

Random examples are the same every time, so that a test that passes passes again, and none of them fails for
being slow. With LVQREJ_EXAMPLES=fresh, as in the weekly workflow, they are others in every run; one that
fails is printed with what reproduces it.

Under the measurement of coverage code takes half as long again. Of files that take long, the first case of
each test is measured; of those that repeat on many cases what others ask, none.

Environments of their own take minutes to build: what needs one runs only when asked for (make test-binder,
make dist).
"""

import os

import pytest
from hypothesis import HealthCheck, settings

collect_ignore = ["binder", "book/test_dist.py"]
#: Files whose tests take long together, beside single ones that are marked slow.
THOROUGH = {
    "test_baselines", "test_build", "test_cheat_sheet", "test_classifier", "test_columns",
    "test_counterfactual", "test_discrete", "test_experiments", "test_fuzz", "test_golden",
    "test_guarantees", "test_print", "test_probable_set", "test_reasons", "test_report",
    "test_robust", "test_sparsest", "test_stream",
}  # fmt: skip
#: Files that compute much and repeat on many cases what others ask: to measure which lines run doubles that.
UNMEASURED = {"test_fuzz", "test_golden", "test_probable_set", "test_reasons", "test_robust"}

patient = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("same", derandomize=True, **patient)
settings.register_profile("fresh", derandomize=False, print_blob=True, **patient)
settings.load_profile(os.environ.get("LVQREJ_EXAMPLES", "same"))


def pytest_collection_modifyitems(items):
    measured = set()
    for item in items:
        if item.path.stem in THOROUGH:
            item.add_marker(pytest.mark.thorough)
            test = item.nodeid.partition("[")[0]
            if test in measured or item.path.stem in UNMEASURED:
                item.add_marker(pytest.mark.no_cover)
            measured.add(test)
