"""kgen: one declarative spec in, standalone CUDA and Pallas kernels out, verified without an accelerator."""

__version__ = "0.1.0"
