"""What the benchmarks stand on: a sweep of 1,000 legal kernels, and processor time that counts children."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.__main__ import table
from benchmarks.command_line import SWEEP
from benchmarks.measure import Figure, Missing, cpu_of
from kgen.plan import CudaPlan, plan_kernel
from kgen.spec.load import load


def test_sweep_makes_1000_legal_kernels() -> None:
    (document,) = load(SWEEP, SWEEP.parent).documents
    kernels = list(document.kernels())
    assert len({kernel.name for kernel in kernels}) == 1000
    assert all(isinstance(plan_kernel(kernel), CudaPlan) for kernel in kernels)


def test_cpu_of_counts_the_work_of_a_child(tmp_path: Path) -> None:
    idle = cpu_of([sys.executable, "-c", "pass"], tmp_path)
    busy = "import time\nwhile time.process_time() < 0.5: pass"
    assert cpu_of([sys.executable, "-c", busy], tmp_path) >= 0.5 > idle > 0


def test_table_shows_rates_and_what_is_missing() -> None:
    made = Figure("render", 2.0, "text", files=100, bytes=4_000_000, target=1.5)
    heading, row, missing = table([made, Missing("peer", "no network")]).splitlines()
    assert heading.split()[:3] == ["what", "CPU", "s"]
    assert row.split() == ["render", "2.000", "1.50", "100", "4.0", "50", "2.0", "text"]
    assert missing.split() == ["peer", "not", "run", "no", "network"]
