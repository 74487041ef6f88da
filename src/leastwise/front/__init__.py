"""The front door for Python: `import leastwise as lw`, and what its functions take and give.

Here is what people bring (a loader, a frame, a network) made into what the packages below work with, and what these
found made into what a notebook shows. The table of names is `leastwise/__init__.py`. Nothing is computed here.
"""
