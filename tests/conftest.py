"""What all tests share: random examples are the same every time, and none of them fails for being slow.

Binder's environment takes minutes to build: its tests run only when asked for (make test-binder).
"""

from hypothesis import HealthCheck, settings

collect_ignore = ["binder"]

settings.register_profile(
    "lvqrej", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("lvqrej")
