"""Why classes are weak: what `leastwise explain` writes and shows.

`leastwise.insight` measures. Here `facts` collects the measurements of one model as explain.json and `agreement` those
of several models; `sentences`, `figures` and `sheet` say and draw them; `page` puts them together.
"""
