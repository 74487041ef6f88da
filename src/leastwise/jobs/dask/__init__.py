"""Work on many machines, by Dask."""
