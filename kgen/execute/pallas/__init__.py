"""Generated Pallas kernels, executed on the host by JAX's interpreters, in child processes."""

from kgen.execute.pallas.run import MODES, Finding, Outcome, Run, execute

__all__ = ["MODES", "Finding", "Outcome", "Run", "execute"]
