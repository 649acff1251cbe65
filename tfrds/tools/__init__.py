"""What the command line does, without printing: each tool returns a frozen result with `to_dict()`.

`cli.py` is the only one that prints; `text.py` turns results into its lines.
"""
