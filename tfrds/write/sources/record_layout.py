"""Which feature of the records is the image, which the label: by what is given and what is found.

Gets the arguments of the source and `RecordsFound`, gives a `RecordLayout` by which `tfrecords.py`
and `../adopt_scan.py` read every record. What cannot be decided is an error that lists the keys.
"""

import dataclasses

from tfrds.errors import ConfigError
from tfrds.write.sources.feature_guess import FeatureFound
from tfrds.write.sources.pixel_layout import has_shape, image_rule, is_encoded
from tfrds.write.sources.record_arguments import RecordArguments
from tfrds.write.sources.record_guess import RecordsFound, undecided
from tfrds.write.sources.record_image import ImageRule
from tfrds.write.sources.record_walk import missing_feature

# Names that files are written with, the likelier ones first.
_IMAGE_KEYS = ("image", "image_raw", "image/encoded", "image_bytes", "img", "image/raw", "pixels")
_LABEL_KEYS = (
    *("label", "image/class/label", "labels", "image/label", "class", "class_label", "class_id"),
    *("target", "y", "image/class/text", "class_name"),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordLayout:
    """What the features of the records mean.

    Attributes:
      image: how the image is stored.
      label_key: of the feature; None: there is no label.
      label_feature: kind of its values, "bytes", "float" or "int64".
      label_kind: "single", "multi", "value" or "none".
      key_key: of the feature that names an example; None: its file and number do.
      notes: what was decided by looking, for the user to read.
    """

    image: ImageRule
    label_key: str | None
    label_feature: str
    label_kind: str
    key_key: str | None
    notes: tuple[str, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of all features that are needed."""
        return tuple(filter(None, (*self.image.keys, self.label_key, self.key_key)))


def choose_layout(found: RecordsFound, given: RecordArguments) -> RecordLayout:
    """Returns what the features mean.

    Raises:
      ConfigError: it cannot be decided, or what is given does not fit what was found; the text
        lists what was found, a key a line.
    """
    for field in ("image_key", "label_key", "key_key"):
        key = getattr(given, field)
        if key is not None and found.get(key) is None:
            others = [feature.key for feature in found.features]
            raise undecided(f"{field}: {missing_feature(key, others)}", found)
    image = find_image(found, given)
    if image is None:
        raise undecided("image_key: which feature is the image cannot be told. Pass it", found)
    rule, image_note = image_rule(image, found, given)
    label, kind = _find_label(found, given, rule)
    label_note = f"label: {label.key!r}, {_DESCRIPTIONS[kind]}." if label else "label: none."
    return RecordLayout(
        image=rule,
        label_key=label.key if label else None,
        label_feature=label.kind if label else "",
        label_kind=kind,
        key_key=given.key_key,
        notes=(image_note, label_note),
    )


_DESCRIPTIONS = {
    "single": "one class each",
    "multi": "lists of classes",
    "value": "numbers",
}


_NEEDED = {"value": "numbers", "multi": "class numbers or text"}


def find_image(found: RecordsFound, given: RecordArguments) -> FeatureFound | None:
    """Returns the feature that is the image, as given or found; None where it cannot be told."""
    if given.image_key is not None:
        return found.get(given.image_key)
    features = [
        feature for feature in found.features if feature.key not in (given.label_key, given.key_key)
    ]
    raw = [
        feature
        for feature in features
        if feature.pixel_dtype
        and (given.image_size or feature.key in _IMAGE_KEYS or has_shape(feature, found, given))
    ]
    for candidates in ([feature for feature in features if is_encoded(feature)], raw):
        by_key = {feature.key: feature for feature in candidates}
        if len(candidates) == 1:
            return candidates[0]
        if candidates:
            return next((by_key[key] for key in _IMAGE_KEYS if key in by_key), None)
    return None


def _find_label(
    found: RecordsFound, given: RecordArguments, rule: ImageRule
) -> tuple[FeatureFound | None, str]:
    """Returns (the label's feature, the kind of labels)."""
    if given.label_kind == "none":
        return None, "none"
    taken = (*rule.keys, given.key_key)
    label = found.get(given.label_key) if given.label_key else _guess_label(found, taken)
    if label is None:
        raise undecided(
            "label_key: which feature is the label cannot be told. Pass it, or "
            'label_kind="none" for images alone',
            found,
        )
    if label.key == rule.key:
        raise ConfigError(
            f"label_key: expected another feature than the image's, got {rule.key!r}."
        )
    if label.kind not in ("bytes", "float", "int64"):
        raise undecided(
            f"label_key: expected numbers or text in {label.key!r}, found {label.kind}", found
        )
    kind = _label_kind(label, given)
    _check_options(label, kind, given)
    return label, kind


def _guess_label(found: RecordsFound, taken: tuple[str | None, ...]) -> FeatureFound | None:
    likely = [feature for feature in found.features if _may_be_label(feature, taken)]
    by_key = {feature.key: feature for feature in likely}
    named = next((by_key[key] for key in _LABEL_KEYS if key in by_key), None)
    if named is not None:
        return named
    numbers = [
        feature
        for feature in likely
        if feature.kind == "int64"
        and feature.num_values == (1, 1)
        and feature.num_records == found.num_records
    ]
    return numbers[0] if len(numbers) == 1 else None


def _may_be_label(feature: FeatureFound, taken: tuple[str | None, ...]) -> bool:
    is_text = feature.kind == "bytes" and bool(feature.texts)
    return feature.key not in taken and (is_text or feature.kind in ("int64", "float"))


def _label_kind(label: FeatureFound, given: RecordArguments) -> str:
    kind = "single" if given.label_kind == "binary" else given.label_kind
    if kind is None:
        if label.kind == "float" and (label.num_values[1] > 1 or not label.is_whole):
            raise ConfigError(
                f"label_kind: {label.key!r} holds floats that are no class numbers, "
                f'{label.guess}. Pass label_kind="value" to keep them as numbers.'
            )
        return "multi" if label.num_values[1] > 1 else "single"
    wrong = {"value": "bytes", "multi": "float"}.get(kind)
    if wrong == label.kind:
        raise ConfigError(
            f"label_kind: {kind!r} needs {_NEEDED[kind]}, but {label.key!r} holds {label.kind}, "
            f"{label.guess}."
        )
    return kind


def _check_options(label: FeatureFound, kind: str, given: RecordArguments) -> None:
    """Raises ConfigError where an option is given that says nothing about such labels."""
    if given.label_offset is not None and (kind == "value" or label.kind == "bytes"):
        raise ConfigError(
            f"label_offset: is added to class numbers, but {label.key!r} holds "
            f"{'values' if kind == 'value' else 'names'}, got {given.label_offset}. Leave it out."
        )
    if given.class_names is not None and kind == "value":
        raise ConfigError(
            f"class_names: values as in {label.key!r} have no classes, got "
            f"{len(given.class_names)} names. Leave them out."
        )
