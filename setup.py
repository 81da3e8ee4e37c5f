"""What pyproject.toml cannot say: `templates/` at the root of the tree is the package `kgen.templates` of a wheel."""

from setuptools import find_namespace_packages, setup

CODE = find_namespace_packages(include=["kgen", "kgen.*"], exclude=["*.__pycache__"])
TEMPLATES = ["kgen.templates", *(f"kgen.templates.{folder}" for folder in find_namespace_packages("templates"))]

setup(
    packages=[*CODE, *TEMPLATES],
    package_dir={"kgen.templates": "templates"},
    package_data={"": ["py.typed", "*.c", "*.h", "*.cpp", "*.cu", "*.jinja"]},
)
