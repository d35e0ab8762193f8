"""The commands of `python -m examples.nas_search`, one module each.

A command has `add_flags(parser)`, which adds its flags to an `argparse` parser, and `main(args)`,
which does it and returns the exit status. To answer `--help` at once, it imports TensorFlow in
`main` only.
"""
