"""Common corruptions of images, by name and severity, as the published files have them."""
