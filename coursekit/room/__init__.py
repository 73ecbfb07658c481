"""The room: an instructor sees live where a class is, on a page of their own machine."""
