"""Digests of what a kernel is: stable over spelling, other targets, and everything that does not change the file."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

from kgen.expr.nodes import Binary, Call, Name, Node, Number, Unary
from kgen.spec.kernel import Kernel, Signature


@cache
def signature_digest(signature: Signature) -> str:
    """16 hex digits over what is computed: operands, values (as trees, not as text), contracts."""
    return _digest(_signature(signature))


def kernel_digest(kernel: Kernel) -> str:
    """16 hex digits over the signature, target, arch and the algorithm fields the kernel holds."""
    parts = (_signature(kernel.signature), kernel.name, kernel.target, kernel.arch, dict(kernel.algorithm))
    return _digest(parts)


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@cache
def _signature(signature: Signature) -> dict[str, Any]:
    return {
        "kernel": signature.kernel,
        "op": signature.op,
        "inputs": [(o.name, o.dtype, o.layout) for o in signature.inputs],
        "outputs": [(o.name, o.dtype, o.layout, _tree(o.value.root)) for o in signature.outputs],
        "multiple_of": {dim: size for dim, size in signature.multiple_of.items() if size != 1},
        "acc": signature.acc,
        "f32_mma": signature.f32_mma,
    }


def _tree(node: Node) -> Any:
    """The expression's tree as lists: the same for any spacing, redundant parentheses and spelling of numbers."""
    match node:
        case Number(value):
            return value.hex()
        case Name(name):
            return name
        case Unary(op, operand):
            return [op, _tree(operand)]
        case Binary(op, left, right):
            return [op, _tree(left), _tree(right)]
        case Call(function, arguments):
            return [function, *map(_tree, arguments)]
