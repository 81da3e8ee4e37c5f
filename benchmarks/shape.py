"""The shape of the code: lengths of functions and modules, what is unannotated, and which room imports which.

`python -m benchmarks.shape` prints the figures; tests/test_structure.py holds their limits.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "kgen"
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class FunctionShape:
    """A function of the package: where it stands, its lines from `def` to its end, and whether all of it is typed."""

    place: str
    lines: int
    annotated: bool


@dataclass(frozen=True)
class ModuleShape:
    """A module of the package: its path from the root, its lines, its functions, and the modules it imports."""

    path: str
    lines: int
    functions: tuple[FunctionShape, ...]
    imports: frozenset[str]

    @property
    def room(self) -> str:
        """The folder of the package it is in; empty for the package's own files."""
        parts = self.path.split("/")
        return parts[1] if len(parts) > 2 else ""


def modules(package: Path = PACKAGE) -> list[ModuleShape]:
    """Every module of the package, in order of path."""
    return [_module(path, package) for path in sorted(package.rglob("*.py"))]


def _module(path: Path, package: Path) -> ModuleShape:
    text = path.read_text("utf-8")
    name = path.relative_to(package.parent).as_posix()
    tree = ast.parse(text)
    functions = (node for node in ast.walk(tree) if isinstance(node, Function))
    return ModuleShape(
        path=name,
        lines=len(text.splitlines()),
        functions=tuple(_function(node, name) for node in functions),
        imports=frozenset(_imports(tree, name)),
    )


def _function(node: Function, path: str) -> FunctionShape:
    assert node.end_lineno is not None
    return FunctionShape(f"{path}:{node.lineno} {node.name}", node.end_lineno - node.lineno + 1, _annotated(node))


def _annotated(node: Function) -> bool:
    given = node.args
    arguments = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return node.returns is not None and all(a.annotation or a.arg in ("self", "cls") for a in arguments)


def _imports(tree: ast.AST, path: str) -> Iterator[str]:
    """Modules named by every import statement: lazy ones inside functions and those for types only as well."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(path.split("/")[: -node.level]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def room_of(module: str) -> str:
    """The room of the package that a dotted module is in; empty for anything else."""
    parts = module.split(".")
    return parts[1] if parts[0] == "kgen" and len(parts) > 1 and (PACKAGE / parts[1]).is_dir() else ""


def main() -> None:
    """Print the figures."""
    shapes = modules()
    functions = [function for module in shapes for function in module.functions]
    lengths = [function.lines for function in functions]
    print(f"{len(shapes)} modules, {sum(module.lines for module in shapes)} lines, {len(functions)} functions")
    print(f"function length: median {median(lengths):.0f}, p90 {quantiles(lengths, n=10)[-1]:.0f}, max {max(lengths)}")
    print(f"functions over 40 lines: {sum(length > 40 for length in lengths)}")
    print(f"modules over 600 lines: {sum(module.lines > 600 for module in shapes)}")
    print(f"functions not annotated: {sum(not function.annotated for function in functions)}")
    for function in sorted(functions, key=lambda one: -one.lines)[:5]:
        print(f"  {function.lines:4} {function.place}")


if __name__ == "__main__":
    main()
