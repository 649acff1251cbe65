"""The public sources: where labelled images come from."""

from tfrds.write.sources import Arrays, ImageFolder

__all__ = ["Arrays", "ImageFolder"]
