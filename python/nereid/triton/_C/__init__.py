"""The place of Triton's compiled library."""
