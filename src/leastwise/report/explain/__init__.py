"""Why classes are weak, in sentences and on a page."""
