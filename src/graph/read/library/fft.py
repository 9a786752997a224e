# FFTs.
