"""What pyproject.toml cannot say: `templates/` at the root of the tree is the package `kgen.templates` of a wheel."""

from setuptools import find_packages, setup

setup(
    packages=[*find_packages(include=["kgen", "kgen.*"]), "kgen.templates"],
    package_dir={"kgen.templates": "templates"},
    package_data={
        "": ["native/*"],
        "kgen": ["py.typed"],
        "kgen.templates": ["**/*.jinja"],
    },
)
