"""Where labelled images come from; each source is one module."""

from tfrds.write.sources.arrays import Arrays
from tfrds.write.sources.folder import ImageFolder

__all__ = ["Arrays", "ImageFolder"]
