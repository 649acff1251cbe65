import io
import logging
import warnings

import pytest

from tfrds.tools.messages import shown_messages, shown_text


def test_log_and_warnings_are_plain_lines():
    stream = io.StringIO()
    logger = logging.getLogger("tfrds")
    with shown_messages(stream):
        logger.debug("not shown")
        logger.info("%s: read as %s.", "photos", "class/.../file")
        logger.warning("is being built")
        warnings.simplefilter("always")  # pytest makes them errors
        warnings.warn("one class", stacklevel=1)
    assert stream.getvalue().splitlines() == [
        "photos: read as class/.../file.",
        "Warning: is being built",
        "Warning: one class",
    ]


def test_everything_is_as_before_afterwards():
    logger = logging.getLogger("tfrds")
    before = logger.handlers[:], logger.level, logger.propagate, warnings.showwarning
    with pytest.raises(ZeroDivisionError), shown_messages(io.StringIO()):
        raise ZeroDivisionError
    assert (logger.handlers, logger.level, logger.propagate, warnings.showwarning) == before


def test_lines_are_not_shown_twice_by_a_handler_at_the_root(capsys):
    handler = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(handler)
    try:
        with shown_messages(io.StringIO()):
            logging.getLogger("tfrds").warning("once")
    finally:
        logging.getLogger().removeHandler(handler)
    assert handler.stream.getvalue() == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, Zürich 京都", "plain, Zürich 京都"),
        ("two\nlines", "two lines"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("right to \u202eleft", "right to \\u202eleft"),
        ("bytes \udcff", "bytes \\udcff"),
    ],
)
def test_text_is_one_line_that_steers_no_terminal(text, shown):
    assert shown_text(text) == shown
