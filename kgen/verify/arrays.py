"""Arrays in the dtypes of a spec."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kgen.expr import DTYPES
from kgen.expr.rounding import round_to

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Doubles = NDArray[np.float64]

_NUMPY = {"f32": "float32", "f16": "float16", "i32": "int32", "i8": "int8"}


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a spec's dtype; bf16 is ml_dtypes'."""
    import numpy as np

    if name != "bf16":
        return np.dtype(_NUMPY[name])
    import ml_dtypes

    bf16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return bf16


def to_dtype(values: Any, name: str) -> Array:
    """Float64 values rounded to a spec's dtype, to nearest even; integers saturate."""
    import numpy as np

    return round_to(np.asarray(values, dtype=np.float64), DTYPES[name]).astype(numpy_dtype(name))
