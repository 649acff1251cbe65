"""Where pixels go when an image changes its size: one definition for writing and reading.

Gets and gives sizes in pixels, height before width; no pixels pass here. Integers only, so that
TensorFlow's integer operations give the same boxes: `round(a * b / c)` with half rounded up is
`(2 * a * b + c) // (2 * c)`, which takes 64 bits for sides up to 65,535. Used by `write/pixels.py`
and by the resizing stage of `read/`.
"""


def crop_box(height: int, width: int, target_h: int, target_w: int) -> tuple[int, int, int, int]:
    """Returns (top, left, box_h, box_w): the largest centred box of the target's aspect ratio.

    The side that is cut is rounded to the nearest pixel, half up, and at least 1. Where what is cut
    off is odd, its extra pixel is at the bottom or right.
    """
    if height * target_w >= width * target_h:
        box_h, box_w = _scale(width, target_h, target_w), width
    else:
        box_h, box_w = height, _scale(height, target_w, target_h)
    return (height - box_h) // 2, (width - box_w) // 2, box_h, box_w


def pad_box(height: int, width: int, target_h: int, target_w: int) -> tuple[int, int, int, int]:
    """Returns (top, left, inner_h, inner_w): where the whole image lies inside the target.

    One side fills the target; the other keeps the aspect ratio, rounded to the nearest pixel, half
    up, and at least 1. Where the rest is odd, its extra pixel is at the bottom or right.
    """
    if height * target_w >= width * target_h:
        inner_h, inner_w = target_h, _scale(target_h, width, height)
    else:
        inner_h, inner_w = _scale(target_w, height, width), target_w
    return (target_h - inner_h) // 2, (target_w - inner_w) // 2, inner_h, inner_w


def shrink_size(height: int, width: int, shorter_side: int) -> tuple[int, int]:
    """Returns (height, width) whose shorter side is at most `shorter_side`; never enlarged.

    The longer side keeps the aspect ratio, rounded to the nearest pixel, half up.
    """
    if min(height, width) <= shorter_side:
        return height, width
    if height <= width:
        return shorter_side, _scale(shorter_side, width, height)
    return _scale(shorter_side, height, width), shorter_side


def _scale(side: int, numerator: int, denominator: int) -> int:
    # Half up, not Python's half to even: the same in every language and in a graph.
    return max(1, (2 * side * numerator + denominator) // (2 * denominator))
