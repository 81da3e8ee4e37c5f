"""Semantics of PTX instructions, by family; importing this package fills the table."""

from kgen.execute.gpu.ptx.ops import control, convert, floating, integer, memory, warp
from kgen.execute.gpu.ptx.ops.table import Groups, Kind, Rule, find, rules

__all__ = ["Groups", "Kind", "Rule", "control", "convert", "find", "floating", "integer", "memory", "rules", "warp"]
