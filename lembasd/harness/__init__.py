"""The harness as data: what tools there are, what a model is told, what each mode allows, the loop's numbers.

Everything is read when this package is imported, so that a forked worker never reads the files of another version.
"""

from lembasd.harness.loader import VERSION

__all__ = ["VERSION"]
