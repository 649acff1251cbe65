"""A dataset as a small class, as a team writes one; in a package, as TFDS's test case needs."""

import tfrds


class SmallPhotos(tfrds.ImageDatasetBuilder):
    """Photographs that are not photographs."""

    VERSION = "1.0.0"
    OPTIONS = tfrds.BuildOptions(image_size=(12, 16))
    MANUAL_DOWNLOAD_INSTRUCTIONS = "Put the folder `photos` there."
    CITATION = "@misc{none}"
    LICENSE = "CC0"

    def _source(self, dl_manager):
        return tfrds.sources.ImageFolder(dl_manager.manual_dir / "photos")
