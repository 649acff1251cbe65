"""A dataset as code with any number of classes for each image, weights and columns."""

import labelled

import tfrds


class ManyClasses(tfrds.ImageDatasetBuilder):
    """Small images in memory."""

    VERSION = "1.0.0"
    OPTIONS = tfrds.BuildOptions(label_kind="multi", class_names=("ant", "bee", "cat", "dog"))

    def _source(self, dl_manager):
        return labelled.WithColumns(*labelled.KINDS["multi"][:2])
